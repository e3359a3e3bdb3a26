//! One server's life: connect, list, stay in step with `list_changed`; when it ends while it is in
//! use, start it again after a pause, a limited number of times; when it wants to know who asks, wait
//! until somebody has signed in. Calls that were under way have ended by then, and are not sent again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{Connection, Era, ListError, LoginMark, Offer, SignedOff, TransportSpec};
use outrigger_journal::Event;
use tokio::sync::watch;

use super::lease::{Held, LOST, TENURE, lost};
use super::restarts::Restarts;
use super::{Failure, Launch, Ready, Recipe, Running, ServerState, failed};
use crate::catalog::{CatalogTool, Instructions, ServerCatalog, SetAside};
use crate::host::upkeep::Place;

/// Announcements of changed tools within this time are one.
const COALESCE: Duration = Duration::from_millis(200);
/// The longest that a server which announces changes all the time is left alone.
const COALESCE_MOST: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody has signed in. Other processes write the file, and there
/// is nothing to wait on that works everywhere.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Lines of its standard error that are told of a server that failed.
const TOLD_LINES: usize = 20;

pub(super) struct Life {
    pub(super) running: Arc<Running>,
    pub(super) launch: Launch,
    /// It is started without being wanted.
    pub(super) eager: bool,
}

/// What has become of it so far.
#[derive(Default)]
struct Past {
    restarts: Restarts,
    was_ready: bool,
}

/// How a start went.
enum Once {
    /// Nobody holds it any more.
    Stopped,
    /// It could not be connected or listed.
    NeverReady(Failure),
    /// It was ready, and ended.
    Ended { failure: Failure, lived: Duration },
    /// It was ready, and nobody has used it for this long.
    Unused(Duration),
    /// It was ready, and somebody has signed in since it refused us; it has to be started again.
    SignedIn,
    /// Another one may have it, so it was ended.
    Lost,
}

/// Why a server that was ready is no more.
enum Over {
    Stopped,
    Lost,
    Unused(Duration),
    Ended(String),
    SignedOff(SignedOff),
}

/// How waiting for a login went.
enum Waited {
    Stopped,
    Lost,
    Unused(Duration),
    SignedIn,
    Ended(String),
}

impl Life {
    pub(super) async fn run(self) {
        let mut past = Past::default();
        while self.turn(&mut past).await {}
    }

    /// From a start to what follows its end. False: it is not started again.
    async fn turn(&self, past: &mut Past) -> bool {
        let Some((once, mark, wanted)) = self.started(past.was_ready).await else {
            self.stopped();
            return false;
        };
        past.was_ready |= !matches!(once, Once::NeverReady(_) | Once::Lost);
        let failure = match once {
            Once::Stopped => {
                self.stopped();
                return false;
            }
            Once::SignedIn => return true,
            Once::Lost => {
                self.tell_of_end(LOST.to_owned());
                self.running.demand.forget();
                return true;
            }
            Once::Unused(unused) => {
                self.tell_of_end(if wanted {
                    "it is wanted elsewhere".to_owned()
                } else {
                    format!("nobody has used it for {}", words(unused))
                });
                past.restarts = Restarts::default();
                // One that may run elsewhere waits for its lease instead.
                let wanted = self.recipe().single || self.until_wanted().await;
                if !wanted {
                    self.stopped();
                }
                return wanted;
            }
            Once::NeverReady(failure) if failure.wants_sign_in() => {
                self.fail(failure);
                let over = self.until_signed_in(&mut { mark }, None, None).await;
                let signed_in = matches!(over, Waited::SignedIn);
                self.running.is(if signed_in {
                    ServerState::Starting
                } else {
                    ServerState::Stopped
                });
                return signed_in;
            }
            Once::NeverReady(failure) if !past.was_ready => return self.set_aside(failure).await,
            Once::NeverReady(failure) => failure,
            Once::Ended { failure, lived } => {
                self.tell_of_end(failure.error.clone());
                past.restarts.forget_after(lived);
                failure
            }
        };
        self.pauses(failure, past).await
    }

    /// A start, where it may be, to its end; with the login that it was started with, and whether somebody
    /// elsewhere wants it. `None`: nobody holds it any more.
    async fn started(&self, again: bool) -> Option<(Once, Option<LoginMark>, bool)> {
        let (place, held) = self.admitted().await?;
        let mark = self.login_mark().await;
        let once = self.once(again, mark, held.as_ref()).await;
        drop(place);
        let wanted = held.as_ref().is_some_and(|held| held.tenure.is_wanted());
        if let Some(held) = held {
            held.release(matches!(once, Once::Unused(_))).await;
        }
        Some((once, mark, wanted))
    }

