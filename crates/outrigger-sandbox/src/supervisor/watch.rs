//! The supervisor's work on Linux: one thread that waits for the host and for dying children.
//!
//! Promises: it ends only when no descendant is left, or after saying how many are; it never
//! blocks on the host. Leaves out: judging; it reports how the server ended and cleans up.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::SuperviseError;
use crate::wire::{Job, Order, Status};
use crate::{ExitReport, kernel, lookup, tree};

/// Between TERM and KILL when nobody asked for either: the host is gone, or the server is and has
/// left something behind.
const GRACE: Duration = Duration::from_millis(500);
/// How long KILL is repeated before the supervisor gives up on what remains.
const GIVE_UP: Duration = Duration::from_secs(10);
/// How often KILL is repeated against a tree that forks faster than it dies.
const AGAIN: Duration = Duration::from_millis(20);

/// Takes over the two descriptors, starts the server and watches it to its end.
pub(super) fn supervise(lifeline: RawFd, job: RawFd) -> Result<ExitCode, SuperviseError> {
    let parent = rustix::process::getppid();
    let doing = |doing| move |source: std::io::Error| SuperviseError::Io { doing, source };
    kernel::close_all_but(&[lifeline, job]).map_err(doing("close inherited descriptors"))?;
    let lifeline = kernel::adopt(lifeline).map_err(doing("find the lifeline"))?;
    let job = kernel::adopt(job).map_err(doing("find the job"))?;
    let signals = kernel::signals_as_descriptor().map_err(doing("take the signals"))?;
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))
        .map_err(|errno| doing("become a subreaper")(errno.into()))?;
    // The lifeline tells the same; this is for a host end that has leaked into another process.
    rustix::process::set_parent_process_death_signal(Some(Signal::HUP))
        .map_err(|errno| doing("ask for the parent-death signal")(errno.into()))?;
    let job = read_job(job).map_err(doing("read the job"))?;
    let host = Host(Some(lifeline));
    let started = start(&job, me);
    release_stdio().map_err(doing("let go of stdio"))?;
    let (server, stage) = match started {
        Ok(pid) => {
            host.tell(&Status::Started(pid.as_raw_nonzero().get().unsigned_abs()));
            (Some(pid), Stage::Serving)
        }
        Err(error) => {
            let reason = lookup::why_refused(&error, &job.program);
            host.tell(&Status::Ended(ExitReport::not_started(reason)));
            return Ok(ExitCode::from(127));
        }
    };
    let watch = Watch {
        host,
        signals,
        me,
        parent,
        server,
        stage,
        code: ExitCode::SUCCESS,
    };
    Ok(watch.until_nobody_is_left())
}

fn read_job(descriptor: OwnedFd) -> std::io::Result<Job> {
    let mut bytes = Vec::new();
    File::from(descriptor).read_to_end(&mut bytes)?;
    Job::decode(&bytes).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the room where children start"
)]
fn start(job: &Job, me: Pid) -> std::io::Result<Pid> {
    let mut command = Command::new(&job.program);
    command
        .args(&job.args)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&job.cwd);
    kernel::detach_server(&mut command, me);
    // Reaped with everybody else, by `Watch::reap`.
    let pid = command.spawn()?.id();
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Puts `/dev/null` in the place of the three pipes: as long as the supervisor held them, end of
/// file would not reach the server, nor its end the host. And lets go of the working folder.
fn release_stdio() -> std::io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // Only a courtesy to whoever wants to unmount it.
    let _left = std::env::set_current_dir("/");
    Ok(())
}

/// The supervisor's end of the lifeline, until the host is gone.
struct Host(Option<OwnedFd>);

impl Host {
    fn tell(&self, status: &Status) {
        if let Some(lifeline) = &self.0 {
            // A host that is gone, or does not read, must not hold up the cleaning.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let _sent = rustix::net::send(lifeline, status.line().as_bytes(), flags);
        }
    }

