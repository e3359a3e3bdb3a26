//! Reading one tool definition. Null members count as absent, unknown ones are left alone, and what
//! a call depends on must be sound: name, description, schemas. None of it may hide a character. A
//! title or a hint of the wrong type is none: they decide nothing, and no tool is lost for them.

use outrigger_connect::ServerName;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{CatalogTool, Standing, hygiene};
use crate::digest::Digest;
use crate::name::ToolName;
use crate::schema::{Schema, for_models};
use crate::tokens::estimate_declaration;

/// Bytes of a tool's own name; longer ones are no names.
const NAME_BYTES: usize = 512;

/// The hints a server may give about a tool (MCP, `ToolAnnotations`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It says that the tool changes nothing.
    pub read_only: Option<bool>,
    /// It says that the tool may destroy something.
    pub destructive: Option<bool>,
    /// It says that repeating a call has no further effect.
    pub idempotent: Option<bool>,
    /// It says that the tool reaches the outside world.
    pub open_world: Option<bool>,
}

/// The tool's own name, as far as it is known, and what is wrong.
type Fault = (Option<String>, String);

pub(super) fn read(
    server: &ServerName,
    standing: Standing,
    raw: &RawValue,
) -> Result<CatalogTool, Fault> {
    let value: Value = serde_json::from_str(raw.get())
        .map_err(|error| (None, format!("it cannot be read: {error}")))?;
    let Value::Object(fields) = value else {
        return Err((None, "it is not an object".to_owned()));
    };
    let raw_name = name_of(&fields).map_err(|reason| (None, reason))?;
    let fault = |reason: String| (Some(raw_name.clone()), reason);
    if let Some(reason) = hygiene::hidden_in(&fields) {
        return Err(fault(reason));
    }

    let title = present(&fields, "title")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let description = description_of(&fields).map_err(fault)?;
    let annotations = annotations_of(&fields);
    let declared = input_schema_of(&fields).map_err(fault)?;
    let input = Schema::compile(declared)
        .map_err(|error| fault(format!("its `inputSchema` cannot be used: {error}")))?;
    let output_schema = present(&fields, "outputSchema");
    let output = match output_schema {
        None => None,
        Some(schema) => Some(
            Schema::compile(schema)
                .map_err(|error| fault(format!("its `outputSchema` cannot be used: {error}")))?,
        ),
    };
    let definition = json!({
        "name": raw_name,
        "title": present(&fields, "title"),
        "description": description,
        "inputSchema": declared,
        "outputSchema": output_schema,
        "annotations": present(&fields, "annotations"),
    });
    let digest = Digest::of(&definition);
    let name = ToolName::new(server, &raw_name);
    let input_schema = for_models(declared).unwrap_or_else(|| declared.clone());
    let tokens = estimate_declaration(name.as_str(), &description, &input_schema);
    Ok(CatalogTool {
        name,
        server: server.clone(),
        raw_name,
        title,
        description,
        input_schema,
        input,
        output,
        annotations,
        digest,
        tokens,
        standing,
        raw: raw.to_owned(),
        definition: definition.to_string().into(),
    })
}

fn present<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    fields.get(key).filter(|value| !value.is_null())
}

fn name_of(fields: &Map<String, Value>) -> Result<String, String> {
    match present(fields, "name") {
        None => Err("it has no name".to_owned()),
        Some(Value::String(name)) if name.trim().is_empty() => Err("its name is empty".to_owned()),
        Some(Value::String(name)) if name.len() > NAME_BYTES => {
            Err(format!("its name is longer than {NAME_BYTES} bytes"))
        }
        Some(Value::String(name)) if name.chars().any(char::is_control) => Err(format!(
            "its name `{}` has a control character",
            name.escape_debug()
        )),
        Some(Value::String(name)) => Ok(name.clone()),
        Some(other) => Err(format!("its name is {}, not a string", kind(other))),
    }
}

fn description_of(fields: &Map<String, Value>) -> Result<String, String> {
    match present(fields, "description") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!(
            "its `description` is {}, not a string",
            kind(other)
        )),
    }
}

fn input_schema_of(fields: &Map<String, Value>) -> Result<&Value, String> {
    let schema = present(fields, "inputSchema").ok_or("it has no `inputSchema`")?;
    let Value::Object(members) = schema else {
        return Err(format!(
            "its `inputSchema` is {}, not an object",
            kind(schema)
        ));
    };
    match members.get("type") {
        None => Ok(schema),
        Some(Value::String(word)) if word == "object" => Ok(schema),
        Some(other) => Err(format!(
            "its `inputSchema` has type {other}; arguments are always an object"
        )),
    }
}

fn annotations_of(fields: &Map<String, Value>) -> Annotations {
    let hint = |key: &str| fields.get("annotations")?.get(key)?.as_bool();
    Annotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outrigger_connect::ToolListing;

    use super::*;
    use crate::catalog::ServerCatalog;

    fn listing(tools: &[&str]) -> ToolListing {
        let tools = tools
            .iter()
            .map(|text| RawValue::from_string((*text).to_owned()).unwrap())
            .collect();
        ToolListing {
            tools,
            pages: 1,
            problems: Vec::new(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_bad_definition_costs_one_tool() {
        let server = ServerName::new("shop").unwrap();
        let catalog = ServerCatalog::read(
            &server,
            Standing::default(),
            listing(&[
                r#"{"name":"good","inputSchema":{"type":"object"},"title":null,"annotations":null,"x-unknown":1}"#,
                r#"{"name":"none"}"#,
                r#"{"name":"string","inputSchema":"object"}"#,
                r#"{"name":"array","inputSchema":{"type":"array"}}"#,
                r#"{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}}"#,
                r#"{"name":"odd","inputSchema":{"type":"object","properties":{"a":{"type":"text"}}}}"#,
                r#"{"name":"hints","title":1,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}"#,
                r#"{"name":"told","description":["x"],"inputSchema":{"type":"object"}}"#,
                r#"{"name":"good","inputSchema":{"type":"object"}}"#,
                r#"{"inputSchema":{"type":"object"}}"#,
                r#"{"name":"","inputSchema":{"type":"object"}}"#,
                r#""text""#,
                r#"{"name":"also good","inputSchema":{"properties":{}}}"#,
            ]),
        );
        let good: Vec<_> = catalog
            .tools
            .iter()
            .map(|tool| tool.raw_name.as_str())
            .collect();
        assert_eq!(good, ["good", "hints", "also good"]);
        assert_eq!(catalog.tools[1].annotations, Annotations::default());
        let told: Vec<_> = catalog
            .set_aside
            .iter()
            .map(|tool| format!("{}: {}", tool.tool, tool.reason))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        none: it has no `inputSchema`
        string: its `inputSchema` is a string, not an object
        array: its `inputSchema` has type "array"; arguments are always an object
        remote: its `inputSchema` cannot be used: Resource 'http://127.0.0.1:1/x' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch http://127.0.0.1:1/x
        odd: its `inputSchema` cannot be used: "text" is not valid under any of the schemas listed in the 'anyOf' keyword
        told: its `description` is an array, not a string
        good: the server lists a tool of this name before
        #10: it has no name
        #11: its name is empty
        #12: it is not an object
        "#);
    }
}
