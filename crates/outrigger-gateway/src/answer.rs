//! How the end of a call is told to the client that made it.
//!
//! Promises: what a server answered goes on byte for byte, a result as a result and an error of the
//! protocol as one, unless hooks have changed what may be read of it. What did not come to a result is one that says so, in the words that every model
//! reads, with the outcome under [`MARK`]. A call that its own client gave up is not answered.

use outrigger_host::CallReport;
use outrigger_host::outcome::{CallOutcome, Rejection, UnknownReason};
use outrigger_host::result::ToolResult;
use outrigger_host::words::Words;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::message::{self, Fault};
use crate::outlet::Reply;
use crate::view::View;

/// The member of `_meta` that tells the number of the call in its run, how it ended and why.
const MARK: &str = "outrigger/call";

/// What a person can do where a rule asks and nobody answers.
const HOW_TO_ALLOW: &str = " The person who runs this gateway can allow it by a rule of its configuration or with \
    `--allow`, or let such calls wait for them (`gateway.approvals`); a client that takes questions (elicitation) is asked.";

/// What is told of a tool whose definition nobody has approved as it is now.
pub(crate) const HELD_BACK: &str = "Not called: the server has changed this tool's definition since it was \
    approved. A person has to look at it first (`outrigger pin`).";

/// A request, as far as its answer depends on it.
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) modern: bool,
    pub(crate) view: &'a View,
    /// Why it came to no result of its server's, where it did not.
    pub(crate) reason: &'static str,
}

/// Why a tool is not there that was called.
pub(crate) struct Missing {
    /// What a model reads.
    pub(crate) words: String,
    pub(crate) reason: &'static str,
}

impl Asked<'_> {
    /// The answer; `None` when the client wants none. `whole` is what the server answered, where it did. `missing`: why a tool that clients are shown is not
    /// known to the host now.
    pub(crate) fn answer(
        &self,
        (report, whole): (&CallReport, &RawValue),
        missing: Option<&Missing>,
    ) -> Option<Reply> {
        let Self {
            id, modern, view, ..
        } = *self;
        let mark = |reason| json!({ "id": report.call, "outcome": report.outcome.kind().as_str(), "reason": reason });
        let told = |text: &str| message::result(id, &marked(text, modern, &mark(self.reason)));
        match (&report.outcome, missing) {
            (CallOutcome::Completed(result), _) if report.hooked => {
                let text = words(report, view);
                Some(message::result(
                    id,
                    &content(&text, result.is_error, modern).to_string(),
                ))
            }
            (CallOutcome::Completed(result), _) => {
                Some(completed(id, (result, whole), modern, || mark(self.reason)))
            }
            (
                CallOutcome::Rejected(Rejection::Cancelled)
                | CallOutcome::Unknown(UnknownReason::Cancelled),
                _,
            ) => None,
            (CallOutcome::Rejected(Rejection::UnknownTool { .. }), None) => {
                // MCP, "Tools", "Error Handling".
                Some(Fault::params(words(report, view)).reply(Some(id)))
            }
            (_, Some(missing)) => {
                let marked = marked(&missing.words, modern, &mark(missing.reason));
                Some(message::result(id, &marked))
            }
            (CallOutcome::Rejected(Rejection::HeldBack), _) => Some(told(HELD_BACK)),
            (CallOutcome::Rejected(Rejection::NobodyToAsk { .. }), _) => {
                Some(told(&(words(report, view) + HOW_TO_ALLOW)))
            }
            _ => Some(told(&words(report, view))),
        }
    }
}

fn completed(
    id: &RawValue,
    (result, whole): (&ToolResult, &RawValue),
    modern: bool,
    mark: impl Fn() -> Value,
) -> Reply {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "resultType", default)]
        kind: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    if let Some(error) = result.protocol_error() {
        // Positive codes are those of HTTP.
        match serde_json::from_str::<Code>(error.get()) {
            Ok(Code { code }) if code < 0 => {
                return message::passed_error(id, code, &without_null(error));
            }
            _ => {
                let text = outrigger_host::words::plain(result).join("\n");
                return message::result(id, &marked(&text, modern, &mark()));
            }
        }
    }
    let raw = whole.get();
    let kind = serde_json::from_str::<Kind>(raw)
        .ok()
        .and_then(|it| it.kind);
    if modern && kind.is_none() && raw.starts_with('{') {
        let with = message::with_member(raw, "\"resultType\":\"complete\"");
        return message::result(id, &with);
    }
    message::result(id, raw)
}

/// `data` that was not there is not made up.
fn without_null(error: &RawValue) -> String {
    let text = error.get();
    match text.strip_suffix(",\"data\":null}") {
        Some(rest) => format!("{rest}}}"),
        None => text.to_owned(),
    }
}

fn content(text: &str, is_error: bool, modern: bool) -> Value {
    let mut result = json!({
        "content": [{ "type": "text", "text": text }],
        "isError": is_error,
    });
    if modern {
        result["resultType"] = "complete".into();
    }
    result
}

/// A result of ours, with what is known of the call under [`MARK`].
fn marked(text: &str, modern: bool, mark: &Value) -> String {
    let mut result = content(text, true, modern);
    result["_meta"] = json!({ MARK: mark });
    result.to_string()
}

fn words(report: &CallReport, view: &View) -> String {
    let texts: Vec<_> = report.words.iter().filter_map(text).collect();
    view.in_their_names(&texts.join("\n"))
}

/// The text of a piece, where it is one.
pub(crate) fn text(words: &Words) -> Option<&str> {
    match words {
        Words::Text(text) => Some(text),
        Words::Image { .. } => None,
    }
}