    /// The last orders that have arrived; `None` when the host is gone.
    fn orders(&self) -> Option<Vec<Order>> {
        let mut bytes = [0; 64];
        match rustix::net::recv(self.0.as_ref()?, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => None,
            Ok((read, _)) => {
                let bytes = bytes.iter().take(read).copied();
                Some(bytes.filter_map(Order::from_byte).collect())
            }
            Err(Errno::AGAIN | Errno::INTR) => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The server may run as long as it likes.
    Serving,
    /// Everybody has got TERM.
    Ending { kill_at: Instant },
    /// Everybody gets KILL, again and again.
    Killing { give_up_at: Instant },
}

struct Watch {
    host: Host,
    signals: OwnedFd,
    me: Pid,
    parent: Option<Pid>,
    server: Option<Pid>,
    stage: Stage,
    code: ExitCode,
}

impl Watch {
    fn until_nobody_is_left(mut self) -> ExitCode {
        while self.reap() {
            let now = Instant::now();
            if let Stage::Ending { kill_at } = self.stage
                && now >= kill_at
            {
                self.kill();
            }
            if let Stage::Killing { give_up_at } = self.stage {
                let left = tree::signal_descendants(self.me, &[Signal::KILL]);
                if left > 0 && now >= give_up_at {
                    self.host.tell(&Status::Left(left));
                    break;
                }
            }
            self.wait(now);
        }
        self.code
    }

    /// Reaps whoever has died. False when no child is left at all; what a dead server has left
    /// behind is asked to end.
    fn reap(&mut self) -> bool {
        let any_left = self.reap_all();
        if any_left && self.server.is_none() {
            self.end();
        }
        any_left
    }

    fn reap_all(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.server => self.server_ended(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn server_ended(&mut self, status: rustix::process::WaitStatus) {
        self.server = None;
        let (report, code) = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => (ExitReport::exited(code), code),
            (None, Some(signal)) => (ExitReport::killed(signal), 128 + signal),
            (None, None) => return,
        };
        self.host.tell(&Status::Ended(report));
        self.code = ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }

    /// TERM now and KILL later, unless that has begun.
    fn end(&mut self) {
        if matches!(self.stage, Stage::Serving) {
            self.terminate();
            self.stage = Stage::Ending {
                kill_at: Instant::now() + GRACE,
            };
        }
    }

    fn terminate(&self) {
        // A stopped process hears TERM only when it goes on.
        tree::signal_descendants(self.me, &[Signal::TERM, Signal::CONT]);
    }

    fn kill(&mut self) {
        if !matches!(self.stage, Stage::Killing { .. }) {
            self.stage = Stage::Killing {
                give_up_at: Instant::now() + GIVE_UP,
            };
        }
    }

    /// Waits for an order, a signal or the next deadline, and acts on it.
    fn wait(&mut self, now: Instant) {
        let timeout = match self.stage {
            Stage::Serving => None,
            Stage::Ending { kill_at } => Some(kill_at.saturating_duration_since(now)),
            Stage::Killing { .. } => Some(AGAIN),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut watched = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(lifeline) = &self.host.0 {
            watched.push(PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::IN));
        }
        // Errors (interrupted, short of memory) lead to another round.
        let _woken = rustix::event::poll(&mut watched, timeout.as_ref());
        let host_speaks = watched
            .get(1)
            .is_some_and(|host| !host.revents().is_empty());
        self.take_signals();
        if host_speaks {
            self.take_orders();
        }
    }

    fn take_signals(&mut self) {
        for number in kernel::read_signals(&self.signals) {
            let parent_lost =
                number == Signal::HUP.as_raw() && rustix::process::getppid() != self.parent;
            if parent_lost || number == Signal::TERM.as_raw() {
                self.end();
            }
        }
    }

    fn take_orders(&mut self) {
        let Some(orders) = self.host.orders() else {
            self.host.0 = None;
            self.end();
            return;
        };
        for order in orders {
            match order {
                Order::Terminate => self.terminate(),
                Order::Kill => self.kill(),
            }
        }
    }
}
