//! A recording in the place of the world: its servers, model, people, hooks and configuration.
//!
//! Promises: nothing is started, nobody is asked, nothing goes over a network, nothing of the machine
//! is read but the recording; the first thing that the run does otherwise than recorded is kept.
//! Leaves out: HTTP itself. What it refused is replayed as an error of the protocol.

mod difference;
mod link;
mod model;
mod people;
mod server;
mod tape;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use outrigger_host::config::{Reference, Resolver, Surroundings, Trust, Unresolved};
use serde_json::Value;
use tokio::sync::watch;

pub(crate) use difference::Difference;
pub(crate) use people::Recorded;
pub(crate) use tape::Tape;

use self::link::Link;
use crate::error::CommandError;
use crate::recording::{Kind, Line, Manifest};

/// How long an answer waits for what came before it in the recording. Only a run that differs keeps it
/// waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// A recording being played back.
pub(crate) struct Playback {
    tape: Tape,
    links: Vec<Link>,
    /// Takes what the run writes; gone with it.
    folder: tempfile::TempDir,
    state: Mutex<State>,
    /// Counts what has happened.
    moved: watch::Sender<u64>,
}

struct State {
    /// By position of the line: it has happened.
    done: Vec<bool>,
    /// Connections that were made, by server.
    connected: Vec<String>,
    difference: Option<Difference>,
}

impl std::fmt::Debug for Playback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Playback")
    }
}

impl Playback {
    pub(crate) fn new(tape: Tape) -> Result<Arc<Self>, CommandError> {
        let folder = tempfile::tempdir().and_then(|folder| {
            let kept = [
                ("outrigger.lock", &tape.found.user_lock),
                ("project.lock", &tape.found.project_lock),
            ];
            for (name, text) in kept {
                if let Some(text) = text {
                    std::fs::write(folder.path().join(name), text)?;
                }
            }
            Ok(folder)
        });
        let folder = folder.map_err(|error| {
            CommandError::failed(format!("there is no room for temporary files: {error}"))
        })?;
        let (links, aside) = link::links(&tape);
        let state = State {
            done: (0..tape.lines.len())
                .map(|at| aside.contains(&at))
                .collect(),
            connected: Vec::new(),
            difference: None,
        };
        Ok(Arc::new(Self {
            tape,
            links,
            folder,
            state: Mutex::new(state),
            moved: watch::Sender::new(0),
        }))
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.tape.manifest
    }

    /// Where the run keeps its journal.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// What the project said about approved tools.
    pub(crate) fn project_lock(&self) -> PathBuf {
        self.folder.path().join("project.lock")
    }

    /// What the configuration was read from.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let found = self.tape.found.clone();
        Surroundings {
            principal: None,
            workspace: self.tape.manifest.workspace.clone(),
            user_dir: found.user_dir,
            managed_dir: found.managed_dir,
            managed_file: found.managed_file,
            home: found.home,
            env: found.variables,
            explicit: found.explicit,
            trust: if found.trusted {
                Trust::ThisRun
            } else {
                Trust::Unsaid
            },
            files: Some(found.files),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, line: usize) {
        if let Some(done) = self.state().done.get_mut(line) {
            *done = true;
        }
        self.moved.send_modify(|count| *count += 1);
    }

    fn is_done(&self, line: usize) -> bool {
        self.state().done.get(line).copied().unwrap_or(true)
    }

    /// Whether everything before this line of which `which` is true has happened.
    fn done_before(&self, line: usize, which: impl Fn(&Line) -> bool) -> bool {
        let state = self.state();
        let before = self.tape.lines.iter().zip(&state.done).take(line);
        before.into_iter().all(|(line, done)| *done || !which(line))
    }

    /// Waits until everything before this line of which `which` is true has happened, for a while.
    async fn until_done_before(&self, line: usize, which: impl Fn(&Line) -> bool) {
        let mut moved = self.moved.subscribe();
        let wait =
            async { while !self.done_before(line, &which) && moved.changed().await.is_ok() {} };
        tokio::time::timeout(PATIENCE, wait).await.ok();
    }

    /// The first line that has not happened, is of this kind, and says `same`.
    fn next(&self, kind: Kind, same: impl Fn(&Line) -> bool) -> Option<(usize, &Line)> {
        let state = self.state();
        let lines = self.tape.lines.iter().enumerate();
        let mut open = lines.filter(|(at, line)| line.kind == kind && !state.done[*at]);
        open.find(|(_, line)| same(line))
    }

    /// The run does something that the recording does not have. The first one counts.
    fn differs(&self, difference: Difference) {
        self.state().difference.get_or_insert(difference);
        self.moved.send_modify(|count| *count += 1);
    }

    fn has_differed(&self) -> bool {
        self.state().difference.is_some()
    }

    /// What differed first, or what the recording has and the run did not do.
    pub(crate) fn verdict(&self, exit: u8) -> Option<Difference> {
        if let Some(difference) = self.state().difference.clone() {
            return Some(difference);
        }
        let end = self.tape.closing();
        let open = {
            let state = self.state();
            let mut lines = self.tape.lines.iter().enumerate().take(end);
            lines
                .find(|(at, line)| !state.done[*at] && tape::must_happen(line))
                .map(|(at, _)| at)
        };
        if let Some(at) = open {
            return Some(Difference::missing(&self.tape, at));
        }
        let recorded = self.tape.manifest.exit?;
        (recorded != exit).then(|| Difference::exit(recorded, exit))
    }

    /// Requests to the model, and to servers, that were made as recorded.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        let done = || {
            let lines = self.tape.lines.iter().zip(&state.done);
            lines.filter(|(_, done)| **done).map(|(line, _)| line)
        };
        let of_model = done().filter(|line| line.kind == Kind::ModelAsked);
        let of_servers = done().filter(|line| tape::must_happen(line) && line.kind == Kind::Sent);
        (of_model.count(), of_servers.count())
    }
}

/// Stands for the secrets that a recording does not have.
#[async_trait]
impl Resolver for Playback {
    async fn resolve(&self, _: &Reference) -> Result<String, Unresolved> {
        // Part of the mark that redactors leave, so that none of them takes it for a secret.
        Ok("redacted".to_owned())
    }
}

/// The members of a JSON object, or nothing.
fn member<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
