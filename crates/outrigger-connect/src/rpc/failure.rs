//! Why a request has no result, before anybody has said what the request was for.
//!
//! Promises: what is known about its effect is kept apart from the words.
//! Leaves out: the words of each caller; see the conversions.

use serde_json::value::RawValue;

use crate::{CallError, ListError};

/// The end of a request without a result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Nothing of it left the process.
    NotSent(String),
    /// It left, and the connection ended.
    Closed(String),
    /// A JSON-RPC error.
    Rpc(RpcError),
    /// An answer that cannot be used.
    Malformed(String),
    /// An HTTP answer that is not MCP.
    Http(HttpAnswer),
    /// The server does not know our session; it did not look at the request.
    SessionLost(HttpAnswer),
}

#[derive(Debug, Clone)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Box<RawValue>>,
}

/// What an HTTP answer was, in words and in facts.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Status, content type and first words of the body, for a person.
    pub(crate) message: String,
    /// The whole beginning of the body, for a look at version numbers.
    pub(crate) body: String,
    /// The answer was a redirect that is not followed.
    pub(crate) redirect: bool,
    /// What a person could do about it, where that is known.
    pub(crate) hint: Option<String>,
    /// No token could be got: the message stands for itself, and there may have been no answer.
    pub(crate) no_token: bool,
}

impl HttpAnswer {
    /// Whether the status says that the request was turned away before anything ran (RFC 9110,
    /// section 15.5, and RFC 6585). 400, 409 and 422 are often sent by the application itself.
    pub(crate) fn refused(&self) -> bool {
        self.redirect
            || matches!(
                self.status,
                401 | 403
                    | 404
                    | 405
                    | 406
                    | 411
                    | 413
                    | 414
                    | 415
                    | 417
                    | 421
                    | 426
                    | 428
                    | 429
                    | 431
            )
    }

    pub(crate) fn wants_credentials(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    /// Whether nothing will be answered until somebody signs in or gives another token. A 403 is
    /// about one request, and a token that could not be renewed just now may be had later.
    pub(crate) fn wants_sign_in(&self) -> bool {
        self.status == 401 && !(self.no_token && self.hint.is_none())
    }

    /// The message, with the hint for those who are shown nothing else.
    fn into_words(self) -> String {
        match self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message,
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(why) => Self::NotSent(why),
            Failure::Closed(why) => Self::Closed(why),
            Failure::Rpc(RpcError {
                code,
                message,
                data,
            }) => Self::Rpc {
                code,
                message,
                data,
            },
            Failure::Malformed(why) => Self::Malformed(why),
            Failure::Http(answer) | Failure::SessionLost(answer) => {
                let refused = answer.refused();
                Self::Http {
                    status: answer.status,
                    refused,
                    message: answer.into_words(),
                }
            }
        }
    }
}

impl Failure {
    /// As the end of a listing.
    pub(crate) fn of_listing(self, method: &'static str) -> ListError {
        match self {
            Self::NotSent(why) | Self::Closed(why) => ListError::Closed(why),
            Self::Rpc(RpcError { code, message, .. }) => ListError::Rpc {
                method,
                code,
                message,
            },
            Self::Malformed(reason) => ListError::Malformed { method, reason },
            Self::Http(answer) | Self::SessionLost(answer) => ListError::Http {
                method,
                status: answer.status,
                message: answer.into_words(),
            },
        }
    }
}
