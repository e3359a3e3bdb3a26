//! One server's life: connect, list, stay in step with `list_changed`; when it ends while it is in
//! use, start it again after a pause, a limited number of times. Calls that were under way have
//! ended by then, and are not sent again.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use outrigger_connect::{Connection, Era, ListError, ServerSpec};
use outrigger_journal::Event;
use tokio::sync::watch;

use super::{Failure, Launch, Ready, ServerState, fail};
use crate::catalog::{CatalogTool, ServerCatalog, SetAside, Standing, ToolFilter};
use crate::pins::ServerIdentity;

/// Announcements of changed tools within this time are one.
const COALESCE: Duration = Duration::from_millis(200);
/// The longest that a server which announces changes all the time is left alone.
const COALESCE_MOST: Duration = Duration::from_secs(5);
/// Starts after the first that are tried in a row. Their pauses come to 15 s.
const ATTEMPTS: u32 = 5;
/// The pause before the first of them; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A server that was ready for this long has stayed.
const STAYED: Duration = Duration::from_secs(60);
/// Lines of its standard error that are told of a server that failed.
const TOLD_LINES: usize = 20;

pub(super) struct Life {
    pub(super) spec: Box<ServerSpec>,
    pub(super) standing: Standing,
    pub(super) filter: ToolFilter,
    pub(super) identity: Option<ServerIdentity>,
    pub(super) launch: Launch,
    pub(super) state: watch::Sender<ServerState>,
    pub(super) restarted: Arc<AtomicBool>,
}

/// How a start went.
enum Once {
    /// The host stops.
    Stopped,
    /// It could not be connected or listed.
    NeverReady(Failure),
    /// It was ready, and ended.
    Ended { failure: Failure, lived: Duration },
}

/// How often a server was started again without staying.
#[derive(Debug, Default)]
struct Restarts {
    attempts: u32,
}

impl Restarts {
    /// A server that stayed for a while has earned a clean slate.
    fn forget_after(&mut self, lived: Duration) {
        if lived >= STAYED {
            self.attempts = 0;
        }
    }

    /// The pause before the next attempt; `None` when there have been enough.
    fn next(&mut self) -> Option<Duration> {
        let pause = FIRST_PAUSE * 2_u32.pow(self.attempts);
        self.attempts += 1;
        (self.attempts <= ATTEMPTS).then_some(pause)
    }
}

