//! Servers that all principals of a gateway use, with a run of their own for what becomes of them.

use std::sync::Arc;

use outrigger_connect::OAuth;
use outrigger_gateway::Clients;
use outrigger_host::Upstreams;
use outrigger_host::config::{Config, EntryState, Sharing};
use outrigger_host::pins::PinMode;
use outrigger_host::questions::Questions;
use outrigger_journal::{Event, Journal, Run, RunOptions, RunStatus, Tokens};

use super::{Asked, RENEWAL, pins, root, run_started, tokens, world};
use crate::cli::Common;
use crate::display::{Display, Show};
use crate::error::CommandError;
use crate::screen::Screen;
use crate::storage::Storage;
use crate::{surroundings, traces};

/// What lends them.
pub(crate) struct Pool {
    upstreams: Upstreams,
    run: Run,
    journal: Journal,
    oauth: Option<OAuth>,
}

impl Pool {
    /// Whether a configuration has servers for it.
    pub(crate) fn is_wanted(config: &Config) -> bool {
        config.servers.values().any(|entry| match &entry.state {
            EntryState::Ready(settings) => settings.sharing() == Sharing::Shared,
            _ => false,
        })
    }

    /// Begins its run; no server is started before a principal wants it. `clients` answer what servers
    /// ask, each about its own calls.
    pub(crate) async fn open(
        common: &Common,
        config: &Config,
        clients: &Clients,
        (storage, screen): (&Storage, Screen),
    ) -> Result<Self, CommandError> {
        let journal = storage.open(screen)?;
        let mode = if common.locked {
            PinMode::Locked
        } else {
            PinMode::FirstUse
        };
        let pins = Arc::new(pins(storage, common, config, mode)?);
        let options = RunOptions {
            observers: vec![Arc::new(Display::new(screen, Show::Servers))],
            secrets: [config.secrets(), storage.secrets().to_vec()].concat(),
        };
        let started = run_started(common, "serve", None, None)?;
        let run = journal.begin(started, options).await?;
        traces::follow(run.redactor());
        // Whoever signed in for all did so as the person who runs the gateway.
        let oauth = tokens(common, &run, None);
        let connector = world::connector(oauth.as_ref(), Vec::new(), common);
        let workspace = surroundings::workspace(common)?;
        let questions = Questions {
            roots: vec![root(&workspace)?],
            ..clients.questions()
        };
        Ok(Self {
            upstreams: Upstreams::new(
                connector,
                questions,
                run.clone(),
                pins,
                Some(Asked::upkeep_of_all(config)),
            )
            .with_leases(storage.leases(&journal)),
            run,
            journal,
            oauth,
        })
    }

    /// For the host of a principal.
    pub(crate) fn upstreams(&self) -> Upstreams {
        self.upstreams.clone()
    }

    /// Ends its run. Its servers have ended with the last host that had them.
    pub(crate) async fn close(self) -> Result<(), CommandError> {
        if let Some(oauth) = &self.oauth {
            oauth.finish(RENEWAL).await;
        }
        self.run.record(Event::RunEnded {
            status: RunStatus::Done,
            reason: None,
            answer: None,
            usage: Tokens::default(),
        });
        drop((self.upstreams, self.run));
        self.journal.close().await?;
        Ok(())
    }
}
