//! This test program started again, playing one role in a process of its own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Tells a child which journal to use.
const JOURNAL: &str = "OUTRIGGER_TEST_JOURNAL";

/// A role being played; killed when dropped.
pub(crate) struct Role {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

/// The command that plays the role of this ignored test.
pub(crate) fn command(role: &str, journal: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            role,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(JOURNAL, journal);
    command
}

/// The journal that the parent named; the roles cannot be played without.
pub(crate) fn journal() -> std::path::PathBuf {
    std::env::var_os(JOURNAL)
        .expect("a role is started by another test")
        .into()
}

/// The place that the parent named.
pub(crate) fn place() -> outrigger_journal::Place {
    crate::setup::place(journal().to_str().unwrap())
}

impl Role {
    pub(crate) fn start(role: &str, journal: impl AsRef<OsStr>) -> Self {
        Self::of(&mut command(role, journal))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing it says, without the words of the test harness around it.
    pub(crate) fn said(&mut self) -> Option<String> {
        self.lines
            .by_ref()
            .find_map(|line| Some(line.unwrap().split_once("say ")?.1.to_owned()))
    }

    /// SIGKILL; what it had said before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.said()).collect()
    }

    /// Ends its standard input, which roles wait for, and waits; everything else it says.
    pub(crate) fn finish(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let said = std::iter::from_fn(|| self.said()).collect();
        assert!(self.child.wait().unwrap().success());
        said
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Most have ended by now, which is no failure.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Says something to the parent at once.
pub(crate) fn say(what: impl std::fmt::Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "say {what}").unwrap();
    out.flush().unwrap();
}

/// Waits until the parent ends standard input.
pub(crate) fn wait_for_parent() {
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).unwrap();
}
