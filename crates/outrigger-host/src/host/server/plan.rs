//! How each server of a configuration is to be started, or why not.

use std::sync::Arc;

use outrigger_connect::{
    Deadlines, InProcessSpec, Protocol, ServerName, ServerSpec, TransportSpec,
};

use super::Failure;
use super::running::Recipe;
use crate::catalog::{Standing, ToolFilter};
use crate::config::{
    Config, EntryState, Layer, Profile, Repeating, ServerSettings, ServerStart, Sharing, profile,
};
use crate::host::Builtin;
use crate::pins::ServerIdentity;
use crate::questions::Answers;

/// One server as it is to be started, or not.
pub(in crate::host) struct Plan {
    pub(in crate::host) name: ServerName,
    pub(in crate::host) description: Option<String>,
    pub(super) start: Start,
}

pub(super) enum Start {
    Connect {
        recipe: Box<Recipe>,
        when: When,
        /// Whether other hosts may have it too.
        shared: bool,
    },
    SetAside(Failure),
    Disabled,
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) enum When {
    Now,
    /// Once somebody wants it.
    Wanted,
    /// Only once there is an artifact to read.
    Artifacts,
}

impl Plan {
    pub(in crate::host) fn all(config: &Config, builtins: &[Builtin]) -> Vec<Self> {
        let ours = builtins
            .iter()
            .filter(|builtin| !config.servers.contains_key(&builtin.name))
            .map(|builtin| Self::builtin(builtin, config));
        let configured = config.servers.values().map(|entry| {
            let start = match &entry.state {
                EntryState::Disabled => Start::Disabled,
                EntryState::NeedsTrust(_) => Start::SetAside(Failure::needs_trust()),
                EntryState::Broken(problems) => {
                    let error = problems
                        .iter()
                        .map(|problem| format!("{}: {}", problem.place(), problem.message))
                        .collect::<Vec<_>>()
                        .join("; ");
                    let hints = problems
                        .iter()
                        .flat_map(|problem| problem.hints.clone())
                        .collect();
                    Start::SetAside(Failure::config(error, hints))
                }
                EntryState::Ready(settings) => {
                    Self::configured(settings, entry.origin.layer, &config.chosen)
                }
            };
            let description = match &entry.state {
                EntryState::Ready(settings) => settings.description.clone(),
                _ => None,
            };
            Self {
                name: entry.name.clone(),
                description,
                start,
            }
        });
        ours.chain(configured).collect()
    }

    fn builtin(builtin: &Builtin, config: &Config) -> Self {
        let defaults = &config.defaults;
        let spec = ServerSpec {
            name: builtin.name.clone(),
            transport: TransportSpec::InProcess(InProcessSpec(Arc::clone(&builtin.pipe))),
            protocol: Protocol::Auto,
            versions: None,
            deadlines: Deadlines {
                // It costs nothing.
                idle: None,
                ..defaults.deadlines
            },
            limits: defaults.limits,
        };
        let standing = Standing {
            builtin: true,
            ..Standing::default()
        };
        // It reads what other tools returned, and has none that a profile could mean.
        let profiles = if builtin.name.as_str() == profile::ARTIFACTS {
            &[]
        } else {
            config.chosen.as_slice()
        };
        let start = Start::Connect {
            recipe: Box::new(Recipe {
                spec,
                standing,
                filter: ToolFilter::default().under(profiles),
                identity: None,
                answers: Answers::default(),
                repeating: Repeating::default(),
                single: false,
            }),
            when: if builtin.on_demand {
                When::Artifacts
            } else {
                When::Now
            },
            // What it reads is the run's.
            shared: false,
        };
        Self {
            name: builtin.name.clone(),
            description: Some(builtin.description.clone()),
            start,
        }
    }

    fn configured(settings: &ServerSettings, layer: Layer, profiles: &[Profile]) -> Start {
        let standing = Standing {
            builtin: false,
            read_only: settings.read_only && layer.may_loosen(),
            instructions: settings.instructions && layer.may_loosen(),
        };
        if let Some(gap) = settings.gaps.first() {
            let error = format!(
                "`{}` at {} needs a secret that was not fetched",
                gap.key,
                gap.place()
            );
            return Start::SetAside(Failure::config(error, Vec::new()));
        }
        match ToolFilter::new(settings.allowed_tools.as_deref(), &settings.disabled_tools) {
            Ok(filter) => Start::Connect {
                recipe: Box::new(Recipe {
                    spec: settings.spec.clone(),
                    standing,
                    filter: filter.under(profiles),
                    identity: Some(ServerIdentity {
                        name: settings.spec.name.clone(),
                        digest: settings.identity(),
                        of_project: matches!(layer, Layer::Project | Layer::TrustedProject),
                    }),
                    answers: settings.answers,
                    repeating: if layer.may_loosen() {
                        settings.repeating.clone()
                    } else {
                        Repeating::default()
                    },
                    single: settings.single,
                }),
                when: match settings.start {
                    ServerStart::Eager => When::Now,
                    ServerStart::Lazy => When::Wanted,
                },
                shared: settings.sharing() == Sharing::Shared,
            },
            Err(error) => Start::SetAside(Failure::config(error.to_string(), Vec::new())),
        }
    }
}
