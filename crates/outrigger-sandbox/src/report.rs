//! How a child ended, and how patiently it is asked to.
//!
//! Promises: an exit code, a death by signal and "was never started" are three different things.
//! Leaves out: what any of them means to the caller.

use std::fmt;
use std::time::Duration;

/// How the server process ended. Exactly one of the three fields is set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// The code it exited with (0 to 255 on Unix).
    pub code: Option<i32>,
    /// The number of the signal that killed it.
    pub signal: Option<i32>,
    /// Why the operating system refused to execute the program, when it did so after
    /// [`Launch::spawn`](crate::Launch::spawn) had returned. A server that exited with 127 by
    /// itself has `code: Some(127)` instead.
    pub not_started: Option<String>,
}

impl ExitReport {
    /// The process exited by itself with `code`.
    pub fn exited(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
            not_started: None,
        }
    }

    /// The process was killed by signal number `signal`.
    pub fn killed(signal: i32) -> Self {
        Self {
            code: None,
            signal: Some(signal),
            not_started: None,
        }
    }

    /// The program was never executed.
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self {
            code: None,
            signal: None,
            not_started: Some(reason.into()),
        }
    }

    /// Exit code 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl From<std::process::ExitStatus> for ExitReport {
    fn from(status: std::process::ExitStatus) -> Self {
        if let Some(code) = status.code() {
            return Self::exited(code);
        }
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::killed(signal);
        }
        Self::not_started(format!("unknown exit status ({status})"))
    }
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.not_started, self.code, self.signal) {
            (Some(reason), _, _) => write!(f, "could not be started: {reason}"),
            (None, Some(code), _) => write!(f, "exit status {code}"),
            (None, None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "killed by signal {signal} ({name})"),
                None => write!(f, "killed by signal {signal}"),
            },
            (None, None, None) => f.write_str("unknown exit status"),
        }
    }
}

/// The names of the signals that end processes in practice (numbers as on Linux x86 and ARM; those
/// below 16 that are listed here are the same on macOS, except BUS).
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        5 => "TRAP",
        6 => "ABRT",
        7 if cfg!(target_os = "linux") => "BUS",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        24 if cfg!(target_os = "linux") => "XCPU",
        25 if cfg!(target_os = "linux") => "XFSZ",
        31 if cfg!(target_os = "linux") => "SYS",
        _ => return None,
    })
}

/// How long [`Child::close`](crate::Child::close) waits after each step before it takes the next.
/// The whole close is bounded by the sum of the three plus [`Patience::LAST_RESORT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After end of file on its standard input. A well-behaved MCP server exits now.
    pub after_eof: Duration,
    /// After TERM to the whole tree.
    pub after_term: Duration,
    /// After KILL to the whole tree.
    pub after_kill: Duration,
}

impl Patience {
    /// Added once when even KILL through the supervisor has not ended the tree in time: the
    /// host then kills what it can see itself.
    pub const LAST_RESORT: Duration = Duration::from_millis(500);

    /// No waiting for good manners: straight to KILL.
    pub const NONE: Self = Self {
        after_eof: Duration::ZERO,
        after_term: Duration::ZERO,
        after_kill: Duration::from_secs(2),
    };
}

impl Default for Patience {
    /// Two seconds for end of file, two for TERM, two for KILL.
    fn default() -> Self {
        Self {
            after_eof: Duration::from_secs(2),
            after_term: Duration::from_secs(2),
            after_kill: Duration::from_secs(2),
        }
    }
}

/// What it took to end the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It had ended before, or ended by itself on end of file.
    ByItself,
    /// It ended after TERM.
    Terminated,
    /// It ended after KILL.
    Killed,
    /// Something is still there: a process that even KILL does not end (uninterruptible in the
    /// kernel) or that runs as another user.
    Abandoned,
}

/// The result of [`Child::close`](crate::Child::close).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseOutcome {
    /// The step that ended the tree.
    pub ending: Ending,
    /// How the server itself ended; `None` only when it is [`Ending::Abandoned`].
    pub exit: Option<ExitReport>,
    /// How long this call to `close` took.
    pub took: Duration,
}

impl fmt::Display for CloseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.ending {
            Ending::ByItself => "ended by itself",
            Ending::Terminated => "ended after TERM",
            Ending::Killed => "had to be killed",
            Ending::Abandoned => "could not be ended",
        };
        match &self.exit {
            Some(exit) => write!(f, "{how} ({exit})"),
            None => f.write_str(how),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_as_sentences() {
        assert_eq!(ExitReport::exited(3).to_string(), "exit status 3");
        assert_eq!(
            ExitReport::killed(9).to_string(),
            "killed by signal 9 (KILL)"
        );
        assert_eq!(ExitReport::killed(64).to_string(), "killed by signal 64");
        assert_eq!(
            ExitReport::not_started("Exec format error (os error 8)").to_string(),
            "could not be started: Exec format error (os error 8)"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_wait_status_keeps_code_and_signal_apart() {
        use std::os::unix::process::ExitStatusExt;
        let from = |raw| ExitReport::from(std::process::ExitStatus::from_raw(raw));
        assert_eq!(from(127 << 8), ExitReport::exited(127));
        assert_eq!(from(9), ExitReport::killed(9));
        assert!(from(0).success());
    }
}
