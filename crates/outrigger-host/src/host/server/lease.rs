//! A server that may run in one place at a time (`single`): it is started by whoever holds its lease.
//!
//! Promises: nothing is started without the lease, and the lease is let go only when what was started
//! has ended; while it is wanted elsewhere it is let go as soon as no call is under way; who cannot be
//! sure of it any more ends the server, before others may take it where the clock allows that.
//! Leaves out: that no call is sent without it, which the intent of each call sees to
//! ([`Tenure::fence`]); where leases are kept.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outrigger_connect::{ServerSpec, TransportSpec};
use outrigger_journal::{Event, Fence, JournalError, Leases, Renewed, Taken};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::life::Life;
use super::{Failure, ServerState};

/// What a server learns its fence by: a variable of its environment, or a header of each request.
const VARIABLE: &str = "OUTRIGGER_FENCE";
const HEADER: &str = "Outrigger-Fence";
/// How long beyond a lease's term somebody waits for it who wants it: then a holder that is gone has lost it.
const BEYOND: Duration = Duration::from_secs(2);
/// How often it is asked for meanwhile.
const ASKED: Duration = Duration::from_millis(100);
/// Why nothing is sent to a server any more, and it is ended.
pub(crate) const LOST: &str = "this program was away for too long, and another one may run the server, which may run in one place at a time (`single`)";
/// A server that somebody else wants is not ended sooner than this after it was ready.
pub(super) const TENURE: Duration = Duration::from_secs(1);

/// A lease that is held, as calls see it.
#[derive(Debug)]
pub(crate) struct Tenure {
    fence: Fence,
    /// Until when nobody else has it, by the clock of this machine.
    until: Mutex<Instant>,
    /// Somebody else wants it.
    wanted: watch::Sender<bool>,
    /// Cancelled when somebody else may have it.
    lost: CancellationToken,
    /// Cancelled then, and when nobody holds the server any more.
    over: CancellationToken,
}

/// A lease that is held and renewed until it is let go.
pub(super) struct Held {
    pub(super) tenure: Arc<Tenure>,
    leases: Leases,
    _renewing: JoinSet<()>,
}

/// What asking for a lease came to, when it was not had.
enum Withheld {
    /// This one has it.
    Has(String),
    /// Nobody has it, and nobody here wants it.
    Rests,
    /// Somebody else is next.
    Promised,
}

impl Tenure {
    fn new(fence: Fence, asked: Instant, stop: &CancellationToken) -> Self {
        Self {
            until: Mutex::new(sure_until(&fence, asked)),
            fence,
            wanted: watch::Sender::new(false),
            lost: CancellationToken::new(),
            over: stop.child_token(),
        }
    }

    /// What is recorded under it has happened only while it stands.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// It was held at this time, or a moment later.
    pub(crate) fn held_at(&self, asked: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = sure_until(&self.fence, asked).max(*until);
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody else can have it yet.
    pub(crate) fn is_sure(&self) -> bool {
        !self.is_lost() && Instant::now() < self.until()
    }

    /// [`Self::is_sure`] for who is about to send something; after a no it is lost for good.
    pub(crate) fn may_send(&self) -> bool {
        let sure = self.is_sure();
        if !sure {
            self.lose();
        }
        sure
    }

    /// Somebody else has it, or may.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
        self.over.cancel();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Cancelled when what was started under it has to end.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Returns once it is lost.
    pub(super) async fn gone(&self) {
        self.lost.cancelled().await;
    }

    /// Returns once somebody else wants it.
    pub(super) async fn wanted(&self) {
        // There is always a sender: this one.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
    }

    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Renews it until it is lost.
    async fn renew(self: Arc<Self>, leases: Leases) {
        let beat = (self.fence.term / 4).min(Duration::from_secs(1));
        while !self.is_lost() {
            tokio::time::sleep(beat).await;
            let asked = Instant::now();
            let until = tokio::time::Instant::from_std(self.until());
            match tokio::time::timeout_at(until, leases.renew(&self.fence)).await {
                Ok(Ok(Renewed::Held { wanted })) => {
                    self.held_at(asked);
                    self.wanted.send_replace(wanted);
                }
                Ok(Ok(Renewed::Lost)) => self.lose(),
                Ok(Err(error)) => {
                    tracing::warn!(%error, lease = %self.fence.name, "a lease could not be renewed");
                }
                Err(_) => {}
            }
            if !self.is_sure() {
                self.lose();
            }
        }
    }
}

/// Returns when the lease that it runs under is lost.
pub(super) async fn lost(held: Option<&Held>) {
    match held {
        Some(held) => held.tenure.gone().await,
        None => std::future::pending().await,
    }
}

/// A part of the term is for ending the server before somebody else starts it.
fn sure_until(fence: &Fence, asked: Instant) -> Instant {
    asked + fence.term * 3 / 4
}

impl Held {
    fn keep(fence: Fence, asked: Instant, leases: &Leases, stop: &CancellationToken) -> Self {
        let tenure = Arc::new(Tenure::new(fence, asked, stop));
        let mut renewing = JoinSet::new();
        renewing.spawn(Arc::clone(&tenure).renew(leases.clone()));
        Self {
            tenure,
            leases: leases.clone(),
            _renewing: renewing,
        }
    }

