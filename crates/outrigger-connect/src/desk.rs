//! Where a server's questions are answered: parsed, bounded, handed to who answers.
//!
//! Promises: each question ends, with an answer or with a [`Declined`] that says why.
//! Leaves out: how a question came (as a request, or in a result) and how the answer travels.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::Seconds;
use crate::handlers::{Asker, Elicitation, ElicitationAnswer, Handlers};
use crate::text::{excerpt, quote};
use crate::{ServerName, TraceContext};

/// Bytes of one question, and of all questions of one answer.
pub(crate) const QUESTION_BYTES: usize = 1 << 20;

/// Questions that one call may ask.
pub(crate) const QUESTIONS: u32 = 16;

/// Refusals that are told; whoever asks more often is only refused.
const TOLD: u32 = 64;

pub(crate) const ELICIT: &str = "elicitation/create";
pub(crate) const SAMPLE: &str = "sampling/createMessage";
pub(crate) const ROOTS: &str = "roots/list";

/// Answers for one server.
#[derive(Debug)]
pub(crate) struct Desk {
    server: ServerName,
    handlers: Handlers,
    /// How long one answer may take.
    patience: Duration,
    /// Refusals that were told.
    told: AtomicU32,
}

/// Why a question has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    NotOffered(String),
    Invalid(String),
    Refused(String),
}

impl Declined {
    /// JSON-RPC code: 2.0, section 5.1, and -1 as MCP, "Sampling", has it for a refusal.
    pub(crate) fn code(&self) -> i64 {
        match self {
            Self::NotOffered(_) => -32601,
            Self::Invalid(_) => -32602,
            Self::Refused(_) => -1,
        }
    }

    pub(crate) fn words(&self) -> &str {
        let (Self::NotOffered(words) | Self::Invalid(words) | Self::Refused(words)) = self;
        words
    }
}

impl Desk {
    pub(crate) fn new(server: ServerName, handlers: Handlers, patience: Duration) -> Self {
        Self {
            server,
            handlers,
            patience,
            told: AtomicU32::new(0),
        }
    }

    pub(crate) fn server(&self) -> &ServerName {
        &self.server
    }

    /// Whether somebody answers this method.
    pub(crate) fn offers(&self, method: &str) -> bool {
        match method {
            ELICIT => self.handlers.elicitation.is_some(),
            SAMPLE => self.handlers.sampling.is_some(),
            ROOTS => self.handlers.roots.is_some(),
            _ => false,
        }
    }

    /// Tells of a question that reaches no handler.
    pub(crate) fn refused(&self, asker: &Asker, method: &str, why: &Declined) {
        if let Some(tell) = &self.handlers.refused
            && self.told.fetch_add(1, Ordering::Relaxed) < TOLD
        {
            tell(asker, &excerpt(method.as_bytes(), 80), why.words());
        }
    }

    /// Whether somebody wants to know what servers log.
    pub(crate) fn hears_logs(&self) -> bool {
        self.handlers.logged.is_some()
    }

    /// Tells of a log message.
    pub(crate) fn logged(&self, asker: &Asker, params: &RawValue) {
        if let Some(tell) = &self.handlers.logged {
            tell(asker, params);
        }
    }

