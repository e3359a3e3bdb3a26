//! What went wrong while connecting, for the person who has to mend it.
//!
//! Promises: the command or the address is named, with what was waited for, how a process ended and
//! its last words; a hint wherever there is one to give.

use std::sync::PoisonError;

use outrigger_sandbox::SpawnError;

use super::{Attempt, Trouble};
use crate::connection::log_tail;
use crate::error::Seconds;
use crate::handshake::{HandshakeError, MODERN, Older, Versions};
use crate::link::http::BadHttpSpec;
use crate::rpc::{Failure, HttpAnswer};
use crate::text::{excerpt, place};
use crate::{
    ConnectError, ConnectErrorKind as Kind, Framing, Protocol, ServerSpec, Stage, TransportSpec,
};

const STDERR_LINES: usize = 20;

/// An error before the facts about the process are added.
struct Said {
    stage: Stage,
    kind: Kind,
    message: String,
    hints: Vec<String>,
}

impl Said {
    fn new(stage: Stage, kind: Kind, message: String) -> Self {
        Self {
            stage,
            kind,
            message,
            hints: Vec::new(),
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn into_error(self, spec: &ServerSpec, stderr_tail: Vec<String>) -> ConnectError {
        let Self {
            stage,
            kind,
            message,
            hints,
        } = self;
        ConnectError {
            server: spec.name.clone(),
            stage,
            kind,
            message,
            stderr_tail,
            hints,
        }
    }
}

pub(super) fn cancelled(spec: &ServerSpec) -> ConnectError {
    Said::new(
        Stage::Start,
        Kind::Cancelled,
        "cancelled while connecting".to_owned(),
    )
    .into_error(spec, Vec::new())
}

impl Attempt<'_> {
    /// Cleans up, and says what happened.
    pub(super) async fn explain(self, trouble: Trouble) -> ConnectError {
        // What the server was doing when it was given up on is known only before it is ended.
        let exit = self.open.as_ref().and_then(|open| open.link.exit());
        self.clean_up().await;
        let tail = match &self.open {
            Some(open) => log_tail(open.link.as_ref(), &open.rpc, STDERR_LINES),
            None => Vec::new(),
        };
        let said = match trouble {
            Trouble::Cancelled => return cancelled(self.spec),
            Trouble::Spawn(error) => spawn(&error),
            Trouble::Http(error) => {
                let hint = match &error {
                    BadHttpSpec::Authorities(_) => {
                        "correct `ca_file` of this server, or `ca_files` in `[tls]`"
                    }
                    _ => "correct `url` or `headers` of this server",
                };
                Said::new(Stage::Start, Kind::StartupFailed, error.to_string()).hint(hint)
            }
            Trouble::Timeout => self.timeout(),
            Trouble::Handshake(error) => self.handshake(error, exit.as_deref()),
        };
        said.into_error(self.spec, tail)
    }

    /// The server as configured.
    fn place(&self) -> String {
        match &self.spec.transport {
            TransportSpec::Stdio(spec) => {
                let words: Vec<&str> = std::iter::once(spec.command.as_str())
                    .chain(spec.args.iter().map(String::as_str))
                    .collect();
                format!("`{}`", excerpt(words.join(" ").as_bytes(), 160))
            }
            TransportSpec::Http(spec)
            | TransportSpec::Sse(spec)
            | TransportSpec::WebSocket(spec) => place(&spec.url),
            TransportSpec::InProcess(_) => "the built-in server".to_owned(),
        }
    }

    fn timeout(&self) -> Said {
        let method = *self
            .waiting_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let limit = Seconds(self.spec.deadlines.start);
        let message = format!(
            "no answer to `{method}` from {} within {limit}",
            self.place()
        );
        let mut said = Said::new(Stage::Handshake, Kind::Timeout, message).hint(
            "if it only starts slowly (a package to install, say), raise its `start` deadline",
        );
        if let TransportSpec::Stdio(spec) = &self.spec.transport {
            let noise = self
                .open
                .as_ref()
                .map_or(0, |open| open.rpc.log().noise_count());
            if noise > 0 {
                said = said.hint(format!("it printed {noise} lines on its standard output that are no messages; is it an MCP server?"));
            } else if spec.framing != Framing::ContentLength {
                said = said.hint("if it frames messages with `Content-Length` headers, set `framing = \"content-length\"`");
            }
        }
        said
    }

    fn handshake(&self, error: HandshakeError, exit: Option<&str>) -> Said {
        match error {
            HandshakeError::Failed { method, failure } => self.failed(method, failure, exit),
            HandshakeError::EndedOnProbe(failure) => self.failed("server/discover", failure, exit),
            HandshakeError::Mismatch(theirs) => {
                let theirs: Vec<String> = theirs
                    .iter()
                    .map(|version| excerpt(version.as_bytes(), 40))
                    .collect();
                let ours = self.identity.versions.words();
                let message = format!(
                    "no common protocol version: {} speaks {}, this client speaks {ours}",
                    self.place(),
                    theirs.join(", ")
                );
                let said = Said::new(Stage::Handshake, Kind::VersionMismatch, message);
                if self.spec.versions.is_some() {
                    said.hint("allow a version that it speaks in `versions`")
                } else {
                    said.hint("update the server, or this program")
                }
            }
            HandshakeError::NotAllowed => {
                let allowed = self.spec.versions.as_deref().unwrap_or_default().join(", ");
                let all = Versions::allowed(None).words();
                let message = format!(
                    "none of the allowed protocol versions ({}) can be used with this `protocol`: this client speaks {all}",
                    excerpt(allowed.as_bytes(), 200)
                );
                Said::new(Stage::Start, Kind::VersionMismatch, message)
                    .hint("correct `versions` or `protocol` of this server")
            }
            HandshakeError::BadResult { method, reason } => {
                let message = format!(
                    "the answer of {} to `{method}` cannot be used: {reason}",
                    self.place()
                );
                Said::new(Stage::Handshake, Kind::BadResult, message)
            }
            HandshakeError::NotModern(older) => self.not_modern(older),
        }
    }

    fn not_modern(&self, Older { failure, versions }: Older) -> Said {
        let why = failure
            .map(|failure| format!(" ({})", words(&failure)))
            .unwrap_or_default();
        let mut message = format!("{} does not speak {MODERN}{why}", self.place());
        if !versions.is_empty() {
            let theirs = excerpt(versions.join(", ").as_bytes(), 200);
            message = format!("{message}; it speaks {theirs}");
        }
        let said = Said::new(Stage::Handshake, Kind::VersionMismatch, message);
        // Either of the two settings may be what keeps the old era out.
        if self.spec.protocol == Protocol::Modern {
            said.hint("set `protocol = \"auto\"` to use the protocol that it speaks")
        } else {
            said.hint("allow a version that it speaks in `versions`")
        }
    }

    fn failed(&self, method: &'static str, failure: Failure, exit: Option<&str>) -> Said {
        let place = self.place();
        match failure {
            Failure::Http(answer) | Failure::SessionLost(answer) => http(&place, method, &answer),
            Failure::Rpc(error) => {
                let code = error.code;
                let said = excerpt(error.message.as_bytes(), 400);
                let message = format!("{place} answered `{method}` with error {code}: {said}");
                Said::new(Stage::Handshake, Kind::RpcError, message)
            }
            Failure::Malformed(reason) => {
                let message =
                    format!("the answer of {place} to `{method}` cannot be used: {reason}");
                Said::new(Stage::Handshake, Kind::BadResult, message)
            }
            Failure::NotSent(why) | Failure::Closed(why)
                if matches!(self.spec.transport, TransportSpec::Stdio(_)) =>
            {
                let each = match self.starts {
                    0 | 1 => String::new(),
                    2 => ", both times it was started".to_owned(),
                    times => format!(", all {times} times it was started"),
                };
                let how = exit.map_or(why, |exit| format!("{exit}{each}"));
                let message = format!("{place} ended before it answered `{method}`: {how}");
                Said::new(Stage::Start, Kind::StartupFailed, message)
                    .hint("run the command by itself in a terminal to see what it says")
            }
            Failure::NotSent(why)
                if !matches!(self.spec.transport, TransportSpec::InProcess(_)) =>
            {
                let hint = if why.contains("certificate") {
                    "if an authority of your own has signed its certificate, name the authority's file in `ca_file`"
                } else {
                    "is the server running, and is the address right?"
                };
                Said::new(Stage::Start, Kind::Unreachable, why).hint(hint)
            }
            Failure::NotSent(why) | Failure::Closed(why) => {
                let message =
                    format!("{place} ended the connection before it answered `{method}`: {why}");
                Said::new(Stage::Handshake, Kind::Closed, message)
            }
        }
    }
}

fn http(place: &str, method: &str, answer: &HttpAnswer) -> Said {
    let message = format!("{place} answered `{method}` with {}", answer.message);
    if answer.redirect {
        return Said::new(Stage::Handshake, Kind::HttpError, answer.message.clone());
    }
    if answer.wants_credentials() {
        let message = if answer.no_token {
            format!("{place}: {}", answer.message)
        } else {
            message
        };
        let mut said = Said::new(Stage::Handshake, Kind::AuthRequired, message);
        said.hints.extend(answer.hint.clone());
        return said.hint("give the server a token in `headers` (Authorization: Bearer …)");
    }
    let said = Said::new(Stage::Handshake, Kind::HttpError, message);
    match answer.status {
        404 | 405 => {
            said.hint("is the path of the address right? Many servers answer under `/mcp`")
        }
        200..=299 => said.hint("this is not an MCP endpoint; a page to sign in, perhaps"),
        _ => said,
    }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::NotSent(why) | Failure::Closed(why) | Failure::Malformed(why) => why.clone(),
        Failure::Rpc(error) => format!(
            "error {}: {}",
            error.code,
            excerpt(error.message.as_bytes(), 200)
        ),
        Failure::Http(answer) | Failure::SessionLost(answer) => answer.message.clone(),
    }
}

fn spawn(error: &SpawnError) -> Said {
    let said = Said::new(Stage::Start, Kind::StartupFailed, error.to_string());
    let SpawnError::NotFound { program, .. } = error else {
        return said;
    };
    match program.as_str() {
        "npx" | "node" | "npm" => {
            said.hint("install Node.js, or give the absolute path of the program")
        }
        "uvx" | "uv" => said.hint("install uv, or give the absolute path of the program"),
        "docker" => said.hint("install Docker, or give the absolute path of the program"),
        _ => said.hint("give the absolute path of the program, or add its folder to PATH in `env`"),
    }
}
