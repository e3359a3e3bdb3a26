//! The configuration of the gateway, which may be read again while it runs.
//!
//! Promises: a configuration with an error changes nothing; nobody is asked, and what a person has not
//! trusted stays untrusted. Leaves out when it is read ([`watch`](super::watch)), and what cannot change
//! without a restart: where it listens, and `[storage]`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outrigger_gateway::{Gateway, Identity};
use outrigger_host::config::{Config, EntryState, ProjectStanding, show};
use outrigger_host::{Digest, Succeeded};
use serde_json::{Value, json};

use super::watch::Watch;
use crate::cli::{Common, ServeArgs};
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::session;
use crate::storage::Storage;
use crate::{surroundings, visible};

/// What sessions are opened under.
pub(super) struct Basis {
    pub(super) common: Common,
    pub(super) args: ServeArgs,
    pub(super) screen: Screen,
    /// Where state is kept, from the start to the end.
    pub(super) storage: Storage,
    /// Of whoever runs the gateway.
    config: Mutex<Config>,
    /// The content of the project that was trusted when all of this began.
    trusted: Option<String>,
}

impl Basis {
    pub(super) fn new(
        common: &Common,
        args: ServeArgs,
        config: Config,
        (storage, screen): (Storage, Screen),
    ) -> Self {
        let project = config.project.as_ref();
        let trusted = project.filter(|it| it.standing == ProjectStanding::Trusted);
        Self {
            trusted: trusted.map(|project| project.digest.clone()),
            common: common.clone(),
            args,
            screen,
            storage,
            config: Mutex::new(config),
        }
    }

    /// The configuration as it is for somebody.
    pub(super) fn config(&self, who: &Identity) -> Result<Config, CommandError> {
        let mut config = match who.name() {
            None => self.own(),
            Some(name) => session::configuration_of(name, self.args.mode, &self.common)?,
        };
        if let Some(server) = &self.args.server {
            session::only(&mut config, server)?;
        }
        Ok(config)
    }

    /// That of whoever runs the gateway.
    pub(super) fn own(&self) -> Config {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long calls that are under way have to end.
    pub(super) fn drain(&self) -> Duration {
        self.own().gateway.drain_timeout.value
    }

    /// Where it is kept what was last known of the tools under this configuration, seen with these
    /// flags by this principal.
    pub(super) fn kept(
        &self,
        who: &Identity,
        config: &Config,
    ) -> Result<Option<PathBuf>, CommandError> {
        let Some(folder) = surroundings::gateway() else {
            return Ok(None);
        };
        let key = Digest::of(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "workspace": surroundings::workspace(&self.common)?,
            "principal": who.name(),
            "server": self.args.server,
            "allow": self.args.allow,
            "locked": self.common.locked,
            "profile": self.common.profile,
            "config": show::to_json(config),
        }));
        Ok(Some(folder.join(format!("{key}.json"))))
    }

    /// Reads the configuration again. An error leaves the one that is there.
    fn read(&self) -> Result<(), CommandError> {
        let before = self.own();
        let read = session::configuration_again(&self.common, self.trusted.as_deref(), self.screen);
        let mut config = read?;
        if let Some(mode) = self.args.mode {
            config.policy.choose_mode(mode.into())?;
        }
        if let Some(server) = &self.args.server {
            session::only(&mut config.clone(), server)?;
        }
        super::of_one(&self.common, &config.gateway)?;
        self.refuse_broken(&before, &config)?;
        if of_the_start(&before) != of_the_start(&config) {
            self.alert("`[storage]` is another one; that takes a restart");
        }
        let beyond = self.args.http.filter(|it| !it.ip().is_loopback());
        if let Some(address) = beyond.filter(|_| !config.gateway.knows_anybody()) {
            self.alert(&format!(
                "the configuration knows nobody who may connect any more, so nobody may at {address}"
            ));
        }
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// A server that was usable is not lost to a slip of the pen.
    fn refuse_broken(&self, before: &Config, config: &Config) -> Result<(), CommandError> {
        let broken = config.servers.iter().filter_map(|(name, entry)| {
            let EntryState::Broken(problems) = &entry.state else {
                return None;
            };
            let was = before.servers.get(name).map(|entry| &entry.state);
            (!matches!(was, Some(EntryState::Broken(_)))).then_some((name, problems))
        });
        let mut names = Vec::new();
        for (name, problems) in broken {
            names.push(format!("`{name}`"));
            for problem in problems {
                self.screen
                    .insist(visible::lines(problem.render().trim_end()));
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        let names = names.join(", ");
        Err(CommandError::usage(format!("{names} cannot be started")))
    }

    /// Something to know.
    pub(super) fn note(&self, text: &str) {
        let note = self.screen.talk(Label::Warn, "note:");
        self.screen
            .say(format_args!("{note} {}", visible::line(text)));
    }

    /// Something to do something about.
    fn alert(&self, text: &str) {
        let warning = self.screen.talk(Label::Warn, "warning:");
        self.screen
            .insist(format_args!("{warning} {}", visible::line(text)));
    }

    /// What came of it for somebody.
    pub(super) fn tell(&self, who: &Identity, what: &Succeeded) {
        let names = |names: &[_]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut told = read_again(
            &names(&what.added),
            &names(&what.removed),
            &names(&what.changed),
        );
        if let Some(name) = who.name() {
            told = format!("for `{name}` {told}");
        }
        self.note(&told);
    }

    /// Nothing came of it.
    pub(super) fn warn(&self, who: Option<&Identity>, error: &CommandError) {
        let whose = who.map(|who| format!(" for {who}")).unwrap_or_default();
        self.alert(&format!(
            "the configuration as it was read again is not used{whose}; the one before stays: {error}"
        ));
    }

    /// Reads the configuration whenever that is due, and has everybody go over to it. Does not return.
    pub(super) async fn follow(&self, gateway: &Gateway, mut watch: Watch) {
        loop {
            watch.changed().await;
            if self.common.record.is_some() || self.common.playback.is_some() {
                self.note("the configuration was not read again: a recording has one");
                continue;
            }
            match self.read() {
                Ok(()) => {
                    let access = self.own().gateway;
                    if Box::pin(gateway.renew(access)).await == 0 {
                        self.note("the configuration was read again");
                    }
                }
                Err(error) => self.warn(None, &error),
            }
        }
    }
}

/// What counts from the start to the end, without where it is written.
fn of_the_start(config: &Config) -> Value {
    without_places(show::to_json(config)["storage"].take())
}

fn without_places(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| name != "origin")
            .map(|(name, value)| (name, without_places(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_places).collect(),
        value => value,
    }
}

/// In one sentence.
pub(crate) fn read_again(added: &[String], removed: &[String], changed: &[String]) -> String {
    let mut told = "the configuration was read again".to_owned();
    let lists = [("added", added), ("removed", removed), ("changed", changed)];
    let mut before = ": servers";
    for (what, names) in lists {
        if !names.is_empty() {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(told, "{before} {what} {}", names.join(", "));
            before = ";";
        }
    }
    if before == ": servers" {
        told.push_str("; the servers are the same");
    }
    told
}
