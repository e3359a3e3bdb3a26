//! The Messages API's own search of tools: how it is declared, what it found, and which of its blocks go
//! back.
//!
//! The API answers a search within the turn: a `server_tool_use`, and a `tool_search_tool_result` with
//! references to tools, which it expands into definitions for the model. Both must come back as they
//! were, with the definitions in `tools`; a reference to a tool that is not deferred there is refused.

use std::collections::HashSet;

use outrigger_model::{ModelRequest, ToolDeclaration};
use serde_json::{Value, json};

use crate::provider::wire::Written;

const USE: &str = "server_tool_use";
const RESULT: &str = "tool_search_tool_result";

/// Words rather than patterns: models write them better, and there is no pattern to be malformed or
/// too long (200 characters).
fn tool() -> Value {
    json!({ "type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25" })
}

/// The tool as it is left to the search.
pub(super) fn declare(tool: &ToolDeclaration, mut value: Value) -> Value {
    if tool.deferred.is_some() {
        value["defer_loading"] = true.into();
    }
    value
}

/// All tools, the search before the first that it may find, and the mark up to where a provider may
/// cache on the last that stands in the prompt: deferred ones are refused with one.
pub(super) fn declarations(tools: Vec<Written>) -> Value {
    let mut all = Vec::with_capacity(tools.len() + 1);
    let (mut searched, mut last) = (false, None);
    for Written { value, deferred } in tools {
        let deferred = deferred.is_some();
        if deferred && !searched {
            searched = true;
            last = Some(all.len());
            all.push(tool());
        }
        if !deferred {
            last = Some(all.len());
        }
        all.push(value);
    }
    if let Some(last) = last.and_then(|last| all.get_mut(last)) {
        last["cache_control"] = json!({ "type": "ephemeral" });
    }
    Value::Array(all)
}

/// The names of the tools that a block refers to.
fn references(block: &Value) -> impl Iterator<Item = &str> {
    let references = block["content"]["tool_references"].as_array();
    let references = references.into_iter().flatten();
    references.filter_map(|reference| reference["tool_name"].as_str())
}

/// What the searches of a turn found, each tool once.
pub(super) fn found(blocks: &[Value]) -> Vec<String> {
    let results = blocks.iter().filter(|block| block["type"] == RESULT);
    let mut found: Vec<String> = Vec::new();
    for name in results.flat_map(references) {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The pieces of an argument that came one by one.
pub(super) fn assembled(mut block: Value, pieces: &str) -> Value {
    if block["type"] == USE
        && let Ok(input @ Value::Object(_)) = serde_json::from_str::<Value>(pieces)
    {
        block["input"] = input;
    }
    block
}

/// What of earlier searches can go back with a request.
pub(super) struct GoesBack<'r> {
    deferred: HashSet<&'r str>,
}

impl<'r> GoesBack<'r> {
    pub(super) fn with(request: &'r ModelRequest) -> Self {
        let tools = request.tools.iter();
        let deferred = tools.filter(|tool| tool.deferred.is_some());
        Self {
            deferred: deferred.map(|tool| tool.name.as_str()).collect(),
        }
    }

    /// The blocks of a turn that are left out: searches whose tools are no longer among the deferred
    /// ones, as after a server has gone between two runs, and all where nothing is deferred.
    pub(super) fn without(&self, blocks: &[Value]) -> HashSet<usize> {
        let mut out = HashSet::new();
        for (at, block) in blocks.iter().enumerate() {
            if block["type"] == USE && self.deferred.is_empty() {
                out.insert(at);
            }
            let lost = block["type"] == RESULT
                && (self.deferred.is_empty()
                    || references(block).any(|name| !self.deferred.contains(name)));
            if lost {
                let id = &block["tool_use_id"];
                let of = |other: &Value| other["type"] == USE && other["id"] == *id;
                out.extend(blocks.iter().position(of));
                out.insert(at);
            }
        }
        out
    }
}
