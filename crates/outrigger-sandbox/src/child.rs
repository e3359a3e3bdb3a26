//! One running child and its end.
//!
//! Promises: closing is bounded, idempotent and safe to cancel at any point; dropping kills the
//! whole tree; the exit is published only when the last words on stderr are in the ring (or had
//! a quarter of a second to get there). Leaves out: reading and writing its pipes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::group::Group;
use crate::{CloseOutcome, Ending, ExitReport, Patience, Process, StderrRing};

/// A child process with everything it starts. Dropping it kills the whole tree at once; the
/// process itself is then reaped by the tokio runtime.
#[derive(Debug)]
pub struct Child {
    pub(crate) stdin: Mutex<Option<ChildStdin>>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: StderrRing,
    pub(crate) pid: Arc<AtomicU32>,
    pub(crate) hold: Hold,
    pub(crate) exit: watch::Receiver<Option<ExitReport>>,
    /// Set when the whole tree is gone, to the number of processes that could not be ended.
    pub(crate) gone: watch::Receiver<Option<usize>>,
    /// The harshest step taken so far, so that every call of `close` tells the same story.
    pub(crate) harshest: Mutex<Ending>,
    /// Owned here so that they end with the child.
    pub(crate) tasks: JoinSet<()>,
}

/// What reaches the processes behind a child.
#[derive(Debug)]
pub(crate) enum Hold {
    Group(Group),
    #[cfg(target_os = "linux")]
    Tether(crate::tether::Tether),
}

impl Child {
    /// Its standard input, once. Dropping it is end of file for the child.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.lock_stdin().take()
    }

    /// Its standard output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// What it says on stderr; stays readable after its end.
    pub fn stderr(&self) -> StderrRing {
        self.stderr.clone()
    }

    /// The process id of the server where it is known (a supervisor reports it within
    /// milliseconds), else of its supervisor.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// The processes that belong to it now, parents before their children: its supervisor, where it
    /// has one, first. Empty where they cannot be looked at (only Linux can) or are gone.
    pub fn processes(&self) -> Vec<Process> {
        #[cfg(target_os = "linux")]
        {
            let root = match &self.hold {
                Hold::Tether(tether) => tether.supervisor(),
                Hold::Group(_) => self.pid(),
            };
            crate::tree::family(root)
        }
        #[cfg(not(target_os = "linux"))]
        Vec::new()
    }

    /// Becomes `Some` when the server itself has ended; what it left behind may still be on its
    /// way out. [`Child::close`] waits for all of it.
    pub fn exited(&self) -> watch::Receiver<Option<ExitReport>> {
        self.exit.clone()
    }

    /// Ends the whole tree: end of file on stdin (when it was not taken; else the caller has
    /// dropped it), then TERM, then KILL, each after the time that `patience` gives to the step
    /// before. It never waits for a pipe, so neither a child that has stopped reading nor a
    /// descendant that keeps a pipe open can hold it up.
    ///
    /// May be called again, also at the same time or after a cancelled call.
    pub async fn close(&self, patience: Patience) -> CloseOutcome {
        let started = Instant::now();
        drop(self.lock_stdin().take());
        let steps = [
            (Ending::ByItself, patience.after_eof),
            (Ending::Terminated, patience.after_term),
            (Ending::Killed, patience.after_kill),
            (Ending::Abandoned, Patience::LAST_RESORT),
        ];
        let mut left = None;
        for (step, wait) in steps {
            self.take_step(step);
            left = self.gone_within(wait).await;
            if left.is_some() {
                break;
            }
        }
        CloseOutcome {
            ending: match left {
                Some(0) => self.harshest().min(Ending::Killed),
                Some(_) | None => Ending::Abandoned,
            },
            exit: self.exit.borrow().clone(),
            took: started.elapsed(),
        }
    }

    fn take_step(&self, step: Ending) {
        if self.gone.borrow().is_some() {
            return;
        }
        {
            let mut harshest = self.harshest.lock().unwrap_or_else(PoisonError::into_inner);
            *harshest = (*harshest).max(step);
        }
        match step {
            Ending::ByItself => {}
            Ending::Terminated => self.hold.terminate(),
            Ending::Killed => self.hold.kill(),
            Ending::Abandoned => self.hold.kill_without_supervisor(),
        }
    }

    fn harshest(&self) -> Ending {
        *self.harshest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many processes could not be ended, once the tree is gone; `None` when the time is over.
    async fn gone_within(&self, wait: Duration) -> Option<usize> {
        let mut gone = self.gone.clone();
        let seen = timeout(wait, gone.wait_for(Option::is_some)).await;
        seen.ok()?.ok().and_then(|left| *left)
    }

    fn lock_stdin(&self) -> std::sync::MutexGuard<'_, Option<ChildStdin>> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.gone.borrow().is_none() {
            self.hold.kill();
        }
    }
}

impl Hold {
    fn terminate(&self) {
        match self {
            Self::Group(group) => group.terminate(),
            #[cfg(target_os = "linux")]
            Self::Tether(tether) => tether.send(crate::wire::Order::Terminate),
        }
    }

    fn kill(&self) {
        match self {
            Self::Group(group) => group.kill(),
            #[cfg(target_os = "linux")]
            Self::Tether(tether) => tether.send(crate::wire::Order::Kill),
        }
    }

    fn kill_without_supervisor(&self) {
        match self {
            Self::Group(group) => group.kill(),
            #[cfg(target_os = "linux")]
            Self::Tether(tether) => tether.kill_tree(),
        }
    }
}
