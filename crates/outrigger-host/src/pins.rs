//! What was approved of each server's tools, and what differs from it.
//!
//! A tool is pinned by the fingerprint of its whole definition (name, title, description, schemas,
//! annotations; the order of keys does not count), under the identity of its server: the command
//! line or address as it is configured. A tool that differs from its pin is held back, alone, until
//! a person has looked; what was approved is never replaced by itself.
//!
//! Two files say what was approved: the person's own, to which first sights are added, and one that
//! may come with a project, which is written by `approve` alone and counts where it speaks.
//! Leaves out: asking the person, and whether a project's file is to be read (its trust).

mod change;
mod definitions;
mod lock_file;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outrigger_connect::ServerName;
use serde_json::value::RawValue;

pub use change::{Change, ChangeKind, changes};
use definitions::Definitions;
use lock_file::LockFile;

use crate::catalog::CatalogTool;
use crate::digest::Digest;
use crate::kept_file::KeptFileError;
use crate::shared_texts::{Shared, SharedTexts};

/// The name of what replicas share.
const NAME: &str = "pins";

/// What happens to a tool that was never seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinMode {
    /// It may be used, and nothing is written.
    Look,
    /// It may be used, and is pinned as it is now.
    FirstUse,
    /// It is held back.
    Locked,
}

/// Where pins are kept.
#[derive(Debug, Clone, Default)]
pub struct PinFiles {
    /// The person's own file.
    pub user: Option<PathBuf>,
    /// The project's file.
    pub project: Option<PathBuf>,
    /// A folder for approved definitions, so that a change can be shown.
    pub definitions: Option<PathBuf>,
    /// Where replicas share both the person's own and the definitions, in the place of the files.
    pub shared: Option<Arc<dyn SharedTexts>>,
}

/// The pins of a run.
#[derive(Debug)]
pub struct Pins {
    mode: PinMode,
    files: PinFiles,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    user: LockFile,
    /// Of `user`, where replicas share it.
    version: Option<i64>,
    project: LockFile,
    trouble: Option<String>,
}

/// A server as pins know it: its name, and what it is configured to run or to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Its configured name.
    pub name: ServerName,
    /// Fingerprint of its command line or address, as written.
    pub digest: Digest,
    /// Whether it comes with the project, so that the project's file speaks about it.
    pub of_project: bool,
}

/// A tool that may not be used until a person has looked at it.
#[derive(Debug, Clone)]
pub struct HeldTool {
    /// The tool as it is now.
    pub tool: Arc<CatalogTool>,
    /// What was approved; `None` when nothing was (see [`PinMode::Locked`]).
    pub approved: Option<String>,
    /// What differs, as far as the approved definition is still here.
    pub changes: Vec<Change>,
}

/// What became of a server's tools.
#[derive(Debug, Default)]
pub struct Review {
    /// Held back.
    pub held: Vec<HeldTool>,
    /// Raw names of tools that may be used and were never pinned.
    pub unpinned: Vec<String>,
    /// Where the server's instructions stand.
    pub instructions: Standing,
}

/// Where a server's instructions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// As approved, or there are none that a model may read.
    #[default]
    Approved,
    /// Never pinned; they may be used.
    New,
    /// They differ from what was approved, or nothing was and the run is locked.
    Held,
}

/// Whose pins are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The person's own.
    User,
    /// The project's.
    Project,
}

impl ServerIdentity {
    /// The key in files: readable, and different for each identity.
    pub(crate) fn key(&self) -> String {
        let digest = self.digest.to_string();
        format!("{}@{}", self.name, &digest[..16])
    }
}

impl HeldTool {
    /// Why, in one sentence.
    pub fn reason(&self) -> String {
        let server = &self.tool.server;
        if self.approved.is_none() {
            return format!(
                "it was never approved, and the run is locked; `outrigger pin {server}` shows it and asks"
            );
        }
        let mut kinds: Vec<&str> = self
            .changes
            .iter()
            .map(|change| change.kind.as_str())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        let what = if kinds.is_empty() {
            String::new()
        } else {
            format!(" ({})", kinds.join(", "))
        };
        format!(
            "it has changed since it was approved{what}; `outrigger pin {server}` shows the change and asks"
        )
    }
}

impl Pins {
    /// No pins at all: nothing is compared and nothing is kept.
    pub fn none() -> Self {
        Self {
            mode: PinMode::Look,
            files: PinFiles::default(),
            known: Mutex::default(),
        }
    }

    /// Reads what was approved. A file that cannot be read is an error: what it holds back is not
    /// known.
    pub fn open(files: PinFiles, mode: PinMode) -> Result<Self, KeptFileError> {
        let read = |path: &Option<PathBuf>| {
            path.as_deref()
                .map_or(Ok(LockFile::default()), LockFile::read)
        };
        let user = match &files.shared {
            Some(_) => LockFile::default(),
            None => read(&files.user)?,
        };
        let known = Known {
            user,
            version: None,
            project: read(&files.project)?,
            trouble: None,
        };
        let pins = Self {
            mode,
            files,
            known: Mutex::new(known),
        };
        pins.look()?;
        Ok(pins)
    }

    /// Looks whether another replica has changed what was approved.
    fn look(&self) -> Result<(), KeptFileError> {
        let Some(shared) = self.shared() else {
            return Ok(());
        };
        let version = self.known().version;
        if let Some((user, version)) = shared.read(version, LockFile::parse)? {
            let mut known = self.known();
            (known.user, known.version) = (user, Some(version));
        }
        Ok(())
    }

