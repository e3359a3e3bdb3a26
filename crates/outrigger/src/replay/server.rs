//! A server of a recording: it takes what it took, and says what it said, when it said it.
//!
//! A message of the server is said once everything that had been sent to it before is sent; one that
//! answers nothing also waits for the requests to the model that were made before it. So what a run
//! learns, it learns in the order of the recording, and requests that are under way side by side may
//! come in any order.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::ServePipe;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf};
use tokio::time::Instant;

use super::difference::of_server;
use super::link::Link;
use super::tape::{Tape, is_handshake_method, normal};
use super::{Difference, PATIENCE, Playback, member};
use crate::recording::Kind;

/// JSON-RPC 2.0, section 5.1: an error of the server's own.
const NOT_RECORDED: i64 = -32000;

/// Stands in for the server of this name.
pub(crate) struct StandIn {
    playback: Arc<Playback>,
    server: String,
    farewell: Arc<Mutex<Option<String>>>,
}

impl Playback {
    /// Whoever has this name in the recording.
    pub(crate) fn server(self: &Arc<Self>, name: &str) -> Arc<dyn ServePipe> {
        Arc::new(StandIn {
            playback: Arc::clone(self),
            server: name.to_owned(),
            farewell: Arc::default(),
        })
    }

    /// The next connection to this server.
    fn connect(&self, server: &str) -> Option<usize> {
        let mut state = self.state();
        let before = state
            .connected
            .iter()
            .filter(|name| *name == server)
            .count();
        state.connected.push(server.to_owned());
        let mut links = self.links.iter().enumerate();
        let mut links = links.by_ref().filter(|(_, link)| link.server == server);
        links.nth(before).map(|(at, _)| at)
    }
}

