//! What `outrigger serve` opens for each principal: a session with a run of its own, under the
//! configuration as it is for that principal.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use outrigger_gateway::{Activity, Clients, End, Identity, Keeper, Renewed, Tenant};
use outrigger_host::Upstreams;
use outrigger_host::config::Config;
use outrigger_journal::{Event, Run, RunStatus, Tokens};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::renew::Basis;
use crate::display::{Display, Show};
use crate::error::CommandError;
use crate::screen::Label;
use crate::session::{self, Asked, Opening, Pool, Record, Renewal, Served, Session};
use crate::visible;

/// Opens sessions.
pub(super) struct Sessions {
    basis: Arc<Basis>,
    /// Sees the runs of all.
    activity: Arc<Activity>,
    trouble: Arc<Trouble>,
    /// Cancelled when calls of somebody cannot be recorded any more.
    broken: CancellationToken,
    watching: TaskTracker,
    /// Those of all principals: a server that several use asks about calls by their numbers.
    clients: Clients,
    pool: AsyncMutex<Option<Pool>>,
}

/// The first thing that ends the command with an error, once it has ended.
#[derive(Default)]
struct Trouble(Mutex<Option<CommandError>>);

impl Trouble {
    fn keep(&self, error: CommandError) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(error);
    }

    fn take(&self) -> Option<CommandError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Sessions {
    pub(super) fn new(basis: Arc<Basis>) -> Self {
        Self {
            basis,
            activity: Arc::default(),
            trouble: Arc::default(),
            broken: CancellationToken::new(),
            watching: TaskTracker::new(),
            clients: Clients::default(),
            pool: AsyncMutex::default(),
        }
    }

    /// The same, whose runs are seen by this one.
    pub(super) fn seen_by(self, activity: Arc<Activity>) -> Self {
        Self { activity, ..self }
    }

    /// Cancelled when the command has to be started anew.
    pub(super) fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Ends the command when nothing more of this run can be recorded, and so nothing be sent.
    fn watch(&self, run: Run) -> DropGuard {
        let over = CancellationToken::new();
        let (ended, broken) = (over.clone(), self.broken.clone());
        let trouble = Arc::clone(&self.trouble);
        self.watching.spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = run.broken_off() => {
                    let error = CommandError::failed("calls cannot be recorded any more, so none was sent");
                    trouble.keep(error.hint("start it anew; it begins a new run"));
                    broken.cancel();
                }
            }
        });
        over.drop_guard()
    }

    async fn begin(&self, who: &Identity) -> Result<Tenant, CommandError> {
        let (common, screen) = (&self.basis.common, self.basis.screen);
        let config = self.basis.config(who)?;
        let kept = self.basis.kept(who, &config)?;
        let clients = self.clients.clone();
        let started = session::run_started(common, "serve", None, None)?;
        let started = of_principal(started, who);
        let opening = Opening {
            common,
            config: &config,
            screen,
            record: Record::Journal(started),
            observers: vec![
                Arc::new(Display::new(screen, Show::Servers)),
                self.activity.clone(),
            ],
            person: Asked::Clients(Served {
                clients: clients.clone(),
                whose: who.clone(),
                shared: self.shared(&config).await?,
            }),
            sampler: None,
            allow: &self.basis.args.allow,
        };
        let session = Session::open_in(opening, &self.basis.storage);
        let session = Box::pin(session).await?;
        Ok(Tenant {
            host: session.host.clone(),
            clients,
            kept,
            record: outrigger_gateway::Record {
                journal: session.journal.clone(),
                run: Some(session.run.clone()),
            },
            end: Box::new(Open {
                _watch: self.watch(session.run.clone()),
                session,
                who: who.clone(),
                basis: Arc::clone(&self.basis),
                trouble: Arc::clone(&self.trouble),
            }),
        })
    }

    /// What lends servers that several principals use, where there are several and such servers. One that
    /// may run in one place at a time comes from there in any case: those who are known later are lent
    /// the same. With flags that are about one principal there is nobody else, and they follow what
    /// the session itself starts.
    async fn shared(&self, config: &Config) -> Result<Option<Upstreams>, CommandError> {
        let (own, common) = (self.basis.own(), &self.basis.common);
        let of_one = common.record.is_some() || common.wire.is_some();
        let several = own.gateway.knows_anybody() || config.has_single() && !of_one;
        if !several || !Pool::is_wanted(config) {
            return Ok(None);
        }
        let mut held = self.pool.lock().await;
        let pool = match &mut *held {
            Some(pool) => pool,
            none => {
                let basis = &self.basis;
                let kept = (&basis.storage, basis.screen);
                let opening = Pool::open(&basis.common, &own, &self.clients, kept);
                none.insert(Box::pin(opening).await?)
            }
        };
        Ok(Some(pool.upstreams()))
    }

    /// Ends what is left when all that was opened has ended; an error is the first that came.
    pub(super) async fn close(&self) -> Result<(), CommandError> {
        let closed = match self.pool.lock().await.take() {
            Some(pool) => pool.close().await,
            None => Ok(()),
        };
        match self.trouble.take() {
            Some(error) => Err(error),
            None => closed,
        }
    }
}

