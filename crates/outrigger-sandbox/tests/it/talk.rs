//! What a running server gets, and what it gives.

use tokio::io::AsyncWriteExt;

use crate::world::{BOTH, HASTY, LONG, RELAXED, Way, exit_of, lines, next, python, shell, soon};
use outrigger_sandbox::Ending;

#[tokio::test]
async fn lines_go_through_in_both_directions() {
    for way in BOTH {
        let (launch, marker) = program_cat(way);
        let mut child = launch.spawn().unwrap();
        let mut stdin = child.take_stdin().unwrap();
        let mut stdout = lines(&mut child);
        for line in ["one", "two – zwei", "three"] {
            stdin
                .write_all(format!("{line}\n").as_bytes())
                .await
                .unwrap();
            assert_eq!(next(&mut stdout).await, line);
        }
        assert!(child.take_stdin().is_none());
        assert!(child.take_stdout().is_none());
        drop(stdin);
        assert_eq!(stdout.next_line().await.unwrap(), None, "{way:?}");
        let outcome = child.close(RELAXED).await;
        assert_eq!(outcome.ending, Ending::ByItself);
        assert!(outcome.exit.unwrap().success());
        assert!(marker.carriers().is_empty());
    }
}

fn program_cat(way: Way) -> (outrigger_sandbox::Launch, crate::world::Marker) {
    crate::world::program(way, "cat", [])
}

#[tokio::test]
async fn the_server_has_exactly_the_environment_and_folder_it_was_given() {
    for way in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let (mut launch, marker) = crate::world::program(way, "env", []);
        launch.env.insert("GIVEN".to_owned(), "a=b c".to_owned());
        launch.cwd = folder.path().canonicalize().unwrap();
        let mut child = launch.clone().spawn().unwrap();
        let mut stdout = lines(&mut child);
        let mut seen = Vec::new();
        while let Some(line) = stdout.next_line().await.unwrap() {
            seen.push(line);
        }
        seen.sort_unstable();
        let path = format!("PATH={}", crate::world::PATH);
        let expected = ["GIVEN=a=b c", &format!("MARKER={}", marker.0), &path];
        assert_eq!(seen, expected, "{way:?}");

        launch.program = "pwd".to_owned();
        launch.args = vec!["-P".to_owned()];
        let mut child = launch.clone().spawn().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, launch.cwd.to_str().unwrap());
    }
}

#[tokio::test]
async fn a_relative_program_starts_at_the_folder() {
    for way in BOTH {
        let (mut launch, _marker) = crate::world::program(way, "bin/echo", ["found"]);
        launch.cwd = "/".into();
        let mut child = launch.spawn().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, "found");
    }
}

#[tokio::test]
async fn a_flood_on_stderr_stops_nobody_and_its_end_is_kept() {
    for way in BOTH {
        let (mut launch, _marker) = python(
            way,
            "import sys\n\
             for n in range(200_000): print('flood', n, file=sys.stderr)\n\
             sys.stderr.flush(); sys.stderr.buffer.write(b'last words \\xff\\n'); sys.stderr.flush()\n\
             print('done')",
        );
        launch.stderr_ring = 4096;
        let mut child = launch.spawn().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, "done");
        exit_of(&child).await;
        // The exit is published after the last words are in the ring.
        let stderr = child.stderr();
        assert_eq!(stderr.tail(2), ["flood 199999", "last words \u{fffd}"]);
        assert!(stderr.total_bytes() > 2_000_000);
        let kept: usize = stderr
            .tail(usize::MAX)
            .iter()
            .map(|line| line.len() + 1)
            .sum();
        assert!(kept <= 4096 + 8, "{kept}");
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_does_not_hold_up_the_close() {
    for way in BOTH {
        let (launch, marker) = shell(way, "echo up; trap '' TERM; while :; do sleep 60; done");
        let mut child = launch.spawn().unwrap();
        let mut stdin = child.take_stdin().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, "up");
        // Held by a writer that is stuck in the middle of a large message.
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { stdin.write_all(&vec![b'x'; 1 << 20]).await });
        let outcome = child.close(HASTY).await;
        assert_eq!(outcome.ending, Ending::Killed, "{way:?}");
        assert!(marker.carriers().is_empty());
        let written = tokio::time::timeout(LONG, tasks.join_next()).await;
        written
            .expect("the writer ends")
            .unwrap()
            .unwrap()
            .unwrap_err();
    }
}

/// What a server starts with: descriptors, blocked and ignored signals, group, session, parent.
const BIRTH: &str = "
import os, json
status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
fds = [int(n) for n in os.listdir('/proc/self/fd')]
print(json.dumps([sorted(n for n in fds if os.path.exists(f'/proc/self/fd/{n}')), status['SigBlk'], '%x' % (int(status['SigIgn'], 16) & 0x7fffffff),
    os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid(), os.getpid(), os.getppid()]), flush=True)
input()
";

#[tokio::test]
async fn a_supervised_server_inherits_nothing_and_leads_its_own_session() {
    // A descriptor that a careless library would let through.
    let careless = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
    let (launch, _marker) = python(Way::Supervised, BIRTH);
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdout = lines(&mut child);
    let birth = next(&mut stdout).await;
    soon(LONG, "the supervisor reports the server", || {
        child.pid() != supervisor
    })
    .await;
    // Python itself ignores PIPE and XFSZ: bits 13 and 25. Above 31 the C library has its own.
    let expected = format!(
        "[[0, 1, 2], \"0000000000000000\", \"1001000\", true, true, {}, {supervisor}]",
        child.pid()
    );
    assert_eq!(birth, expected);
}

#[tokio::test]
async fn a_supervisor_keeps_none_of_the_pipes_and_nothing_secret() {
    let (mut launch, _marker) = shell(Way::Supervised, "echo up; read line");
    launch.env.insert("TOKEN".to_owned(), "s3cret".to_owned());
    let mut child = launch.spawn().unwrap();
    let supervisor = child.pid();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, "up");
    soon(LONG, "the supervisor reports the server", || {
        child.pid() != supervisor
    })
    .await;
    for number in 0..3 {
        let target = std::fs::read_link(format!("/proc/{supervisor}/fd/{number}")).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    let open = std::fs::read_dir(format!("/proc/{supervisor}/fd"))
        .unwrap()
        .count();
    assert_eq!(
        open, 5,
        "three times /dev/null, the lifeline and the signals"
    );
    assert!(
        std::fs::read(format!("/proc/{supervisor}/environ"))
            .unwrap()
            .is_empty()
    );
    let command = std::fs::read(format!("/proc/{supervisor}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&command).contains("read line"));
}

#[tokio::test]
async fn a_direct_server_leads_its_own_group() {
    let (launch, _marker) = python(Way::Direct, BIRTH);
    let mut child = launch.spawn().unwrap();
    let mut stdout = lines(&mut child);
    let birth = next(&mut stdout).await;
    let me = std::process::id();
    assert!(
        birth.ends_with(&format!("true, false, {}, {me}]", child.pid())),
        "{birth}"
    );
}
