//! Follows references, once configuration is read and before anything is started.
//!
//! Promises: every reference is followed once, all at the same time, each within the deadline of
//! `[secrets]`; what cannot be had sets its owner aside with file, line, key and reason, and is
//! never empty. Every value is known to the redactor before this returns. Leaves out: how a
//! reference is followed, which is the [`Resolver`]'s.

use std::collections::BTreeSet;

use futures::future::join_all;
use outrigger_connect::{HttpSpec, Secret, TransportSpec};

use super::gap::{Gap, Slot, Values};
use super::model::ProviderState;
use super::problem::{ConfigProblem, Severity};
use super::reference::{Reference, Resolver, Unresolved};
use super::secret::Secrets;
use super::server::EntryState;
use super::{Config, Setting};

/// A shorter value is not searched for in what is recorded and shown.
const SHORTEST_HIDDEN: usize = outrigger_journal::SHORTEST_SECRET;

/// One reference in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceUse {
    /// The key (`servers.x.env.TOKEN`).
    pub key: String,
    /// `FILE:LINE`.
    pub place: String,
    /// What stands there.
    pub reference: Reference,
}

impl Config {
    /// Every reference of servers, hooks, providers, principals and storage, in that order; those in entries that are set
    /// aside are not among them.
    pub fn references(&self) -> Vec<ReferenceUse> {
        let servers = self.servers.values().flat_map(|entry| match &entry.state {
            EntryState::Ready(settings) => settings.gaps.as_slice(),
            _ => &[],
        });
        let hooks = self.hooks.iter().filter(|hook| hook.is_trusted());
        let hooks = hooks.flat_map(|hook| hook.gaps.as_slice());
        let providers = self
            .model
            .providers
            .values()
            .flat_map(|entry| match &entry.state {
                ProviderState::Ready(settings) => settings.gaps.as_slice(),
                ProviderState::Broken(_) => &[],
            });
        let principals = self.gateway.principals.values();
        let credentials = principals.flat_map(|principal| principal.servers.values());
        let credentials = credentials.flat_map(|credentials| credentials.gaps.as_slice());
        let gaps = servers.chain(hooks).chain(providers).chain(credentials);
        let gaps = gaps.chain(&self.storage.gaps);
        let uses = gaps.flat_map(|gap| {
            gap.references().map(|reference| ReferenceUse {
                key: gap.key.clone(),
                place: gap.place(),
                reference: reference.clone(),
            })
        });
        uses.collect()
    }

    /// Follows the references of all servers and hooks. A server that lacks one is set aside; a
    /// hook that lacks one is an error for which nothing should run. What comes with a project that is
    /// not trusted has nothing followed for it. Returns what is worth saying
    /// about the rest.
    pub async fn resolve(&mut self, resolver: &dyn Resolver) -> Vec<ConfigProblem> {
        let ready = self
            .servers
            .values()
            .filter_map(|entry| match &entry.state {
                EntryState::Ready(settings) => Some(settings.gaps.as_slice()),
                _ => None,
            });
        let hooks = self.hooks.iter().filter(|hook| hook.is_trusted());
        let hooks = hooks.map(|hook| hook.gaps.as_slice());
        let wanted = references(ready.chain(hooks).flatten());
        let values = self.fetch(wanted, resolver).await;
        let mut warnings = Vec::new();
        for entry in self.servers.values_mut() {
            let EntryState::Ready(settings) = &mut entry.state else {
                continue;
            };
            let gaps = std::mem::take(&mut settings.gaps);
            warnings.extend(worth_saying(&gaps, &values, &settings.spec.transport));
            let faults = fill(&mut settings.spec.transport, &gaps, &values);
            if !faults.is_empty() {
                entry.state = EntryState::Broken(faults);
            }
        }
        for hook in self.hooks.iter_mut().filter(|hook| hook.is_trusted()) {
            let gaps = std::mem::take(&mut hook.gaps);
            warnings.extend(worth_saying(&gaps, &values, &hook.reach));
            let faults = fill(&mut hook.reach, &gaps, &values);
            self.problems.extend(faults);
        }
        remember(&values, &mut self.secrets);
        warnings
    }

