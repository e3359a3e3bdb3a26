//! Following a resource: `resources/subscribe` in the legacy era, a member of `subscriptions/listen` in
//! the modern one.
//!
//! Promises: after `Ok` the server has said that it will tell; a new session is told of what was
//! followed in the one before.
//! Source: MCP, "Subscriptions" of resources, and 2026-07-28, "Subscriptions" (SEP-2575).

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use crate::connection::{Connection, Era, Inner, left};
use crate::rpc::{Request, Updates};
use crate::{ListError, text};

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const LISTEN: &str = "subscriptions/listen";
/// Resources that one connection follows.
const FOLLOWED: usize = 256;

impl Connection {
    /// Whether the server says that it tells of updated resources.
    pub fn tells_of_updates(&self) -> bool {
        let capabilities = self.inner.capabilities();
        capabilities
            .is_some_and(|all| all["resources"].get("subscribe") == Some(&Value::Bool(true)))
    }

    /// Wants to be told when this resource is updated; see [`Connection::updates`].
    pub async fn subscribe(&self, uri: &str) -> Result<(), ListError> {
        let inner = &self.inner;
        let followed = inner.listens_for.resources.borrow().len();
        if followed >= FOLLOWED {
            return Err(ListError::Malformed {
                method: SUBSCRIBE,
                reason: format!("{FOLLOWED} resources are followed already"),
            });
        }
        match inner.peer.era {
            Era::Legacy => inner.tell(SUBSCRIBE, uri).await?,
            Era::Modern => inner.follow(uri).await?,
        }
        let resources = &inner.listens_for.resources;
        resources.send_if_modified(|all| all.insert(uri.to_owned()));
        Ok(())
    }

    /// Does not want to be told any more.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), ListError> {
        let inner = &self.inner;
        let known = inner
            .listens_for
            .resources
            .send_if_modified(|all| all.remove(uri));
        match inner.peer.era {
            Era::Legacy if known => inner.tell(UNSUBSCRIBE, uri).await,
            _ => Ok(()),
        }
    }

    /// How often each resource was updated, as the server tells.
    pub fn updates(&self) -> watch::Receiver<Updates> {
        self.inner.rpc.news().updates.subscribe()
    }
}

impl Inner {
    async fn tell(&self, method: &'static str, uri: &str) -> Result<(), ListError> {
        let end = Instant::now() + self.deadlines.list;
        let request = || Request::new(method).subject("uri", uri);
        self.ask(method, request, end).await.map(drop)
    }

    /// Listens anew, for this resource as well, until the server has confirmed it.
    async fn follow(&self, uri: &str) -> Result<(), ListError> {
        let mut confirmed = self.rpc.news().confirmed.subscribe();
        let mut refused = self.listens_for.refused.subscribe();
        self.listens_for
            .resources
            .send_if_modified(|all| all.insert(uri.to_owned()));
        self.listen();
        let patience = self.deadlines.list;
        let end = Instant::now() + patience;
        let why = tokio::select! {
            Ok(_) = confirmed.wait_for(|uris| uris.contains(uri)) => return Ok(()),
            Ok(_) = refused.wait_for(|refused| *refused) => ListError::Malformed {
                method: LISTEN,
                reason: "the server does not offer it".to_owned(),
            },
            () = tokio::time::sleep(left(end)) => {
                unconfirmed(self.rpc.news().confirmed.borrow().is_empty(), patience)
            },
        };
        self.listens_for
            .resources
            .send_if_modified(|all| all.remove(uri));
        Err(why)
    }

    /// A new session knows of no resource that was followed in the one before.
    pub(crate) fn follow_again(&self) {
        let followed = self.listens_for.resources.borrow().clone();
        for uri in followed {
            let request = Request::new(SUBSCRIBE).subject("uri", &uri);
            self.rpc.start(request).leave();
            tracing::debug!(uri = text::excerpt(uri.as_bytes(), 200), "followed again");
        }
    }
}

fn unconfirmed(none: bool, after: Duration) -> ListError {
    if none {
        return ListError::Timeout {
            method: LISTEN,
            after,
        };
    }
    ListError::Malformed {
        method: LISTEN,
        reason: "the server confirms other resources and not this one".to_owned(),
    }
}
