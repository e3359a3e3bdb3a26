//! A request before it has an id.
//!
//! Promises: members that are given as JSON go out byte for byte, except that a line break between
//! tokens becomes a space (on stdio a line break ends the message).

use std::fmt::Write;

use bytes::Bytes;

use super::pending::Scope;
use crate::TraceContext;
use crate::connection::OnProgress;
use crate::link::Head;
use crate::text::quote;

/// Method, parameters, and what the link may know.
pub(crate) struct Request<'a> {
    method: &'static str,
    members: Vec<(&'static str, &'a str)>,
    /// The member of `params` that says what the request is about.
    subject: Option<(&'static str, &'a str)>,
    meta: Option<&'a str>,
    trace: Option<&'a TraceContext>,
    mirrored: Vec<(String, String)>,
    wants_progress: bool,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) scope: Option<Scope>,
    pub(super) standing: bool,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'static str) -> Self {
        Self {
            method,
            members: Vec::new(),
            subject: None,
            meta: None,
            trace: None,
            mirrored: Vec::new(),
            wants_progress: false,
            on_progress: None,
            scope: None,
            standing: false,
        }
    }

    /// A member of `params`, as JSON.
    pub(crate) fn member(mut self, name: &'static str, json: &'a str) -> Self {
        self.members.push((name, json));
        self
    }

    /// What it is about: the tool or prompt as `params.name`, the resource as `params.uri`.
    pub(crate) fn subject(mut self, member: &'static str, value: &'a str) -> Self {
        self.subject = Some((member, value));
        self
    }

    /// The task, which becomes `params.taskId`.
    pub(crate) fn task(mut self, id: &'a str) -> Self {
        self.subject = Some(("taskId", id));
        self
    }

    /// The call that questions of the server may belong to while this waits.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// It waits for as long as the connection lives: an answer that names no request is not its.
    pub(crate) fn standing(mut self) -> Self {
        self.standing = true;
        self
    }

    /// Members of `_meta` in place of the agreed ones, as JSON without braces.
    pub(crate) fn meta(mut self, members: &'a str) -> Self {
        self.meta = Some(members);
        self
    }

    /// Where it stands in a trace.
    pub(crate) fn trace(mut self, trace: Option<&'a TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    pub(crate) fn mirrored(mut self, headers: Vec<(String, String)>) -> Self {
        self.mirrored = headers;
        self
    }

    /// Asks for progress notifications.
    pub(crate) fn progress(mut self, on_progress: Option<OnProgress>) -> Self {
        self.wants_progress = true;
        self.on_progress = on_progress;
        self
    }

    /// MCP, "Cancellation": `initialize` must not be cancelled. `server/discover` is part of the
    /// same conversation, and an older server would not know what is meant.
    pub(super) fn cancellable(&self) -> bool {
        !matches!(self.method, "initialize" | "server/discover")
    }

    pub(super) fn into_head(self, id: u64) -> Head {
        Head {
            id,
            method: self.method,
            name: self.subject.map(|(_, value)| value.to_owned()),
            mirrored: self.mirrored,
            trace: self.trace.cloned(),
        }
    }

    pub(super) fn body(&self, id: u64, envelope: Option<&str>) -> Bytes {
        let size: usize = self.members.iter().map(|(_, json)| json.len() + 32).sum();
        let mut out = String::with_capacity(size + 512);
        let _ = write!(
            out,
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"{}\",\"params\":{{",
            self.method
        );
        let mut comma = "";
        if let Some((key, value)) = self.subject {
            let _ = write!(out, "\"{key}\":{}", quote(value));
            comma = ",";
        }
        for (name, json) in &self.members {
            let _ = write!(out, "{comma}\"{name}\":");
            push_on_one_line(&mut out, json);
            comma = ",";
        }
        let token = self
            .wants_progress
            .then(|| format!("\"progressToken\":\"{id}\""));
        let trace = self.trace.map(TraceContext::members);
        let parts = [self.meta.or(envelope), token.as_deref(), trace.as_deref()];
        let meta: Vec<&str> = parts
            .into_iter()
            .flatten()
            .filter(|members| !members.is_empty())
            .collect();
        if !meta.is_empty() {
            let _ = write!(out, "{comma}\"_meta\":{{{}}}", meta.join(","));
        }
        out.push_str("}}");
        out.into()
    }
}

/// JSON strings hold no raw line breaks, so those that are there stand between tokens.
fn push_on_one_line(out: &mut String, json: &str) {
    if json.contains(['\n', '\r']) {
        out.extend(
            json.chars()
                .map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }),
        );
    } else {
        out.push_str(json);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_digits_and_lose_their_line_breaks() {
        let arguments = "{\n  \"n\": 123456789012345678901234567890\r\n}";
        let request = Request::new("tools/call")
            .subject("name", "a \"b\"")
            .member("arguments", arguments)
            .progress(None);
        assert_eq!(
            request.body(7, None),
            "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"tools/call\",\"params\":{\"name\":\"a \\\"b\\\"\",\
             \"arguments\":{   \"n\": 123456789012345678901234567890  },\"_meta\":{\"progressToken\":\"7\"}}}"
        );
    }
}
