//! `prompts/get` and `resources/read`, of both eras.
//!
//! Promises: contents go on as their servers sent them; each fetch passes the host's rules and is
//! recorded there. Where a rule asks, those are asked that are configured for calls. A server may ask in
//! between, as in a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_connect::{CallError, ServerName};
use outrigger_host::Host;
use outrigger_host::offers::{ByHand, OfferError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::call::{Ended, Made};
use super::offers::{not_found, read};
use super::{Session, Task};
use crate::client::Meta;
use crate::message::{self, FAILED, Fault};
use crate::outlet::Reply;
use crate::tasks::Answers;

/// What a person can do where a rule asks and nobody answers.
const HOW_TO_ALLOW: &str = " The person who runs this gateway can allow it by a rule of its configuration, or let such \
    requests wait for them (`gateway.approvals`); a client that takes questions (elicitation) is asked.";

#[derive(Deserialize)]
struct Get {
    name: String,
    #[serde(default)]
    arguments: Option<BTreeMap<String, String>>,
    #[serde(rename = "inputResponses", default)]
    answers: Option<Answers>,
    #[serde(rename = "requestState", default)]
    state: Option<String>,
}

#[derive(Deserialize)]
struct Read {
    uri: String,
    #[serde(rename = "inputResponses", default)]
    answers: Option<Answers>,
    #[serde(rename = "requestState", default)]
    state: Option<String>,
}

/// What is to be fetched.
#[derive(Clone)]
enum Wanted {
    Prompt(ServerName, String, BTreeMap<String, String>),
    Resource(ServerName, String),
}

impl Session {
    /// A prompt or a resource.
    pub(super) async fn fetch(self: &Arc<Self>, task: &Task) -> Result<Option<Reply>, Fault> {
        let (subject, round, wanted) = if task.method == "prompts/get" {
            let Get {
                name,
                arguments,
                answers,
                state,
            } = read(task)?;
            let found = self.prompt(&name).await;
            let wanted = found
                .map(|(server, own)| Wanted::Prompt(server, own, arguments.unwrap_or_default()));
            let wanted =
                wanted.ok_or_else(|| Fault::params(format!("there is no prompt `{name}`")));
            (name, (state, answers), wanted)
        } else {
            let Read {
                uri,
                answers,
                state,
            } = read(task)?;
            let wanted = self
                .owner(&uri)
                .await
                .map(|server| Wanted::Resource(server, uri.clone()));
            let wanted = wanted.ok_or_else(|| not_found(task, &uri));
            (uri, (state, answers), wanted)
        };
        let mut made = match round {
            (Some(state), answers) if task.client.modern => {
                let answers = answers.unwrap_or_default();
                self.resume(task, (&task.method, &subject), (&state, answers))?
            }
            _ => self.begin_fetch(task, subject, wanted?).await?,
        };
        self.drive(task, &mut made).await
    }

    async fn begin_fetch(
        self: &Arc<Self>,
        task: &Task,
        subject: String,
        wanted: Wanted,
    ) -> Result<Made, Fault> {
        let core = &self.core;
        let (Wanted::Prompt(server, ..) | Wanted::Resource(server, _)) = &wanted;
        let slot = core.enter(Some(server), (&task.cancel, &self.pass)).await?;
        let progress = Meta::of(task.params.as_deref()).and_then(|meta| meta.progress);
        let (flight, asked) = self.flight(task, progress, false);
        let known = core.clients.enter(Arc::clone(&flight));
        let cancel = core.abort.child_token();
        let (done, ended) = oneshot::channel();
        let (host, given_up, pass) = (core.host(), cancel.clone(), self.pass().clone());
        core.tasks.spawn(async move {
            let by = ByHand {
                attended: false,
                client: Some(known.number),
                cancel: given_up,
                deadline: None,
                may_send: Some(Arc::new(move || !pass.is_over())),
            };
            let fetched = known.make(Box::pin(make(&host, &wanted, &by))).await;
            drop((known, slot));
            let _ = done.send(Ended::Fetch(fetched));
        });
        let subject = (task.method.clone(), subject);
        Ok(Made::new(subject, (flight, asked), ended, cancel))
    }
}

/// What came of a fetch.
pub(super) fn fetched(
    task: &Task,
    fetched: Result<Box<RawValue>, OfferError>,
) -> Result<Option<Reply>, Fault> {
    let raw = match fetched {
        Ok(raw) => raw,
        Err(
            OfferError::GivenUp { .. }
            | OfferError::Fetch {
                error: CallError::Cancelled,
                ..
            },
        ) => return Ok(None),
        Err(error) => return Err(fault(task, &error)),
    };
    if !task.client.modern {
        return Ok(Some(message::result(&task.id, raw.get())));
    }
    let cached = task.method == "resources/read";
    Ok(Some(message::result(
        &task.id,
        &of_the_modern_era(raw.get(), cached),
    )))
}

async fn make(host: &Host, wanted: &Wanted, by: &ByHand) -> Result<Box<RawValue>, OfferError> {
    match wanted {
        Wanted::Prompt(server, name, arguments) => {
            let prompt = host.get_prompt(server, name, arguments, by).await;
            prompt.map(|prompt| prompt.raw)
        }
        Wanted::Resource(server, uri) => {
            let resource = host.read_resource(server, uri, by).await;
            resource.map(|resource| resource.raw)
        }
    }
}

/// Why it was not fetched.
pub(super) fn fault(task: &Task, error: &OfferError) -> Fault {
    match error {
        OfferError::Fetch {
            error:
                CallError::Rpc {
                    code,
                    message,
                    data,
                },
            ..
        } => Fault {
            code: *code,
            message: message.clone(),
            data: data
                .as_ref()
                .and_then(|data| serde_json::from_str(data.get()).ok()),
        },
        OfferError::Malformed { what, reason } => {
            Fault::new(FAILED, format!("{what} cannot be read: {reason}"))
        }
        OfferError::NobodyToAsk { .. } => Fault::new(FAILED, format!("{error}.{HOW_TO_ALLOW}")),
        OfferError::BadAddress { uri, .. } => not_found(task, uri),
        OfferError::NoPrompt { .. }
        | OfferError::Arguments { .. }
        | OfferError::SetAside { .. } => Fault::params(error.to_string()),
        _ => Fault::new(FAILED, error.to_string()),
    }
}

/// Adds what the era requires of a result and an older server did not say.
fn of_the_modern_era(raw: &str, cached: bool) -> String {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "resultType", default)]
        kind: Option<IgnoredAny>,
        #[serde(rename = "ttlMs", default)]
        ttl: Option<IgnoredAny>,
        #[serde(rename = "cacheScope", default)]
        scope: Option<IgnoredAny>,
    }
    let (Ok(shape), Some(rest)) = (serde_json::from_str::<Shape>(raw), raw.strip_prefix('{'))
    else {
        return raw.to_owned();
    };
    let mut out = String::from("{");
    for (missing, member) in [
        (shape.kind.is_none(), "\"resultType\":\"complete\","),
        (cached && shape.ttl.is_none(), "\"ttlMs\":0,"),
        (
            cached && shape.scope.is_none(),
            "\"cacheScope\":\"private\",",
        ),
    ] {
        if missing {
            out.push_str(member);
        }
    }
    if rest.trim_start().starts_with('}') {
        out.truncate(out.trim_end_matches(',').len());
    }
    out + rest
}
