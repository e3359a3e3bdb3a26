//! What `outrigger call --json` prints: the call, how it ended, and the answer, part by part. What the
//! server says about its own answer (`meta`) stands apart from what is known here.

use outrigger_host::CallReport;
use outrigger_host::artifact::ArtifactRef;
use outrigger_host::outcome::CallOutcome;
use outrigger_host::result::{Block, Body, Content, Media, Raw, ToolResult};
use outrigger_host::words::Words;
use outrigger_journal::OutcomeKind;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// One call, told.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    call: u32,
    server: Option<&'a str>,
    tool: Option<&'a str>,
    arguments: Option<&'a RawValue>,
    outcome: OutcomeKind,
    is_error: bool,
    summary: &'a str,
    /// What a model would read.
    words: String,
    /// The answer as it came; `None` where there was none, and where it is kept elsewhere.
    result: Option<&'a RawValue>,
    #[serde(flatten)]
    answer: Option<Answer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<Value>,
    took_ms: u64,
}

/// The parts of an answer.
#[derive(Serialize)]
struct Answer<'a> {
    /// Where the answer is, when it is too large to stand here.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<&'a ArtifactRef>,
    blocks: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<Structured<'a>>,
    artifacts: Vec<ArtifactRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

/// JSON as it came, or its ends.
#[derive(Serialize)]
#[serde(untagged)]
enum Structured<'a> {
    Whole(&'a RawValue),
    Cut(Value),
}

pub(super) fn of(report: &CallReport) -> Record<'_> {
    let tool = report.tool.as_ref();
    let words = report.words.iter().filter_map(|words| match words {
        Words::Text(text) => Some(text.as_str()),
        Words::Image { .. } => None,
    });
    let result = match &report.outcome {
        CallOutcome::Completed(result) => Some(result),
        _ => None,
    };
    Record {
        call: report.call,
        server: tool.map(|(server, _)| server.as_str()),
        tool: tool.map(|(_, tool)| tool.as_str()),
        arguments: report.arguments.as_deref(),
        outcome: report.outcome.kind(),
        is_error: report.outcome.is_error(),
        summary: &report.summary,
        words: words.collect::<Vec<_>>().join("\n"),
        result: result.and_then(|result| result.raw.here()),
        answer: result.map(|result| answer(result)),
        violation: violation(&report.outcome),
        took_ms: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
    }
}

fn violation(outcome: &CallOutcome) -> Option<Value> {
    let CallOutcome::Violated(violation) = outcome else {
        return None;
    };
    Some(json!({
        "server": violation.server.as_str(),
        "tool": violation.tool,
        "what": violation.what,
        "pointer": violation.pointer,
    }))
}

fn answer(result: &ToolResult) -> Answer<'_> {
    let structured = result.structured.as_ref();
    Answer {
        kept: match &result.raw {
            Raw::Here(_) => None,
            Raw::Kept(artifact) => Some(artifact),
        },
        blocks: result.content.iter().map(block).collect(),
        structured: structured.and_then(|structured| match &structured.body {
            Body::Whole(text) => serde_json::from_str(text).ok().map(Structured::Whole),
            cut @ Body::Cut(_) => Some(Structured::Cut(body(cut))),
        }),
        artifacts: result.artifacts(),
        meta: result.meta.as_deref(),
    }
}

fn block(block: &Block) -> Value {
    let mut told = match &block.content {
        Content::Text(text) => json!({ "text": body(text) }),
        Content::Image(bytes) | Content::Audio(bytes) => media(bytes),
        Content::Link(link) => json!({
            "uri": link.uri,
            "name": link.name,
            "title": link.title,
            "description": link.description,
            "media_type": link.media_type,
            "bytes": link.size,
        }),
        Content::Resource {
            uri,
            media_type,
            body: text,
        } => json!({ "uri": uri, "media_type": media_type, "text": body(text) }),
        Content::Blob { uri, media: bytes } => {
            let mut told = media(bytes);
            told["uri"] = uri.as_str().into();
            told
        }
        Content::Other { body: text, .. } => json!({ "block": match text {
            Body::Whole(text) => serde_json::from_str(text).unwrap_or_default(),
            cut @ Body::Cut(_) => body(cut),
        } }),
    };
    told["type"] = block.content.kind().into();
    for (key, said) in [("annotations", &block.annotations), ("meta", &block.meta)] {
        if let Some(said) = said {
            told[key] = value(said);
        }
    }
    told
}

/// A text; of one that is elsewhere, the ends.
fn body(body: &Body) -> Value {
    match body {
        Body::Whole(text) => text.as_str().into(),
        Body::Cut(preview) => json!({
            "head": preview.head,
            "tail": preview.tail,
            "bytes": preview.bytes,
            "artifact": preview.artifact.as_ref().map(reference),
        }),
    }
}

fn media(media: &Media) -> Value {
    json!({
        "media_type": media.media_type,
        "bytes": media.bytes,
        "broken": media.broken,
        "artifact": media.artifact.as_ref().map(reference),
    })
}

fn reference(artifact: &ArtifactRef) -> Value {
    serde_json::to_value(artifact).unwrap_or_default()
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
