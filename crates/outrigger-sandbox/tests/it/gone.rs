//! Nothing is left behind: not after a drop, not after the death of the host or of a supervisor.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};

use outrigger_sandbox::{Ending, ExitReport};

use crate::end::DAEMON;
use crate::world::{
    BOTH, HASTY, HOST, LONG, Marker, RELAXED, SUPERVISOR, Way, exit_of, lines, next, program,
    python, python_itself, shell, signal, soon, state,
};

/// A shell that ignores everything, with a helper in the background and a daemon.
fn stubborn_tree() -> String {
    format!(
        "trap '' TERM HUP INT; sleep 3600 & {} -c \"{DAEMON}\"; \
         while read line; do echo \"heard $line\"; done; while :; do sleep 60; done",
        python_itself()
    )
}

#[tokio::test]
async fn a_drop_kills_the_whole_tree_and_leaves_no_zombie() {
    let (launch, marker) = shell(Way::Supervised, &stubborn_tree());
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "daemon started");
    marker.carried_by(3).await;
    let server = child.pid();
    drop(child);
    marker.gone_within(LONG).await;
    soon(LONG, "server and supervisor are reaped", || {
        state(server).is_none() && state(supervisor).is_none()
    })
    .await;
    assert_eq!(stdout.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn a_drop_without_supervisor_kills_the_group() {
    let (launch, marker) = shell(Way::Direct, "trap '' TERM; sleep 3600 & echo up; wait");
    let mut child = launch.spawn().unwrap();
    let server = child.pid();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "up");
    marker.carried_by(2).await;
    drop(child);
    marker.gone_within(LONG).await;
    soon(LONG, "the server is reaped", || state(server).is_none()).await;
}

#[test]
fn a_runtime_that_ends_takes_its_children_along() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (child, marker) = runtime.block_on(async {
        let (launch, marker) = shell(Way::Supervised, &stubborn_tree());
        let mut child = launch.spawn().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, "daemon started");
        (child, marker)
    });
    drop(runtime);
    drop(child);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    other.block_on(marker.gone_within(LONG));
}

/// A host in a process of its own, with a tree behind it.
struct Host {
    process: tokio::process::Child,
    lines: Lines<BufReader<tokio::process::ChildStdout>>,
    marker: Marker,
}

impl Host {
    async fn with(script: &str) -> Self {
        let marker = Marker::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the host is the one to be killed"
        )]
        let mut process = tokio::process::Command::new(HOST)
            .args([SUPERVISOR, &marker.0, script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let mut host = Self {
            process,
            lines: BufReader::new(stdout).lines(),
            marker,
        };
        host.hears("ready").await;
        host
    }

    async fn hears(&mut self, expected: &str) {
        let line = tokio::time::timeout(LONG, self.lines.next_line()).await;
        assert_eq!(line.expect("in time").unwrap().as_deref(), Some(expected));
    }

    fn pid(&self) -> u32 {
        self.process.id().unwrap()
    }
}

#[tokio::test]
async fn kill_9_of_the_host_leaves_nothing() {
    let mut host = Host::with(&stubborn_tree()).await;
    host.hears("daemon started").await;
    host.marker.carried_by(3).await;
    let supervisors = children_of(host.pid());
    assert_eq!(supervisors.len(), 1);
    signal(host.pid(), Signal::KILL);
    host.marker.gone_within(Duration::from_secs(2)).await;
    soon(LONG, "the supervisor ends", || {
        state(supervisors[0]).is_none_or(|state| state == "Z")
    })
    .await;
}

