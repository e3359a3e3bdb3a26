//! Streamable HTTP: one POST for each message, answered with JSON or with an event stream.
//!
//! Promises: one pooled client; headers that were configured go to the configured origin and to no
//! other; nothing optional holds up a call: the DELETE at the end never, the GET stream for half a second
//! and the first call alone.
//! Source: MCP, "Transports", Streamable HTTP, revisions 2025-03-26 to 2026-07-28.

mod answer;
mod body;
pub(crate) mod client;
pub(crate) mod events;
mod exchange;
mod listen;
pub(crate) mod mirror;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::{Agreed, Ends, Link, Outgoing, Tasks};
use crate::connection::{CloseReport, Era};
use crate::oauth::Authorizer;
use crate::{HttpSpec, Limits};

pub(crate) use client::{BadHttpSpec, Clients};
use wire::Wire;

/// How long the server may take to hear that a session has ended.
const GOODBYE: Duration = Duration::from_secs(2);

pub(crate) struct Http {
    wire: Arc<Wire>,
    exchanges: Tasks,
    /// The GET stream; a new session replaces it.
    listening: Mutex<Tasks>,
}

impl Http {
    pub(crate) fn open(
        spec: &HttpSpec,
        means: (&Clients, Option<Arc<Authorizer>>),
        limits: &Limits,
        ends: Ends,
    ) -> Result<Self, BadHttpSpec> {
        let Ends {
            queue,
            inbox,
            watch,
        } = ends;
        let wire = Arc::new(Wire::new(spec, means, limits.into(), (inbox, watch))?);
        let link = Self {
            wire,
            exchanges: Tasks::default(),
            listening: Mutex::default(),
        };
        link.exchanges
            .spawn(carry(link.wire.clone(), link.exchanges.clone(), queue));
        Ok(link)
    }

    /// Stops listening; what listens from now on runs in the tasks returned.
    fn listen_anew(&self) -> Tasks {
        let next = Tasks::default();
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *listening, next.clone()).stop();
        next
    }
}

async fn carry(wire: Arc<Wire>, exchanges: Tasks, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(outgoing) = queue.recv().await {
        exchanges.spawn(exchange::run(wire.clone(), outgoing));
    }
}

impl Link for Http {
    fn agreed(&self, agreed: Option<Agreed>) {
        self.wire.set_agreed(agreed);
    }

    fn listen(&self) {
        let agreed = self.wire.agreed();
        if agreed.is_some_and(|agreed| agreed.era == Era::Legacy && agreed.speaks_first) {
            self.wire.set_opening(true);
            self.listen_anew().spawn(listen::run(self.wire.clone()));
        }
    }

    /// Revision 2026-07-28 has no `notifications/cancelled` over HTTP: the client ends the stream.
    fn cancels_by_hanging_up(&self) -> bool {
        self.wire
            .agreed()
            .is_some_and(|agreed| agreed.era == Era::Modern)
    }

    fn mirrors_arguments(&self) -> bool {
        self.cancels_by_hanging_up()
    }

    fn close(&self, limit: Duration) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let begun = Instant::now();
            let _ = self.listen_anew();
            self.exchanges.stop();
            let _ = tokio::time::timeout(limit.min(GOODBYE), self.wire.say_goodbye()).await;
            self.exchanges.finish().await;
            CloseReport {
                took: begun.elapsed(),
                exit: None,
                forced: None,
            }
        })
    }

    fn abort(&self) {
        let _ = self.listen_anew();
        self.exchanges.stop();
    }
}
