//! Reading events back.
//!
//! Serde reads a tagged enum through a buffer that cannot carry the exact text of a JSON value, so
//! the four events that hold one are read directly.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{CallRef, Event, HandedArtifact, Kept, OutcomeKind};
use crate::ArtifactRef;

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(rename = "type", borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct CallPrepared {
    call: u32,
    server: String,
    raw_tool: String,
    arguments: Box<RawValue>,
    repairs: Vec<String>,
    #[serde(default)]
    artifacts: Vec<HandedArtifact>,
}

#[derive(Deserialize)]
struct CallEnded {
    call: u32,
    outcome: OutcomeKind,
    is_error: bool,
    summary: String,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    kept: Option<Kept>,
    #[serde(default)]
    artifacts: Vec<ArtifactRef>,
    tokens: u64,
    took_ms: u64,
}

#[derive(Deserialize)]
struct LateAnswer {
    call: u32,
    outcome: OutcomeKind,
    summary: String,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    kept: Option<Kept>,
}

#[derive(Deserialize)]
struct MessageAdded {
    turn: u32,
    message: Box<RawValue>,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    makes_known: Vec<CallRef>,
}

impl From<MessageAdded> for Event {
    fn from(read: MessageAdded) -> Self {
        let MessageAdded {
            turn,
            message,
            origins,
            makes_known,
        } = read;
        Self::MessageAdded {
            turn,
            message,
            origins,
            makes_known,
        }
    }
}

impl From<CallPrepared> for Event {
    fn from(read: CallPrepared) -> Self {
        let CallPrepared {
            call,
            server,
            raw_tool,
            arguments,
            repairs,
            artifacts,
        } = read;
        Self::CallPrepared {
            call,
            server,
            raw_tool,
            arguments,
            repairs,
            artifacts,
        }
    }
}

impl From<CallEnded> for Event {
    fn from(read: CallEnded) -> Self {
        let CallEnded {
            call,
            outcome,
            is_error,
            summary,
            result,
            kept,
            artifacts,
            tokens,
            took_ms,
        } = read;
        Self::CallEnded {
            call,
            outcome,
            is_error,
            summary,
            result,
            kept,
            artifacts,
            tokens,
            took_ms,
        }
    }
}

impl From<LateAnswer> for Event {
    fn from(read: LateAnswer) -> Self {
        let LateAnswer {
            call,
            outcome,
            summary,
            result,
            kept,
        } = read;
        Self::LateAnswer {
            call,
            outcome,
            summary,
            result,
            kept,
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let read = serde_json::from_str::<Tag>(raw.get()).and_then(|tag| match &*tag.name {
            "call_prepared" => serde_json::from_str::<CallPrepared>(raw.get()).map(Into::into),
            "call_ended" => serde_json::from_str::<CallEnded>(raw.get()).map(Into::into),
            "message_added" => serde_json::from_str::<MessageAdded>(raw.get()).map(Into::into),
            "late_answer" => serde_json::from_str::<LateAnswer>(raw.get()).map(Into::into),
            _ => Self::deserialize(&mut serde_json::Deserializer::from_str(raw.get())),
        });
        read.map_err(D::Error::custom)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_keep_their_exact_text() {
        for text in [
            r#"{"type":"call_prepared","call":1,"server":"s","raw_tool":"t","arguments":{"b":1.50,"a":123456789012345678901234567890},"repairs":[]}"#,
            r#"{"type":"call_ended","call":1,"outcome":"completed","is_error":false,"summary":"","result":{"x": [1e400]},"tokens":0,"took_ms":0}"#,
            r#"{"type":"call_ended","call":1,"outcome":"not_sent","is_error":false,"summary":"","tokens":0,"took_ms":0}"#,
            r#"{"type":"late_answer","call":1,"outcome":"completed","summary":"","result":" \u0000"}"#,
            r#"{"type":"late_answer","call":1,"outcome":"completed","summary":"","kept":{"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","bytes":0}}"#,
            r#"{"type":"message_added","turn":2,"message":{"role":"user","n":1.50},"origins":["s"],"makes_known":[{"run":"20261130-103302-1a2b","call":3}]}"#,
            r#"{"type":"call_proposed","call":1,"tool":"t","arguments":"not json"}"#,
            r#"{"type":"run_ended","status":"done","usage":{"input":1,"cached":0,"output":2}}"#,
        ] {
            let event: Event = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
    }

    #[test]
    fn an_unknown_event_is_named() {
        let error = serde_json::from_str::<Event>(r#"{"type":"from_tomorrow"}"#).unwrap_err();
        assert!(error.to_string().contains("from_tomorrow"), "{error}");
    }
}
