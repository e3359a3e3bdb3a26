//! How servers end, and how they are ended.

use std::time::Duration;

use outrigger_sandbox::{Child, Ending, ExitReport, Launch, Patience};

use crate::world::{
    BOTH, HASTY, LONG, Marker, RELAXED, SUPERVISOR, Way, exit_of, lines, next, program, python,
    shell,
};

/// A daemon by the book: two forks, a session of its own, pipes let go; it outlives its parents
/// and hears neither HUP nor TERM.
pub(crate) const DAEMON: &str = "
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        null = os.open('/dev/null', os.O_RDWR)
        for n in range(3): os.dup2(null, n)
        while True: time.sleep(60)
    os._exit(0)
os.wait()
print('daemon started', flush=True)
";

async fn started((launch, marker): (Launch, Marker), word: &str) -> (Child, Marker) {
    let mut child = launch.spawn().unwrap();
    let mut stdout = lines(&mut child);
    assert_eq!(next(&mut stdout).await, word);
    (child, marker)
}

#[tokio::test]
async fn exit_code_and_signal_are_told_apart() {
    for way in BOTH {
        let cases = [
            ("exit 3", ExitReport::exited(3)),
            ("exit 0", ExitReport::exited(0)),
            ("exit 127", ExitReport::exited(127)),
            ("exit 137", ExitReport::exited(137)),
            ("kill -KILL $$", ExitReport::killed(9)),
            ("kill -SEGV $$", ExitReport::killed(11)),
        ];
        for (script, expected) in cases {
            let child = shell(way, script).0.spawn().unwrap();
            assert_eq!(exit_of(&child).await, expected, "{way:?} {script}");
            let outcome = child.close(RELAXED).await;
            assert_eq!(outcome.exit, Some(expected));
            assert_eq!(outcome.ending, Ending::ByItself);
        }
    }
}

#[tokio::test]
async fn what_the_kernel_refuses_is_reported_as_not_started() {
    let huge = "x".repeat(1 << 20);
    let child = program(Way::Supervised, "true", [&huge]).0.spawn().unwrap();
    let report = exit_of(&child).await;
    assert_eq!((report.code, report.signal), (None, None));
    insta::assert_snapshot!(report, @"could not be started: Argument list too long (os error 7)");
    assert_eq!(child.close(RELAXED).await.ending, Ending::ByItself);

    let refused = program(Way::Direct, "true", [&huge]).0.spawn().unwrap_err();
    insta::assert_snapshot!(refused, @"cannot start `true`: Argument list too long (os error 7)");
}

#[tokio::test]
async fn a_missing_loader_is_not_taken_for_a_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("foreign");
    // Written by another process: while this one had it open for writing, a child that another
    // test starts at that moment would have it open too, and it could not be executed.
    let script = "
import os, sys
elf = open(sys.argv[1], 'rb').read()
assert b'/ld-linux' in elf, 'not a dynamic executable'
open(sys.argv[2], 'wb').write(elf.replace(b'/ld-linux', b'/ld-nolib', 1))
os.chmod(sys.argv[2], 0o755)
print('written')
";
    let (mut writer, marker) = python(Way::Supervised, script);
    writer
        .args
        .extend([SUPERVISOR, file.to_str().unwrap()].map(str::to_owned));
    let (writer, _marker) = started((writer, marker), "written").await;
    assert!(exit_of(&writer).await.success());
    for way in BOTH {
        let words = match program(way, file.to_str().unwrap(), []).0.spawn() {
            Ok(child) => exit_of(&child).await.to_string(),
            Err(refused) => refused.to_string(),
        };
        let expected = "No such file or directory (os error 2); the file is there, so the loader \
                        that it asks for is not: was it built for another system?";
        assert!(words.ends_with(expected), "{way:?}: {words}");
    }
}

#[tokio::test]
async fn last_words_are_there_when_the_exit_is() {
    for way in BOTH {
        let (launch, _marker) = shell(way, "echo 'no key given' >&2; exit 1");
        let child = launch.spawn().unwrap();
        assert_eq!(exit_of(&child).await, ExitReport::exited(1));
        assert_eq!(child.stderr().tail(5), ["no key given"], "{way:?}");
    }
}