    /// Waits before it is started again, or sets it aside. False: nobody holds it any more.
    async fn pauses(&self, failure: Failure, past: &mut Past) -> bool {
        // What it had before it was put to rest is still listed.
        self.running.publish(None);
        let Some(pause) = past.restarts.next() else {
            return self.set_aside(failure).await;
        };
        let failure = failure.without(&self.launch.redactor);
        self.running.is(ServerState::Backoff(Arc::new(failure)));
        tokio::select! {
            () = self.running.stop.cancelled() => {
                self.stopped();
                false
            }
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// A place, and the lease where one is needed. A lease that is waited for keeps no place from others.
    async fn admitted(&self) -> Option<(Option<Place>, Option<Held>)> {
        loop {
            let Some(held) = self.lease(self.eager).await? else {
                return Some((self.place().await?, None));
            };
            let tenure = Arc::clone(&held.tenure);
            tokio::select! {
                place = self.place() => {
                    if let Some(place) = place {
                        return Some((place, Some(held)));
                    }
                    held.release(false).await;
                    return None;
                }
                () = tenure.wanted() => held.release(false).await,
                () = tenure.gone() => held.release(false).await,
            }
        }
    }

    /// Sets it aside until somebody calls for it. False: nobody holds it any more.
    async fn set_aside(&self, failure: Failure) -> bool {
        self.fail(failure);
        self.running.publish(None);
        tokio::select! {
            () = self.running.stop.cancelled() => return false,
            () = self.running.revival.called() => {}
        }
        self.running.is(ServerState::Starting);
        true
    }

    /// A place for its process, where it has one and places are counted. `None`: nobody holds it any more.
    async fn place(&self) -> Option<Option<Place>> {
        let stdio = matches!(self.recipe().spec.transport, TransportSpec::Stdio(_));
        let Some(upkeep) = self.launch.upkeep.as_ref().filter(|_| stdio) else {
            return Some(None);
        };
        if let Some(place) = upkeep.try_place() {
            return Some(Some(place));
        }
        let failure = Failure::busy(upkeep.most());
        self.launch.run.record(Event::ServerWarned {
            server: self.running.name().to_string(),
            warning: failure.error.clone(),
        });
        self.running.is(ServerState::Backoff(Arc::new(failure)));
        let place = tokio::select! {
            () = self.running.stop.cancelled() => return None,
            place = upkeep.place() => place,
        };
        self.running.is(ServerState::Starting);
        Some(Some(place))
    }

    /// Waits, while it is put to rest, until somebody wants it. False: nobody holds it any more.
    pub(super) async fn until_wanted(&self) -> bool {
        tokio::select! {
            () = self.running.stop.cancelled() => return false,
            () = self.running.demand.said() => {}
        }
        self.running.rises();
        true
    }

    /// Waits until nobody has used it for long, or nobody uses it and somebody elsewhere wants it, and puts
    /// it to rest. Does not return where it is to stay.
    async fn unused(&self, held: Option<&Held>) -> Duration {
        let rest = || self.running.rest();
        let wanted = async {
            match held {
                Some(held) => {
                    tokio::time::sleep(TENURE).await;
                    let is_wanted = || held.tenure.is_wanted();
                    loop {
                        held.tenure.wanted().await;
                        let demand = &self.running.demand;
                        if let Some(unused) = demand.unused_now(is_wanted, rest).await {
                            break unused;
                        }
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            unused = wanted => unused,
            unused = self.unused_for_long() => unused,
        }
    }

    async fn unused_for_long(&self) -> Duration {
        match (&self.launch.upkeep, self.recipe().spec.deadlines.idle) {
            (Some(upkeep), Some(idle)) => {
                let rest = || self.running.rest();
                self.running.demand.unused(idle, upkeep, rest).await
            }
            _ => std::future::pending().await,
        }
    }

    fn tell_of_end(&self, reason: String) {
        self.launch.run.record(Event::ServerEnded {
            server: self.running.name().to_string(),
            reason,
        });
    }

    pub(super) fn stopped(&self) {
        self.running.is(ServerState::Stopped);
    }

    pub(super) fn fail(&self, failure: Failure) {
        let state = failed(self.running.name(), failure, &self.launch);
        self.running.is(state);
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.running.recipe
    }

    async fn login_mark(&self) -> Option<LoginMark> {
        self.launch.connector.login_mark(&self.recipe().spec).await
    }

    /// Waits for another login than `known`, which it then is. `connection` may end meanwhile.
    async fn until_signed_in(
        &self,
        known: &mut Option<LoginMark>,
        connection: Option<&Connection>,
        held: Option<&Held>,
    ) -> Waited {
        let mut ended = connection.map(Connection::ended);
        loop {
            let mark = self.login_mark().await;
            if mark.is_some() && mark != *known {
                *known = mark;
                return Waited::SignedIn;
            }
            let ended = async {
                match &mut ended {
                    Some(ended) => why_ended(ended).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.running.stop.cancelled() => return Waited::Stopped,
                () = lost(held) => return Waited::Lost,
                reason = ended => return Waited::Ended(reason),
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// From a start to the end of what was started. `again`: it was ready before. `mark`: the login
    /// that it is started with.
    async fn once(&self, again: bool, mut mark: Option<LoginMark>, held: Option<&Held>) -> Once {
        let began = Instant::now();
        let over = held.map_or(&self.running.stop, |held| held.tenure.over());
        let spec = self.under(held);
        let connected = self.launch.connector.connect(&spec, over);
        let connection = match connected.await {
            Ok(connection) => connection,
            Err(_) if self.running.stop.is_cancelled() => return Once::Stopped,
            Err(_) if over.is_cancelled() => return Once::Lost,
            Err(error) => return Once::NeverReady(error.into()),
        };
        // From before the listing: a change that is announced while it goes on must not be missed.
        let mut changed = connection.tools_changed();
        let listed = tokio::select! {
            listed = self.list(&connection) => listed,
            () = lost(held) => {
                connection.close().await;
                return Once::Lost;
            }
        };
        match listed {
            Ok(catalog) => self.ready((&connection, held), &catalog, began, again),
            Err(error) => {
                let signed_off = connection.signed_off().borrow().clone();
                let failure = match signed_off {
                    Some(signed_off) => Failure::signed_off(signed_off),
                    None => Failure::list(&error, connection.log_tail(TOLD_LINES)),
                };
                connection.close().await;
                return Once::NeverReady(failure);
            }
        }
        let ready = Instant::now();
        let over = Box::pin(self.in_use((&connection, held), &mut changed, &mut mark)).await;
        let lived = ready.elapsed();
        if !matches!(over, Waited::Unused(_) | Waited::Lost) {
            self.running.publish(None);
        }
        connection.close().await;
        match over {
            Waited::Stopped => Once::Stopped,
            Waited::Lost => Once::Lost,
            Waited::Unused(unused) => Once::Unused(unused),
            Waited::SignedIn => Once::SignedIn,
            Waited::Ended(reason) => {
                let failure = Failure::ended(&reason, connection.log_tail(TOLD_LINES));
                Once::Ended { failure, lived }
            }
        }
    }

    /// From ready to the end of the connection. Whoever has signed in goes on with what the server
    /// still knows; [`Waited::SignedIn`]: that cannot be.
    async fn in_use(
        &self,
        (connection, held): (&Connection, Option<&Held>),
        changed: &mut watch::Receiver<u64>,
        mark: &mut Option<LoginMark>,
    ) -> Waited {
        loop {
            let signed_off = match self.follow((connection, held), changed).await {
                Over::Stopped => return Waited::Stopped,
                Over::Lost => return Waited::Lost,
                Over::Unused(unused) => return Waited::Unused(unused),
                Over::Ended(reason) => return Waited::Ended(reason),
                Over::SignedOff(signed_off) => signed_off,
            };
            // Its tools stay, and whoever calls one is told what is missing.
            let failure = Failure::signed_off(signed_off);
            self.fail(failure);
            loop {
                match self.until_signed_in(mark, Some(connection), held).await {
                    Waited::SignedIn => {}
                    over => return over,
                }
                let began = Instant::now();
                connection.forget_signed_off();
                match self.list(connection).await {
                    Ok(catalog) => {
                        self.ready((connection, held), &catalog, began, false);
                        break;
                    }
                    Err(_) if connection.signed_off().borrow().is_some() => {}
                    Err(_) => return Waited::SignedIn,
                }
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
        let mut catalog = ServerCatalog::read(self.running.name(), self.recipe().standing, listing);
        catalog.as_of = as_of;
        catalog.resources = connection.declares(Offer::Resources);
        catalog.instructions = connection.peer().instructions.as_deref().and_then(|text| {
            Instructions::read(
                &self.launch.redactor.redact(text),
                self.recipe().standing.instructions,
            )
        });
        for stranger in self.recipe().filter.strangers(&catalog) {
            catalog.problems.push(format!(
                "configuration names the tool `{stranger}`, which the server does not have"
            ));
        }
        let admits = |tool: &mut Arc<CatalogTool>| !self.recipe().filter.admits(tool);
        catalog.withheld = catalog.tools.extract_if(.., admits).collect();
        if let Some(identity) = &self.recipe().identity {
            let told = catalog.instructions.as_ref().filter(|told| told.shown);
            let told = told.map(|told| told.digest);
            let review = self.launch.pins.review(identity, &catalog.tools, told);
            catalog.hold_back(self.running.name(), review);
        }
        for SetAside { tool, reason } in &catalog.set_aside {
            let (server, tool) = (self.running.name().to_string(), tool.clone());
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
        (connection, held): (&Connection, Option<&Held>),
        catalog: &Arc<ServerCatalog>,
        began: Instant,
        again: bool,
    ) {
        let (peer, took) = (connection.peer(), began.elapsed());
        if again {
            self.running.restarted();
        }
        let era = match peer.era {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        };
        self.launch.run.record(Event::ServerReady {
            server: self.running.name().to_string(),
            era: era.to_owned(),
            protocol_version: peer.protocol_version.clone(),
            tools: catalog.tools.len() as u64,
            tokens: catalog.tokens(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        if !again {
            self.tell_of_keys(catalog);
        }
        // Told before anybody can go on because of it.
        self.running.publish(Some(Arc::clone(catalog)));
        self.running.is(ServerState::Ready(Arc::new(Ready {
            connection: connection.clone(),
            took,
            tenure: held.map(|held| Arc::clone(&held.tenure)),
        })));
    }

    /// Tells of idempotency keys that configuration names and none of the tools meant takes.
    fn tell_of_keys(&self, catalog: &ServerCatalog) {
        let takes = |tool: &CatalogTool, key: &str| {
            let properties = tool.input_schema.get("properties");
            properties.is_some_and(|properties| properties.get(key).is_some())
        };
        for said in &self.recipe().repeating.tools {
            let Some(key) = &said.idempotency_key else {
                continue;
            };
            let mut meant = catalog
                .tools
                .iter()
                .filter(|tool| said.is_about(&tool.raw_name));
            if !meant.any(|tool| takes(tool, key)) {
                self.launch.run.record(Event::ServerWarned {
                    server: self.running.name().to_string(),
                    warning: format!(
                        "none of its tools that are called `{}` takes an argument `{key}`, which `idempotency_key` names for them",
                        said.glob
                    ),
                });
            }
        }
    }

    /// Keeps the catalog in step until the server is not ready any more.
    async fn follow(
        &self,
        (connection, held): (&Connection, Option<&Held>),
        changed: &mut watch::Receiver<u64>,
    ) -> Over {
        let over = self.over(connection, held);
        tokio::pin!(over);
        let mut pause = COALESCE;
        loop {
            tokio::select! {
                over = &mut over => return over,
                Ok(()) = changed.changed() => {}
            }
            tokio::select! {
                over = &mut over => return over,
                () = tokio::time::sleep(pause) => {}
            }
            changed.mark_unchanged();
            if let Ok(catalog) = self.list(connection).await {
                self.running.publish(Some(catalog));
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

    /// Waits until the server is not ready any more; tells what a person should be warned of.
    async fn over(&self, connection: &Connection, held: Option<&Held>) -> Over {
        let (mut ended, mut warning) = (connection.ended(), connection.warning());
        let mut signed_off = connection.signed_off();
        let mut warned = false;
        loop {
            tokio::select! {
                () = self.running.stop.cancelled() => return Over::Stopped,
                reason = why_ended(&mut ended) => return Over::Ended(reason),
                () = lost(held) => return Over::Lost,
                unused = self.unused(held) => return Over::Unused(unused),
                Ok(why) = signed_off.wait_for(Option::is_some) => {
                    if let Some(why) = why.clone() {
                        return Over::SignedOff(why);
                    }
                }
                Ok(words) = warning.wait_for(Option::is_some), if !warned => {
                    warned = true;
                    self.launch.run.record(Event::ServerWarned {
                        server: self.running.name().to_string(),
                        warning: words.clone().unwrap_or_default(),
                    });
                }
            }
        }
    }
}

/// A time as people say it.
fn words(time: Duration) -> String {
    match time.as_secs() {
        secs @ ..120 => format!("{secs} s"),
        secs => format!("{} min", secs / 60),
    }
}

async fn why_ended(ended: &mut watch::Receiver<Option<String>>) -> String {
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection is gone".to_owned(),
    }
}
