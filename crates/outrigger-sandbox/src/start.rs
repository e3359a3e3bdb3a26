//! From a checked launch to a running child and the tasks that watch it.
//!
//! Promises: the process is in a process group of its own, so Ctrl-C goes to the host only, and
//! gets exactly the three pipes. Leaves out: what a supervisor does (`supervisor`, `tether`).

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::child::Hold;
use crate::group::Group;
use crate::launch::{Launch, SpawnError};
use crate::lookup;
use crate::{Child, Ending, ExitReport, StderrRing};

/// How long the exit of a server is held back for its last words on stderr. Normally they are
/// there at once; a daemon that keeps the pipe open would hold it back for ever.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Starts `launch` with or without a supervisor.
pub(crate) fn start(launch: &Launch, program: &Path) -> Result<Child, SpawnError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(SpawnError::NoRuntime {
            program: launch.program.clone(),
        });
    }
    #[cfg(target_os = "linux")]
    if let Some(supervisor) = &launch.supervisor {
        return crate::tether::start(launch, program, supervisor);
    }
    start_directly(launch, program)
}

fn start_directly(launch: &Launch, program: &Path) -> Result<Child, SpawnError> {
    let mut command = command(program.as_os_str());
    command
        .args(&launch.args)
        .envs(&launch.env)
        .current_dir(&launch.cwd);
    if cfg!(not(unix)) {
        command.kill_on_drop(true);
    }
    let mut process = command.spawn().map_err(|source| SpawnError::Refused {
        program: launch.program.clone(),
        reason: lookup::why_refused(&source, program),
        source,
    })?;
    let pid = process.id().unwrap_or_default();
    let group = Group::led_by(pid);
    let hold = Hold::Group(group.clone());
    let (child, watcher) = assemble(&mut process, hold, launch.stderr_ring);
    Ok(watched(child, watch_directly(process, group, watcher)))
}

/// A command with an empty environment, three pipes and a process group of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the room where children start"
)]
pub(crate) fn command(program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// What a watching task publishes to.
pub(crate) struct Watcher {
    /// Where a supervisor's word about the server's process id goes.
    #[cfg(target_os = "linux")]
    pub(crate) pid: Arc<AtomicU32>,
    exit: watch::Sender<Option<ExitReport>>,
    gone: watch::Sender<Option<usize>>,
    last_words: oneshot::Receiver<()>,
}

impl Watcher {
    /// Publishes how the server ended, once; a second report is ignored.
    pub(crate) async fn exited(&mut self, report: ExitReport) {
        if self.exit.borrow().is_some() {
            return;
        }
        // The sender is dropped when stderr has been read to its end: either answer will do.
        let _ended = tokio::time::timeout(LAST_WORDS, &mut self.last_words).await;
        tracing::debug!(%report, "child ended");
        self.exit.send_replace(Some(report));
    }

    /// Publishes that the tree is gone but for `left` processes.
    pub(crate) fn gone(&self, left: usize) {
        self.gone.send_replace(Some(left));
    }
}

/// Takes the pipes of a started process and lays out its [`Child`]; stderr is drained from now on.
pub(crate) fn assemble(
    process: &mut tokio::process::Child,
    hold: Hold,
    stderr_ring: usize,
) -> (Child, Watcher) {
    let (exit, exit_seen) = watch::channel(None);
    let (gone, gone_seen) = watch::channel(None);
    let (drained, last_words) = oneshot::channel::<()>();
    let pid = Arc::new(AtomicU32::new(process.id().unwrap_or_default()));
    let stderr = StderrRing::new(stderr_ring);
    let mut tasks = JoinSet::new();
    if let Some(pipe) = process.stderr.take() {
        let ring = stderr.clone();
        tasks.spawn(async move {
            ring.drain(pipe).await;
            drop(drained);
        });
    }
    let child = Child {
        stdin: Mutex::new(process.stdin.take()),
        stdout: process.stdout.take(),
        stderr,
        pid: Arc::clone(&pid),
        hold,
        exit: exit_seen,
        gone: gone_seen,
        harshest: Mutex::new(Ending::ByItself),
        tasks,
    };
    let watcher = Watcher {
        #[cfg(target_os = "linux")]
        pid,
        exit,
        gone,
        last_words,
    };
    (child, watcher)
}

/// Hands `child` the task that watches it.
pub(crate) fn watched(
    mut child: Child,
    watching: impl Future<Output = ()> + Send + 'static,
) -> Child {
    child.tasks.spawn(watching);
    child
}

async fn watch_directly(mut process: tokio::process::Child, group: Group, mut watcher: Watcher) {
    let report = match group.wait(&mut process).await {
        Ok(status) => ExitReport::from(status),
        Err(error) => ExitReport::not_started(format!("waiting for it failed: {error}")),
    };
    watcher.exited(report).await;
    watcher.gone(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_exit_is_held_back_for_the_last_words() {
        let (exit, seen) = watch::channel(None);
        let (gone, _) = watch::channel(None);
        let (drained, last_words) = oneshot::channel();
        let mut watcher = Watcher {
            #[cfg(target_os = "linux")]
            pid: Arc::default(),
            exit,
            gone,
            last_words,
        };
        let publishing = watcher.exited(ExitReport::exited(0));
        tokio::pin!(publishing);
        let early = tokio::time::timeout(Duration::ZERO, &mut publishing).await;
        assert!(early.is_err() && seen.borrow().is_none());
        drop(drained);
        publishing.await;
        assert!(seen.borrow().is_some());
    }
}