#[tokio::test]
async fn a_server_that_hears_term_is_terminated() {
    for way in BOTH {
        let (launch, marker) = shell(
            way,
            "trap 'exit 5' TERM; echo up; while :; do sleep 1; done",
        );
        let (child, marker) = started((launch, marker), "up").await;
        let patience = Patience {
            after_eof: Duration::from_millis(50),
            ..RELAXED
        };
        let outcome = child.close(patience).await;
        assert_eq!(outcome.ending, Ending::Terminated, "{way:?}");
        assert_eq!(outcome.exit, Some(ExitReport::exited(5)));
        assert!(marker.carriers().is_empty());
    }
}

#[tokio::test]
async fn a_server_deaf_to_everything_is_killed_with_its_shell_wrapper() {
    for way in BOTH {
        let inner = "trap \"\" TERM HUP INT; echo up; while :; do sleep 60; done";
        let (child, marker) = started(shell(way, &format!("sh -c '{inner}'; exit 4")), "up").await;
        let outcome = child.close(HASTY).await;
        // Without a supervisor the wrapper hears TERM, and what it leaves is killed at once.
        assert!(outcome.ending >= Ending::Terminated, "{way:?} {outcome}");
        assert!(outcome.exit.is_some());
        let bound = HASTY.after_eof + HASTY.after_term + HASTY.after_kill + Patience::LAST_RESORT;
        assert!(outcome.took < bound, "{:?}", outcome.took);
        assert!(marker.carriers().is_empty());
    }
}

#[tokio::test]
async fn a_daemon_does_not_outlive_its_server() {
    let (child, marker) = started(python(Way::Supervised, DAEMON), "daemon started").await;
    assert_eq!(exit_of(&child).await, ExitReport::exited(0));
    // Nobody asks: the server has ended, so the supervisor ends what it left.
    let outcome = child.close(RELAXED).await;
    assert_eq!(outcome.ending, Ending::ByItself);
    assert_eq!(marker.carriers(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_daemon_of_a_living_server_is_closed_with_it() {
    let script =
        format!("{DAEMON}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(3600)");
    let (child, marker) = started(python(Way::Supervised, &script), "daemon started").await;
    marker.carried_by(2).await;
    assert_eq!(child.close(HASTY).await.ending, Ending::Killed);
    assert_eq!(marker.carriers(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipes_holds_up_nothing() {
    for way in BOTH {
        let (launch, marker) = shell(way, "sleep 3600 & echo up; exit 7");
        let mut child = launch.spawn().unwrap();
        let mut stdout = lines(&mut child);
        assert_eq!(next(&mut stdout).await, "up");
        assert_eq!(exit_of(&child).await, ExitReport::exited(7), "{way:?}");
        let end = tokio::time::timeout(LONG, stdout.next_line()).await;
        assert_eq!(end.expect("stdout ends").unwrap(), None);
        assert_eq!(child.close(RELAXED).await.ending, Ending::ByItself);
        assert!(marker.carriers().is_empty());
    }
}

#[tokio::test]
async fn a_fork_storm_is_ended() {
    // Each generation starts the next and exits, so there is always a process that is too young to
    // have been seen.
    let script = "
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    time.sleep(0.001)
";
    let (child, marker) = started(python(Way::Supervised, script), "up").await;
    let outcome = child.close(HASTY).await;
    assert_ne!(outcome.ending, Ending::Abandoned, "{outcome}");
    assert_eq!(marker.carriers(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_stopped_server_is_ended_too() {
    for way in BOTH {
        let (child, marker) = started(shell(way, "echo up; kill -STOP $$; sleep 60"), "up").await;
        let outcome = child.close(HASTY).await;
        assert!(outcome.ending <= Ending::Killed, "{way:?} {outcome}");
        assert!(marker.carriers().is_empty());
    }
}

#[tokio::test]
async fn close_may_be_called_again_cancelled_and_at_the_same_time() {
    for way in BOTH {
        let deaf = "trap '' TERM; echo up; while :; do sleep 60; done";
        let (child, marker) = started(shell(way, deaf), "up").await;
        let cancelled = tokio::time::timeout(Duration::from_millis(20), child.close(RELAXED)).await;
        assert!(cancelled.is_err());
        let (one, two) = tokio::join!(child.close(HASTY), child.close(HASTY));
        assert_eq!((one.ending, one.exit), (two.ending, two.exit.clone()));
        let again = child.close(Patience::NONE).await;
        assert_eq!(
            (again.ending, again.exit),
            (Ending::Killed, two.exit),
            "{way:?}"
        );
        assert!(marker.carriers().is_empty());
    }
}
