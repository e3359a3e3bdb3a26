//! Questions of policy and of servers, put to the client whose call they belong to.
//!
//! Promises: a client is asked only what it has said that it can be asked, and only about its own
//! calls; a question that may belong to several clients is put to none. A no, no answer by choice, and
//! nobody there are told apart.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outrigger_connect::{Asker, Elicitation, OnLogged, Refusal};
use outrigger_host::approve::{About, Answer, Approver};
use outrigger_host::hidden;
use outrigger_host::policy::OfferKind;
use outrigger_host::questions::{
    Completion, Passing, Questions, Respondent, Response, SamplingRequest,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::approval::{Approval, Approvers};
use crate::clients::Clients;
use crate::flight::Flight;

/// How long a question of policy waits for an answer.
const PATIENCE: Duration = Duration::from_mins(10);
/// Characters of arguments that are shown.
const SHOWN: usize = 4000;

impl Clients {
    /// Asks about what clients want.
    pub fn approver(&self, approvers: Approvers) -> Arc<dyn Approver> {
        Arc::new(Approval::new(self.clone(), approvers))
    }

    /// Puts servers' questions to the client whose call they belong to.
    pub fn questions(&self) -> Questions {
        let front = Arc::new(Front(self.clone()));
        let clients = self.clone();
        let logged: OnLogged = Arc::new(move |asker, params| {
            if let Some(flight) = asker.caller.and_then(|number| clients.flight(number)) {
                flight.logged(params);
            }
        });
        Questions {
            person: Some(front.clone()),
            passing: Some(front),
            logged: Some(logged),
            ..Questions::default()
        }
    }
}

/// What came of an elicitation.
#[derive(Deserialize)]
struct Elicited {
    action: String,
    #[serde(default)]
    content: Option<Box<RawValue>>,
}

/// Asks the client of a request to approve something.
pub(crate) async fn approve(flight: &Flight, words: &str) -> Answer {
    if !flight.client.can.form {
        return Answer::Nobody;
    }
    let params = json!({
        "message": words,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Is it allowed?",
                    "enum": ["approve", "decline"],
                },
            },
            "required": ["decision"],
        },
    });
    let asking = flight.ask("elicitation/create", params.to_string(), None);
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(answer)) => decided(&answer),
        Ok(Err(_)) | Err(_) => Answer::Nobody,
    }
}

/// What a client is asked.
pub(crate) fn words(about: About<'_>) -> String {
    match about {
        About::Call(question) => {
            let tool = question.tool;
            format!(
                "A call needs your approval: the tool `{}` of the server `{}`.\nArguments: {}\nRule: {}",
                visible(&tool.raw_name),
                visible(tool.server.as_str()),
                cut(question.arguments),
                visible(question.rule),
            )
        }
        About::Fetch(question) => {
            let arguments = match question.kind {
                OfferKind::Prompt => format!("\nArguments: {}", cut(question.arguments)),
                OfferKind::Resource => String::new(),
            };
            format!(
                "Something is to be read that needs your approval: the {} `{}` of the server `{}`.{arguments}\nRule: {}",
                question.kind.as_str(),
                cut(question.name),
                visible(question.server.as_str()),
                visible(question.rule),
            )
        }
    }
}

fn visible(text: &str) -> String {
    hidden::visible(text, |_| false).into_owned()
}

/// Its beginning, where it is long.
fn cut(text: &str) -> String {
    let mut shown = visible(text);
    let count = shown.chars().count();
    if count > SHOWN {
        shown = shown.chars().take(SHOWN).collect();
        let _ = write!(shown, "… ({count} characters in all)");
    }
    shown
}

/// Only a clear yes is one.
fn decided(answer: &RawValue) -> Answer {
    #[derive(Deserialize)]
    struct Content {
        decision: String,
    }
    let Ok(Elicited { action, content }) = serde_json::from_str(answer.get()) else {
        return Answer::Nobody;
    };
    let content = content.and_then(|raw| serde_json::from_str::<Content>(raw.get()).ok());
    match (
        action.as_str(),
        content.as_ref().map(|it| it.decision.as_str()),
    ) {
        ("accept", Some("approve")) => Answer::Once,
        ("accept" | "decline", _) => Answer::No { reason: None },
        // Programs without a person dismiss what they are asked.
        _ => Answer::Nobody,
    }
}

