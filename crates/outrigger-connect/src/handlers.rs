//! What a server may ask of the side that connects to it, and who answers.
//!
//! Promises: a capability is declared only for a handler that is there; a handler is asked a bounded
//! number of times per call, with bounded questions, for a bounded time, and is dropped when what the
//! question belongs to has ended. Leaves out: policy, and whether a person or a model answers.
//! Source: MCP, "Elicitation", "Sampling" and "Roots", in both eras.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{ServerName, TraceContext};

/// Who answers a server's questions; what is `None` is not offered to servers.
#[derive(Clone, Default)]
pub struct Handlers {
    /// Asks a person.
    pub elicitation: Option<Arc<dyn ElicitationHandler>>,
    /// Asks a model.
    pub sampling: Option<Arc<dyn SamplingHandler>>,
    /// Names the folders that a server may work in.
    pub roots: Option<Arc<dyn RootsHandler>>,
    /// Told of questions that reach no handler.
    pub refused: Option<OnRefused>,
    /// Told of log messages of servers.
    pub logged: Option<OnLogged>,
}

/// Told of each log message (`notifications/message`) that is within the rate: its parameters as they
/// came, and on what occasion. It must return quickly.
pub type OnLogged = Arc<dyn Fn(&Asker, &RawValue) + Send + Sync>;

/// Told of a question that was refused before anybody was asked: who asked, the method as the server
/// wrote it, and the words of the refusal. It must return quickly. A bounded number of times in the
/// life of a connection.
pub type OnRefused = Arc<dyn Fn(&Asker, &str, &str) + Send + Sync>;

/// Who asks, and on what occasion.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The server, by its configured name.
    pub server: ServerName,
    /// The tool whose call the question belongs to; `None` where that is not known.
    pub tool: Option<String>,
    /// What the server calls the question, where it asks in a result.
    pub name: Option<String>,
    /// Who makes that call ([`CallOptions::caller`](crate::CallOptions)); `None` where it is not known,
    /// or may be one of several.
    pub caller: Option<u64>,
    /// Where in a trace the server says that the question stands.
    pub trace: Option<TraceContext>,
    /// Cancelled when nobody waits for the answer any more. The handler's future is dropped then as
    /// well; this is for what it has handed on.
    pub cancel: CancellationToken,
}

/// A question to a person. All of it is the server's own words.
#[derive(Debug, Clone)]
pub enum Elicitation {
    /// Values to fill in.
    Form {
        /// What is wanted, and why.
        message: String,
        /// A JSON Schema: an object of strings, numbers, booleans and choices.
        schema: Box<RawValue>,
    },
    /// A page to visit, outside of this program.
    Url {
        /// What is wanted, and why.
        message: String,
        /// The address. It has not been looked at.
        url: String,
        /// The server's name for this question.
        id: Option<String>,
    },
}

/// What a person answered.
#[derive(Debug, Clone)]
pub enum ElicitationAnswer {
    /// The values of a form, as a JSON object; `None` for an address that will be visited.
    Accept(Option<Box<RawValue>>),
    /// The person said no.
    Decline,
    /// The person gave no answer.
    Cancel,
}

/// A folder that a server may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file:` address.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

/// A question that is not answered, and why, worded for the server.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Answers `elicitation/create`.
pub trait ElicitationHandler: Send + Sync {
    /// Asks, and waits for the answer.
    fn elicit(
        &self,
        asker: Asker,
        question: Elicitation,
    ) -> BoxFuture<'static, Result<ElicitationAnswer, Refusal>>;

    /// Whether [`Elicitation::Url`] may be asked.
    fn takes_addresses(&self) -> bool {
        false
    }
}

/// Answers `sampling/createMessage`.
pub trait SamplingHandler: Send + Sync {
    /// `params` as they came; the answer is a `CreateMessageResult`.
    fn sample(
        &self,
        asker: Asker,
        params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Refusal>>;
}

/// Answers `roots/list`.
pub trait RootsHandler: Send + Sync {
    /// The folders, in order of importance.
    fn roots(&self, asker: Asker) -> BoxFuture<'static, Result<Vec<Root>, Refusal>>;
}

impl Elicitation {
    /// The values that a form's schema gives for what is left open (MCP, "Elicitation", `default`).
    pub fn defaults(&self) -> Map<String, Value> {
        let Self::Form { schema, .. } = self else {
            return Map::new();
        };
        let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
            .collect()
    }
}

impl Handlers {
    /// The members of `capabilities` that both eras share, as JSON without braces.
    pub(crate) fn capabilities(&self) -> String {
        let mut members = Vec::new();
        if let Some(elicitation) = &self.elicitation {
            let url = if elicitation.takes_addresses() {
                ",\"url\":{}"
            } else {
                ""
            };
            members.push(format!("\"elicitation\":{{\"form\":{{}}{url}}}"));
        }
        if self.sampling.is_some() {
            members.push("\"sampling\":{}".to_owned());
        }
        if self.roots.is_some() {
            members.push("\"roots\":{}".to_owned());
        }
        members.join(",")
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handlers({})", self.capabilities())
    }
}
