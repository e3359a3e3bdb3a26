//! Where a request stands in a distributed trace, and how that travels.
//!
//! Source: W3C Trace Context; MCP, "General fields", `_meta` (SEP-414): `traceparent` and `tracestate`
//! stand in `_meta` without a prefix. Over HTTP the same pair is sent as headers.
//! Leaves out: making spans, and deciding whether there is a trace at all.

use std::fmt::{self, Write as _};

use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::quote;

/// Characters of a `tracestate` that are passed on. W3C Trace Context, 3.3.1.5, asks for 512.
const STATE_CHARACTERS: usize = 512;

/// A parent for whoever goes on with a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// `None` where `parent` is no `traceparent` (W3C Trace Context, 3.2). A `state` that cannot be
    /// passed on is left out.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        let parent = parent.trim();
        is_parent(parent).then(|| Self {
            parent: parent.to_owned(),
            state: state
                .map(str::trim)
                .filter(|state| is_state(state))
                .map(ToOwned::to_owned),
        })
    }

    /// For example `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// What each tracing system says about its own.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// What a server says in `_meta` of the parameters of its own request.
    pub(crate) fn of_params(params: Option<&RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            traceparent: String,
            #[serde(default)]
            tracestate: Option<String>,
        }
        let Params { meta } = serde_json::from_str(params?.get()).ok()?;
        Self::new(&meta.traceparent, meta.tracestate.as_deref())
    }

    /// Members of `_meta`, as JSON without braces.
    pub(crate) fn members(&self) -> String {
        let mut members = format!("\"traceparent\":{}", quote(&self.parent));
        if let Some(state) = &self.state {
            let _ = write!(members, ",\"tracestate\":{}", quote(state));
        }
        members
    }

    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        let pairs = [
            ("traceparent", Some(self.parent.as_str())),
            ("tracestate", self.state()),
        ];
        for (name, value) in pairs {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parent)
    }
}

/// `VERSION-TRACE-SPAN-FLAGS` in small hexadecimal digits; neither id is all zeros, and a version to
/// come may have more after the flags.
fn is_parent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let [version, trace, span, flags, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let ids = [(trace, 32), (span, 16)];
    hex(version, 2)
        && *version != "ff"
        && (*version != "00" || rest.is_empty())
        && text.len() <= STATE_CHARACTERS
        && text.is_ascii()
        && hex(flags, 2)
        && ids
            .iter()
            .all(|(id, length)| hex(id, *length) && id.bytes().any(|digit| digit != b'0'))
}

fn is_state(text: &str) -> bool {
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    !text.is_empty() && text.len() <= STATE_CHARACTERS && printable
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_no_parent_is_not_passed_on() {
        assert_eq!(TraceContext::new(PARENT, None).unwrap().parent(), PARENT);
        let later = format!("cc{}-more", &PARENT[2..]);
        assert!(TraceContext::new(&later, None).is_some());
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx: y",
        ] {
            assert_eq!(TraceContext::new(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_sent_is_left_out() {
        let state = |state: &str| {
            TraceContext::new(PARENT, Some(state))
                .unwrap()
                .state()
                .map(ToOwned::to_owned)
        };
        assert_eq!(state("a=1,b=2").as_deref(), Some("a=1,b=2"));
        assert_eq!(state("a=1\r\nb: c"), None);
        assert_eq!(state(&"a".repeat(513)), None);
    }

    #[test]
    fn a_question_may_say_where_it_stands() {
        let read = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            TraceContext::of_params(Some(&raw))
        };
        let said = format!("{{\"message\":\"?\",\"_meta\":{{\"traceparent\":\"{PARENT}\"}}}}");
        assert_eq!(read(&said), TraceContext::new(PARENT, None));
        assert_eq!(read("{\"_meta\":{\"traceparent\":7}}"), None);
        assert_eq!(read("{\"message\":\"?\"}"), None);
    }
}
