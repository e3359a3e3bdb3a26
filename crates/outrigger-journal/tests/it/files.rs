//! Modes of files, files that are no journals, folders and disks that cannot be written.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use outrigger_journal::{
    ArtifactError, ArtifactOrigin, Artifacts, Journal, JournalError, NewArtifact, RunOptions,
};

use crate::process::{self, Role, command, say};
use crate::setup::{Home, end, intent, note, proposed, started};

fn refused(path: &Path) -> JournalError {
    let error = Journal::open(path).unwrap_err();
    let name = path.display().to_string();
    assert!(
        error.to_string().contains(&name),
        "`{error}` does not name {name}"
    );
    error
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn files_are_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/journal.db");
    let journal = Journal::open(&path).unwrap();
    journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    for made in ["a", "a/b", "a/b/journal.db-hosts"] {
        assert_eq!(mode(&folder.path().join(made)), 0o700, "{made}");
    }
    for made in [
        "journal.db",
        "journal.db-wal",
        "journal.db-shm",
        "journal.db-hosts/opening",
    ] {
        assert_eq!(mode(&folder.path().join("a/b").join(made)), 0o600, "{made}");
    }
}

#[tokio::test]
async fn a_file_that_others_could_read_is_closed_to_them() {
    let home = Home::new();
    home.journal.close().await.unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o644)).unwrap();
    Journal::open(&home.path()).unwrap();
    assert_eq!(mode(&home.path()), 0o600);
}

#[tokio::test]
async fn a_newer_file_is_refused_and_left_as_it_is() {
    let home = Home::new();
    home.journal.close().await.unwrap();
    home.connection()
        .pragma_update(None, "user_version", 7)
        .unwrap();
    let error = refused(&home.path());
    assert!(
        matches!(
            error,
            JournalError::TooNew {
                found: 7,
                known: 6,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().ends_with(
        "has format 7; this version reads up to 6: use the newer version, or move the file aside"
    ));
    assert_eq!(
        home.connection()
            .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
            .unwrap(),
        7
    );
}

#[tokio::test]
async fn other_files_are_not_journals() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.db");
    fs::write(
        &garbage,
        "not a database, but longer than its header would be. ".repeat(40),
    )
    .unwrap();
    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE songs (name TEXT)")
        .unwrap();
    for path in [garbage, foreign] {
        let before = fs::read(&path).unwrap();
        let error = refused(&path);
        assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("move the file aside to begin a new one"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    let directory = folder.path().join("folder.db");
    fs::create_dir(&directory).unwrap();
    assert!(matches!(refused(&directory), JournalError::Unusable { .. }));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(&file.join("journal.db"));
}

#[tokio::test]
async fn a_damaged_file_is_told_when_it_is_read() {
    let home = Home::new();
    let run = home.run().await;
    for number in 0..200 {
        run.record(note("s", number.to_string().repeat(100)));
    }
    home.journal.close().await.unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(home.path())
        .unwrap();
    file.set_len(4096 * 12).unwrap();
    let error = match Journal::open(&home.path()) {
        Ok(journal) => journal.events(run.id()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn an_empty_file_becomes_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    fs::write(&path, "").unwrap();
    let journal = Journal::open(&path).unwrap();
    journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
}

/// Says why the journal cannot be opened.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn says_why_not() {
    match Journal::open(&process::journal()) {
        Ok(_) => say("opened"),
        Err(error @ JournalError::ReadOnly { .. }) => say(format_args!("read-only: {error}")),
        Err(error) => say(format_args!("something else: {error}")),
    }
}

#[test]
fn a_folder_that_may_not_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = command("files::says_why_not", &path);
    if is_root() {
        // Root may write everywhere, so somebody else tries; from a copy that they may execute.
        let program = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let mut other = Command::new(program);
        other.args(command.get_args()).envs(given(&command));
        other.uid(65_534).gid(65_534).current_dir("/");
        command = other;
    }
    let said = Role::of(&mut command).said().unwrap();
    assert!(
        said.starts_with("read-only: the journal `") && said.contains(&path.display().to_string()),
        "{said}"
    );
    assert!(
        said.ends_with("make its folder and files writable for this user"),
        "{said}"
    );
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Fills its disk, then makes room.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn fills_its_disk() {
    let path = process::journal();
    let ballast = path.with_extension("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let journal = Journal::open(&path).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let mut stored = 0;
    let error = loop {
        match run.record_durable(note("s", "x".repeat(10_000))).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
    say(format_args!("after {}: {error}", stored > 0));
    run.record(proposed(1));
    assert!(matches!(
        run.record_durable(intent(1)).await,
        Err(JournalError::DiskFull { .. })
    ));
    assert!(matches!(
        journal.begin(started(), RunOptions::default()).await,
        Err(JournalError::DiskFull { .. })
    ));
    run.record(end(1, outrigger_journal::OutcomeKind::NotSent));
    let artifacts = Artifacts::open(&path.with_file_name("artifacts"), &journal);
    let new = NewArtifact {
        bytes: vec![1; 100_000].into(),
        media_type: "application/octet-stream".to_owned(),
        name: None,
        origin: ArtifactOrigin {
            run: run.id().clone(),
            call: 1,
            server: "s".to_owned(),
            tool: "t".to_owned(),
            block: None,
        },
    };
    let error = artifacts.put(new.clone()).await.unwrap_err();
    assert!(matches!(error, ArtifactError::DiskFull { .. }), "{error}");
    fs::remove_file(ballast).unwrap();
    artifacts.put(new).await.unwrap();
    run.record_durable(note("s", "room again")).await.unwrap();
    let events = journal.events(run.id()).await.unwrap();
    assert_eq!(events.len(), stored + 6, "nothing was lost");
    say(run.trouble().unwrap());
    journal.close().await.unwrap();
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost_when_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let mut unshare = vec!["unshare", "--mount"];
    if !is_root() {
        unshare.push("--map-root-user");
    }
    // A small disk in a mount namespace of its own, gone with the process.
    let mounted = |program: &str, args: &[&OsStr]| {
        let mut command = Command::new(unshare[0]);
        let script = r#"mount -t tmpfs -o size=2m none "$0" && exec "$@""#;
        command.args(&unshare[1..]).args(["sh", "-c", script]);
        command.arg(folder.path()).arg(program).args(args);
        command
    };
    if !mounted("true", &[])
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("no file system can be mounted here: only the unit test with a page limit ran");
        return;
    }
    let role = command("files::fills_its_disk", &path);
    let args: Vec<_> = role.get_args().collect();
    let mut command = mounted(role.get_program().to_str().unwrap(), &args);
    command.envs(given(&role));
    let said = Role::of(&mut command).finish();
    let full = format!(
        "no room is left on the disk of the journal `{}`; free some and try again",
        path.display()
    );
    assert_eq!(said, [format!("after true: {full}"), full]);
}

/// The environment that a role is given.
fn given(command: &Command) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
}
