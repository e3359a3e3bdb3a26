//! Reads a recording.

use std::path::Path;

use outrigger_model::{Message, ToolDeclaration};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::member;
use crate::error::CommandError;
use crate::recording::{
    CONFIGURATION, FORMAT, Found, Kind, Line, MANIFEST, Manifest, ModelAsked, TRAFFIC,
};

/// A recording as it was read.
pub(crate) struct Tape {
    pub(crate) manifest: Manifest,
    pub(super) found: Found,
    pub(super) lines: Vec<Line>,
    /// Of each line, its message as it is compared.
    pub(super) bodies: Vec<Value>,
    /// The servers of this protocol name their requests in headers, and end them by hanging up.
    http: Vec<bool>,
}

impl Tape {
    pub(crate) fn read(folder: &Path) -> Result<Self, CommandError> {
        let unusable = |why: String| {
            CommandError::usage(format!(
                "the recording `{}` cannot be used: {why}",
                folder.display()
            ))
            .hint("`--record DIR` makes one")
        };
        let text = |name: &str| {
            std::fs::read_to_string(folder.join(name))
                .map_err(|error| unusable(format!("`{name}`: {error}")))
        };
        let manifest: Manifest = parse(&text(MANIFEST)?, MANIFEST).map_err(unusable)?;
        if manifest.format != FORMAT {
            let format = manifest.format;
            return Err(unusable(format!(
                "it is of format {format}, and this program reads format {FORMAT}"
            )));
        }
        match manifest.exit {
            None => return Err(unusable("the run did not end in order".to_owned())),
            Some(130) => return Err(unusable("the run was interrupted".to_owned())),
            Some(_) => {}
        }
        let found = parse(&text(CONFIGURATION)?, CONFIGURATION).map_err(unusable)?;
        let traffic = text(TRAFFIC)?;
        let mut lines: Vec<Line> = Vec::new();
        for (at, line) in traffic.lines().enumerate() {
            let what = format!("line {} of `{TRAFFIC}`", at + 1);
            lines.push(parse(line, &what).map_err(unusable)?);
        }
        let http = lines.iter().map(|line| line.exchange.is_some()).collect();
        let mut tape = Self {
            manifest,
            found,
            bodies: Vec::with_capacity(lines.len()),
            lines,
            http,
        };
        tape.bodies = tape.compared().map_err(unusable)?;
        Ok(tape)
    }

    /// What is compared of each line.
    fn compared(&self) -> Result<Vec<Value>, String> {
        let mut messages: Vec<Message> = Vec::new();
        let mut tools: Vec<ToolDeclaration> = Vec::new();
        let mut bodies = Vec::with_capacity(self.lines.len());
        for (at, line) in self.lines.iter().enumerate() {
            let text = line.body.as_ref().map_or("null", |body| body.get());
            let what = format!("line {} of `{TRAFFIC}`", at + 1);
            bodies.push(match line.kind {
                Kind::Sent => normal(parse(text, &what)?),
                Kind::ModelAsked => {
                    let asked: ModelAsked = parse(text, &what)?;
                    messages.truncate(asked.same_messages);
                    messages.extend(asked.messages);
                    tools = asked.tools.unwrap_or(tools);
                    asked_body(&messages, &tools, asked.max_output_tokens)
                }
                Kind::Came | Kind::ModelSaid | Kind::Approval | Kind::Answer | Kind::Hook => {
                    parse(text, &what)?
                }
                Kind::Noise | Kind::Ended | Kind::Refused | Kind::Closing => Value::Null,
            });
        }
        Ok(bodies)
    }

    /// Where the run had ended and only tidied up.
    pub(super) fn closing(&self) -> usize {
        let closing = self
            .lines
            .iter()
            .position(|line| line.kind == Kind::Closing);
        closing.unwrap_or(self.lines.len())
    }

    pub(super) fn is_http(&self, line: usize) -> bool {
        self.http.get(line).copied().unwrap_or_default()
    }

    /// The message of a line as it was recorded.
    pub(super) fn raw(&self, line: usize) -> &str {
        let body = self.lines.get(line).and_then(|line| line.body.as_ref());
        body.map_or("null", |body| body.get())
    }
}

fn parse<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{what} cannot be read: {error}"))
}

/// A request to the model as it is compared.
pub(super) fn asked_body(
    messages: &[Message],
    tools: &[ToolDeclaration],
    most: Option<u32>,
) -> Value {
    json!({ "messages": messages, "tools": tools, "max_output_tokens": most })
}

/// A message to a server without what differs from run to run: ids, progress tokens, the place in a
/// trace, and who this program says it is.
pub(super) fn normal(mut message: Value) -> Value {
    const OURS: [&str; 5] = [
        "progressToken",
        "traceparent",
        "tracestate",
        "baggage",
        "io.modelcontextprotocol/clientInfo",
    ];
    let cancelled = member(&message, "method") == "notifications/cancelled";
    let Some(members) = message.as_object_mut() else {
        return message;
    };
    if members.contains_key("method") {
        members.remove("id");
    }
    if let Some(Value::Object(params)) = members.get_mut("params") {
        if cancelled {
            params.remove("requestId");
        }
        if let Some(Value::Object(meta)) = params.get_mut("_meta") {
            for name in OURS {
                meta.remove(name);
            }
            if meta.is_empty() {
                params.remove("_meta");
            }
        }
    }
    message
}

/// Whether a run that leaves this out differs from the recording: requests and questions to people,
/// but no notifications, whose moment is nobody's.
pub(super) fn must_happen(line: &Line) -> bool {
    match line.kind {
        Kind::ModelAsked | Kind::Approval | Kind::Hook => true,
        Kind::Sent => is_request(line) && !is_handshake(line),
        _ => false,
    }
}

/// A message to a server that wants an answer.
pub(super) fn is_request(line: &Line) -> bool {
    let members = members(line);
    members.0.is_some() && members.1
}

/// What agreeing on an era consists of: it is answered without being compared, since another version
/// of this program may go about it in another way.
pub(super) fn is_handshake(line: &Line) -> bool {
    members(line)
        .0
        .is_some_and(|method| is_handshake_method(&method))
}

pub(super) fn is_handshake_method(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "server/discover" | "notifications/initialized"
    )
}

/// The method, and whether there is an id.
fn members(line: &Line) -> (Option<String>, bool) {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        method: Option<String>,
        #[serde(default)]
        id: Option<serde::de::IgnoredAny>,
    }
    let body = line.body.as_ref();
    let members = body.and_then(|body| serde_json::from_str::<Members>(body.get()).ok());
    members.map_or((None, false), |members| {
        (members.method, members.id.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_not_compared() {
        let sent = |id: &str, trace: &str| {
            normal(json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": { "name": "a", "arguments": { "id": 1 }, "_meta": { "progressToken": id, "traceparent": trace } },
            }))
        };
        assert_eq!(sent("1", "a"), sent("7", "b"));
        assert_eq!(
            sent("1", "a"),
            json!({ "jsonrpc": "2.0", "method": "tools/call", "params": { "name": "a", "arguments": { "id": 1 } } })
        );
        let reply = json!({ "jsonrpc": "2.0", "id": "q1", "result": {} });
        assert_eq!(
            normal(reply.clone()),
            reply,
            "an answer has the server's id"
        );
    }
}