fn of_principal(mut started: Event, who: &Identity) -> Event {
    if let Event::RunStarted { principal, .. } = &mut started {
        *principal = who.name().map(ToOwned::to_owned);
    }
    started
}

#[async_trait]
impl Keeper for Sessions {
    async fn open(&self, who: &Identity) -> Result<Tenant, String> {
        match Box::pin(self.begin(who)).await {
            Ok(tenant) => Ok(tenant),
            Err(error) => {
                if *who == Identity::Local {
                    self.trouble.keep(error);
                } else {
                    let warning = self.basis.screen.talk(Label::Warn, "warning:");
                    let told = format!("nothing can be served to `{who}`: {error}");
                    self.basis
                        .screen
                        .insist(format_args!("{warning} {}", visible::line(&told)));
                }
                Err(
                    "the servers cannot be started; whoever runs the gateway is told why"
                        .to_owned(),
                )
            }
        }
    }

    fn refused(&self, peer: IpAddr, why: &str) {
        let note = self.basis.screen.talk(Label::Warn, "note:");
        let told = format!("a client at {peer} was not let in: {why}");
        self.basis
            .screen
            .say(format_args!("{note} {}", visible::line(&told)));
    }
}

/// What was opened.
struct Open {
    session: Session,
    who: Identity,
    basis: Arc<Basis>,
    _watch: DropGuard,
    trouble: Arc<Trouble>,
}

#[async_trait]
impl End for Open {
    async fn end(self: Box<Self>) {
        let ended = Event::RunEnded {
            status: RunStatus::Done,
            reason: None,
            answer: None,
            usage: Tokens::default(),
        };
        let closing = Box::pin(self.session.close(Some(ended), self.basis.screen));
        if let Err(error) = closing.await {
            self.trouble.keep(error);
        }
    }

    async fn renew(&mut self) -> Option<Renewed> {
        match Box::pin(self.go_on()).await {
            Ok(renewed) => Some(renewed),
            Err(error) => {
                self.basis.warn(Some(&self.who), &error);
                None
            }
        }
    }
}

impl Open {
    async fn go_on(&mut self) -> Result<Renewed, CommandError> {
        let config = self.basis.config(&self.who)?;
        let kept = self.basis.kept(&self.who, &config)?;
        let renewal = Renewal {
            common: &self.basis.common,
            config: &config,
            screen: self.basis.screen,
            principal: self.who.name(),
            allow: &self.basis.args.allow,
        };
        let succeeded = Box::pin(self.session.renew(renewal)).await?;
        self.basis.tell(&self.who, &succeeded);
        Ok(Renewed {
            host: self.session.host.clone(),
            kept,
        })
    }
}