    /// Follows the references of model providers: of `only` this one, or of all. A provider that
    /// lacks one is set aside.
    pub async fn resolve_providers(&mut self, only: Option<&str>, resolver: &dyn Resolver) {
        let wanted = |name: &str| only.is_none_or(|only| only == name);
        let ready = self
            .model
            .providers
            .iter()
            .filter_map(|(name, entry)| match &entry.state {
                ProviderState::Ready(settings) if wanted(name) => Some(settings.gaps.as_slice()),
                _ => None,
            });
        let references = references(ready.flatten());
        let values = self.fetch(references, resolver).await;
        for (name, entry) in &mut self.model.providers {
            let ProviderState::Ready(settings) = &mut entry.state else {
                continue;
            };
            if !wanted(name) {
                continue;
            }
            let mut faults = Vec::new();
            for gap in std::mem::take(&mut settings.gaps) {
                let filled = match &gap.slot {
                    Slot::Header(at) => header(&gap, &values).map(|value| {
                        set(settings.headers.get_mut(*at).map(|(_, held)| held), value);
                    }),
                    Slot::Url => gap.fill_url(&values).map(|url| {
                        set(
                            settings
                                .base_url
                                .as_mut()
                                .map(|held: &mut Setting<_>| &mut held.value),
                            url,
                        );
                    }),
                    _ => gap.fill(&values).map(|value| {
                        set(settings.key.as_mut().map(|key| &mut key.value), value);
                    }),
                };
                faults.extend(filled.err().map(|problem| *problem));
            }
            if !faults.is_empty() {
                entry.state = ProviderState::Broken(faults);
            }
        }
        remember(&values, &mut self.secrets);
    }

    /// Follows the references of `[storage]`; what is wrong is returned, and nothing may be kept then.
    pub async fn resolve_storage(&mut self, resolver: &dyn Resolver) -> Vec<ConfigProblem> {
        let wanted = references(self.storage.gaps.iter());
        let values = self.fetch(wanted, resolver).await;
        let mut faults = Vec::new();
        for gap in std::mem::take(&mut self.storage.gaps) {
            let key = gap.key.strip_prefix("storage.").unwrap_or(&gap.key);
            match gap.fill(&values) {
                Ok(value) => {
                    // A whole address may be referred to, with a password in it.
                    super::lower::address::mask_url(&mut self.secrets, &value);
                    let value = Secret::new(value.trim().to_owned());
                    self.storage.texts.insert(key.to_owned(), value);
                }
                Err(problem) => faults.push(*problem),
            }
        }
        remember(&values, &mut self.secrets);
        faults
    }

    /// Has the redactor look for these values too.
    pub fn hide(&mut self, values: impl IntoIterator<Item = String>) {
        for value in values {
            self.secrets.add(&value);
        }
    }

    /// Tries one reference, within the deadline; the value is dropped.
    pub async fn try_reference(
        &self,
        reference: &Reference,
        resolver: &dyn Resolver,
    ) -> Result<(), Unresolved> {
        self.follow(reference, resolver).await.map(drop)
    }

    async fn fetch(&self, references: BTreeSet<Reference>, resolver: &dyn Resolver) -> Values {
        let following = references.into_iter().map(|reference| async move {
            let value = self.follow(&reference, resolver).await;
            (reference, value)
        });
        join_all(following).await.into_iter().collect()
    }

    async fn follow(
        &self,
        reference: &Reference,
        resolver: &dyn Resolver,
    ) -> Result<String, Unresolved> {
        let patience = self.secret_timeout.value;
        let came = tokio::time::timeout(patience, resolver.resolve(reference)).await;
        let value = came.unwrap_or_else(|_| {
            let reason = format!("nothing came within {:.1} s", patience.as_secs_f64());
            Err(Unresolved::new(reason).hint("`[secrets] timeout` is how long is waited"))
        })?;
        let value = value.strip_suffix('\n').unwrap_or(&value);
        let value = value.strip_suffix('\r').unwrap_or(value);
        match value {
            _ if value.trim().is_empty() => Err(Unresolved::new("it is empty")),
            _ if value.contains('\0') => Err(Unresolved::new("it holds a NUL byte")),
            _ => Ok(value.to_owned()),
        }
    }
}