    /// The answer's result as JSON. Dropping the future gives the question up.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: Option<&RawValue>,
        mut asker: Asker,
    ) -> Result<String, Declined> {
        if params.is_some_and(|params| params.get().len() > QUESTION_BYTES) {
            let words = format!("the parameters are larger than {QUESTION_BYTES} bytes");
            let declined = Declined::Invalid(words);
            self.refused(&asker, method, &declined);
            return Err(declined);
        }
        asker.trace = TraceContext::of_params(params);
        let _over = asker.cancel.clone().drop_guard();
        let asking = self.ask(method, params, asker.clone());
        let answer = tokio::time::timeout(self.patience, asking).await;
        let answer = answer.unwrap_or_else(|_| {
            let after = Seconds(self.patience);
            Err(Declined::Refused(format!("nobody answered within {after}")))
        });
        if let Err(declined @ (Declined::Invalid(_) | Declined::NotOffered(_))) = &answer {
            self.refused(&asker, method, declined);
        }
        answer
    }

    async fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
        asker: Asker,
    ) -> Result<String, Declined> {
        let refused = |refusal: crate::Refusal| Declined::Refused(refusal.0);
        match (method, &self.handlers) {
            (
                ELICIT,
                Handlers {
                    elicitation: Some(handler),
                    ..
                },
            ) => {
                let question = elicitation(params)?;
                if matches!(question, Elicitation::Url { .. }) && !handler.takes_addresses() {
                    return Err(Declined::Invalid(
                        "this client does not offer elicitation by URL".to_owned(),
                    ));
                }
                let answer = handler.elicit(asker, question).await.map_err(refused)?;
                Ok(match answer {
                    ElicitationAnswer::Accept(Some(content)) => {
                        format!("{{\"action\":\"accept\",\"content\":{content}}}")
                    }
                    ElicitationAnswer::Accept(None) => "{\"action\":\"accept\"}".to_owned(),
                    ElicitationAnswer::Decline => "{\"action\":\"decline\"}".to_owned(),
                    ElicitationAnswer::Cancel => "{\"action\":\"cancel\"}".to_owned(),
                })
            }
            (
                SAMPLE,
                Handlers {
                    sampling: Some(handler),
                    ..
                },
            ) => {
                let params = params.ok_or_else(|| no_params(SAMPLE))?.to_owned();
                let answer = handler.sample(asker, params).await.map_err(refused)?;
                Ok(answer.get().to_owned())
            }
            (
                ROOTS,
                Handlers {
                    roots: Some(handler),
                    ..
                },
            ) => {
                let roots = handler.roots(asker).await.map_err(refused)?;
                let roots = roots.iter().map(|root| match &root.name {
                    Some(name) => json!({ "uri": root.uri, "name": name }),
                    None => json!({ "uri": root.uri }),
                });
                Ok(json!({ "roots": roots.collect::<Vec<_>>() }).to_string())
            }
            _ => Err(not_offered(method)),
        }
    }
}

pub(crate) fn not_offered(method: &str) -> Declined {
    Declined::NotOffered(format!(
        "this client does not offer `{}`",
        excerpt(method.as_bytes(), 80)
    ))
}

fn no_params(method: &str) -> Declined {
    Declined::Invalid(format!("`{method}` has no `params`"))
}

fn elicitation(params: Option<&RawValue>) -> Result<Elicitation, Declined> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        mode: Option<String>,
        message: String,
        #[serde(rename = "requestedSchema", default)]
        schema: Option<Box<RawValue>>,
        #[serde(default)]
        url: Option<String>,
        #[serde(rename = "elicitationId", default)]
        id: Option<String>,
    }
    let params = params.ok_or_else(|| no_params(ELICIT))?;
    let Shape {
        mode,
        message,
        schema,
        url,
        id,
    } = serde_json::from_str(params.get()).map_err(|error| {
        Declined::Invalid(format!(
            "the parameters of `{ELICIT}` cannot be used: {error}"
        ))
    })?;
    match (mode.as_deref(), schema, url) {
        (None | Some("form"), Some(schema), _) => Ok(Elicitation::Form { message, schema }),
        (None | Some("form"), None, _) => {
            Err(Declined::Invalid("`requestedSchema` is missing".to_owned()))
        }
        (Some("url"), _, Some(url)) => Ok(Elicitation::Url { message, url, id }),
        (Some("url"), _, None) => Err(Declined::Invalid("`url` is missing".to_owned())),
        (Some(mode), ..) => Err(Declined::Invalid(format!(
            "`mode` is neither \"form\" nor \"url\": {}",
            quote(&excerpt(mode.as_bytes(), 40))
        ))),
    }
}
