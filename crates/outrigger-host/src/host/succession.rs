//! A host that takes another one's place, because the configuration has changed.
//!
//! Promises: calls that the earlier host has begun end under its policy, with its servers; servers that
//! are configured as before go on as they are; the run goes on, with its numbers of calls and all that it
//! knows. Leaves out: reading the configuration, and who is to go over to the new host.

use std::sync::Arc;
use std::sync::RwLock;
use std::sync::atomic::AtomicU32;

use outrigger_connect::ServerName;
use outrigger_journal::{Redactor, Run};
use tokio_util::sync::CancellationToken;

use super::person::Person;
use super::server::{Launch, Member};
use super::{Builtin, Host, Parts, Upstreams};
use crate::approve::Approver;
use crate::artifact::{Artifacts, Handles};
use crate::config::Config;
use crate::hooks::Hooks;
use crate::offers::Shelf;
use crate::pins::Pins;
use crate::pipeline::{Sessions, Unknowns};
use crate::policy::{Origins, Policy};
use crate::questions::Clerk;
use crate::traces::Traces;

/// What of a host may be another one after its configuration has changed.
pub struct Successor {
    /// Servers in this process. One with the same pipe as before goes on.
    pub builtins: Vec<Builtin>,
    /// Decides.
    pub policy: Policy,
    /// Have a say about calls.
    pub hooks: Arc<Hooks>,
}

/// What is another one since an earlier host of the same run. Names in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Succeeded {
    /// Servers that are new.
    pub added: Vec<ServerName>,
    /// Servers that are gone.
    pub removed: Vec<ServerName>,
    /// Servers that begin anew: they are configured otherwise, or had failed.
    pub changed: Vec<ServerName>,
}

/// What stays for as long as the run does.
pub(super) struct Lasting {
    pub(super) run: Run,
    pub(super) redactor: Redactor,
    pub(super) pins: Arc<Pins>,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) artifacts: Option<Artifacts>,
    pub(super) traces: Option<Arc<dyn Traces>>,
    /// Starts the servers that are this run's alone.
    pub(super) own: Upstreams,
    /// Lends those that other runs use too.
    pub(super) lent: Option<Upstreams>,
    pub(super) sessions: Sessions,
    pub(super) unknowns: Arc<Unknowns>,
    pub(super) person: Arc<Person>,
    pub(super) calls: AtomicU32,
    /// Servers whose words have been shown in this run.
    pub(super) origins: RwLock<Origins>,
    /// The artifacts that this run may use.
    pub(super) handles: Handles,
    /// Cancelled, in the sense of over, when there is an artifact to read.
    pub(super) wanted: CancellationToken,
    pub(super) shelf: Shelf,
}

impl Lasting {
    /// Takes apart what a host is made of.
    pub(super) fn of(parts: Parts) -> (Self, Successor) {
        let person = Arc::new(Person::default());
        let redactor = parts.run.redactor().clone();
        let own = Upstreams::of(Launch {
            connector: parts.connector,
            clerk: Clerk::new(parts.questions, parts.run.clone(), Arc::clone(&person)),
            run: parts.run.clone(),
            redactor: redactor.clone(),
            pins: Arc::clone(&parts.pins),
            upkeep: parts.upkeep,
            leases: parts.leases,
        });
        let lasting = Self {
            run: parts.run,
            redactor,
            pins: parts.pins,
            approver: parts.approver,
            artifacts: parts.artifacts,
            traces: parts.traces,
            own,
            lent: parts.shared,
            sessions: Sessions::default(),
            unknowns: Arc::default(),
            person,
            calls: AtomicU32::new(0),
            origins: RwLock::default(),
            handles: Handles::default(),
            wanted: CancellationToken::new(),
            shelf: Shelf::default(),
        };
        let rest = Successor {
            builtins: parts.builtins,
            policy: parts.policy,
            hooks: parts.hooks,
        };
        (lasting, rest)
    }

    /// Keeps out of records what this configuration calls secret.
    pub(super) fn learn(&self, config: &Config) {
        self.redactor.learn(config.secrets());
        if let Some(lent) = &self.lent {
            lent.redactor().learn(config.secrets());
        }
    }
}

impl Host {
    /// The host for what comes from now on, under another configuration of the same run. Servers that
    /// are configured as before go on as they are; those that had failed are tried again.
    ///
    /// This host's calls that are under way end as they would have. Its servers that the other one does
    /// not have are ended when the last clone of it is dropped, or it is closed.
    #[must_use]
    pub fn succeed(&self, config: &Config, with: Successor) -> Self {
        let lasting = &self.shared.lasting;
        for upstreams in [Some(&lasting.own), lasting.lent.as_ref()]
            .into_iter()
            .flatten()
        {
            upstreams.forget_failed();
        }
        if let Some(upkeep) = &lasting.own.launch().upkeep {
            upkeep.allow(config.limits.max_servers.value);
        }
        Self::under(config, with, Arc::clone(lasting))
    }

    /// What is another one here than with the host whose place this one took.
    pub fn since(&self, earlier: &Self) -> Succeeded {
        let (now, before) = (&self.shared.servers, &earlier.shared.servers);
        let added = now.keys().filter(|name| !before.contains_key(*name));
        let removed = before.keys().filter(|name| !now.contains_key(*name));
        let is_other = |(name, member): &(&ServerName, &Member)| {
            let before = before.get(*name);
            before.is_some_and(|before| !member.is_same(before))
        };
        Succeeded {
            added: added.cloned().collect(),
            removed: removed.cloned().collect(),
            changed: now
                .iter()
                .filter(is_other)
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }
}