    /// Lets go of it, now that what was started has ended. `unused`: because nobody used it. One that was
    /// lost as well: nobody may have taken it, and by its fence nothing is changed where somebody has.
    pub(super) async fn release(self, unused: bool) {
        let Self {
            tenure,
            leases,
            _renewing: renewing,
        } = self;
        drop(renewing);
        let rests = unused && !tenure.is_wanted();
        if let Err(error) = leases.release(&tenure.fence, rests).await {
            tracing::warn!(%error, lease = %tenure.fence.name, "a lease could not be let go, and expires");
        }
        tenure.lose();
    }
}

impl Life {
    /// Waits until the server may be started here. `None`: nobody holds it any more; `Some(None)`: it may
    /// run anywhere. `eager`: it is started as soon as nobody has it, wanted or not.
    pub(super) async fn lease(&self, eager: bool) -> Option<Option<Held>> {
        if !self.recipe().single {
            return Some(None);
        }
        let Some(leases) = &self.launch.leases else {
            self.fail(Failure::no_leases());
            self.running.stop.cancelled().await;
            return None;
        };
        let look = (leases.term() / 4).clamp(Duration::from_millis(250), BEYOND);
        loop {
            let wanted = self.running.demand.is_said();
            if wanted {
                self.is_asked_for();
            }
            let asked = if wanted || eager {
                self.ask(leases, wanted).await
            } else {
                Ok(Err(Withheld::Rests))
            };
            if self.running.stop.is_cancelled() {
                if let Ok(Ok(held)) = asked {
                    held.release(false).await;
                }
                return None;
            }
            match asked {
                Ok(Ok(held)) => {
                    self.running.rises();
                    return Some(Some(held));
                }
                Ok(Err(why)) => self.stays_away(why, wanted),
                Err(error) => {
                    let failure = Failure::no_lease(&error).without(&self.launch.redactor);
                    self.running.is(ServerState::Backoff(Arc::new(failure)));
                    tokio::select! {
                        () = self.running.stop.cancelled() => return None,
                        () = tokio::time::sleep(look) => continue,
                    }
                }
            }
            tokio::select! {
                () = self.running.stop.cancelled() => return None,
                () = self.running.demand.said() => {}
                () = tokio::time::sleep(look), if eager => {}
            }
        }
    }

    /// Whoever waits is told by the next state; one that is tried again after an error is in that until then.
    fn is_asked_for(&self) {
        let tried_again = matches!(*self.running.watch().borrow(), ServerState::Backoff(_));
        if !tried_again {
            self.running.is(ServerState::Starting);
        }
    }

    /// Tries to get the lease. Where it is wanted here, whoever has it is told, for as long as that may take,
    /// or the server is. What was asked is always heard: a lease that nobody knows of would have to run out.
    async fn ask(
        &self,
        leases: &Leases,
        wanted: bool,
    ) -> Result<Result<Held, Withheld>, JournalError> {
        let name = self.running.name().as_str();
        let patience = leases.term() + BEYOND;
        let begun = Instant::now();
        loop {
            let asked = Instant::now();
            let why = match leases.take(name, wanted).await? {
                Taken::Here(fence) => {
                    return Ok(Ok(Held::keep(fence, asked, leases, &self.running.stop)));
                }
                Taken::Elsewhere(Some(holder)) => Withheld::Has(holder),
                Taken::Elsewhere(None) if wanted => Withheld::Promised,
                Taken::Elsewhere(None) => Withheld::Rests,
            };
            if !wanted || !leases.wishes() || begun.elapsed() >= patience {
                return Ok(Err(why));
            }
            tokio::select! {
                () = self.running.stop.cancelled() => return Ok(Err(why)),
                () = tokio::time::sleep(ASKED) => {}
            }
        }
    }

    /// Is listed as it was last known, and waits to be wanted. Whoever wanted it is told in any case.
    fn stays_away(&self, why: Withheld, wanted: bool) {
        if wanted {
            self.running.demand.forget();
        }
        if !self.running.is_listed() {
            // Whoever has it may have met it only now.
            self.launch.pins.look_again();
            self.list_what_is_known();
        }
        let failure = match why {
            Withheld::Rests => {
                let is_idle = matches!(*self.running.watch().borrow(), ServerState::Idle);
                if !is_idle {
                    self.running.is(ServerState::Idle);
                }
                return;
            }
            Withheld::Has(holder) => Failure::elsewhere(&format!("that is {holder}")),
            Withheld::Promised => Failure::elsewhere("another one is next"),
        };
        let is_told = match &*self.running.watch().borrow() {
            ServerState::Elsewhere(told) => told.error == failure.error,
            _ => false,
        };
        if is_told && !wanted {
            return;
        }
        if self.running.is_told_first() {
            self.launch.run.record(Event::ServerWarned {
                server: self.running.name().to_string(),
                warning: failure.error.clone(),
            });
        }
        self.running.is(ServerState::Elsewhere(Arc::new(failure)));
    }

    /// What is started under a lease, which is told the fence: whoever is asked by two holders knows by
    /// it which of them came later.
    pub(super) fn under(&self, held: Option<&Held>) -> Cow<'_, ServerSpec> {
        let spec = &self.recipe().spec;
        let Some(held) = held else {
            return Cow::Borrowed(spec);
        };
        let token = held.tenure.fence.token.to_string();
        let mut spec = spec.clone();
        match &mut spec.transport {
            TransportSpec::Stdio(stdio) => {
                stdio.env.insert(VARIABLE.to_owned(), token);
            }
            TransportSpec::Http(http)
            | TransportSpec::Sse(http)
            | TransportSpec::WebSocket(http) => {
                http.headers
                    .retain(|(name, _)| !name.eq_ignore_ascii_case(HEADER));
                http.headers.push((HEADER.to_owned(), token));
            }
            TransportSpec::InProcess(_) => {}
        }
        Cow::Owned(spec)
    }
}
