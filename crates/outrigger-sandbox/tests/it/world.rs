//! Launches with a marker in their environment, and looking for whoever still carries it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outrigger_sandbox::{Child, ChildStdout, ExitReport, Launch, Patience};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

pub(crate) const SUPERVISOR: &str = env!("CARGO_BIN_EXE_outrigger-supervise");
pub(crate) const HOST: &str = env!("CARGO_BIN_EXE_outrigger-sandbox-host");
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Far more than any wait here takes, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Short steps, so that a server that needs all of them does not hold up the tests.
pub(crate) const HASTY: Patience = Patience {
    after_eof: Duration::from_millis(200),
    after_term: Duration::from_millis(200),
    after_kill: Duration::from_secs(10),
};

/// Enough time for a good server on a busy machine to end by itself.
pub(crate) const RELAXED: Patience = Patience {
    after_eof: LONG,
    after_term: LONG,
    after_kill: LONG,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Supervised,
    Direct,
}

pub(crate) const BOTH: [Way; 2] = [Way::Supervised, Way::Direct];

/// A value that no other process has in its environment.
#[derive(Debug, Clone)]
pub(crate) struct Marker(pub(crate) String);

impl Marker {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("marked-{}-{number}-", std::process::id()))
    }

    /// The processes that carry it, supervisors excepted (their environment is empty).
    pub(crate) fn carriers(&self) -> Vec<u32> {
        processes()
            .filter(|pid| {
                std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
                    environment
                        .windows(self.0.len())
                        .any(|window| window == self.0.as_bytes())
                })
            })
            .collect()
    }

    pub(crate) async fn carried_by(&self, count: usize) {
        soon(LONG, &format!("{count} carriers of the marker"), || {
            self.carriers().len() == count
        })
        .await;
    }

    pub(crate) async fn gone_within(&self, limit: Duration) {
        soon(limit, "nobody carries the marker", || {
            self.carriers().is_empty()
        })
        .await;
    }
}

pub(crate) fn shell(way: Way, script: &str) -> (Launch, Marker) {
    program(way, "sh", ["-c", script])
}

pub(crate) fn python(way: Way, script: &str) -> (Launch, Marker) {
    program(way, python_itself(), ["-c", script])
}

/// The interpreter behind `python3`, which on many machines is a wrapper that needs the
/// environment of the person at the keyboard.
pub(crate) fn python_itself() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "asks the machine, before any test"
        )]
        let output = std::process::Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .expect("python3 is installed");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

pub(crate) fn program<const N: usize>(way: Way, name: &str, args: [&str; N]) -> (Launch, Marker) {
    let marker = Marker::new();
    let mut launch = Launch::new(name, args);
    launch.env.insert("PATH".to_owned(), PATH.to_owned());
    launch.env.insert("MARKER".to_owned(), marker.0.clone());
    launch.cwd = PathBuf::from("/");
    launch.supervisor = match way {
        Way::Supervised => Some(vec![SUPERVISOR.into()]),
        Way::Direct => None,
    };
    (launch, marker)
}

pub(crate) fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.take_stdout().unwrap()).lines()
}

pub(crate) async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    tokio::time::timeout(LONG, lines.next_line())
        .await
        .expect("a line in time")
        .unwrap()
        .expect("a line before the end")
}

pub(crate) async fn exit_of(child: &Child) -> ExitReport {
    let mut exited = child.exited();
    let seen = tokio::time::timeout(LONG, exited.wait_for(Option::is_some)).await;
    seen.expect("an exit in time").unwrap().clone().unwrap()
}

/// Looks again and again until `check` holds: for things that nobody announces.
pub(crate) async fn soon(limit: Duration, what: &str, mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The state letter of a process, `None` when it does not exist (a zombie does).
pub(crate) fn state(pid: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("State:"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn processes() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
