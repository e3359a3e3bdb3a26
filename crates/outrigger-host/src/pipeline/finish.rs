//! Last stage: from what came back to one outcome. A result that breaks the tool's own output schema
//! is no result; an error of the protocol is one, in the server's words.

use outrigger_connect::CallError;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::catalog::CatalogTool;
use crate::outcome::{CallOutcome, ContractViolation, UnknownReason};
use crate::result::ToolResult;
use crate::schema::Violation;

/// The outcome, and the answer as it came, where it is not in the outcome.
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
        Err((raw, what)) => return (violated(tool, what, None), Some(raw)),
    };
    match broken_contract(tool, &result) {
        Some((what, pointer)) => (violated(tool, what, pointer), result.raw.into_here()),
        None => (CallOutcome::Completed(Box::new(result)), None),
    }
}

fn without_result(tool: &CatalogTool, error: CallError) -> (CallOutcome, Option<Box<RawValue>>) {
    let outcome = match error {
        CallError::NotSent(reason) => CallOutcome::NotSent(reason),
        CallError::Deadline { after } => CallOutcome::Unknown(UnknownReason::Deadline(after)),
        CallError::Closed(reason) => CallOutcome::Unknown(UnknownReason::ConnectionLost(reason)),
        CallError::Unfinished(reason) => CallOutcome::Unknown(UnknownReason::Unfinished(reason)),
        CallError::Cancelled => CallOutcome::Unknown(UnknownReason::Cancelled),
        CallError::Malformed(what) => violated(tool, what, None),
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

fn violated(tool: &CatalogTool, what: String, pointer: Option<String>) -> CallOutcome {
    CallOutcome::Violated(ContractViolation {
        server: tool.server.clone(),
        tool: tool.raw_name.clone(),
        what,
        pointer,
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
    (
        CallOutcome::Completed(Box::new(ToolResult::text(raw, text, true))),
        None,
    )
}

/// What the output schema says against the result (MCP, "Output schema"), and where. Errors need not
/// fit it.
fn broken_contract(tool: &CatalogTool, result: &ToolResult) -> Option<(String, Option<String>)> {
    let schema = tool.output.as_ref().filter(|_| !result.is_error)?;
    let missing = "the tool has an output schema, and its result has no structured content";
    let Some(text) = result.structured_text() else {
        return Some((missing.to_owned(), None));
    };
    let structured: Value = serde_json::from_str(text).unwrap_or_default();
    let violations = schema.violations(&structured);
    let first = violations.first()?;
    if structured.is_null() {
        // Many libraries write `null` for what is not there.
        return Some((missing.to_owned(), None));
    }
    let told: Vec<_> = violations.iter().map(Violation::to_string).collect();
    let what = format!(
        "the structured content breaks the tool's output schema: {}",
        told.join("; ")
    );
    Some((what, Some(first.pointer.clone())))
}
