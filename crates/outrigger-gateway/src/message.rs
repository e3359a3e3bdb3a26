//! Messages as they are written: answers, errors, notifications, requests of this side.
//!
//! Promises: ids go back as they came; what is put in as JSON goes out byte for byte, on one line.
//! Source: JSON-RPC 2.0, sections 4 and 5; MCP 2026-07-28, "Errors".

use std::borrow::Cow;

use bytes::Bytes;
use outrigger_connect::wire::quote;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::outlet::Reply;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// An implementation's own: there is no room for another call.
pub(crate) const BUSY: i64 = -32000;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// JSON-RPC's "internal error".
pub(crate) const FAILED: i64 = -32603;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// An error of the protocol, for one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(crate) fn no_method(method: &str) -> Self {
        let mut shown: String = method.chars().take(80).collect();
        shown.retain(|c| !c.is_control());
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    /// As the answer to the request with this id; `null` where it is not known.
    pub(crate) fn reply(&self, id: Option<&RawValue>) -> Reply {
        let data = match &self.data {
            Some(data) => format!(",\"data\":{data}"),
            None => String::new(),
        };
        let error = format!(
            "{{\"code\":{},\"message\":{}{data}}}",
            self.code,
            quote(&self.message)
        );
        Reply {
            body: enveloped(id.unwrap_or(RawValue::NULL), "error", &error),
            code: Some(self.code),
        }
    }
}

/// The answer to a request; `result` is JSON on one line.
pub(crate) fn written(id: &RawValue, result: &str) -> Reply {
    Reply {
        body: joined(id, "result", result),
        code: None,
    }
}

/// The answer to a request; `result` is JSON.
pub(crate) fn result(id: &RawValue, result: &str) -> Reply {
    Reply {
        body: enveloped(id, "result", result),
        code: None,
    }
}

/// An error that somebody else gave, as it came.
pub(crate) fn passed_error(id: &RawValue, code: i64, error: &str) -> Reply {
    Reply {
        body: enveloped(id, "error", error),
        code: Some(code),
    }
}

fn enveloped(id: &RawValue, member: &str, json: &str) -> Bytes {
    joined(id, member, &one_line(json))
}

fn joined(id: &RawValue, member: &str, json: &str) -> Bytes {
    let id = id.get();
    let mut out = String::with_capacity(json.len() + id.len() + 40);
    for piece in [
        "{\"jsonrpc\":\"2.0\",\"id\":",
        id,
        ",\"",
        member,
        "\":",
        json,
        "}",
    ] {
        out.push_str(piece);
    }
    out.into()
}

/// A notification; `params` is a JSON object.
pub(crate) fn notification(method: &str, params: &str) -> Bytes {
    let params = one_line(params);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}").into()
}

/// A request of this side; `id` and `params` are JSON.
pub(crate) fn request(id: &str, method: &str, params: &str) -> Bytes {
    let params = one_line(params);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
        .into()
}

/// A JSON object with another member, which comes first; both as JSON.
pub(crate) fn with_member(object: &str, member: &str) -> String {
    let rest = object.strip_prefix('{').unwrap_or("}");
    let comma = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    format!("{{{member}{comma}{rest}")
}

/// JSON on one line. Its strings hold no raw line breaks, so those that are there stand between tokens.
pub(crate) fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) {
        Cow::Owned(json.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_back_as_they_came() {
        for id in ["\"str-7\"", "9007199254740993", "-1", "1.0"] {
            let raw = RawValue::from_string(id.to_owned()).unwrap();
            let reply = result(&raw, "{\n \"a\":\r\n1}");
            let text = String::from_utf8(reply.body.to_vec()).unwrap();
            assert_eq!(
                text,
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{  \"a\":  1}}}}")
            );
        }
        let fault = Fault::no_method("a\"\nb").reply(None);
        assert_eq!(
            fault.body,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found: a\"b"}}"#
        );
    }
}