    /// Looks whether another program has approved more of what is only listed; in doubt it has not.
    pub(crate) fn look_again(&self) {
        let read = match (&self.files.shared, self.files.user.as_deref()) {
            (Some(_), _) => self.look(),
            (None, Some(user)) => LockFile::read(user).map(|user| self.known().user = user),
            (None, None) => Ok(()),
        };
        if let Err(error) = read {
            tracing::debug!(%error, "what others have approved is not known");
        }
    }

    fn shared(&self) -> Option<Shared> {
        let texts = self.files.shared.as_ref()?;
        Some(Shared::new(Arc::clone(texts), NAME))
    }

    /// Compares what a server offers with what was approved, and in [`PinMode::FirstUse`] pins what is
    /// new. `instructions`: those that models may read.
    pub fn review(
        &self,
        server: &ServerIdentity,
        tools: &[Arc<CatalogTool>],
        instructions: Option<Digest>,
    ) -> Review {
        let key = server.key();
        let mut review = Review::default();
        if let Err(error) = self.look() {
            self.known().trouble.get_or_insert(error.to_string());
        }
        let (mut new, mut new_instructions) = (Vec::new(), None);
        let kept = LazyCell::new(|| self.definitions().of(&key));
        {
            let known = self.known();
            for tool in tools {
                match known.tool(server, &key, &tool.raw_name) {
                    Some(approved) if approved == tool.digest.to_string() => {}
                    None if self.mode != PinMode::Locked => {
                        review.unpinned.push(tool.raw_name.clone());
                        new.push(Arc::clone(tool));
                    }
                    approved => {
                        let was = approved.as_deref();
                        review.held.push(HeldTool {
                            tool: Arc::clone(tool),
                            changes: was
                                .and_then(|was| kept.get(was))
                                .map_or_else(Vec::new, |was| changes(&was, &tool.definition())),
                            approved,
                        });
                    }
                }
            }
            if let Some(now) = instructions {
                review.instructions = match known.instructions(server, &key) {
                    Some(approved) if approved == now.to_string() => Standing::Approved,
                    None if self.mode != PinMode::Locked => {
                        new_instructions = Some(now);
                        Standing::New
                    }
                    _ => Standing::Held,
                };
            }
        }
        let is_new = !new.is_empty() || new_instructions.is_some();
        if self.mode == PinMode::FirstUse
            && is_new
            && let Err(error) = self.approve(server, &new, new_instructions, Whose::User)
        {
            self.known().trouble.get_or_insert(error.to_string());
        }
        review
    }

    /// Pins tools, and what a server says about how it is used, as they are now.
    pub fn approve(
        &self,
        server: &ServerIdentity,
        tools: &[Arc<CatalogTool>],
        instructions: Option<Digest>,
        whose: Whose,
    ) -> Result<(), KeptFileError> {
        let shared = self.shared().filter(|_| whose == Whose::User);
        let path = match whose {
            Whose::User => &self.files.user,
            Whose::Project => &self.files.project,
        };
        if shared.is_none() && path.is_none() {
            return Ok(());
        }
        let key = server.key();
        self.definitions().keep(&key, tools)?;
        let change = |file: &mut LockFile| {
            for tool in tools {
                file.pin(&key, &tool.raw_name, tool.digest.to_string());
            }
            if let Some(instructions) = instructions {
                file.pin_instructions(&key, instructions.to_string());
            }
        };
        if let Some(shared) = shared {
            let place = shared.path();
            let write = |file: &LockFile| file.text(&place);
            let (user, version) = shared.update(LockFile::parse, change, write)?;
            let mut known = self.known();
            (known.user, known.version) = (user, Some(version));
        } else if let Some(path) = path {
            let written = LockFile::update(path, change)?;
            let mut known = self.known();
            match whose {
                Whose::User => known.user = written,
                Whose::Project => known.project = written,
            }
        }
        Ok(())
    }

    /// The definitions that were approved of a server, as far as they are kept here, by name.
    pub(crate) fn last_known(&self, server: &ServerIdentity) -> Vec<Box<RawValue>> {
        let key = server.key();
        let known = self.known();
        let files = [
            Some(&known.user),
            server.of_project.then_some(&known.project),
        ];
        let digests: BTreeMap<&str, &str> = files
            .into_iter()
            .flatten()
            .flat_map(|file| file.tools(&key))
            .collect();
        let kept = self.definitions().of(&key);
        let text = |digest| RawValue::from_string(kept.get(digest)?.to_string()).ok();
        digests.into_values().filter_map(text).collect()
    }

    fn definitions(&self) -> Definitions<'_> {
        Definitions {
            folder: self.files.definitions.as_deref(),
            shared: self.files.shared.as_deref(),
        }
    }

    /// Why a first sight could not be kept; the first time that happened.
    pub fn trouble(&self) -> Option<String> {
        self.known().trouble.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The project's file counts where it speaks of its own servers, and about no other: it came with a
    /// checkout.
    fn approved<'a>(
        &'a self,
        server: &ServerIdentity,
        of: impl Fn(&'a LockFile) -> Option<&'a str>,
    ) -> Option<String> {
        let shared = server.of_project.then(|| of(&self.project)).flatten();
        shared.or_else(|| of(&self.user)).map(str::to_owned)
    }

    fn tool(&self, server: &ServerIdentity, key: &str, tool: &str) -> Option<String> {
        self.approved(server, |file| file.pinned(key, tool))
    }

    fn instructions(&self, server: &ServerIdentity, key: &str) -> Option<String> {
        self.approved(server, |file| file.instructions(key))
    }
}
