//! Following a resource: `resources/subscribe` in the legacy era, a member of `subscriptions/listen` in
//! the modern one.
//!
//! Promises: after `Ok` the server has said that it will tell; it is told once for all who follow a
//! resource, and once more when the last of them does not any more; a new session is told of what was
//! followed in the one before.
//! Source: MCP, "Subscriptions" of resources, and 2026-07-28, "Subscriptions" (SEP-2575).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as Turn, watch};

use crate::connection::{Connection, Era, Inner, left};
use crate::rpc::{Request, Updates};
use crate::{ListError, text};

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const LISTEN: &str = "subscriptions/listen";
/// Resources that one connection follows at one time.
const FOLLOWED: usize = 256;

/// Who follows what on one connection.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<HashMap<String, Follower>>);

#[derive(Debug, Default)]
struct Follower {
    count: usize,
    /// Held by whoever tells the server.
    told: Arc<Turn<Told>>,
}

/// What a server knows of a resource being followed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Told {
    #[default]
    No,
    /// It was asked, and how that ended is not known.
    Perhaps,
    Yes,
}

/// A resource that is followed. Dropped, it is not any more, unless somebody else follows it too.
#[derive(Debug)]
pub struct Followed {
    connection: Connection,
    uri: String,
    told: Arc<Turn<Told>>,
    /// Its end was said already.
    ended: bool,
}

impl Followers {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more follows a resource; `None`: too many are followed already.
    fn enter(&self, uri: &str) -> Option<Arc<Turn<Told>>> {
        let mut all = self.all();
        if all.len() >= FOLLOWED && !all.contains_key(uri) {
            return None;
        }
        let follower = all.entry(uri.to_owned()).or_default();
        follower.count += 1;
        Some(Arc::clone(&follower.told))
    }

    /// One less does.
    fn leave(&self, uri: &str) {
        if let Some(follower) = self.all().get_mut(uri) {
            follower.count -= 1;
        }
    }

    fn has_none(&self, uri: &str) -> bool {
        self.all().get(uri).is_none_or(|it| it.count == 0)
    }

    /// Forgets a resource that nobody follows.
    fn forget(&self, uri: &str) {
        self.all().retain(|known, it| known != uri || it.count > 0);
    }
}

impl Followed {
    /// Does not follow it any more, and waits until the server was told, where that is due.
    pub async fn end(mut self) {
        self.leave();
        self.connection.inner.unfollow(&self.uri, &self.told).await;
    }

    fn leave(&mut self) {
        self.ended = true;
        self.connection.inner.followers.leave(&self.uri);
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.leave();
        let inner = &self.connection.inner;
        // Where nothing runs any more, the connection ends as well.
        if Handle::try_current().is_ok() && inner.followers.has_none(&self.uri) {
            let (uri, told) = (std::mem::take(&mut self.uri), Arc::clone(&self.told));
            let of = Arc::clone(inner);
            inner
                .rpc
                .spawn(async move { of.unfollow(&uri, &told).await });
        }
    }
}

impl Connection {
    /// Whether the server says that it tells of updated resources.
    pub fn tells_of_updates(&self) -> bool {
        let capabilities = self.inner.capabilities();
        capabilities
            .is_some_and(|all| all["resources"].get("subscribe") == Some(&Value::Bool(true)))
    }

    /// Wants to be told when this resource is updated, for as long as what is returned lives; see
    /// [`Connection::updates`].
    pub async fn follow(&self, uri: &str) -> Result<Followed, ListError> {
        let inner = &self.inner;
        let Some(told) = inner.followers.enter(uri) else {
            return Err(ListError::Malformed {
                method: SUBSCRIBE,
                reason: format!("{FOLLOWED} resources are followed already"),
            });
        };
        // Counted from here on, also where this is given up.
        let followed = Followed {
            connection: self.clone(),
            uri: uri.to_owned(),
            told,
            ended: false,
        };
        let mut told = followed.told.lock().await;
        if *told != Told::Yes {
            *told = Told::Perhaps;
            match inner.peer.era {
                Era::Legacy => inner.tell(SUBSCRIBE, uri).await?,
                Era::Modern => inner.follow(uri).await?,
            }
            let resources = &inner.listens_for.resources;
            resources.send_if_modified(|all| all.insert(uri.to_owned()));
            *told = Told::Yes;
        }
        drop(told);
        Ok(followed)
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

    /// Tells the server that nobody follows a resource any more, if that is so.
    async fn unfollow(&self, uri: &str, told: &Turn<Told>) {
        let mut told = told.lock().await;
        if !self.followers.has_none(uri) {
            return;
        }
        // Whoever follows it from now on waits for the turn, and tells the server again.
        if std::mem::take(&mut *told) != Told::No {
            let resources = &self.listens_for.resources;
            resources.send_if_modified(|all| all.remove(uri));
            // What was confirmed before says nothing of whoever follows it next.
            let confirmed = &self.rpc.news().confirmed;
            confirmed.send_if_modified(|uris| uris.remove(uri));
            if self.peer.era == Era::Legacy
                && let Err(error) = self.tell(UNSUBSCRIBE, uri).await
            {
                tracing::debug!(%error, "the server was not told that nobody follows a resource");
            }
        }
        self.followers.forget(uri);
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
