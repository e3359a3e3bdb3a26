//! What a connection gives, as the suite wants it told.
//!
//! With a gateway in between, a call that came to no result of the server's is a result all the same, which
//! says what is known. It is told as what it is. Without a gateway nothing has that mark.

use std::time::Instant;

use outrigger_connect::{
    CallError, CallOptions, ConnectError, ConnectErrorKind, Connection, ListError,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{duration, seconds};

/// The member of `_meta` of a result that the gateway has made itself.
const CALL: &str = "outrigger/call";

pub(crate) fn connect_failed(error: &ConnectError) -> Value {
    let kind = match error.kind {
        ConnectErrorKind::StartupFailed => "startup_failed",
        ConnectErrorKind::Timeout => "timeout",
        ConnectErrorKind::Closed | ConnectErrorKind::Unreachable => "closed",
        ConnectErrorKind::HttpError => "http_error",
        ConnectErrorKind::AuthRequired => "auth_required",
        ConnectErrorKind::VersionMismatch => "version_mismatch",
        ConnectErrorKind::RpcError => "rpc_error",
        ConnectErrorKind::BadResult => "bad_result",
        ConnectErrorKind::Cancelled => "refused",
    };
    json!({ "ok": false, "error_kind": kind, "error": error.message, "stderr": error.stderr_tail, "hints": error.hints })
}

pub(crate) async fn list(connection: &Connection) -> Value {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    match connection.list_tools().await {
        Ok(listing) => {
            let names = listing
                .tools
                .iter()
                .filter_map(|tool| serde_json::from_str::<Named>(tool.get()).ok());
            let names: Vec<String> = names.map(|tool| tool.name).collect();
            let (count, shown) = (
                names.len(),
                names.into_iter().take(1000).collect::<Vec<_>>(),
            );
            json!({ "ok": true, "tool_count": count, "tools": shown, "problems": listing.problems })
        }
        Err(error) => {
            let kind = match &error {
                ListError::Closed(_) => "closed",
                ListError::Timeout { .. } => "timeout",
                ListError::Rpc { .. } => "rpc_error",
                ListError::Http {
                    status: 401 | 403, ..
                } => "auth_required",
                ListError::Http { .. } => "http_error",
                ListError::Malformed { .. } => "bad_result",
            };
            json!({ "ok": false, "error_kind": kind, "error": error.to_string() })
        }
    }
}

pub(crate) async fn call(connection: Connection, step: Value) -> Value {
    let begun = Instant::now();
    let arguments = match (step["args_json"].as_str(), step["args_big"].as_u64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(count)) => {
            json!({ "text": "A".repeat(usize::try_from(count).unwrap_or_default()) }).to_string()
        }
        (None, None) => step["args"].to_string(),
    };
    let options = CallOptions {
        deadline: duration(&step["timeout"]),
        ..CallOptions::default()
    };
    let outcome = match RawValue::from_string(arguments) {
        Ok(arguments) => {
            let tool = step["tool"].as_str().unwrap_or_default();
            connection.call_tool(tool, &arguments, options).await
        }
        Err(error) => Err(CallError::NotSent(format!(
            "`args_json` is not JSON: {error}"
        ))),
    };
    let mut shown = match outcome {
        Ok(result) => shown_result(&result),
        Err(error) => {
            json!({ "ok": false, "error_kind": call_kind(&error), "error": error.to_string() })
        }
    };
    shown["t"] = seconds(begun.elapsed());
    shown
}

fn call_kind(error: &CallError) -> &'static str {
    match error {
        CallError::NotSent(_) | CallError::Closed(_) => "closed",
        CallError::Rpc { .. } => "rpc_error",
        CallError::Http {
            status: 401 | 403, ..
        } => "auth_required",
        CallError::Http { .. } => "http_error",
        CallError::Deadline { .. } => "timeout",
        CallError::Cancelled => "refused",
        CallError::Malformed(_) | CallError::Unfinished(_) => "bad_result",
    }
}

/// The members of a result that the suite looks at.
#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    content: Option<Vec<Value>>,
    #[serde(rename = "structuredContent", default)]
    structured: Option<Box<RawValue>>,
    #[serde(rename = "isError", default)]
    is_error: Option<bool>,
    #[serde(rename = "_meta", default)]
    meta: Value,
}

fn shown_result(result: &RawValue) -> Value {
    let shown: Shown = match serde_json::from_str(result.get()) {
        Ok(shown) => shown,
        Err(error) => {
            return json!({ "ok": false, "error_kind": "bad_result", "error": error.to_string() });
        }
    };
    let content = shown.content.unwrap_or_default();
    let texts = content.iter().filter(|block| block["type"] == "text");
    let text = texts
        .map(|block| block["text"].as_str().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    if let Some(reason) = shown.meta[CALL]["reason"].as_str() {
        return json!({ "ok": false, "error_kind": kind_of(reason), "error": text, "reason": reason });
    }
    let length = text.chars().count();
    let kinds: Vec<&Value> = content.iter().map(|block| &block["type"]).collect();
    json!({
        "ok": true,
        "is_error": shown.is_error.unwrap_or(false),
        "block_count": content.len(),
        "blocks": if kinds.len() < 50 { json!(kinds) } else { Value::Null },
        "text_len": length,
        "text": if length < 20_000 { text } else { text.chars().take(200).collect() },
        "structured_json": shown.structured.map(|raw| raw.get().to_owned()),
    })
}

/// The suite's word for why a call came to nothing, by the gateway's. What the gateway itself refuses is
/// `refused`; no case is about that.
fn kind_of(reason: &str) -> &str {
    match reason {
        "unreachable" => "closed",
        "config" => "config_error",
        "contract" | "unfinished" => "bad_result",
        "timeout" | "closed" | "startup_failed" | "http_error" | "auth_required"
        | "version_mismatch" | "rpc_error" | "bad_result" => reason,
        _ => "refused",
    }
}
