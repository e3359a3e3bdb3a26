//! Last stage: from what came back to one outcome. A result that breaks the tool's own output schema
//! is no result; an error of the protocol is one, in the server's words.

use outrigger_connect::CallError;
use serde_json::json;
use serde_json::value::RawValue;

use crate::catalog::CatalogTool;
use crate::outcome::{CallOutcome, ContractViolation, UnknownReason};
use crate::result::{Block, ToolResult};

/// The outcome, and the answer as it came for the journal.
pub(super) fn finish(
    tool: &CatalogTool,
    answer: Result<Box<RawValue>, CallError>,
) -> (CallOutcome, Option<Box<RawValue>>) {
    let raw = match answer {
        Ok(raw) => raw,
        Err(error) => return without_result(tool, error),
    };
    let result = match ToolResult::read(raw) {
        Ok(result) => result,
        Err((raw, what)) => return (violated(tool, what), Some(raw)),
    };
    let raw = result.raw.clone();
    match broken_contract(tool, &result) {
        Some(what) => (violated(tool, what), Some(raw)),
        None => (CallOutcome::Completed(result), Some(raw)),
    }
}

fn without_result(tool: &CatalogTool, error: CallError) -> (CallOutcome, Option<Box<RawValue>>) {
    let outcome = match error {
        CallError::NotSent(reason) => CallOutcome::NotSent(reason),
        CallError::Deadline { after } => CallOutcome::Unknown(UnknownReason::Deadline(after)),
        CallError::Closed(reason) => CallOutcome::Unknown(UnknownReason::ConnectionLost(reason)),
        CallError::Unfinished(reason) => CallOutcome::Unknown(UnknownReason::Unfinished(reason)),
        CallError::Cancelled => CallOutcome::Unknown(UnknownReason::Cancelled),
        CallError::Malformed(what) => violated(tool, what),
        CallError::Http {
            refused: false,
            message,
            ..
        } => CallOutcome::Unknown(UnknownReason::ConnectionLost(message)),
        CallError::Http {
            refused: true,
            status,
            message,
        } => return answered_with_error(status.into(), &message, None),
        CallError::Rpc {
            code,
            message,
            data,
        } => return answered_with_error(code, &message, data.as_deref()),
    };
    (outcome, None)
}

fn violated(tool: &CatalogTool, what: String) -> CallOutcome {
    CallOutcome::Violated(ContractViolation {
        server: tool.server.clone(),
        tool: tool.raw_name.clone(),
        what,
    })
}

/// The server answered, and refused: that is the call's result, and an error.
fn answered_with_error(
    code: i64,
    message: &str,
    data: Option<&RawValue>,
) -> (CallOutcome, Option<Box<RawValue>>) {
    let raw = json!({"error": {"code": code, "message": message, "data": data}});
    let raw = serde_json::value::to_raw_value(&raw).unwrap_or_else(|_| RawValue::NULL.to_owned());
    let text = format!("error {code}: {message}");
    let result = ToolResult {
        raw: raw.clone(),
        content: vec![Block::Text(text)],
        structured: None,
        is_error: true,
    };
    (CallOutcome::Completed(result), Some(raw))
}

/// What the output schema says against the result (MCP, "Output schema"). Errors need not fit it.
fn broken_contract(tool: &CatalogTool, result: &ToolResult) -> Option<String> {
    let schema = tool.output.as_ref().filter(|_| !result.is_error)?;
    let Some(structured) = result.structured_value() else {
        return Some(
            "the tool has an output schema, and its result has no structured content".to_owned(),
        );
    };
    let violations = schema.violations(&structured);
    let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
    (!told.is_empty()).then(|| {
        format!(
            "the structured content breaks the tool's output schema: {}",
            told.join("; ")
        )
    })
}
