//! What the files of a project bring along, and whether the person trusts them as they stand.
//!
//! Trust is about content: a fingerprint over the files' names and the very text that was read. Who
//! changes one of them has to be trusted again. Files that only forbid need no trust.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::Origin;
use super::source::Source;
use crate::digest::Digest;

/// What the person said about the files of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Nothing.
    #[default]
    Unsaid,
    /// That they are to be trusted with this content ([`Project::digest`], in hexadecimal).
    Content(String),
    /// That they are to be trusted for this run, whatever they hold.
    ThisRun,
}

/// The configuration that came with a folder.
#[derive(Debug, Clone)]
pub struct Project {
    /// The folder.
    pub folder: Arc<Path>,
    /// The files that were read.
    pub files: Vec<Arc<Path>>,
    /// Fingerprint of their names and texts, in hexadecimal.
    pub digest: String,
    /// Where it stands.
    pub standing: ProjectStanding,
    /// What waits for trust, or is used because of it.
    pub brings: Vec<Brought>,
}

/// Where a project stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectStanding {
    /// Trusted as it is.
    Trusted,
    /// Trusted once, and changed since.
    Changed,
    /// Nothing was said.
    Unknown,
}

/// One thing that needs trust, worded for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// What it is: `server`, `hook`, `rule`.
    pub kind: &'static str,
    /// What it is called.
    pub name: String,
    /// What it would do. May hold any characters; secrets are masked.
    pub what: String,
    /// Where it is written.
    pub origin: Origin,
}

impl Project {
    /// Whether something in it waits for trust.
    pub fn needs_trust(&self) -> bool {
        self.standing != ProjectStanding::Trusted && !self.brings.is_empty()
    }
}

/// The fingerprint, and what was said about it; `None` when the project has no files.
pub(crate) fn standing(sources: &[&Source], trust: &Trust) -> Option<(String, ProjectStanding)> {
    if sources.is_empty() {
        return None;
    }
    let texts = sources.iter().map(|source| {
        let name = source.path.to_string_lossy().into_owned();
        Value::Array(vec![name.into(), source.text.as_str().into()])
    });
    let digest = Digest::of(&texts.collect()).to_string();
    let standing = match trust {
        Trust::ThisRun => ProjectStanding::Trusted,
        Trust::Content(trusted) if *trusted == digest => ProjectStanding::Trusted,
        Trust::Content(_) => ProjectStanding::Changed,
        Trust::Unsaid => ProjectStanding::Unknown,
    };
    Some((digest, standing))
}
