//! Who is served, each with what is theirs alone.
//!
//! Promises: a principal has a host, clients, views, sessions and waiting calls of its own, which no
//! other one's requests are ever looked up in; they are made when they are first wanted, once, and
//! closed when nothing was wanted of them for long; bounded in number. Leaves out: who may be whom
//! (`auth`), and what hosts are made of, which is the [`Keeper`]'s.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::join_all;
use outrigger_host::Host;
use tokio::sync::{Mutex as Door, OnceCell, RwLock};
use tokio_util::sync::CancellationToken;

use crate::auth::{Access, Admitted};
use crate::clients::Clients;
use crate::gateway::{Core, Record, Shared};
use crate::renew::Renewed;

/// What is under way when a principal's servers are closed may take this long.
const GRACE: Duration = Duration::from_secs(5);
/// Whoever was served within this time is not closed to make room for somebody else.
const RECENT: Duration = Duration::from_secs(10);
/// How often it is looked who has not been there for long, at most.
const ROUND: Duration = Duration::from_secs(60);

/// Who wants something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Whoever runs the gateway: over its pipe or socket, or on loopback where nobody is asked.
    Local,
    /// A client that has shown who it is.
    Named(Arc<str>),
}

impl Identity {
    /// The name of the principal; `None` for whoever runs the gateway.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Named(name) => Some(name),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("whoever runs the gateway"))
    }
}

/// What is one principal's alone.
pub struct Tenant {
    /// Its servers, under its policy.
    pub host: Host,
    /// Made before the host whose questions they answer.
    pub clients: Clients,
    /// The file where it is kept what was last known of the tools; one for each configuration and
    /// principal.
    pub kept: Option<PathBuf>,
    /// Where its calls are recorded.
    pub record: Record,
    /// Ends the host, and what belongs to it.
    pub end: Box<dyn End>,
}

/// Ends what was opened for a principal.
#[async_trait]
pub trait End: Send + Sync {
    /// Ends it. No call is under way any more.
    async fn end(self: Box<Self>);

    /// What it is under the configuration as that has been read again; calls may be under way. `None`:
    /// it goes on as it is, and whoever runs the gateway was told why.
    async fn renew(&mut self) -> Option<Renewed> {
        None
    }
}

/// What a gateway needs of the program around it.
#[async_trait]
pub trait Keeper: Send + Sync {
    /// Opens what belongs to one principal; an error is worded for its client and names no secret.
    async fn open(&self, who: &Identity) -> Result<Tenant, String>;

    /// Somebody was not let in.
    fn refused(&self, peer: IpAddr, why: &str);
}

/// Why a principal cannot be served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// There are too many others.
    Full(usize),
    /// What belongs to it cannot be opened.
    Broken(String),
    /// What it was let in by lets in nobody any more.
    Over,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(most) => write!(f, "the servers of {most} principals are running"),
            Self::Broken(why) => f.write_str(why),
            Self::Over => f.write_str("it is not known here any more"),
        }
    }
}

/// All that are served.
pub(crate) struct Tenants {
    keeper: Arc<dyn Keeper>,
    /// How many principals there may be, and how long one that wants nothing is kept.
    access: Arc<Access>,
    all: Mutex<HashMap<Identity, Arc<Place>>>,
    /// Of those who are not known any more, as long as something of theirs is under way.
    retiring: Mutex<Vec<Arc<Place>>>,
    /// Held for writing while everybody goes over to another configuration.
    pub(crate) opening: RwLock<()>,
}

/// The place of one of them.
pub(crate) struct Place {
    opened: OnceCell<Opened>,
    /// Requests that wait until it is open, or have just seen that it is. Changes under the lock of all.
    wanted: AtomicUsize,
    used: Mutex<Instant>,
}

/// A request that wants a place. Dropped, it does not any more: a place that is not open, and that
/// nobody else wants, is not there any more either.
struct Came<'a> {
    tenants: &'a Tenants,
    who: &'a Identity,
    place: Arc<Place>,
}

impl Drop for Came<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.tenants.all);
        let is_last = self.place.wanted.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last
            && !self.place.opened.initialized()
            && all
                .get(self.who)
                .is_some_and(|known| Arc::ptr_eq(known, &self.place))
        {
            all.remove(self.who);
        }
    }
}

