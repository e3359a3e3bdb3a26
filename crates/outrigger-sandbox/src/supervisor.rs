//! The process between host and server, and what it covers.
//!
//! [`run`] is the body of a hidden subcommand of the host's own binary. It must be the first thing
//! that `main` does there: one thread, no descriptor of its own, plain blocking code.
//!
//! On Linux it is a subreaper, so that every descendant of the server stays its descendant however
//! it forks, and it holds a lifeline to the host: a socket whose end of file means that the host
//! is gone or has dropped the child. Then, and also when the server ends by itself, every
//! descendant gets TERM, half a second, and KILL until none is left. The server's stdio passes
//! straight through; the supervisor keeps none of it.
//!
//! | What happens | Who ends the tree |
//! |---|---|
//! | `close`, drop of the child, exit, panic or SIGKILL of the host | the supervisor |
//! | TERM to the supervisor, or loss of its parent | the supervisor |
//! | the supervisor is stopped (SIGSTOP) | `close` by its last resort; a drop cannot |
//! | the supervisor gets SIGKILL | the kernel ends the *server* (parent-death signal); descendants that hold no pipe to the host live on |
//! | a descendant runs as another user (setuid), or has left through a service manager or container daemon | nobody |
//!
//! The third to fifth lines need a process of the same user that attacks its supervisor; a process
//! namespace closes them.
//!
//! Elsewhere (macOS, Windows) there is no supervisor yet: children are started directly, on macOS
//! in a process group that gets the signals, and what leaves the group, or outlives a killed host,
//! is not followed.

#[cfg(target_os = "linux")]
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Supervises one server until it and all its descendants are gone.
///
/// `args` are those after the leading arguments given as
/// [`Launch::supervisor`](crate::Launch::supervisor): the numbers of two inherited descriptors
/// and a label. The exit code is for people who read `ps`: the host learns more over the lifeline.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    match supervise(args) {
        Ok(code) => code,
        Err(error) => {
            // Nobody is left to tell when stderr is gone too.
            let _told = writeln!(std::io::stderr(), "outrigger supervisor: {error}");
            ExitCode::from(2)
        }
    }
}

/// Why the supervisor could not take up its work.
#[derive(Debug, thiserror::Error)]
enum SuperviseError {
    #[error("this subcommand is started by Outrigger itself and is of no use by hand")]
    Usage,
    #[cfg(target_os = "linux")]
    #[error("cannot {doing}: {source}")]
    Io {
        doing: &'static str,
        source: std::io::Error,
    },
    #[cfg(not(target_os = "linux"))]
    #[error("there is no supervisor on this platform")]
    Unsupported,
}

#[cfg(target_os = "linux")]
fn supervise(mut args: impl Iterator<Item = OsString>) -> Result<ExitCode, SuperviseError> {
    let mut descriptor = || {
        let number: i32 = args.next()?.to_str()?.parse().ok()?;
        (number > 2).then_some(number)
    };
    match (descriptor(), descriptor()) {
        (Some(lifeline), Some(job)) if lifeline != job => watch::supervise(lifeline, job),
        _ => Err(SuperviseError::Usage),
    }
}

#[cfg(not(target_os = "linux"))]
fn supervise(mut args: impl Iterator<Item = OsString>) -> Result<ExitCode, SuperviseError> {
    Err(match args.next() {
        Some(_) => SuperviseError::Unsupported,
        None => SuperviseError::Usage,
    })
}
