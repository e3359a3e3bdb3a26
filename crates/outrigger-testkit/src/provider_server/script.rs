//! What a scripted model says, and what goes wrong while it says it.
//!
//! The same types are built in code and read from a JSON file; unknown keys are errors.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecordedRequest;

/// Turns in the order in which they are given out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// One for each request.
    pub turns: Vec<Turn>,
}

impl Script {
    /// A script of these turns.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            turns: turns.into_iter().collect(),
        }
    }

    pub(super) fn into_queue(self) -> VecDeque<Turn> {
        let copies = |turn: Turn| {
            let times = turn.times.unwrap_or(1);
            std::iter::repeat_n(turn, usize::try_from(times).unwrap_or(usize::MAX))
        };
        self.turns.into_iter().flat_map(copies).collect()
    }
}

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Streamed before the text. Signed or encrypted where the protocol does that.
    pub reasoning: Option<String>,
    /// `${result.N}` stands for the N-th tool result (from 0) of the request, `${question}` for
    /// the last thing the person said; also in the arguments of calls.
    pub text: Option<String>,
    /// Queries for the provider's own search of tools, before text and calls. It finds what the request
    /// has of deferred tools. Only for the protocols that have one.
    pub searches: Vec<String>,
    /// Calls, all in this one turn.
    pub calls: Vec<ScriptedCall>,
    /// Tokens, as reported to the client.
    pub usage: ScriptedUsage,
    /// Why it stops.
    pub stop: Stop,
    /// What goes wrong.
    pub trouble: Option<Trouble>,
    /// How the bytes travel.
    pub delivery: Delivery,
    /// How many requests get this turn; 1 when not given.
    pub times: Option<u32>,
}

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool, by the name the model sees.
    pub name: String,
    /// An object, or a text that is sent as it is, even if it is not JSON.
    #[serde(default)]
    pub arguments: Value,
}

impl ScriptedCall {
    /// The arguments as the model writes them.
    pub(super) fn written(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            value => value.to_string(),
        }
    }
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    /// Read, cached ones included.
    pub input: u64,
    /// Of those, out of a cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self {
            input: 100,
            cached: 0,
            output: 10,
        }
    }
}

/// Why a turn stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It is done, or wants its tools.
    #[default]
    Done,
    /// The output limit.
    Length,
    /// The provider refused.
    Refused,
    /// The provider paused, and wants to go on; only Anthropic does.
    Paused,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Trouble {
    /// An error instead of a stream, in the protocol's own shape.
    Status {
        /// For example 429.
        status: u16,
        /// The provider's words.
        message: String,
        /// For example `retry-after`.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
    /// Any body at all.
    Body {
        /// For example 200.
        status: u16,
        /// Empty: no content type.
        content_type: String,
        /// The body.
        body: String,
    },
    /// An error event after what the turn says, where its end would be.
    InStream {
        /// Which one.
        error: StreamError,
        /// The provider's words.
        message: String,
    },
}

/// Errors that arrive inside a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamError {
    /// Too much to do.
    Overloaded,
    /// A 429 that came too late for a status.
    RateLimited,
}

/// How the bytes of an answer travel. All positions are bytes of the body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// Cut into pieces here. Empty, and no `every`: one piece for each event.
    pub split_at: Vec<usize>,
    /// Cut into pieces of this many bytes.
    pub every: Option<usize>,
    /// Wait between two pieces, in milliseconds.
    pub pause_ms: u64,
    /// Close the connection here, in the middle of the answer.
    pub cut_at: Option<usize>,
    /// Send nothing more from here on, and keep the connection open.
    pub stall_at: Option<usize>,
}

impl Turn {
    /// A turn that says this.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A turn that asks for these calls, all at once.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let call = |(name, arguments): (&str, Value)| ScriptedCall {
            name: name.to_owned(),
            arguments,
        };
        Self {
            calls: calls.into_iter().map(call).collect(),
            ..Self::default()
        }
    }

    /// An error instead of a turn.
    pub fn status(status: u16, message: impl Into<String>) -> Self {
        let trouble = Trouble::Status {
            status,
            message: message.into(),
            headers: BTreeMap::new(),
        };
        Self {
            trouble: Some(trouble),
            ..Self::default()
        }
    }

    /// A body that is no turn.
    pub fn body(status: u16, content_type: &str, body: &str) -> Self {
        let (content_type, body) = (content_type.to_owned(), body.to_owned());
        Self {
            trouble: Some(Trouble::Body {
                status,
                content_type,
                body,
            }),
            ..Self::default()
        }
    }

    /// With reasoning before the text.
    #[must_use]
    pub fn reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// With these searches of the provider's own before text and calls.
    #[must_use]
    pub fn searching<'a>(mut self, queries: impl IntoIterator<Item = &'a str>) -> Self {
        self.searches = queries.into_iter().map(str::to_owned).collect();
        self
    }

    /// With these token counts.
    #[must_use]
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = ScriptedUsage {
            input,
            cached,
            output,
        };
        self
    }

    /// Stopping for this reason.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Given out this many times.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// With an error where its end would be.
    #[must_use]
    pub fn then_error(mut self, error: StreamError, message: impl Into<String>) -> Self {
        self.trouble = Some(Trouble::InStream {
            error,
            message: message.into(),
        });
        self
    }

    /// With a header; only for [`Turn::status`].
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        if let Some(Trouble::Status { headers, .. }) = &mut self.trouble {
            headers.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Travelling like this.
    #[must_use]
    pub fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// With the placeholders filled from `request`.
    pub(super) fn filled(mut self, request: &RecordedRequest) -> Self {
        let results = request.results();
        let question = request.question().unwrap_or_default();
        let fill = |text: &str| {
            let text = text.replace("${question}", &question);
            results
                .iter()
                .enumerate()
                .fold(text, |text, (index, result)| {
                    text.replace(&format!("${{result.{index}}}"), result)
                })
        };
        self.text = self.text.as_deref().map(fill);
        for call in &mut self.calls {
            fill_value(&mut call.arguments, &fill);
        }
        self
    }
}

fn fill_value(value: &mut Value, fill: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = fill(text),
        Value::Array(values) => values.iter_mut().for_each(|value| fill_value(value, fill)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| fill_value(value, fill)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_json_and_unknown_keys_are_errors() {
        let script: Script = serde_json::from_str(
            r#"{ "turns": [
                { "calls": [{ "name": "t", "arguments": { "a": "${question}" } }], "usage": { "input": 5 } },
                { "trouble": { "status": { "status": 429, "message": "slow", "headers": { "retry-after": "1" } } }, "times": 2 },
                { "text": "bye", "delivery": { "cut_at": 9 }, "stop": "length" }
            ] }"#,
        )
        .unwrap();
        assert_eq!(
            script.turns[0].usage,
            ScriptedUsage {
                input: 5,
                cached: 0,
                output: 10
            }
        );
        assert_eq!(
            script.turns[1],
            Turn::status(429, "slow")
                .header("retry-after", "1")
                .times(2)
        );
        assert_eq!(script.into_queue().len(), 4);
        let error = serde_json::from_str::<Script>(r#"{ "turns": [{ "txt": "a" }] }"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `txt`"), "{error}");
    }
}
