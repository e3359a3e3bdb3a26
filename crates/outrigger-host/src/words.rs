//! What the model reads about a call. Plain sentences that say what is known, and never more.

use std::fmt::Write as _;

use crate::outcome::{CallOutcome, Rejection, UnknownReason};
use crate::result::{Block, ToolResult};
use crate::text::{head_and_tail, shorten};

/// Bytes of one text that a model is given; the journal keeps the whole.
const TEXT_BYTES: usize = 64 << 10;
/// Bytes of all texts of one result.
const RESULT_BYTES: usize = 128 << 10;

/// A piece of what the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Text.
    Text(String),
    /// An image, for models that see images.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
}

/// Tools of the same server that only read, for checking on an unknown outcome.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Local policy says that they only read.
    pub trusted: Vec<String>,
    /// Their server says so.
    pub claimed: Vec<String>,
}

/// What the model reads about an outcome. `server` is `None` when the tool was not found.
pub fn for_model(outcome: &CallOutcome, server: Option<&str>, checks: &Checks) -> Vec<Words> {
    let server = server.unwrap_or("?");
    let text = match outcome {
        CallOutcome::Completed(result) => return of_result(result),
        CallOutcome::Rejected(rejection) => of_rejection(rejection),
        CallOutcome::NotSent(reason) => {
            format!("Not called: nothing was sent to the server `{server}` ({reason}).")
        }
        CallOutcome::Unknown(reason) => of_unknown(reason, server, checks),
        CallOutcome::Violated(violation) => format!(
            "The server `{server}` answered, but against its own contract: {}. The answer is not shown. \
             The call may have taken effect.",
            violation.what
        ),
    };
    vec![Words::Text(text)]
}

/// What the model reads with the first call after a server was started again.
pub fn restarted(server: &str) -> Words {
    Words::Text(format!(
        "Note: the server `{server}` ended and was started again since its last call. What it kept in memory is gone."
    ))
}

/// One line about an outcome, for a person.
pub fn for_person(outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Completed(result) => {
            let word = if result.is_error { "error: " } else { "" };
            format!("{word}{}", summary(result))
        }
        CallOutcome::Rejected(Rejection::Denied { rule, reason }) => {
            let because = reason.as_ref().map(|reason| format!(": {reason}"));
            format!("denied by {rule}{}", because.unwrap_or_default())
        }
        CallOutcome::Rejected(Rejection::NobodyToAsk { rule }) => {
            format!("refused: {rule} asks, and nobody is there to answer")
        }
        CallOutcome::Rejected(rejection) => of_rejection(rejection),
        CallOutcome::NotSent(reason) => format!("not sent: {reason}"),
        CallOutcome::Unknown(reason) => format!("outcome unknown: {reason}"),
        CallOutcome::Violated(violation) => format!("contract broken: {}", violation.what),
    }
}

fn of_rejection(rejection: &Rejection) -> String {
    let mut text = String::from("Not called: ");
    match rejection {
        Rejection::UnknownTool { name, nearest } => {
            let _ = write!(text, "there is no tool `{}`.", shorten(name, 100));
            if !nearest.is_empty() {
                let names: Vec<_> = nearest.iter().map(|name| format!("`{name}`")).collect();
                let _ = write!(text, " Did you mean {}?", names.join(" or "));
            }
        }
        Rejection::NotAnObject { reason } => {
            let _ = write!(text, "the arguments must be one JSON object; {reason}.");
        }
        Rejection::BadArguments { violations } => {
            text.push_str("the arguments do not fit the tool's schema:");
            for violation in violations {
                let _ = write!(text, "\n- {violation}");
            }
        }
        Rejection::Denied { reason, .. } => {
            text.push_str("the rules of this host do not allow it");
            push_reason(&mut text, reason.as_deref());
        }
        Rejection::Declined { reason } => {
            text.push_str("the user declined");
            push_reason(&mut text, reason.as_deref());
        }
        Rejection::NobodyToAsk { .. } => {
            text.push_str("it needs approval, and nobody is there to give it. This is not a decision of the user.");
        }
        Rejection::Changed => text.push_str(
            "the server has changed this tool's definition since it was shown. The new definition comes with the next turn.",
        ),
        Rejection::HeldBack => text.push_str(
            "the server has changed this tool's definition since it was approved. A person has to look at it first.",
        ),
        Rejection::Cancelled => text.push_str("the run was cancelled before anything was sent."),
        Rejection::NotRecorded { reason } => {
            let _ = write!(text, "the call could not be recorded, and unrecorded calls are not made ({reason}).");
        }
    }
    text
}

