//! Tells one login from the next, so that whoever waits for a person to sign in sees it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::OAuth;
use super::flow::Flow;
use crate::HttpSpec;

/// Stands for the token that is kept for a server. It says nothing about it, and means nothing to
/// another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginMark(u64);

impl OAuth {
    /// The mark of the token that is kept now; `None`: there is none, or it cannot be read.
    pub(crate) async fn mark(&self, spec: &HttpSpec) -> Option<LoginMark> {
        let kept = Flow::new(self, spec).load_last().await.ok()??;
        let mut hasher = DefaultHasher::new();
        kept.access_token.reveal().hash(&mut hasher);
        Some(LoginMark(hasher.finish()))
    }
}