struct Opened {
    core: Arc<Core>,
    end: Door<Option<Box<dyn End>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tenants {
    pub(crate) fn new(keeper: Arc<dyn Keeper>, access: Arc<Access>) -> Self {
        Self {
            keeper,
            access,
            all: Mutex::default(),
            retiring: Mutex::default(),
            opening: RwLock::default(),
        }
    }

    pub(crate) fn keeper(&self) -> &dyn Keeper {
        &*self.keeper
    }

    /// What belongs to somebody; opened where it is not.
    pub(crate) async fn of(
        &self,
        shared: &Arc<Shared>,
        Admitted { who, pass }: &Admitted,
    ) -> Result<Arc<Core>, Unserved> {
        if pass.is_over() {
            return Err(Unserved::Over);
        }
        let came = self.come(shared, who)?;
        // Held until it can be seen that it is open.
        let mut one_configuration = None;
        let held = &mut one_configuration;
        let opening = came.place.opened.get_or_try_init(|| async move {
            *held = Some(self.opening.read().await);
            // Whoever is not known any more is not opened after all.
            if pass.is_over() {
                return Err(Unserved::Over);
            }
            let tenant = self.keeper.open(who).await.map_err(Unserved::Broken)?;
            Ok(Opened::new(shared, who, tenant))
        });
        let opened: Result<&Opened, Unserved> = Box::pin(opening).await;
        let core = opened.map(|opened| Arc::clone(&opened.core))?;
        drop(one_configuration);
        if pass.is_over() {
            return Err(Unserved::Over);
        }
        Ok(core)
    }

    /// Somebody wants what belongs to them.
    fn come<'a>(&'a self, shared: &Arc<Shared>, who: &'a Identity) -> Result<Came<'a>, Unserved> {
        let mut all = lock(&self.all);
        let place = self.place(shared, who, &mut all)?;
        place.wanted.fetch_add(1, Ordering::Relaxed);
        Ok(Came {
            tenants: self,
            who,
            place,
        })
    }

    fn place(
        &self,
        shared: &Arc<Shared>,
        who: &Identity,
        all: &mut HashMap<Identity, Arc<Place>>,
    ) -> Result<Arc<Place>, Unserved> {
        if let Some(place) = all.get(who) {
            *lock(&place.used) = Instant::now();
            return Ok(Arc::clone(place));
        }
        let named = all
            .keys()
            .filter(|known| **known != Identity::Local)
            .count();
        let most = self.access.now().settings.max_principals.value;
        if *who != Identity::Local && named >= most {
            let oldest = all
                .iter()
                .filter(|(known, place)| **known != Identity::Local && place.is_idle(RECENT))
                .min_by_key(|(_, place)| *lock(&place.used));
            let oldest = oldest.map(|(known, _)| known.clone());
            let oldest = oldest.and_then(|known| all.remove(&known));
            let Some(oldest) = oldest else {
                return Err(Unserved::Full(most));
            };
            shared.tasks.spawn(async move { oldest.close().await });
        }
        let place = Arc::new(Place {
            opened: OnceCell::new(),
            wanted: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
        });
        all.insert(who.clone(), Arc::clone(&place));
        Ok(place)
    }

    /// Closes from time to time what nobody wants any more.
    pub(crate) async fn tidy(&self) {
        loop {
            let idle = self.access.now().settings.idle.value;
            tokio::time::sleep(idle.min(ROUND)).await;
            for core in self.cores() {
                core.sessions.make_room();
            }
            let unwanted: Vec<_> = {
                let mut all = lock(&self.all);
                let is_old = |(who, place): &(&Identity, &Arc<Place>)| {
                    **who != Identity::Local && place.is_idle(idle)
                };
                let old: Vec<_> = all
                    .iter()
                    .filter(is_old)
                    .map(|(who, _)| who.clone())
                    .collect();
                old.iter().filter_map(|who| all.remove(who)).collect()
            };
            join_all(unwanted.iter().map(|place| place.close())).await;
        }
    }

    /// Everybody who is served now, whoever runs the gateway first.
    pub(crate) fn cores(&self) -> Vec<Arc<Core>> {
        let all = lock(&self.all);
        let opened = all.values().filter_map(|place| place.opened.get());
        let mut cores: Vec<_> = opened.map(|opened| Arc::clone(&opened.core)).collect();
        cores.sort_by(|one, other| one.who.name().cmp(&other.who.name()));
        cores
    }

    /// Those, and whoever is not known any more and has something under way.
    pub(crate) fn cores_under_way(&self) -> Vec<Arc<Core>> {
        let mut cores = self.cores();
        let retiring = lock(&self.retiring);
        let opened = retiring.iter().filter_map(|place| place.opened.get());
        cores.extend(opened.map(|opened| Arc::clone(&opened.core)));
        cores
    }

    /// Ends those who are not known any more: what they have under way ends as it would have, unless
    /// the gateway stops before. Whoever is being opened is looked at once that is done.
    pub(crate) fn dismiss(&self, shared: &Arc<Shared>) {
        let gone: Vec<_> = {
            let mut all = lock(&self.all);
            let is_gone = |who: &Identity, place: &mut Arc<Place>| {
                place.opened.initialized() && !self.access.may_come(who)
            };
            let gone = all.extract_if(is_gone);
            let gone: Vec<_> = gone.map(|(_, place)| place).collect();
            lock(&self.retiring).extend(gone.iter().cloned());
            gone
        };
        for place in gone {
            let shared_ = Arc::clone(shared);
            shared.tasks.spawn(async move {
                if place.retire(&shared_.stop).await {
                    let mut retiring = lock(&shared_.tenants.retiring);
                    retiring.retain(|other| !Arc::ptr_eq(other, &place));
                }
            });
        }
    }

    /// The places of all, opened or not.
    pub(crate) fn places(&self) -> Vec<Arc<Place>> {
        lock(&self.all).values().cloned().collect()
    }

    /// Ends what was opened, all at once. Nothing is under way any more.
    pub(crate) async fn end(&self) {
        let mut all: Vec<_> = lock(&self.all).drain().map(|(_, place)| place).collect();
        all.append(&mut lock(&self.retiring));
        join_all(all.iter().map(|place| place.end())).await;
    }
}

impl Place {
    /// Nothing was wanted for so long, and nothing is under way.
    fn is_idle(&self, long: Duration) -> bool {
        let Some(opened) = self.opened.get() else {
            return false;
        };
        lock(&self.used).elapsed() >= long && opened.core.tasks.is_empty()
    }

