//! How a tool is declared and how it answers.
//!
//! Promises: schemas are derived from the argument and result types and stripped of what costs tokens
//! and says nothing (`$schema`, titles, formats, `null` beside an optional type); every tool is
//! declared as reading, idempotent and closed. Leaves out reading arguments; see [`crate::arguments`].

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

/// A tool that takes `I` and returns `O`; `name` is what is called, `title` what a person reads.
pub(crate) fn declare<I: JsonSchema, O: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> Tool {
    let output = lean_schema::<O>(settings().for_serialize());
    declare_plain::<I>(name, title, description).with_raw_output_schema(output.into())
}

/// A tool that takes `I` and returns content of no declared shape.
pub(crate) fn declare_plain<I: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> Tool {
    let input = lean_schema::<I>(settings());
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(name, description, input)
        .with_title(title)
        .with_annotations(annotations)
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true)
}

fn lean_schema<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    lean(&mut schema);
    match schema {
        Value::Object(mut schema) => {
            schema.shift_remove("$schema");
            schema.shift_remove("title");
            schema.shift_remove("description");
            schema
        }
        // `true`: anything goes.
        _ => JsonObject::new(),
    }
}

/// Drops number formats and the `null` of optional values, here and below.
fn lean(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("type").is_some_and(|kind| !kind.is_object()) {
                object.shift_remove("format");
                object.shift_remove("default");
            }
            if let Some(Value::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = kinds.as_slice() {
                    let only = only.clone();
                    object["type"] = only;
                }
            }
            object.values_mut().for_each(lean);
        }
        Value::Array(items) => items.iter_mut().for_each(lean),
        _ => {}
    }
}

/// What a tool answers.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A result of a declared shape.
    Shaped {
        /// The result as its output schema says.
        structured: Value,
        /// The same for whoever reads text: the answer, stated plainly.
        text: String,
        /// What was left out, and how to get it.
        note: Option<String>,
    },
    /// Content as it is.
    Content(Vec<ContentBlock>),
}

impl Reply {
    pub(crate) fn new<O: Serialize>(result: &O, text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::Shaped {
            structured: serde_json::to_value(result)?,
            text,
            note: None,
        })
    }

    pub(crate) fn with_note(self, note: Option<String>) -> Self {
        match self {
            Self::Shaped {
                structured, text, ..
            } => Self::Shaped {
                structured,
                text,
                note,
            },
            content @ Self::Content(_) => content,
        }
    }
}

impl From<Reply> for CallToolResult {
    fn from(reply: Reply) -> Self {
        let (structured, text, note) = match reply {
            Reply::Content(blocks) => return Self::success(blocks),
            Reply::Shaped {
                structured,
                text,
                note,
            } => (structured, text, note),
        };
        // Some model providers refuse an empty block.
        let text = Some(text).filter(|text| !text.is_empty() || note.is_none());
        let blocks = text.into_iter().chain(note);
        let mut result = Self::success(blocks.map(ContentBlock::text).collect());
        result.structured_content = Some(structured);
        result
    }
}