impl Life {
    pub(super) async fn run(self) {
        let mut restarts = Restarts::default();
        loop {
            let failure = match self.once(restarts.attempts > 0).await {
                Once::Stopped => return drop(self.state.send_replace(ServerState::Stopped)),
                Once::NeverReady(failure) if restarts.attempts == 0 => {
                    return fail(&self.spec.name, failure, &self.launch, &self.state);
                }
                Once::NeverReady(failure) => failure,
                Once::Ended { failure, lived } => {
                    self.launch.run.record(Event::ServerEnded {
                        server: self.spec.name.to_string(),
                        reason: failure.error.clone(),
                    });
                    restarts.forget_after(lived);
                    failure
                }
            };
            let Some(pause) = restarts.next() else {
                return fail(&self.spec.name, failure, &self.launch, &self.state);
            };
            let failure = failure.without(&self.launch.redactor);
            self.state
                .send_replace(ServerState::Backoff(Arc::new(failure)));
            tokio::select! {
                () = self.launch.stop.cancelled() => {
                    return drop(self.state.send_replace(ServerState::Stopped));
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// From a start to the end of what was started.
    async fn once(&self, again: bool) -> Once {
        let began = Instant::now();
        let connected = self.launch.connector.connect(&self.spec, &self.launch.stop);
        let connection = match connected.await {
            Ok(connection) => connection,
            Err(_) if self.launch.stop.is_cancelled() => return Once::Stopped,
            Err(error) => return Once::NeverReady(error.into()),
        };
        match self.list(&connection).await {
            Ok(catalog) => self.ready(&connection, &catalog, began, again),
            Err(error) => {
                let failure = Failure::list(&error, connection.log_tail(TOLD_LINES));
                connection.close().await;
                return Once::NeverReady(failure);
            }
        }
        let ready = Instant::now();
        let ended = self.follow(&connection).await;
        let lived = ready.elapsed();
        self.publish(None);
        connection.close().await;
        match ended {
            None => Once::Stopped,
            Some(reason) => {
                let failure = Failure::ended(&reason, connection.log_tail(TOLD_LINES));
                Once::Ended { failure, lived }
            }
        }
    }

    async fn list(&self, connection: &Connection) -> Result<Arc<ServerCatalog>, ListError> {
        let as_of = *connection.tools_changed().borrow();
        let mut listing = connection.list_tools().await?;
        for tool in &mut listing.tools {
            if let Cow::Owned(clean) = self.launch.redactor.redact_json(tool) {
                *tool = clean;
            }
        }
        let mut catalog = ServerCatalog::read(&self.spec.name, self.standing, listing);
        catalog.as_of = as_of;
        for stranger in self.filter.strangers(&catalog) {
            catalog.problems.push(format!(
                "configuration names the tool `{stranger}`, which the server does not have"
            ));
        }
        let admits = |tool: &mut Arc<CatalogTool>| !self.filter.admits(&tool.raw_name);
        catalog.withheld = catalog.tools.extract_if(.., admits).collect();
        if let Some(identity) = &self.identity {
            catalog.hold_back(self.launch.pins.review(identity, &catalog.tools));
        }
        for SetAside { tool, reason } in &catalog.set_aside {
            let (server, tool) = (self.spec.name.to_string(), tool.clone());
            self.launch.run.record(Event::ToolSetAside {
                server,
                tool,
                reason: reason.clone(),
            });
        }
        Ok(Arc::new(catalog))
    }

    fn ready(
        &self,
        connection: &Connection,
        catalog: &Arc<ServerCatalog>,
        began: Instant,
        again: bool,
    ) {
        let (peer, took) = (connection.peer(), began.elapsed());
        self.restarted.fetch_or(again, Ordering::Relaxed);
        let era = match peer.era {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        };
        self.launch.run.record(Event::ServerReady {
            server: self.spec.name.to_string(),
            era: era.to_owned(),
            protocol_version: peer.protocol_version.clone(),
            tools: catalog.tools.len() as u64,
            tokens: catalog.tokens(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        // Told before anybody can go on because of it.
        self.publish(Some(Arc::clone(catalog)));
        self.state.send_replace(ServerState::Ready(Arc::new(Ready {
            connection: connection.clone(),
            took,
        })));
    }

    /// Keeps the catalog in step until the host stops (`None`) or the connection ends (why).
    async fn follow(&self, connection: &Connection) -> Option<String> {
        let (mut changed, mut ended) = (connection.tools_changed(), connection.ended());
        let mut pause = COALESCE;
        loop {
            tokio::select! {
                () = self.launch.stop.cancelled() => return None,
                reason = why_ended(&mut ended) => return Some(reason),
                Ok(()) = changed.changed() => {}
            }
            tokio::select! {
                () = self.launch.stop.cancelled() => return None,
                reason = why_ended(&mut ended) => return Some(reason),
                () = tokio::time::sleep(pause) => {}
            }
            changed.mark_unchanged();
            if let Ok(catalog) = self.list(connection).await {
                self.publish(Some(catalog));
            }
            // Twice as long after each change that follows at once, back to short after a quiet time.
            let quiet = tokio::time::timeout(pause, changed.changed())
                .await
                .is_err();
            pause = if quiet {
                COALESCE
            } else {
                (pause * 2).min(COALESCE_MOST)
            };
            if !quiet {
                changed.mark_changed();
            }
        }
    }

    fn publish(&self, tools: Option<Arc<ServerCatalog>>) {
        let mut catalog = self
            .launch
            .catalog
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        catalog.revision += 1;
        match tools {
            Some(tools) => catalog.servers.insert(self.spec.name.clone(), tools),
            None => catalog.servers.remove(&self.spec.name),
        };
        self.launch.published.send_replace(catalog.revision);
    }
}

async fn why_ended(ended: &mut watch::Receiver<Option<String>>) -> String {
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection is gone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_slow_down_and_end() {
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = std::iter::from_fn(|| restarts.next())
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000]);
        restarts.forget_after(Duration::from_secs(1));
        assert_eq!(restarts.next(), None);
        restarts.forget_after(STAYED);
        assert_eq!(restarts.next(), Some(FIRST_PAUSE));
    }
}