    /// Goes over to the configuration as that was read again. False: it is not open.
    pub(crate) async fn renew(&self) -> bool {
        let Some(opened) = self.opened.get() else {
            return false;
        };
        let mut end = opened.end.lock().await;
        let Some(end) = end.as_mut() else {
            return false;
        };
        if let Some(renewed) = Box::pin(end.renew()).await {
            opened.core.renew(renewed);
        }
        true
    }

    /// Ends what is under way, and then what it is made of.
    async fn close(&self) {
        if let Some(opened) = self.opened.get() {
            opened.core.stop.cancel();
            opened.core.finish(GRACE).await;
        }
        self.end().await;
    }

    /// Ends it once what is under way has ended. False: `stop` said so before, and whoever stops the
    /// gateway ends it.
    async fn retire(&self, stop: &CancellationToken) -> bool {
        if let Some(opened) = self.opened.get() {
            tokio::select! {
                () = opened.core.retire() => {}
                () = stop.cancelled() => return false,
            }
        }
        self.end().await;
        true
    }

    async fn end(&self) {
        if let Some(opened) = self.opened.get()
            && let Some(end) = opened.end.lock().await.take()
        {
            end.end().await;
        }
    }
}

impl Opened {
    fn new(shared: &Arc<Shared>, who: &Identity, tenant: Tenant) -> Self {
        let Tenant {
            host,
            clients,
            kept,
            record,
            end,
        } = tenant;
        Self {
            core: Core::start(shared, (who, record), (host, clients), kept),
            end: Door::new(Some(end)),
        }
    }
}