impl ServePipe for StandIn {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let playback = Arc::clone(&self.playback);
        let Some(link) = playback.connect(&self.server) else {
            // It did not come about then either.
            return Box::pin(std::future::ready(()));
        };
        let farewell = Arc::clone(&self.farewell);
        Box::pin(async move {
            let served = Serving::new(playback, link).run(pipe).await;
            *farewell.lock().unwrap_or_else(PoisonError::into_inner) = served;
        })
    }

    fn farewell(&self) -> Option<String> {
        let farewell = self.farewell.lock();
        farewell.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A connection being served.
struct Serving {
    playback: Arc<Playback>,
    link: usize,
    /// How many of the link's lines are over.
    next: usize,
    /// Ids of this run by those of the recording, both as JSON text.
    ids: HashMap<String, String>,
    /// Since when the next message waits for the run.
    held_up: Option<Instant>,
}

/// What becomes of a line whose turn it is.
enum Turn {
    /// It is not yet.
    Wait,
    /// It was nothing to say.
    Pass,
    Say(String),
    End(String),
}

impl Serving {
    fn new(playback: Arc<Playback>, link: usize) -> Self {
        Self {
            playback,
            link,
            next: 0,
            ids: HashMap::new(),
            held_up: None,
        }
    }

    fn link(&self) -> Option<&Link> {
        self.playback.links.get(self.link)
    }

    fn tape(&self) -> &Tape {
        &self.playback.tape
    }

    /// Serves until the other end is closed, or until the server had ended; then why.
    async fn run(mut self, pipe: DuplexStream) -> Option<String> {
        let (read, mut write) = tokio::io::split(pipe);
        let mut lines = BufReader::new(read).lines();
        let mut moved = self.playback.moved.subscribe();
        loop {
            moved.mark_unchanged();
            // Nothing that comes now is worth an answer.
            if self.playback.has_differed() {
                return Some("the run differs from the recording".to_owned());
            }
            match self.say(&mut write).await {
                Ok(None) => {}
                Ok(Some(farewell)) => return Some(farewell),
                Err(_) => return None,
            }
            // Whoever waits for the run in vain goes on after a while.
            let patience = self.held_up.map_or(Duration::MAX, |since| {
                PATIENCE.saturating_sub(since.elapsed())
            });
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        if let Some(answer) = self.hear(&line)
                            && write.write_all(answer.as_bytes()).await.is_err()
                        {
                            return None;
                        }
                    }
                    _ => return None,
                },
                _ = moved.changed() => {}
                () = tokio::time::sleep(patience.min(PATIENCE)) => {}
            }
        }
    }

    /// Takes a message of the run; what is to be answered at once.
    fn hear(&mut self, line: &str) -> Option<String> {
        let message: Value = serde_json::from_str(line).ok()?;
        let id = message.get("id").cloned();
        let method = member(&message, "method").to_owned();
        if is_handshake_method(&method) {
            return Some(self.agree(&method, &id?));
        }
        let got = normal(message);
        let playback = Arc::clone(&self.playback);
        let tape = &playback.tape;
        let lines = self.link()?.lines.clone();
        let open: Vec<usize> = lines
            .into_iter()
            .filter(|at| {
                tape.lines
                    .get(*at)
                    .is_some_and(|line| line.kind == Kind::Sent)
            })
            .filter(|at| !playback.is_done(*at))
            .collect();
        if let Some(at) = open.iter().find(|at| tape.bodies.get(**at) == Some(&got)) {
            if let (Some(recorded), Some(id)) = (id_of(tape.raw(*at)), id) {
                self.ids.insert(recorded, id.to_string());
            }
            playback.mark(*at);
            return None;
        }
        // When nobody waits any more is a matter of time, and over HTTP of hanging up.
        if method.starts_with("notifications/") {
            return None;
        }
        let body = |at: &usize| tape.bodies.get(*at).unwrap_or(&Value::Null);
        let tool = |body: &Value| body.pointer("/params/name").cloned();
        let same_method = |at: &&usize| member(body(at), "method") == method;
        let nearest = open
            .iter()
            .find(|at| same_method(at) && tool(body(at)) == tool(&got))
            .or_else(|| open.iter().find(same_method));
        let server = self.link()?.server.clone();
        let what = of_server(&server, &got);
        playback.differs(Difference::between(what, tape, nearest.copied(), &got));
        let error = json!({ "code": NOT_RECORDED, "message": "this is not in the recording" });
        id.map(|id| {
            format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            )
        })
    }

    /// The answer to a message of the handshake.
    fn agree(&self, method: &str, id: &Value) -> String {
        let link = self.link();
        let answer = match method {
            "server/discover" => link.and_then(|link| link.discovered),
            _ => link.and_then(|link| link.initialized),
        };
        let Some(answer) = answer else {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            );
        };
        renamed(self.tape().raw(answer), &id.to_string())
    }

    /// Says what is to be said by now; the farewell of a server that had ended.
    async fn say(
        &mut self,
        write: &mut WriteHalf<DuplexStream>,
    ) -> std::io::Result<Option<String>> {
        while let Some(at) = self
            .link()
            .and_then(|link| link.lines.get(self.next).copied())
        {
            match self.turn(at) {
                Turn::Wait => {
                    self.held_up.get_or_insert_with(Instant::now);
                    return Ok(None);
                }
                Turn::Pass => {}
                Turn::Say(text) => write.write_all(text.as_bytes()).await?,
                Turn::End(why) => {
                    self.playback.mark(at);
                    return Ok(Some(why));
                }
            }
            let kind = self.tape().lines.get(at).map(|line| line.kind);
            if kind != Some(Kind::Sent) {
                self.playback.mark(at);
            }
            self.next += 1;
            self.held_up = None;
        }
        Ok(None)
    }

    fn turn(&self, at: usize) -> Turn {
        let tape = self.tape();
        let Some(line) = tape.lines.get(at) else {
            return Turn::Pass;
        };
        let ended = at > tape.closing();
        match line.kind {
            Kind::Sent => {
                let notification =
                    !super::tape::is_request(line) && !member(self.body(at), "method").is_empty();
                let hung_up = notification && self.link().is_some_and(|link| link.http);
                if self.playback.is_done(at) || hung_up {
                    Turn::Pass
                } else {
                    Turn::Wait
                }
            }
            Kind::Came => {
                let Some(recorded) = answered(tape.raw(at)) else {
                    return if self.may_speak(at) {
                        Turn::Say(self.spoken(at))
                    } else {
                        Turn::Wait
                    };
                };
                match self.ids.get(&recorded) {
                    Some(id) => Turn::Say(renamed(tape.raw(at), id)),
                    None => Turn::Pass,
                }
            }
            Kind::Noise => Turn::Say(format!("{}\n", line.text.as_deref().unwrap_or_default())),
            Kind::Refused => self.refused(at).map_or(Turn::Pass, Turn::Say),
            Kind::Ended if ended => Turn::Pass,
            Kind::Ended if self.may_speak(at) => Turn::End(line.text.clone().unwrap_or_default()),
            Kind::Ended => Turn::Wait,
            _ => Turn::Pass,
        }
    }

    fn body(&self, at: usize) -> &Value {
        self.tape().bodies.get(at).unwrap_or(&Value::Null)
    }

    /// Whether the run is where it was when the server spoke up.
    fn may_speak(&self, at: usize) -> bool {
        let waited = self
            .held_up
            .is_some_and(|since| since.elapsed() >= PATIENCE);
        let asked = |line: &crate::recording::Line| line.kind == Kind::ModelAsked;
        waited || self.playback.done_before(at, asked)
    }

    /// A message that answers nothing; progress names the request by its id.
    fn spoken(&self, at: usize) -> String {
        let raw = self.tape().raw(at);
        let mut message: Value = serde_json::from_str(raw).unwrap_or_default();
        let token = message
            .pointer("/params/progressToken")
            .map(Value::to_string);
        let ours = token.and_then(|token| self.ids.get(&token));
        let Some(ours) = ours.and_then(|ours| serde_json::from_str::<Value>(ours).ok()) else {
            return format!("{raw}\n");
        };
        message["params"]["progressToken"] = ours;
        format!("{message}\n")
    }

    /// What HTTP refused, as an error of the protocol, where no message came for it.
    fn refused(&self, at: usize) -> Option<String> {
        let tape = self.tape();
        let line = tape.lines.get(at)?;
        let lines = &self.link()?.lines;
        let of_exchange = |kind: Kind| {
            lines.iter().copied().find(|at| {
                let other = tape.lines.get(*at);
                other.is_some_and(|other| other.kind == kind && other.exchange == line.exchange)
            })
        };
        if of_exchange(Kind::Came).is_some() {
            return None;
        }
        let recorded = id_of(tape.raw(of_exchange(Kind::Sent)?))?;
        let id: Value = serde_json::from_str(self.ids.get(&recorded)?).ok()?;
        let message = line.text.clone().unwrap_or_else(|| "refused".to_owned());
        let code = line.status.map_or(NOT_RECORDED, i64::from);
        let error = json!({ "code": code, "message": message });
        Some(format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        ))
    }
}

