//! What host and supervisor say to each other.
//!
//! Promises: orders are single bytes and fit into any socket buffer; statuses are lines; the job
//! (program, arguments, variables, folder) travels in a file of its own, never in an argument
//! list or in the supervisor's own environment. Leaves out: the descriptors it travels over.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::ExitReport;

/// What the host asks of the supervisor. End of file asks for [`Order::Terminate`], and for
/// [`Order::Kill`] a short while later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// TERM to every descendant.
    Terminate,
    /// KILL to every descendant, until none is left.
    Kill,
}

impl Order {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    /// `None` for a byte that is no order (a newer host's).
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'T' => Some(Self::Terminate),
            b'K' => Some(Self::Kill),
            _ => None,
        }
    }
}

/// What the supervisor tells the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// The server runs and has this process id.
    Started(u32),
    /// The server has ended, or was never executed.
    Ended(ExitReport),
    /// The supervisor gives up: so many descendants could not be ended.
    Left(usize),
}

impl Status {
    /// One line with its line end.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Left(count) => format!("left {count}\n"),
            Self::Ended(report) => match (report.code, report.signal, &report.not_started) {
                (Some(code), _, _) => format!("exited {code}\n"),
                (_, Some(signal), _) => format!("killed {signal}\n"),
                (_, _, reason) => {
                    let reason = reason.as_deref().unwrap_or("unknown exit status");
                    format!("not-started {}\n", reason.replace('\n', " "))
                }
            },
        }
    }

    /// `None` for a line that is no status.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (word, rest) = line.trim_end_matches('\n').split_once(' ')?;
        Some(match word {
            "started" => Self::Started(rest.parse().ok()?),
            "left" => Self::Left(rest.parse().ok()?),
            "exited" => Self::Ended(ExitReport::exited(rest.parse().ok()?)),
            "killed" => Self::Ended(ExitReport::killed(rest.parse().ok()?)),
            "not-started" => Self::Ended(ExitReport::not_started(rest)),
            _ => return None,
        })
    }
}

/// What the supervisor is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) program: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Job {
    /// Fields that end with NUL, which none of them can contain: program, folder, number of
    /// arguments, the arguments, then name and value of each variable.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut field = |text: &OsStr| {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        };
        field(self.program.as_os_str());
        field(self.cwd.as_os_str());
        field(OsStr::new(&self.args.len().to_string()));
        self.args.iter().for_each(|arg| field(arg));
        for (name, value) in &self.env {
            field(name);
            field(value);
        }
        bytes
    }

    /// `None` when `bytes` is not what [`Job::encode`] writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes
            .strip_suffix(b"\0")?
            .split(|byte| *byte == 0)
            .map(|field| OsString::from_vec(field.to_vec()));
        let program = fields.next()?.into();
        let cwd = fields.next()?.into();
        let count: usize = fields.next()?.to_str()?.parse().ok()?;
        let args: Vec<OsString> = fields.by_ref().take(count).collect();
        let mut env = Vec::new();
        while let Some(name) = fields.next() {
            env.push((name, fields.next()?));
        }
        (args.len() == count).then_some(Self {
            program,
            cwd,
            args,
            env,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_the_wire() {
        for status in [
            Status::Started(4711),
            Status::Left(2),
            Status::Ended(ExitReport::exited(127)),
            Status::Ended(ExitReport::killed(9)),
            Status::Ended(ExitReport::not_started("Exec format error (os error 8)")),
        ] {
            assert_eq!(Status::from_line(&status.line()), Some(status));
        }
        assert_eq!(Status::from_line("started soon\n"), None);
        assert_eq!(Status::from_line("nonsense\n"), None);
    }

    #[test]
    fn a_job_survives_the_wire() {
        let job = Job {
            program: "/bin/sh".into(),
            cwd: "/tmp/a b".into(),
            args: vec!["-c".into(), String::new().into(), "two\nlines".into()],
            env: vec![
                ("EMPTY".into(), String::new().into()),
                ("RAW".into(), OsString::from_vec(vec![0xff, b'='])),
            ],
        };
        assert_eq!(Job::decode(&job.encode()), Some(job.clone()));
        let bare = Job {
            args: Vec::new(),
            env: Vec::new(),
            ..job
        };
        assert_eq!(Job::decode(&bare.encode()), Some(bare));
    }

    #[test]
    fn half_a_job_is_no_job() {
        assert_eq!(Job::decode(b""), None);
        assert_eq!(Job::decode(b"/bin/sh\0/\0"), None);
        assert_eq!(Job::decode(b"/bin/sh\0/\x002\0one\0"), None);
        assert_eq!(Job::decode(b"/bin/sh\0/\x000\0NAME\0"), None);
        assert_eq!(Job::decode(b"/bin/sh\0/\x000"), None);
    }
}