#[tokio::test]
async fn ctrl_c_reaches_the_host_and_not_its_servers() {
    let mut host = Host::with("echo up; while read line; do echo \"heard $line\"; done").await;
    host.hears("up").await;
    let group = rustix::process::Pid::from_raw(i32::try_from(host.pid()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    host.hears("interrupted").await;
    let stdin = host.process.stdin.as_mut().unwrap();
    stdin.write_all(b"still there\n").await.unwrap();
    host.hears("heard still there").await;
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_server_along() {
    let (launch, marker) = shell(Way::Supervised, "trap '' TERM HUP; echo up; read line");
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "up");
    signal(supervisor, Signal::KILL);
    assert_eq!(exit_of(&child).await, ExitReport::killed(9));
    marker.gone_within(LONG).await;
    assert_eq!(child.close(RELAXED).await.ending, Ending::ByItself);
}

#[tokio::test]
async fn a_stopped_supervisor_cannot_protect_its_tree() {
    let (launch, marker) = shell(Way::Supervised, &stubborn_tree());
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "daemon started");
    signal(supervisor, Signal::STOP);
    let outcome = child
        .close(outrigger_sandbox::Patience {
            after_kill: Duration::from_millis(100),
            ..HASTY
        })
        .await;
    assert!(outcome.exit.is_some(), "{outcome}");
    marker.gone_within(LONG).await;
    assert_eq!(state(supervisor), None);
}

#[tokio::test]
async fn term_to_a_supervisor_ends_its_tree_and_hup_does_not() {
    let (launch, marker) = shell(Way::Supervised, &stubborn_tree());
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdin = child.take_stdin().unwrap();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "daemon started");
    for ignored in [Signal::HUP, Signal::INT, Signal::TSTP, Signal::PIPE] {
        signal(supervisor, ignored);
    }
    stdin.write_all(b"still there\n").await.unwrap();
    assert_eq!(next(&mut stdout).await, "heard still there");
    signal(supervisor, Signal::TERM);
    exit_of(&child).await;
    marker.gone_within(LONG).await;
}

#[tokio::test]
async fn descriptors_are_given_back() {
    // In a process of its own, since other tests open descriptors in this one.
    let (mut launch, _marker) = program(Way::Direct, EXE, ["--exact", SPAWNS, "--ignored"]);
    launch
        .env
        .insert("RUST_BACKTRACE".to_owned(), "0".to_owned());
    let mut child = launch.spawn().unwrap();
    let mut stdout = lines(&mut child);
    let mut said = Vec::new();
    while let Some(line) = stdout.next_line().await.unwrap() {
        said.push(line);
    }
    assert!(
        said.iter().any(|line| line.contains("1 passed")),
        "{said:#?}"
    );
}

const EXE: &str = "/proc/self/exe";
const SPAWNS: &str = "gone::twenty_spawns_alone_in_a_process";

#[tokio::test]
#[ignore = "run by `descriptors_are_given_back`"]
async fn twenty_spawns_alone_in_a_process() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = None;
    for round in 0..11 {
        for way in BOTH {
            let child = program(way, "cat", []).0.spawn().unwrap();
            if round % 2 == 0 {
                assert!(child.close(RELAXED).await.exit.unwrap().success());
            }
            let pid = child.pid();
            drop(child);
            soon(LONG, "reaped", || state(pid).is_none()).await;
        }
        // The first round opens what the runtime keeps for good.
        match before {
            None => before = Some(open()),
            Some(before) => soon(LONG, "as many as before", || open() <= before).await,
        }
    }
}

#[tokio::test]
async fn many_at_once_do_not_disturb_each_other() {
    let mut children = Vec::new();
    for number in 0..16 {
        let (launch, marker) = python(Way::Supervised, &format!("print({number}); input()"));
        children.push((launch.spawn().unwrap(), marker));
    }
    for (number, (child, marker)) in children.iter_mut().enumerate() {
        let mut stdout = BufReader::new(child.take_stdout().unwrap()).lines();
        // `input()` keeps what was printed in Python's buffer until it is answered or ended.
        drop(child.take_stdin());
        assert_eq!(next(&mut stdout).await, number.to_string());
        assert_eq!(stdout.next_line().await.unwrap(), None);
        child.close(RELAXED).await;
        assert!(marker.carriers().is_empty());
    }
}

fn children_of(parent: u32) -> Vec<u32> {
    let wanted = format!("PPid:\t{parent}");
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.lines().any(|line| line == wanted))
        })
        .collect()
}