fn push_reason(text: &mut String, reason: Option<&str>) {
    match reason {
        Some(reason) => {
            let _ = write!(text, ": {reason}");
        }
        None => text.push('.'),
    }
}

fn of_unknown(reason: &UnknownReason, server: &str, checks: &Checks) -> String {
    let mut text = format!(
        "Outcome unknown: the call was sent to the server `{server}`, but {reason}. It may or may not have taken effect. \
         Do not simply repeat it."
    );
    let list = |names: &[String]| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !checks.trusted.is_empty() {
        let _ = write!(
            text,
            " Check first, for example with {}.",
            list(&checks.trusted)
        );
    } else if !checks.claimed.is_empty() {
        let _ = write!(
            text,
            " Check first; its server says that these only read: {}.",
            list(&checks.claimed)
        );
    } else {
        text.push_str(" Tell the user what is not known.");
    }
    text
}

impl std::fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline(after) => {
                write!(f, "no answer came within {:.1} s", after.as_secs_f64())
            }
            Self::ConnectionLost(why) => {
                write!(f, "the connection ended before the answer ({why})")
            }
            Self::Unfinished(why) => write!(f, "it was not finished ({why})"),
            Self::Cancelled => f.write_str("it was cancelled before the answer came"),
        }
    }
}

fn of_result(result: &ToolResult) -> Vec<Words> {
    let mut words = Vec::new();
    let mut room = RESULT_BYTES;
    let mut push = |words: &mut Vec<Words>, text: &str| {
        let text = head_and_tail(text, TEXT_BYTES.min(room));
        room = room.saturating_sub(text.len());
        words.push(Words::Text(text));
    };
    if result.is_error {
        push(&mut words, "The tool reports an error:");
    }
    for block in &result.content {
        match block {
            Block::Image(media) => {
                words.push(Words::Image {
                    media_type: media.media_type.clone(),
                    data: media.data.clone(),
                });
            }
            block => push(&mut words, &describe(block)),
        }
    }
    if let Some(structured) = &result.structured
        && !result.text_repeats_structure()
    {
        push(&mut words, structured.get());
    }
    if words.is_empty() || (result.is_error && words.len() == 1) {
        push(&mut words, "(the tool returned nothing)");
    }
    words
}

fn describe(block: &Block) -> String {
    match block {
        Block::Text(text) => text.clone(),
        Block::Image(media) => format!("[image, {}, {} bytes]", media.media_type, media.bytes()),
        Block::Audio(media) => format!(
            "[audio, {}, {} bytes; kept in the journal]",
            media.media_type,
            media.bytes()
        ),
        Block::Link { uri, about } => format!("[link to {uri}: {about}]"),
        Block::Resource { uri, text } => format!("[resource {uri}]\n{text}"),
        Block::Blob { uri, media } => {
            format!(
                "[resource {uri}, {}, {} bytes; kept in the journal]",
                media.media_type,
                media.bytes()
            )
        }
        Block::Other(raw) => format!("[content of a kind that is not known here]\n{raw}"),
    }
}

/// The first words of a result on one line.
fn summary(result: &ToolResult) -> String {
    let first = result
        .content
        .iter()
        .map(describe)
        .find(|text| !text.trim().is_empty());
    let first = first.or_else(|| result.structured.as_ref().map(|raw| raw.get().to_owned()));
    let line = first
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    shorten(&line, 120)
}