/// The id of a request, as JSON text.
fn id_of(raw: &str) -> Option<String> {
    let message: Value = serde_json::from_str(raw).ok()?;
    message.get("method")?;
    Some(message.get("id")?.to_string())
}

/// The id that a message answers to, as JSON text.
fn answered(raw: &str) -> Option<String> {
    let message: Value = serde_json::from_str(raw).ok()?;
    if message.get("method").is_some() {
        return None;
    }
    Some(message.get("id")?.to_string())
}

/// An answer under another id; the rest of it byte for byte.
fn renamed(raw: &str, id: &str) -> String {
    let members = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(raw);
    let id = RawValue::from_string(id.to_owned());
    let (Ok(mut members), Ok(id)) = (members, id) else {
        return format!("{raw}\n");
    };
    members.insert("id".to_owned(), id);
    let text = serde_json::to_string(&members).unwrap_or_else(|_| raw.to_owned());
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_under_another_id_keeps_its_digits() {
        assert_eq!(
            renamed(
                "{\"id\": \"3\", \"result\": {\"n\": 1.50, \"big\": 123456789012345678901234567890}}",
                "\"7\""
            ),
            "{\"id\":\"7\",\"result\":{\"n\": 1.50, \"big\": 123456789012345678901234567890}}\n"
        );
    }
}
