//! What becomes of each server that was found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outrigger_connect::ServerName;
use outrigger_host::config::foreign::{self, Address, ForeignServer, Found, Settings, Text};
use outrigger_host::config::{Config, Layer, Reference, literal_name};

use crate::cli::ImportArgs;
use crate::error::CommandError;
use crate::secrets::store;

/// A server that was found, and what becomes of it.
pub(super) struct Item {
    pub(super) server: ForeignServer,
    pub(super) fate: Fate,
    /// Secrets of it that go into the store.
    pub(super) moved: Vec<Moved>,
}

/// A secret that leaves a file.
pub(super) struct Moved {
    /// Our key for the value that it is in.
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) reference: Reference,
}

pub(super) enum Fate {
    /// It is written under this name.
    Taken {
        name: String,
        /// Why that is not the name that it has there.
        renamed: Option<String>,
    },
    /// Another entry that was found is the same server.
    Same(String),
    /// It stays where it is.
    Left(String),
}

impl Item {
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.fate, Fate::Taken { .. })
    }
}

pub(super) struct Plan {
    pub(super) items: Vec<Item>,
}

impl Plan {
    pub(super) fn of(
        found: Vec<Found>,
        config: &Config,
        args: &ImportArgs,
        target: &(PathBuf, Layer),
    ) -> Result<Self, CommandError> {
        let wanted = foreign::named_like(&args.server)?;
        let mut plan = Self { items: Vec::new() };
        let mut names = Names {
            there: super::there(config, target.1),
            file: &target.0,
            new: BTreeSet::new(),
            args,
        };
        let mut references = BTreeSet::new();
        for server in found.into_iter().flat_map(|found| found.servers) {
            if !wanted(&server.name) {
                continue;
            }
            let fate = plan.fate(&server, &mut names);
            let moved = match (&fate, &server.settings) {
                (Fate::Taken { name, .. }, Ok(settings)) => {
                    moved(name, settings, args, &mut references)?
                }
                _ => Vec::new(),
            };
            plan.items.push(Item {
                server,
                fate,
                moved,
            });
        }
        Ok(plan)
    }

    fn fate(&self, server: &ForeignServer, names: &mut Names<'_>) -> Fate {
        let settings = match &server.settings {
            Ok(settings) => settings,
            Err(why) => return Fate::Left(why.clone()),
        };
        let twin = self.items.iter().find_map(|item| match &item.fate {
            Fate::Taken { name, .. } => {
                let other = item.server.settings.as_ref().ok()?;
                (other.address == settings.address).then_some(name)
            }
            _ => None,
        });
        match twin {
            Some(name) => Fate::Same(name.clone()),
            None => names.give(&server.name),
        }
    }

    /// What must not be shown.
    pub(super) fn masked(&self) -> Vec<String> {
        let settings = self
            .items
            .iter()
            .filter_map(|item| item.server.settings.as_ref().ok());
        let texts = settings.flat_map(texts).map(|(_, text)| text);
        texts
            .filter_map(|text| text.secret().map(ToOwned::to_owned))
            .collect()
    }
}

/// The names that are taken.
struct Names<'a> {
    /// In our files, and where.
    there: Vec<(String, String)>,
    /// The file that is written.
    file: &'a Path,
    /// By servers of this import.
    new: BTreeSet<String>,
    args: &'a ImportArgs,
}

impl Names<'_> {
    fn give(&mut self, theirs: &str) -> Fate {
        let clean: String = theirs.chars().filter(|c| !c.is_control()).collect();
        let mut clean = clean.trim();
        // Within what a name may have, and room for a number.
        while clean.len() > 120 {
            clean = clean[..clean.floor_char_boundary(clean.len() - 1)].trim_end();
        }
        if ServerName::new(clean).is_err() {
            return Fate::Left("its name cannot be one here".to_owned());
        }
        let mut why = (clean != theirs).then(|| "the name there cannot be one here".to_owned());
        let mut name = clean.to_owned();
        let place = self.there.iter().find(|(other, _)| *other == name);
        let place = place.map(|(_, place)| place.clone());
        if let Some(taken) = self.taken(&name, place.as_deref()) {
            if !self.args.rename {
                return Fate::Left(format!(
                    "{taken}; `--rename` takes it as `{}`",
                    self.free(clean)
                ));
            }
            name = self.free(clean);
            why = Some(taken);
        }
        self.new.insert(name.clone());
        Fate::Taken { name, renamed: why }
    }

    /// Why a name cannot be given.
    fn taken(&self, name: &str, place: Option<&str>) -> Option<String> {
        if self.new.contains(name) {
            return Some(format!("another server that was found is called `{name}`"));
        }
        let place = place?;
        let here = place.starts_with(&*self.file.to_string_lossy());
        match (self.args.replace, here) {
            (true, true) => None,
            (true, false) => Some(format!("`{name}` is at {place}, where it is not replaced")),
            (false, true) => Some(format!(
                "`{name}` is there already, at {place} (`--replace` writes it anew)"
            )),
            (false, false) => Some(format!("`{name}` is there already, at {place}")),
        }
    }

    fn free(&self, name: &str) -> String {
        let mut numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let is_free = |name: &String| {
            !self.new.contains(name) && !self.there.iter().any(|(other, _)| other == name)
        };
        numbered.find(is_free).unwrap_or_default()
    }
}

/// The secrets of a server, each with the place that it gets.
fn moved(
    server: &str,
    settings: &Settings,
    args: &ImportArgs,
    taken: &mut BTreeSet<Reference>,
) -> Result<Vec<Moved>, CommandError> {
    let mut moved = Vec::new();
    for (key, text) in texts(settings) {
        // An argument can hold no reference.
        let Some(secret) = text.secret().filter(|_| !key.starts_with("args.")) else {
            continue;
        };
        let name = literal_name(&format!("servers.{server}.{key}"));
        let reference = store::plan(args.to, &name, taken)?;
        taken.insert(reference.clone());
        moved.push(Moved {
            key,
            secret: secret.to_owned(),
            reference,
        });
    }
    Ok(moved)
}

/// Every value that may hold a secret, with our key for it.
pub(super) fn texts(settings: &Settings) -> Vec<(String, &Text)> {
    let mut texts = Vec::new();
    match &settings.address {
        Address::Program { args, env, .. } => {
            let args = args.iter().enumerate();
            texts.extend(args.map(|(at, arg)| (format!("args.{at}"), arg)));
            texts.extend(env.iter().map(|(name, text)| (format!("env.{name}"), text)));
        }
        Address::Network { url, headers, .. } => {
            texts.push(("url".to_owned(), url));
            let headers = headers.iter();
            texts.extend(headers.map(|(name, text)| (format!("headers.{name}"), text)));
        }
    }
    let secret = settings.client_secret.iter();
    texts.extend(secret.map(|text| ("oauth.client_secret".to_owned(), text)));
    texts
}
