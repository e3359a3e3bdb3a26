//! A journal that cannot be written: nothing is called that is not recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Place, Ran};
use crate::scripted::lab;

fn said(place: &Place, ran: &Ran) -> String {
    let errors = ran
        .err
        .lines()
        .skip_while(|line| !line.starts_with("error:"))
        .collect::<Vec<_>>()
        .join("\n");
    place.tidy(&format!("exit {}\n{errors}", ran.code))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

#[test]
fn a_folder_that_is_a_file() {
    let (place, log) = lab();
    place.write("state/outrigger", "in the way");
    let ran = place.run(&["call", "lab", "keep", "--allow", "*"]);
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: the journal `/state/outrigger/journal.db` cannot be used: File exists (os error 17)
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(log.heard().len(), 0, "no server was started");
}

#[test]
fn a_folder_that_cannot_be_written() {
    let (place, log) = lab();
    let folder = place.root.join("state/outrigger");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let ran = place.run_with(&["call", "lab", "keep", "--allow", "*"], |command| {
        // Nothing keeps the superuser from writing; another user owns neither folder nor program.
        if is_root() {
            fs::set_permissions(&place.root, fs::Permissions::from_mode(0o755)).unwrap();
            command.uid(65534);
        }
    });
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: the journal `/state/outrigger/journal.db` cannot be written: Permission denied (os error 13); make its folder and files writable for this user
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(log.heard().len(), 0, "no server was started");
}

#[test]
fn a_file_that_is_no_journal() {
    let place = Place::new();
    place.write(
        "state/outrigger/journal.db",
        "something else, and longer than the header of a database would be".repeat(30),
    );
    insta::assert_snapshot!(said(&place, &place.run(&["call", "time", "current_time"])), @"
    exit 1
    error: `/state/outrigger/journal.db` is not a usable journal: file is not a database; move the file aside to begin a new one
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(
        place.run(&["tools"]).code,
        0,
        "who only looks needs no journal"
    );
}

#[test]
fn a_file_that_is_damaged() {
    let (place, log) = lab();
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    let file = fs::File::options()
        .write(true)
        .open(place.journal())
        .unwrap();
    // Its first page is whole, and those it points to are not there.
    file.set_len(4096).unwrap();
    let ran = place.run(&["call", "lab", "keep", "--allow", "*"]);
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: `/state/outrigger/journal.db` is not a usable journal: database disk image is malformed; move the file aside to begin a new one
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn a_file_that_another_program_keeps_locked() {
    let (place, log) = lab();
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    let other = rusqlite::Connection::open(place.journal()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ran = place.run(&["call", "lab", "keep", "--allow", "*"]);
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: the journal `/state/outrigger/journal.db` is kept locked by another program; end that program, or wait and try again
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(log.of("tools/call").len(), 0);
    // And when it is let go of, all is well.
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(place.run(&["call", "lab", "keep", "--allow", "*"]).code, 0);
    assert_eq!(log.of("tools/call").len(), 1);
}

#[test]
fn a_file_of_a_newer_version() {
    let (place, log) = lab();
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    let other = rusqlite::Connection::open(place.journal()).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    let ran = place.run(&["call", "lab", "keep", "--allow", "*"]);
    let told = "has format 99; this version reads up to ";
    assert!(ran.code == 1 && ran.err.contains(told), "{ran:#?}");
    assert_eq!(log.heard().len(), 0, "no server was started");
}

#[test]
fn a_file_of_an_older_version_is_brought_up_and_that_is_said() {
    let place = Place::new();
    fs::create_dir_all(place.journal().parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(place.journal()).unwrap();
    old.execute_batch(include_str!("../../../outrigger-journal/src/schema/v1.sql"))
        .unwrap();
    old.execute_batch("PRAGMA application_id = 0x4F757472; PRAGMA user_version = 1")
        .unwrap();
    drop(old);
    let told = |ran: Ran| place.tidy(&format!("exit {}\n{}", ran.code, ran.err));
    insta::assert_snapshot!(told(place.run(&["audit", "verify"])), @"
    exit 1
    error: the journal `/state/outrigger/journal.db` cannot be used: it has format 1, which the next run brings up
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    insta::assert_snapshot!(told(place.run(&["runs"])), @"
    exit 0
    note: the journal had an older format and was brought up; as it was it is kept in `/state/outrigger/journal.db.v1-backup`
    no runs yet; `outrigger ask \"…\"` makes one
    ");
    assert_eq!(place.run(&["audit", "verify"]).code, 0);
}

/// A small file system, gone with the value.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(at)
            .output()
            .ok()?;
        mounted.status.success().then(|| Self(at.to_path_buf()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().unwrap();
    }
}

#[test]
fn a_disk_that_is_full() {
    let (place, log) = lab();
    let folder = place.root.join("state/outrigger");
    let Some(_disk) = Small::mount(&folder, "512k") else {
        return full_by_limit(&place);
    };
    fs::write(folder.join("ballast"), vec![0; 500 << 10]).unwrap();
    let ran = place.run(&["call", "lab", "keep", "--allow", "*"]);
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: no room is left on the disk of the journal `/state/outrigger/journal.db`; free some and try again
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
    assert_eq!(log.of("tools/call").len(), 0);
}

/// Without leave to mount: no file may grow beyond a few blocks.
fn full_by_limit(place: &Place) {
    let program = env!("CARGO_BIN_EXE_outrigger");
    let command = place.command(&[]);
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "ulimit -f 8; trap '' XFSZ; exec \"$@\"",
        "sh",
        program,
        "call",
        "lab",
        "keep",
        "--allow",
        "*",
    ]);
    limited.current_dir(place.project()).env_clear();
    limited.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let pipe = std::process::Stdio::piped;
    let ran = Ran::of(
        limited
            .stdin(std::process::Stdio::null())
            .stdout(pipe())
            .stderr(pipe())
            .spawn()
            .unwrap(),
    );
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(ran.err.contains("journal"), "{}", ran.err);
}

#[test]
fn a_disk_that_fills_up_while_a_call_is_under_way() {
    let (place, log) = lab();
    let folder = place.root.join("state/outrigger");
    let Some(_disk) = Small::mount(&folder, "512k") else {
        return eprintln!("not tested: this user may not mount a small disk");
    };
    let text = |key: &str| format!("{key}={}", "x".repeat(100 << 10));
    let ran = place.run(&[
        "call",
        "lab",
        "keep",
        &text("a"),
        &text("b"),
        &text("c"),
        "--allow",
        "*",
    ]);
    assert_eq!(log.of("tools/list").len(), 1, "the run began: {}", ran.err);
    assert_eq!(
        log.of("tools/call").len(),
        0,
        "what cannot be recorded is not sent"
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 1
    error: no room is left on the disk of the journal `/state/outrigger/journal.db`; free some and try again
    hint: every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere
    ");
}