struct Front(Clients);

impl Front {
    fn flight(&self, asker: &Asker) -> Result<Arc<Flight>, String> {
        let flight = asker.caller.and_then(|number| self.0.flight(number));
        flight.ok_or_else(|| {
            "it is not known to which client's call the question belongs, so nobody is asked"
                .to_owned()
        })
    }
}

#[async_trait]
impl Respondent for Front {
    async fn elicit(&self, asker: &Asker, question: &Elicitation) -> Response {
        let flight = match self.flight(asker) {
            Ok(flight) => flight,
            Err(why) => return Response::Unanswered(why),
        };
        let can = flight.client.can;
        let from = |message: &str| format!("{}: {message}", asker.server);
        let (params, can) = match question {
            Elicitation::Form { message, schema } => {
                let message = outrigger_connect::wire::quote(&from(message));
                let params = format!("{{\"message\":{message},\"requestedSchema\":{schema}}}");
                (params, can.form)
            }
            Elicitation::Url { message, url, id } => {
                let id = id.clone().unwrap_or_else(|| url.clone());
                let params = json!({ "mode": "url", "message": from(message), "url": url, "elicitationId": id });
                (params.to_string(), can.url)
            }
        };
        if !can {
            flight.lacked("elicitation");
            let why = "the client that made the call does not take such questions";
            return Response::Unanswered(why.to_owned());
        }
        let answer = match flight
            .ask("elicitation/create", params, asker.name.as_deref())
            .await
        {
            Ok(answer) => answer,
            Err(why) => return Response::Unanswered(why),
        };
        match serde_json::from_str::<Elicited>(answer.get()) {
            Ok(elicited) => match elicited.action.as_str() {
                "accept" => Response::Yes(elicited.content),
                "decline" => Response::Declined,
                _ => Response::Dismissed,
            },
            Err(_) => Response::Unanswered("the client's answer cannot be read".to_owned()),
        }
    }

    // Servers' questions for a model are passed on, so these two are never asked.
    async fn may_sample(&self, _: &Asker, _: &SamplingRequest) -> Response {
        Response::Declined
    }

    async fn may_return(&self, _: &Asker, _: &Completion) -> Response {
        Response::Declined
    }

    fn is_one_person(&self) -> bool {
        false
    }
}

#[async_trait]
impl Passing for Front {
    async fn pass(
        &self,
        asker: &Asker,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, Refusal> {
        let flight = self.flight(asker).map_err(Refusal)?;
        let (method, can) = match method {
            "roots/list" => ("roots/list", ("roots", flight.client.can.roots)),
            _ => (
                "sampling/createMessage",
                ("sampling", flight.client.can.sampling),
            ),
        };
        let (capability, can) = can;
        if !can {
            flight.lacked(capability);
            return Err(Refusal(format!(
                "the client that made the call does not offer `{method}`"
            )));
        }
        let params = params.map_or("{}", RawValue::get).to_owned();
        let answer = flight.ask(method, params, asker.name.as_deref()).await;
        answer.map_err(Refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let read = |json: &str| decided(&RawValue::from_string(json.to_owned()).unwrap());
        let no = Answer::No { reason: None };
        for (json, answer) in [
            (
                r#"{"action":"accept","content":{"decision":"approve"}}"#,
                Answer::Once,
            ),
            (
                r#"{"action":"accept","content":{"decision":"decline"}}"#,
                no.clone(),
            ),
            (
                r#"{"action":"accept","content":{"decision":true}}"#,
                no.clone(),
            ),
            (r#"{"action":"accept"}"#, no.clone()),
            (r#"{"action":"decline"}"#, no),
            (r#"{"action":"cancel"}"#, Answer::Nobody),
            (r#"{"action":"approve"}"#, Answer::Nobody),
            ("[]", Answer::Nobody),
        ] {
            assert_eq!(read(json), answer, "{json}");
        }
    }
}