fn references<'g>(gaps: impl Iterator<Item = &'g Gap>) -> BTreeSet<Reference> {
    gaps.flat_map(Gap::references).cloned().collect()
}

fn set<T>(slot: Option<&mut T>, value: T) {
    if let Some(slot) = slot {
        *slot = value;
    }
}

fn remember(values: &Values, secrets: &mut Secrets) {
    for value in values.values().flatten() {
        secrets.add(value);
    }
}

/// Puts the values in their places; what cannot be put is returned.
fn fill(transport: &mut TransportSpec, gaps: &[Gap], values: &Values) -> Vec<ConfigProblem> {
    let filled = gaps.iter().map(|gap| match transport {
        TransportSpec::Stdio(spec) => gap.fill(values).map(|value| {
            if let Slot::Env(name) = &gap.slot {
                spec.env.insert(name.clone(), value);
            }
        }),
        TransportSpec::Http(spec) | TransportSpec::Sse(spec) | TransportSpec::WebSocket(spec) => {
            fill_http(spec, gap, values)
        }
        TransportSpec::InProcess(_) => Ok(()),
    });
    filled
        .filter_map(Result::err)
        .map(|problem| *problem)
        .collect()
}

fn fill_http(spec: &mut HttpSpec, gap: &Gap, values: &Values) -> Result<(), Box<ConfigProblem>> {
    match &gap.slot {
        Slot::Header(at) => {
            let value = header(gap, values)?;
            set(spec.headers.get_mut(*at).map(|(_, held)| held), value);
        }
        Slot::Url => {
            let mut url = gap.fill_url(values)?;
            // A WebSocket server may be written with `http://`, and the other way round.
            let scheme = match (spec.url.scheme(), url.scheme()) {
                ("ws" | "wss", "https" | "wss") => "wss",
                ("ws" | "wss", _) => "ws",
                (_, "ws" | "wss") => {
                    return Err(gap.refusal("comes to a WebSocket address; say `type = \"ws\"`"));
                }
                (_, scheme) => scheme,
            }
            .to_owned();
            if url.set_scheme(&scheme).is_ok() {
                spec.url = url;
            }
        }
        Slot::ClientSecret => spec.oauth.client_secret = Some(Secret::new(gap.fill(values)?)),
        Slot::Env(_) | Slot::Key | Slot::Storage => {}
    }
    Ok(())
}

/// RFC 9110, section 5.5, as far as configuration lets a header go.
fn header(gap: &Gap, values: &Values) -> Result<String, Box<ConfigProblem>> {
    let value = gap.fill(values)?;
    let value = value.trim_matches([' ', '\t']);
    if value
        .chars()
        .all(|c| c == '\t' || (c.is_ascii() && !c.is_ascii_control()))
    {
        Ok(value.to_owned())
    } else {
        Err(gap.refusal(
            "comes to a value with a character that a header cannot carry, such as a line break",
        ))
    }
}

/// Values that cannot be kept out of records, and those that a command line shows all the same.
fn worth_saying(gaps: &[Gap], values: &Values, transport: &TransportSpec) -> Vec<ConfigProblem> {
    let mut said = Vec::new();
    for gap in gaps {
        for reference in gap.references() {
            let Some(Ok(value)) = values.get(reference) else {
                continue;
            };
            let mut what = Vec::new();
            if value.trim().chars().count() < SHORTEST_HIDDEN {
                what.push(format!(
                    "refers to `{reference}`, which is too short to be kept out of records (fewer than {SHORTEST_HIDDEN} characters)"
                ));
            } else if let TransportSpec::Stdio(spec) = transport
                && spec.args.iter().any(|arg| arg.contains(value.trim()))
            {
                what.push(format!(
                    "refers to `{reference}`, which also stands in `args`, where everybody on this machine can read it (`ps`)"
                ));
            }
            said.extend(what.into_iter().map(|what| {
                let mut problem = gap.fault(&what);
                problem.severity = Severity::Warning;
                problem
            }));
        }
    }
    said
}
