//! What is to be started, and why it could not be.
//!
//! Promises: everything is given here and nothing is inherited: no variable, no folder, no
//! descriptor. What can be checked before a process exists is checked, and named when wrong.
//! Leaves out: finding the values; `${VAR}` and configuration are the caller's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::Child;
use crate::{lookup, start};

/// One process to be started, with everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// An absolute path, a path relative to `cwd` (anything with a separator), or a name that is
    /// looked up in `PATH` of `env`.
    pub program: String,
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// The whole environment of the process.
    pub env: BTreeMap<String, String>,
    /// The folder that it starts in.
    pub cwd: PathBuf,
    /// Program and leading arguments that end up in [`supervisor::run`](crate::supervisor::run)
    /// (Linux; elsewhere it is ignored). `None`: the process is started directly, in its own
    /// process group, and descendants that leave the group are not followed.
    pub supervisor: Option<Vec<OsString>>,
    /// Bytes of stderr to keep.
    pub stderr_ring: usize,
}

impl Launch {
    /// Bytes of stderr kept unless said otherwise: 256 KiB.
    pub const STDERR_RING: usize = 256 * 1024;

    /// `program` with `args`: an empty environment, the root folder, no supervisor.
    pub fn new(
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: PathBuf::from(std::path::MAIN_SEPARATOR_STR),
            supervisor: None,
            stderr_ring: Self::STDERR_RING,
        }
    }

    /// Starts the process with pipes for stdin, stdout and stderr. Must be called within a tokio
    /// runtime; takes about as long as starting a process and never waits for the program itself.
    pub fn spawn(self) -> Result<Child, SpawnError> {
        let program = lookup::resolve(&self)?;
        start::start(&self, &program)
    }
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error("{}", not_found(program, searched))]
    NotFound {
        /// The program as it was asked for.
        program: String,
        /// The folders of `PATH` that were searched, in order; empty when the environment has no
        /// `PATH`; the one path that was tried when `program` is a path.
        searched: Vec<PathBuf>,
    },
    /// It is there and cannot be executed.
    #[error("`{}` cannot be executed: {reason}", program.display())]
    NotExecutable {
        /// The file that was found.
        program: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The folder to start in cannot be used.
    #[error("cannot start `{program}` in the folder `{}`: {reason}", cwd.display())]
    BadCwd {
        /// The program as it was asked for.
        program: String,
        /// The folder.
        cwd: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument or a variable cannot be handed to any process.
    #[error("cannot start `{program}`: {what}")]
    BadInput {
        /// The program as it was asked for.
        program: String,
        /// Which argument or variable, and what is wrong with it.
        what: String,
    },
    /// The supervisor that should run the program could not be started.
    #[error("cannot start `{program}`: its supervisor `{}` failed to start: {source}", supervisor.display())]
    Supervisor {
        /// The program as it was asked for.
        program: String,
        /// The program of the supervisor.
        supervisor: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is no tokio runtime to drive its pipes.
    #[error("cannot start `{program}`: not within a tokio runtime")]
    NoRuntime {
        /// The program as it was asked for.
        program: String,
    },
    /// The operating system refused to execute it. Under a supervisor this comes as
    /// [`ExitReport::not_started`](crate::ExitReport::not_started) instead.
    #[error("cannot start `{program}`: {reason}")]
    Refused {
        /// The program as it was asked for.
        program: String,
        /// What the operating system said, and what it means.
        reason: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The pipes or the lifeline could not be made (too many open files, no memory).
    #[error("cannot start `{program}`: {source}")]
    Io {
        /// The program as it was asked for.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
}

fn not_found(program: &str, searched: &[PathBuf]) -> String {
    if lookup::is_path(program) {
        return match searched.first() {
            Some(path) if path.as_os_str() != program => {
                format!(
                    "`{program}` does not exist (looked at `{}`)",
                    path.display()
                )
            }
            _ => format!("`{program}` does not exist"),
        };
    }
    if searched.is_empty() {
        return format!(
            "`{program}` was not found: its environment has no PATH; give one, or an absolute path"
        );
    }
    let folders: Vec<String> = searched
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    format!(
        "`{program}` was not found in PATH ({})",
        folders.join(if cfg!(windows) { ";" } else { ":" })
    )
}
