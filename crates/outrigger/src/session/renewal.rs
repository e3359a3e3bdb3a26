//! A session that goes on under a configuration that was read again.

use std::sync::Arc;

use outrigger_host::config::Config;
use outrigger_host::policy::Policy;
use outrigger_host::{Builtin, Succeeded, Successor};
use outrigger_journal::Event;

use super::{Session, with_secrets, world};
use crate::cli::Common;
use crate::error::CommandError;
use crate::screen::Screen;
use crate::{builtin, hooks, surroundings};

/// How a session is to go on.
pub(crate) struct Renewal<'a> {
    pub(crate) common: &'a Common,
    pub(crate) config: &'a Config,
    pub(crate) screen: Screen,
    pub(crate) principal: Option<&'a str>,
    pub(crate) allow: &'a [String],
}

impl Session {
    /// Follows the references to secrets anew, and puts another host in the place of the one that is
    /// there; calls of that one go on. Where that cannot be, all stays as it is.
    ///
    /// The run, its record and its storage stay; the hooks of its start have run.
    pub(crate) async fn renew(&mut self, with: Renewal<'_>) -> Result<Succeeded, CommandError> {
        let common = with.common;
        let mut policy = Policy::new(&with.config.policy, with.allow)?;
        if let Some(name) = with.principal {
            policy = policy.of_client(name);
        }
        let config = with_secrets(with.config, true, common, with.screen).await?;
        let hooks = Arc::new(hooks::of(&config, world::runner(common))?);
        let workspace = surroundings::workspace(common)?;
        let builtins = builtin::all(&config, &workspace, &self.shelf, self.host.artifacts())?;
        let successor = Successor {
            builtins: self.as_before(builtins),
            policy,
            hooks: Arc::clone(&hooks),
        };
        let host = self.shelf.of(self.host.succeed(&config, successor));
        let succeeded = host.since(&self.host);
        let names = |names: &[_]| names.iter().map(ToString::to_string).collect();
        self.run.record(Event::ConfigurationRead {
            added: names(&succeeded.added),
            removed: names(&succeeded.removed),
            changed: names(&succeeded.changed),
        });
        (self.host, self.hooks) = (host, hooks);
        Ok(succeeded)
    }

    /// A built-in server that was made before is the same one.
    fn as_before(&mut self, builtins: Vec<Builtin>) -> Vec<Builtin> {
        let mut kept = Vec::new();
        for new in builtins {
            let known = self.builtins.iter().find(|known| known.name == new.name);
            if let Some(known) = known {
                kept.push(known.clone());
            } else {
                self.builtins.push(new.clone());
                kept.push(new);
            }
        }
        kept
    }
}
