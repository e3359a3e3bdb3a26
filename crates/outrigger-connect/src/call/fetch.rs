//! `prompts/get`, `resources/read` and `completion/complete`.
//!
//! Promises: the first two are sent, cancelled and timed as a call is, and a server may ask in between
//! as in a call; a completion is a quick question, whose answer is bounded.
//! Source: MCP, "Prompts", "Resources" and "Completion".

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Wanted;
use crate::connection::{CallOptions, Connection};
use crate::rpc::Request;
use crate::text::excerpt;
use crate::{CallError, ListError};

const COMPLETE: &str = "completion/complete";
/// A person waits for the key to answer.
const COMPLETE_WITHIN: Duration = Duration::from_secs(3);
/// Values of one answer (MCP, "Completion Results"), and bytes of one of them.
const VALUES: usize = 100;
const VALUE_BYTES: usize = 4096;

/// What an argument that is to be completed belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(&'a str),
    /// A template of resources, as it is listed.
    Template(&'a str),
}

/// What a server would complete an argument to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completions {
    /// Values, best first; at most 100.
    pub values: Vec<String>,
    /// The server has more.
    pub more: bool,
}

impl Connection {
    /// The messages of a prompt, as they came. `arguments`: a JSON object of strings.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &RawValue,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let wanted = Wanted {
            method: "prompts/get",
            subject: ("name", name),
            arguments: Some(arguments.get()).filter(|arguments| *arguments != "{}"),
        };
        self.inner.make(wanted, options).await
    }

    /// The contents of a resource, as they came.
    pub async fn read_resource(
        &self,
        uri: &str,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let wanted = Wanted {
            method: "resources/read",
            subject: ("uri", uri),
            arguments: None,
        };
        self.inner.make(wanted, options).await
    }

    /// Whether the server says that it has prompts, resources or templates; one that says nothing at
    /// all may have everything.
    pub fn declares(&self, offer: crate::Offer) -> bool {
        self.inner.declares(offer.capability())
    }

    /// What an argument that begins like this may become, with those that are `given` already.
    /// `None`: the server does not declare that it completes, and was not asked.
    pub async fn complete(
        &self,
        reference: Reference<'_>,
        (argument, begun): (&str, &str),
        given: &BTreeMap<String, String>,
    ) -> Result<Option<Completions>, ListError> {
        if !self.inner.offers("completions") {
            return Ok(None);
        }
        let reference = match reference {
            Reference::Prompt(name) => json!({ "type": "ref/prompt", "name": name }),
            Reference::Template(uri) => json!({ "type": "ref/resource", "uri": uri }),
        };
        let reference = reference.to_string();
        let argument = json!({ "name": argument, "value": begun }).to_string();
        let context = json!({ "arguments": given }).to_string();
        let request = || {
            let request = Request::new(COMPLETE)
                .member("ref", &reference)
                .member("argument", &argument);
            if given.is_empty() {
                request
            } else {
                request.member("context", &context)
            }
        };
        let limit = COMPLETE_WITHIN.min(self.inner.deadlines.list);
        let answer = self.inner.ask(COMPLETE, request, Instant::now() + limit);
        read(&answer.await?).map(Some)
    }
}

fn read(answer: &RawValue) -> Result<Completions, ListError> {
    #[derive(Deserialize)]
    struct Answer {
        completion: Shape,
    }
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        values: Vec<String>,
        #[serde(rename = "hasMore", default)]
        more: Option<bool>,
    }
    let answer: Answer =
        serde_json::from_str(answer.get()).map_err(|error| ListError::Malformed {
            method: COMPLETE,
            reason: format!("{error}: {}", excerpt(answer.get().as_bytes(), 120)),
        })?;
    let Shape { mut values, more } = answer.completion;
    let cut = values.len() > VALUES;
    values.truncate(VALUES);
    values.retain(|value| value.len() <= VALUE_BYTES);
    Ok(Completions {
        values,
        more: cut || more == Some(true),
    })
}
