//! The names of attributes, and those that go together.
//!
//! `gen_ai.*`, `mcp.*`, `jsonrpc.*`, `rpc.*`, `error.*` and `network.*` are the conventions' own;
//! `outrigger.*` is what they have no word for.

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use outrigger_journal::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::number;

pub(super) const ALLOWED: &str = "outrigger.allowed";
pub(super) const ANSWER: &str = "outrigger.answer";
pub(super) const ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const ATTEMPT: &str = "outrigger.attempt";
pub(super) const CALL: &str = "outrigger.call";
pub(super) const CHANGED: &str = "outrigger.changed";
pub(super) const COMMAND: &str = "outrigger.command";
pub(super) const DECIDED_BY: &str = "outrigger.decided_by";
pub(super) const ERA: &str = "outrigger.era";
pub(super) const ERROR: &str = "error.type";
pub(super) const HOOK: &str = "outrigger.hook";
pub(super) const INPUT: &str = "gen_ai.input.messages";
pub(super) const METHOD: &str = "mcp.method.name";
pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const OUTCOME: &str = "outrigger.outcome";
pub(super) const OUTPUT: &str = "gen_ai.output.messages";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const REASON: &str = "outrigger.reason";
pub(super) const REQUEST: &str = "jsonrpc.request.id";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESULT: &str = "gen_ai.tool.call.result";
pub(super) const RPC_STATUS: &str = "rpc.response.status_code";
pub(super) const RULE: &str = "outrigger.rule";
pub(super) const RUN: &str = "outrigger.run.id";
pub(super) const SAID: &str = "outrigger.said";
pub(super) const SERVER: &str = "outrigger.server";
pub(super) const STATUS: &str = "outrigger.status";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const TOOLS: &str = "outrigger.tools";
pub(super) const TURN: &str = "outrigger.turn";
pub(super) const WAIT: &str = "outrigger.wait_ms";

/// Of a run with a model, `provider:name`.
pub(super) fn agent(run: &str, model: &str) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(OPERATION, "invoke_agent"),
        KeyValue::new("gen_ai.agent.name", "outrigger"),
        KeyValue::new("gen_ai.conversation.id", run.to_owned()),
    ];
    attributes.extend(provider(model));
    attributes
}

/// Of a request to the model.
pub(super) fn model(model: &str) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(OPERATION, "chat"),
        KeyValue::new("gen_ai.request.stream", true),
    ];
    attributes.extend(provider(model));
    attributes
}

/// The name and kind of a request to the model; one in this process is no client's.
pub(super) fn chat(model: &str) -> (String, SpanKind) {
    let (provider, name) = model.split_once(':').unwrap_or((model, ""));
    let kind = if provider == "local" {
        SpanKind::Internal
    } else {
        SpanKind::Client
    };
    (format!("chat {name}").trim_end().to_owned(), kind)
}

pub(super) fn call(number: u32) -> Vec<KeyValue> {
    vec![
        KeyValue::new(OPERATION, "execute_tool"),
        KeyValue::new(CALL, i64::from(number)),
    ]
}

/// Tokens as the conventions count them; cached ones are among those read.
pub(super) fn usage(usage: &Tokens) -> [KeyValue; 3] {
    [
        KeyValue::new("gen_ai.usage.input_tokens", number(usage.input)),
        KeyValue::new("gen_ai.usage.output_tokens", number(usage.output)),
        KeyValue::new("gen_ai.usage.cache_read.input_tokens", number(usage.cached)),
    ]
}

/// The provider by the conventions' name where they have one.
fn provider(model: &str) -> [KeyValue; 2] {
    let (provider, name) = model.split_once(':').unwrap_or((model, ""));
    let provider = match provider {
        "openai-chat" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    };
    [
        KeyValue::new(PROVIDER, provider.to_owned()),
        KeyValue::new(REQUEST_MODEL, name.to_owned()),
    ]
}

/// The code of the JSON-RPC error that a result stands for.
pub(super) fn error_code(result: Option<&RawValue>) -> Option<i64> {
    #[derive(Deserialize)]
    struct Answer {
        error: RpcError,
    }
    #[derive(Deserialize)]
    struct RpcError {
        code: i64,
    }
    let answer: Answer = serde_json::from_str(result?.get()).ok()?;
    Some(answer.error.code)
}
