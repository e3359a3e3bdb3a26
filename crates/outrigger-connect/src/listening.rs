//! `subscriptions/listen`: the modern era's way to hear that a server's tools have changed.
//!
//! Promises: it holds nothing up; when it drops it is opened again, at a decreasing rate, and what
//! may have changed meanwhile counts as a change; a server that does not offer it is left alone, one
//! that wants somebody to sign in first is not.
//! Source: MCP 2026-07-28, "Subscriptions" (SEP-2575).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::{Era, Inner};
use crate::rpc::{Failure, Request, Rpc};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A subscription that lived this long has ended for an ordinary reason.
const LONG: Duration = Duration::from_mins(1);

/// Subscriptions in a row that end without having been confirmed.
const FRUITLESS: u32 = 5;

impl Inner {
    /// Begins to listen, once in the life of a connection. The legacy era is told without asking.
    pub(crate) fn listen(&self) {
        if self.peer.era == Era::Modern {
            self.listening
                .call_once(|| self.rpc.spawn(run(self.rpc.clone())));
        }
    }
}

async fn run(rpc: Arc<Rpc>) {
    let mut pause = FIRST_PAUSE;
    let mut fruitless = 0;
    let mut missed = false;
    loop {
        let begun = Instant::now();
        let request = Request::new("subscriptions/listen")
            .member("notifications", r#"{"toolsListChanged":true}"#)
            .standing();
        let flight = rpc.start(request);
        if std::mem::take(&mut missed) {
            rpc.count_change();
        }
        let answer = flight.answer_owned().await;
        let signed_off = matches!(&answer, Err(Failure::Http(refusal)) if refusal.wants_sign_in());
        if refused(&answer) && !signed_off {
            return;
        }
        if rpc.take_subscribed() || signed_off {
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

/// The server answered, and will answer the same again.
fn refused(answer: &crate::rpc::Answer) -> bool {
    match answer {
        Err(Failure::Rpc(_) | Failure::Malformed(_) | Failure::SessionLost(_)) => true,
        Err(Failure::Http(answer)) => answer.status < 500,
        Ok(_) | Err(Failure::NotSent(_) | Failure::Closed(_)) => false,
    }
}
