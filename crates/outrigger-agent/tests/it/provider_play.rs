//! Plays one turn of a model against the scripted server and keeps what was seen.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use outrigger_agent::provider::{ProviderKind, ProviderSpec, Secret, build};
use outrigger_model::{
    AssistantTurn, Message, Model, ModelError, ModelEvent, ModelRequest, Part, StopReason,
    ToolDeclaration, ToolResultMessage, Usage,
};
use outrigger_testkit::provider_server::{ProviderServer, Script, Turn};
use serde_json::{Value, json};

pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// The discard port, where nothing listens on any machine that still runs today.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// Everything that one stream yielded.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) retries: Vec<(u32, Duration, String)>,
    pub(crate) turn: AssistantTurn,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Usage,
}

pub(crate) async fn serve(turns: impl IntoIterator<Item = Turn>) -> ProviderServer {
    ProviderServer::start(Script::new(turns)).await.unwrap()
}

/// A spec for the server: short waits, two repetitions, a key.
pub(crate) fn spec(server: &ProviderServer, kind: ProviderKind) -> ProviderSpec {
    let base_url = server.base_url().parse().unwrap();
    let mut spec = ProviderSpec::new(
        format!("{}:scripted", kind.name()),
        kind,
        base_url,
        "scripted",
    );
    spec.key = Some(Secret::new(KEY, "`TEST_API_KEY` in the environment"));
    spec.timeouts.idle = Duration::from_secs(20);
    spec.max_retries = 2;
    spec
}

pub(crate) fn model(server: &ProviderServer, kind: ProviderKind) -> Arc<dyn Model> {
    build(spec(server, kind)).unwrap()
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |name: &str| ToolDeclaration {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema: json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "zone": { "type": "string" } },
            "additionalProperties": false,
        }),
        deferred: None,
    };
    let tools = vec![tool("mcp__time__current_time"), tool("mcp__echo__echo")];
    ModelRequest {
        messages,
        tools: tools.into(),
        max_output_tokens: None,
    }
}

pub(crate) fn question() -> ModelRequest {
    request(vec![
        Message::System {
            text: "Be brief.".to_owned(),
        },
        Message::user("What time is it?"),
    ])
}

pub(crate) fn result(
    turn: &AssistantTurn,
    index: usize,
    content: Vec<Part>,
    is_error: bool,
) -> ToolResultMessage {
    let call = &turn.calls[index];
    ToolResultMessage {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content,
        is_error,
    }
}

/// Everything up to the end, and the error if it was one.
pub(crate) async fn play(
    model: &Arc<dyn Model>,
    request: ModelRequest,
) -> (Seen, Option<ModelError>) {
    let mut stream = model.stream(request).await.unwrap();
    let mut seen = Seen::default();
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Text(more)) => seen.text.push_str(&more),
            Ok(ModelEvent::Reasoning(more)) => seen.reasoning.push_str(&more),
            Ok(ModelEvent::Retrying {
                attempt,
                wait,
                reason,
            }) => seen.retries.push((attempt, wait, reason)),
            Ok(ModelEvent::Finished { turn, stop, usage }) => {
                assert!(seen.stop.is_none(), "finished twice");
                seen.turn = turn;
                seen.stop = Some(stop);
                seen.usage = usage;
            }
            Err(error) => {
                assert!(seen.stop.is_none(), "failed after the end");
                assert!(stream.next().await.is_none(), "went on after the error");
                return (seen, Some(error));
            }
        }
    }
    assert!(seen.stop.is_some(), "ended without an end");
    (seen, None)
}

pub(crate) async fn finished(model: &Arc<dyn Model>, request: ModelRequest) -> Seen {
    let (seen, error) = play(model, request).await;
    assert!(error.is_none(), "{error:?}");
    seen
}

pub(crate) async fn failed(model: &Arc<dyn Model>, request: ModelRequest) -> (Seen, ModelError) {
    let (seen, error) = play(model, request).await;
    (seen, error.expect("the turn should have failed"))
}

/// The error as a person reads it, without the port.
pub(crate) fn words(error: &ModelError) -> String {
    let lines = std::iter::once(error.to_string())
        .chain(error.hints.iter().map(|hint| format!("hint: {hint}")));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut out = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find("127.0.0.1:") {
        let (before, after) = rest.split_at(at + "127.0.0.1:".len());
        out.push_str(before);
        out.push_str("PORT");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

/// The value at a JSON pointer.
pub(crate) fn at<'a>(body: &'a Value, pointer: &str) -> &'a Value {
    body.pointer(pointer).unwrap_or(&Value::Null)
}
