//! `subscriptions/listen`: the modern era's way to hear that what a server offers has changed.
//!
//! Promises: it holds nothing up; when it drops it is opened again, at a decreasing rate, and what
//! may have changed meanwhile counts as a change; a server that does not offer it is left alone, one
//! that wants somebody to sign in first is not. When other resources are to be followed it is opened
//! anew, and the one before is given up only then.
//! Source: MCP 2026-07-28, "Subscriptions" (SEP-2575).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connection::{Era, Inner};
use crate::rpc::{Failure, InFlight, Request, Rpc};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A subscription that lived this long has ended for an ordinary reason.
const LONG: Duration = Duration::from_mins(1);
/// Subscriptions in a row that end without having been confirmed.
const FRUITLESS: u32 = 5;

/// What is listened for.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Resources that somebody follows.
    pub(crate) resources: watch::Sender<BTreeSet<String>>,
    /// Nobody listens any more: the server has refused it.
    pub(crate) refused: watch::Sender<bool>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            resources: watch::Sender::new(BTreeSet::new()),
            refused: watch::Sender::new(false),
        }
    }
}

impl Inner {
    /// Begins to listen, once in the life of a connection. The legacy era is told without asking.
    pub(crate) fn listen(&self) {
        if self.peer.era == Era::Modern {
            self.listening.call_once(|| {
                let ear = Ear {
                    rpc: self.rpc.clone(),
                    prompts: self.offers("prompts"),
                    resources: self.offers("resources"),
                    followed: self.listens_for.resources.subscribe(),
                    refused: self.listens_for.refused.clone(),
                };
                self.rpc.spawn(ear.run());
            });
        }
    }
}

struct Ear {
    rpc: Arc<Rpc>,
    prompts: bool,
    resources: bool,
    followed: watch::Receiver<BTreeSet<String>>,
    refused: watch::Sender<bool>,
}

impl Ear {
    async fn run(mut self) {
        self.listen().await;
        self.refused.send_replace(true);
    }

    async fn listen(&mut self) {
        let mut pause = FIRST_PAUSE;
        let mut fruitless = 0;
        let mut missed = false;
        let mut before: Option<InFlight> = None;
        loop {
            let begun = Instant::now();
            let notifications = self.wanted();
            let request = Request::new("subscriptions/listen")
                .member("notifications", &notifications)
                .standing();
            let mut flight = self.rpc.start(request);
            // No change falls between the two.
            drop(before.take());
            if std::mem::take(&mut missed) {
                self.rpc.news().count_all();
            }
            let answer = tokio::select! {
                answer = flight.answer() => Some(answer),
                Ok(()) = self.followed.changed() => None,
            };
            let Some(answer) = answer else {
                before = Some(flight);
                continue;
            };
            let signed_off =
                matches!(&answer, Err(Failure::Http(refusal)) if refusal.wants_sign_in());
            if refused(&answer) && !signed_off {
                return;
            }
            if self.rpc.take_subscribed() || signed_off {
                fruitless = 0;
                missed = true;
            } else {
                fruitless += 1;
            }
            if fruitless == FRUITLESS {
                return;
            }
            if begun.elapsed() >= LONG {
                pause = FIRST_PAUSE;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Only what the server says it has is asked for.
    fn wanted(&mut self) -> String {
        let mut wanted = Map::new();
        wanted.insert("toolsListChanged".to_owned(), true.into());
        if self.prompts {
            wanted.insert("promptsListChanged".to_owned(), true.into());
        }
        if self.resources {
            wanted.insert("resourcesListChanged".to_owned(), true.into());
        }
        let followed = self.followed.borrow_and_update();
        if !followed.is_empty() {
            let uris = followed.iter().map(String::as_str).collect();
            wanted.insert("resourceSubscriptions".to_owned(), uris);
        }
        Value::Object(wanted).to_string()
    }
}

/// The server answered, and will answer the same again.
fn refused(answer: &crate::rpc::Answer) -> bool {
    match answer {
        Err(Failure::Rpc(_) | Failure::Malformed(_) | Failure::SessionLost(_)) => true,
        Err(Failure::Http(answer)) => answer.status < 500,
        Ok(_) | Err(Failure::NotSent(_) | Failure::Closed(_)) => false,
    }
}
