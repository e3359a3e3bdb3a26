//! What cannot be started, and the words for it.

use outrigger_sandbox::{Launch, SpawnError};

use crate::world::{BOTH, Way, exit_of, program};

#[tokio::test]
async fn an_unknown_program_names_the_folders_searched() {
    for way in BOTH {
        let (launch, _marker) = program(way, "outrigger-no-such-server", []);
        let refused = launch.spawn().unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused, @"`outrigger-no-such-server` was not found in PATH (/usr/local/bin:/usr/bin:/bin)");
        }
        assert!(matches!(refused, SpawnError::NotFound { searched, .. } if searched.len() == 3));
    }
}

#[tokio::test]
async fn a_file_without_permission_says_what_to_do() {
    let (launch, _marker) = program(Way::Supervised, "/etc/passwd", []);
    insta::assert_snapshot!(launch.spawn().unwrap_err(), @"`/etc/passwd` cannot be executed: this user may not execute it; `chmod +x` it, or name the interpreter as the command");
}

#[tokio::test]
async fn a_missing_folder_is_not_blamed_on_the_program() {
    for way in BOTH {
        let (mut launch, _marker) = program(way, "sh", []);
        launch.cwd = "/no/such/folder".into();
        insta::allow_duplicates! {
            insta::assert_snapshot!(launch.spawn().unwrap_err(), @"cannot start `sh` in the folder `/no/such/folder`: it does not exist");
        }
    }
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    for way in BOTH {
        let (launch, _marker) = program(way, "true", []);
        assert!(matches!(launch.spawn(), Err(SpawnError::NoRuntime { .. })));
    }
}

#[tokio::test]
async fn a_missing_supervisor_is_named() {
    let (mut launch, _marker) = program(Way::Direct, "true", []);
    launch.supervisor = Some(vec!["/no/such/supervisor".into()]);
    insta::assert_snapshot!(launch.clone().spawn().unwrap_err(), @"cannot start `true`: its supervisor `/no/such/supervisor` failed to start: No such file or directory (os error 2)");
    launch.supervisor = Some(Vec::new());
    insta::assert_snapshot!(launch.spawn().unwrap_err(), @"cannot start `true`: the command of its supervisor is empty");
}

#[tokio::test]
async fn a_supervisor_that_is_none_is_reported() {
    let (mut launch, _marker) = program(Way::Direct, "true", []);
    launch.supervisor = Some(vec!["/bin/sh".into(), "-c".into(), "exit 9".into()]);
    let child = launch.spawn().unwrap();
    insta::assert_snapshot!(exit_of(&child).await, @"could not be started: its supervisor ended first (exit status 9)");
}

#[test]
fn the_supervisor_is_of_no_use_by_hand() {
    for args in [&[] as &[&str], &["three", "four"], &["1", "2"], &["7", "7"]] {
        #[expect(clippy::disallowed_methods, reason = "the supervisor without its host")]
        let output = std::process::Command::new(crate::world::SUPERVISOR)
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "outrigger supervisor: this subcommand is started by Outrigger itself and is of no use by hand\n"
        );
    }
}

#[test]
fn a_bare_launch_has_stated_defaults() {
    let launch = Launch::new("server", ["--flag"]);
    assert_eq!(launch.args, ["--flag"]);
    assert!(launch.env.is_empty() && launch.supervisor.is_none());
    assert_eq!(launch.stderr_ring, 256 * 1024);
    assert!(launch.cwd.is_absolute());
}
