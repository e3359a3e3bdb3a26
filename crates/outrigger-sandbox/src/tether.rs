//! The host's end of the lifeline to a supervisor (Linux).
//!
//! Promises: nothing but this process holds the host's end, so that its end of file means that
//! the host is gone or has dropped the child. Leaves out: the other end, which is `supervisor`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;

use crate::child::Hold;
use crate::launch::{Launch, SpawnError};
use crate::start::{self, Watcher};
use crate::wire::{Job, Order, Status};
use crate::{Child, ExitReport, tree};

/// While descriptors for one supervisor can be inherited, no other may be started: it would
/// inherit them too. Starting children anywhere else is forbidden by a lint.
static STARTING: Mutex<()> = Mutex::new(());

/// How long the rest of what a supervisor has said is waited for after its end.
const LAST_STATUS: std::time::Duration = std::time::Duration::from_secs(1);

/// The hold on a supervised tree.
#[derive(Debug)]
pub(crate) struct Tether {
    socket: Arc<UnixStream>,
    supervisor: Option<Pid>,
}

impl Tether {
    /// Sends an order. Never blocks: the handful of bytes ever sent fits into the buffer.
    pub(crate) fn send(&self, order: Order) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if let Err(error) = rustix::net::send(self.socket.as_fd(), &[order.byte()], flags) {
            tracing::trace!(?order, %error, "the supervisor does not listen any more");
        }
    }

    /// The supervisor's process id; 0 where it is not known.
    pub(crate) fn supervisor(&self) -> u32 {
        let raw = self.supervisor.map(|pid| pid.as_raw_nonzero().get());
        raw.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
    }

    /// The last resort, when the supervisor itself is stuck (stopped by a signal, say).
    pub(crate) fn kill_tree(&self) {
        if let Some(supervisor) = self.supervisor {
            tree::signal_descendants(supervisor, &[Signal::KILL]);
            tree::signal_one(supervisor, Signal::KILL);
        }
    }
}

/// Starts `launch` under `supervisor` (its program and leading arguments).
pub(crate) fn start(
    launch: &Launch,
    program: &Path,
    supervisor: &[OsString],
) -> Result<Child, SpawnError> {
    let io = |source| SpawnError::Io {
        program: launch.program.clone(),
        source,
    };
    let (runner, leading) = supervisor
        .split_first()
        .ok_or_else(|| SpawnError::BadInput {
            program: launch.program.clone(),
            what: "the command of its supervisor is empty".to_owned(),
        })?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(io)?;
    let job = write_job(launch, program).map_err(io)?;
    let mut command = start::command(runner);
    command
        .args(leading)
        .arg(theirs.as_raw_fd().to_string())
        .arg(job.as_raw_fd().to_string())
        // For people who read `ps`.
        .arg(label(&launch.program));
    let mut process = spawn_with(&mut command, &[theirs.into(), job.into()]).map_err(|source| {
        SpawnError::Supervisor {
            program: launch.program.clone(),
            supervisor: PathBuf::from(runner),
            source,
        }
    })?;
    // From here on a failure drops `ours`, which ends the supervisor.
    ours.set_nonblocking(true).map_err(io)?;
    let socket = Arc::new(UnixStream::from_std(ours).map_err(io)?);
    let hold = Hold::Tether(Tether {
        socket: Arc::clone(&socket),
        supervisor: process
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw),
    });
    let (child, watcher) = start::assemble(&mut process, hold, launch.stderr_ring);
    Ok(start::watched(child, watch(process, socket, watcher)))
}

fn label(program: &str) -> &OsStr {
    Path::new(program)
        .file_name()
        .unwrap_or(OsStr::new(program))
}

/// The job in an anonymous file, which only those who inherit its descriptor can read.
fn write_job(launch: &Launch, program: &Path) -> std::io::Result<File> {
    let job = Job {
        program: program.to_owned(),
        cwd: launch.cwd.clone(),
        args: launch.args.iter().map(OsString::from).collect(),
        env: launch
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    };
    let mut file = File::from(rustix::fs::memfd_create(
        "outrigger-job",
        MemfdFlags::CLOEXEC,
    )?);
    file.write_all(&job.encode())?;
    file.rewind()?;
    Ok(file)
}

/// Starts `command` so that it inherits `descriptors` under their own numbers.
///
/// They lose their close-on-exec flag here, in the parent, rather than between fork and exec: so
/// the standard library can use `posix_spawn`, which does not copy the page tables of a host that
/// has a model in memory.
fn spawn_with(
    command: &mut tokio::process::Command,
    descriptors: &[OwnedFd],
) -> std::io::Result<tokio::process::Child> {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    for descriptor in descriptors {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let spawned = command.spawn();
    for descriptor in descriptors {
        rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    spawned
}

/// Follows what the supervisor tells until it has ended itself.
async fn watch(mut process: tokio::process::Child, socket: Arc<UnixStream>, mut watcher: Watcher) {
    let mut lines = BufReader::new(Reader(socket)).lines();
    let mut left = 0;
    let status = {
        let follow = async {
            while let Ok(Some(line)) = lines.next_line().await {
                take_in(&line, &mut left, &mut watcher).await;
            }
        };
        tokio::pin!(follow);
        tokio::select! {
            () = &mut follow => process.wait().await,
            status = process.wait() => {
                // What it said last may still be in the socket. The limit is for a socket that has
                // leaked into a process that outlives it.
                let _heard = tokio::time::timeout(LAST_STATUS, follow).await;
                status
            }
        }
    };
    let report = match status.map(ExitReport::from) {
        // The server dies with its supervisor: its parent-death signal is the same KILL.
        Ok(report) if report.signal.is_some() => report,
        Ok(report) => ExitReport::not_started(format!("its supervisor ended first ({report})")),
        Err(error) => ExitReport::not_started(format!("waiting for it failed: {error}")),
    };
    watcher.exited(report).await;
    watcher.gone(left);
}

async fn take_in(line: &str, left: &mut usize, watcher: &mut Watcher) {
    match Status::from_line(line) {
        Some(Status::Started(pid)) => watcher.pid.store(pid, Ordering::Relaxed),
        Some(Status::Ended(report)) => watcher.exited(report).await,
        Some(Status::Left(count)) => *left = count,
        None => tracing::debug!(line, "the supervisor says something else"),
    }
}

/// The reading half of a socket that is also written to through a shared reference.
struct Reader(Arc<UnixStream>);

impl tokio::io::AsyncRead for Reader {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        loop {
            std::task::ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return std::task::Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return std::task::Poll::Ready(Err(error)),
            }
        }
    }
}
