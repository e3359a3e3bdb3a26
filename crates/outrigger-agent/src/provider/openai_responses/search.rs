//! The Responses API's own search of tools, hosted by the provider: how it is declared, what it found,
//! and which of its items go back.
//!
//! Tools that are left to it stand in namespaces, one for each server: the model reads name and
//! description of a namespace, and of its tools nothing before they are found. A deferred function
//! outside of one would still cost its name and description. What was found comes as a
//! `tool_search_output` with the definitions, and must come back as it was.

use outrigger_model::{ModelRequest, ToolDeclaration};
use serde_json::{Value, json};

use crate::provider::wire::Written;

const CALL: &str = "tool_search_call";
const OUTPUT: &str = "tool_search_output";

/// The tool as it is left to the search.
pub(super) fn declare(tool: &ToolDeclaration, mut value: Value) -> Value {
    if tool.deferred.is_some() {
        value["defer_loading"] = true.into();
    }
    value
}

/// All tools; those of a group in its namespace, and the search before the first of these.
pub(super) fn declarations(tools: Vec<Written>) -> Value {
    let mut all: Vec<Value> = Vec::with_capacity(tools.len() + 1);
    let (mut searched, mut open) = (false, None);
    for Written { value, deferred } in tools {
        let Some(deferred) = deferred else {
            open = None;
            all.push(value);
            continue;
        };
        if !searched {
            searched = true;
            all.push(json!({ "type": "tool_search" }));
        }
        let last = all
            .last_mut()
            .filter(|_| open.as_ref() == Some(&deferred.group));
        if let Some(Value::Array(tools)) = last.map(|last| &mut last["tools"]) {
            tools.push(value);
            continue;
        }
        all.push(json!({
            "type": "namespace",
            "name": deferred.group,
            "description": deferred.about,
            "tools": [value],
        }));
        open = Some(deferred.group);
    }
    Value::Array(all)
}

/// What the searches of a turn found, each tool once.
pub(super) fn found(items: &[Value]) -> Vec<String> {
    let outputs = items.iter().filter(|item| item["type"] == OUTPUT);
    let mut found: Vec<String> = Vec::new();
    let mut note = |tool: &Value| {
        if let Some(name) = tool["name"].as_str()
            && !found.iter().any(|known| known == name)
        {
            found.push(name.to_owned());
        }
    };
    for tool in outputs
        .filter_map(|item| item["tools"].as_array())
        .flatten()
    {
        match tool["tools"].as_array() {
            Some(tools) => tools.iter().for_each(&mut note),
            None => note(tool),
        }
    }
    found
}

/// An item as it goes back with a request. Where nothing is left to the search any more, neither are
/// its items nor its namespaces.
pub(super) fn goes_back(request: &ModelRequest, mut item: Value) -> Option<Value> {
    if request.tools.iter().any(|tool| tool.deferred.is_some()) {
        return Some(item);
    }
    if item["type"] == CALL || item["type"] == OUTPUT {
        return None;
    }
    if item["type"] == "function_call"
        && let Some(item) = item.as_object_mut()
    {
        item.shift_remove("namespace");
    }
    Some(item)
}
