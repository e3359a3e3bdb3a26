//! Which projects the person trusts, and the question whether to.
//!
//! One file for each folder, in the state folder, so that two programs never overwrite each other's
//! answer. It names the folder and the fingerprint of what was trusted; anything else than that
//! content is asked about again.

use std::io::{BufRead as _, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outrigger_host::Digest;
use outrigger_host::config::{Project, ProjectStanding, Trust};
use serde::{Deserialize, Serialize};

use crate::cli::Common;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::{surroundings, visible};

/// What was said about one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// See [`Project::digest`].
    pub(crate) digest: String,
    /// When.
    pub(crate) since: Timestamp,
}

/// The folder of answers.
pub(crate) struct TrustStore {
    dir: PathBuf,
}

impl TrustStore {
    pub(crate) fn of(common: &Common) -> Result<Self, CommandError> {
        let dir = surroundings::trust(common)?;
        Ok(Self { dir })
    }

    fn file(&self, folder: &Path) -> PathBuf {
        let hash = Digest::of_text(&folder.to_string_lossy()).to_string();
        self.dir.join(format!("{}.json", &hash[..32]))
    }

    /// What was said about a folder. An answer that cannot be read is none.
    pub(crate) fn about(&self, folder: &Path) -> Trust {
        match read(&self.file(folder)) {
            Some(said) if said.folder == folder => Trust::Content(said.digest),
            _ => Trust::Unsaid,
        }
    }

    pub(crate) fn trust(&self, project: &Project) -> Result<(), CommandError> {
        let said = Trusted {
            folder: project.folder.to_path_buf(),
            digest: project.digest.clone(),
            since: Timestamp::now(),
        };
        let path = self.file(&project.folder);
        let kept = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.dir)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
            serde_json::to_writer_pretty(&mut file, &said)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        kept().map_err(|error| {
            CommandError::failed(format!("`{}` cannot be written: {error}", path.display()))
        })
    }

    /// Whether there was something to take back.
    pub(crate) fn revoke(&self, folder: &Path) -> Result<bool, CommandError> {
        let path = self.file(folder);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => {
                let error = format!("`{}` cannot be removed: {error}", path.display());
                Err(CommandError::failed(error))
            }
        }
    }

    /// All folders, by name.
    pub(crate) fn all(&self) -> Vec<Trusted> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<Trusted> = entries.filter_map(|entry| read(&entry.path())).collect();
        all.sort_by(|a, b| a.folder.cmp(&b.folder));
        all
    }
}

fn read(path: &Path) -> Option<Trusted> {
    let text = std::fs::read_to_string(path).ok()?;
    match serde_json::from_str(&text) {
        Ok(said) => Some(said),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "not an answer about trust");
            None
        }
    }
}

/// How a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// From now on, as it stands.
    Always,
    /// For this run.
    ThisRun,
    /// Not.
    No,
}

/// Shows what a project brings. On stderr: it is talk about a run, or the question itself.
pub(crate) fn show(project: &Project, screen: Screen) {
    let folder = project.folder.display().to_string();
    let head = match project.standing {
        ProjectStanding::Trusted => "is trusted, and brings",
        ProjectStanding::Changed => "has changed since you trusted it, and brings",
        ProjectStanding::Unknown => "brings its own configuration",
    };
    screen.insist(format_args!(
        "{} {}:",
        screen.talk(Label::Name, &visible::line(&folder)),
        screen.talk(Label::Warn, head)
    ));
    let width = project
        .brings
        .iter()
        .map(|one| one.name.chars().count())
        .max();
    for one in &project.brings {
        screen.insist(format_args!(
            "  {:<6} {:<width$}  {}  {}",
            one.kind,
            visible::line(&one.name),
            visible::line(&one.what),
            screen.talk(Label::Dim, &visible::line(&one.origin.to_string())),
            width = width.unwrap_or(0).min(40)
        ));
    }
}

/// What a project brings, by name.
pub(crate) fn names(project: &Project) -> String {
    const TOLD: usize = 5;
    let told = project.brings.iter().take(TOLD);
    let mut names: Vec<String> = told
        .map(|one| format!("{} `{}`", one.kind, visible::line(&one.name)))
        .collect();
    if project.brings.len() > TOLD {
        names.push(format!("and {} more", project.brings.len() - TOLD));
    }
    names.join(", ")
}

/// Asks the person at the terminal. An end of input is a no.
pub(crate) fn ask(project: &Project, screen: Screen) -> Said {
    screen.insist("");
    show(project, screen);
    screen.insist(
        "Its servers would run as you, with your files and network. Trust lasts until one of these files changes.",
    );
    loop {
        screen.prompt("Trust it? [y]es, for this [r]un only, [n]o: ");
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(1..) => {}
            _ => return Said::No,
        }
        if let Some(said) = understand(&line) {
            return said;
        }
    }
}

/// `None` when nothing was answered. Anything but a yes is a no.
fn understand(line: &str) -> Option<Said> {
    match line.trim().to_lowercase().as_str() {
        "" => None,
        "y" | "yes" => Some(Said::Always),
        "r" | "run" => Some(Said::ThisRun),
        _ => Some(Said::No),
    }
}
