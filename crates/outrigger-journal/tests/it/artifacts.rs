//! Artifacts: kept once, found by what is written, removed by rules and never silently.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use outrigger_journal::{
    ArtifactError, ArtifactOrigin, ArtifactRef, Artifacts, Digest, GcRules, NewArtifact, Run,
    RunId, RunStatus,
};

use crate::setup::{Home, ended, over_stores};

over_stores! {
    a_content_is_kept_once_with_all_places_it_came_from,
    any_part_is_read_and_nothing_beyond_the_end,
    a_handle_is_found_by_any_unambiguous_beginning,
    what_is_no_handle_is_told,
    a_missing_or_damaged_file_is_told,
    a_folder_that_cannot_be_written_is_told_and_nothing_is_noted,
    a_run_that_is_not_in_this_journal_is_no_origin,
    a_closed_journal_keeps_nothing_and_still_reads,
    the_longest_unused_go_until_the_rest_fits,
    what_was_not_used_for_long_goes_and_reading_is_use,
    what_a_run_that_goes_on_was_given_stays,
    what_is_kept_while_others_collect_is_there,
    files_that_nothing_refers_to_are_swept_when_they_are_old,
}

fn of(home: &Home) -> Artifacts {
    Artifacts::open(&home.folder.path().join("artifacts"), &home.journal)
}

fn new(run: &RunId, call: u32, bytes: impl Into<Bytes>) -> NewArtifact {
    NewArtifact {
        bytes: bytes.into(),
        media_type: "text/plain".to_owned(),
        name: Some("notes.txt".to_owned()),
        origin: ArtifactOrigin {
            run: run.clone(),
            call,
            server: "files".to_owned(),
            tool: "read".to_owned(),
            block: Some(0),
        },
    }
}

fn file(home: &Home, kept: &ArtifactRef) -> PathBuf {
    let digits = kept.digest.to_string();
    let folder = home.folder.path().join("artifacts");
    folder.join(&digits[..2]).join(&digits[2..])
}

async fn finished(home: &Home) -> Run {
    let run = home.run().await;
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    run
}

async fn a_content_is_kept_once_with_all_places_it_came_from(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    let first = artifacts.put(new(run.id(), 1, "hello")).await.unwrap();
    assert_eq!(first.digest, Digest::of(b"hello"));
    assert_eq!(
        first.handle,
        format!("artifact://{}", &first.digest.to_string()[..16])
    );
    let written = fs::metadata(file(&home, &first))
        .unwrap()
        .modified()
        .unwrap();
    for call in [1, 2, 2] {
        assert_eq!(
            artifacts.put(new(run.id(), call, "hello")).await.unwrap(),
            first
        );
    }
    assert_eq!(
        fs::metadata(file(&home, &first))
            .unwrap()
            .modified()
            .unwrap(),
        written
    );
    let about = artifacts.about(&first.handle).await.unwrap();
    let calls = about.all_origins.iter().map(|origin| origin.origin.call);
    assert_eq!(calls.collect::<Vec<_>>(), [1, 2]);
    assert_eq!((about.line.origins, about.line.bytes), (2, 5));
    assert_eq!(about.all_origins[0].origin, new(run.id(), 1, "").origin);
    assert_eq!(about.all_origins[0].name.as_deref(), Some("notes.txt"));
}

async fn any_part_is_read_and_nothing_beyond_the_end(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    let kept = artifacts.put(new(run.id(), 1, "0123456789")).await.unwrap();
    for (range, part) in [
        (0..3, "012"),
        (8..99, "89"),
        (0..u64::MAX, "0123456789"),
        (10..12, ""),
        (50..60, ""),
    ] {
        assert_eq!(artifacts.read(&kept.digest, range).await.unwrap(), part);
    }
    let empty = artifacts.put(new(run.id(), 2, "")).await.unwrap();
    assert_eq!(artifacts.read(&empty.digest, 0..9).await.unwrap(), "");
    let large = vec![7; 3_000_001];
    let kept = artifacts
        .put(new(run.id(), 3, large.clone()))
        .await
        .unwrap();
    let mut exported = Vec::new();
    let size = artifacts
        .export(&kept.digest, |some| {
            exported.extend_from_slice(some);
            Ok(())
        })
        .await
        .unwrap();
    assert!(size == 3_000_001 && exported == large);
}

async fn a_handle_is_found_by_any_unambiguous_beginning(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    // Some thousands of contents, of which two begin with the same four digits.
    let mut by_digits = std::collections::BTreeMap::<String, Vec<String>>::new();
    for number in 0_u32..2_000 {
        let text = number.to_string();
        let digits = Digest::of(text.as_bytes()).to_string()[..4].to_owned();
        by_digits.entry(digits).or_default().push(text);
    }
    let (digits, pair) = by_digits.iter().find(|(_, texts)| texts.len() > 1).unwrap();
    let mut handles = Vec::new();
    for text in pair {
        handles.push(
            artifacts
                .put(new(run.id(), 1, text.clone()))
                .await
                .unwrap()
                .handle,
        );
    }
    handles.sort();
    let error = artifacts.about(digits).await.unwrap_err().to_string();
    let expected = format!(
        "`{digits}` fits several artifacts: {}; write more of its digits",
        handles.join(", ")
    );
    assert_eq!(error, expected);
    for handle in &handles {
        for written in [
            handle.clone(),
            handle.to_uppercase().replace("ARTIFACT", "artifact"),
            format!(" {} ", &handle[11..]),
        ] {
            assert_eq!(
                &artifacts.about(&written).await.unwrap().line.handle,
                handle
            );
        }
    }
}

async fn what_is_no_handle_is_told(home: Home) {
    let artifacts = of(&home);
    let said = async |handle| artifacts.about(handle).await.unwrap_err().to_string();
    assert_eq!(
        said("artifact://0123456789abcdef").await,
        "there is no artifact `artifact://0123456789abcdef`"
    );
    for text in [
        "",
        "artifact://",
        "artifact://abc",
        "file:///etc/passwd",
        "0123%",
        &"a".repeat(65),
    ] {
        let error = artifacts.about(text).await.unwrap_err();
        assert!(
            matches!(error, ArtifactError::NotAHandle { .. }),
            "{text}: {error}"
        );
    }
    assert_eq!(
        said("../x").await,
        "`../x` is not an artifact: one is written `artifact://` and at least four of its hex digits"
    );
    let error = artifacts
        .read(&Digest::of(b"never kept"), 0..1)
        .await
        .unwrap_err();
    assert!(matches!(error, ArtifactError::NoSuch { .. }), "{error}");
}

async fn a_missing_or_damaged_file_is_told(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    let kept = artifacts.put(new(run.id(), 1, "hello")).await.unwrap();
    fs::write(file(&home, &kept), "jello").unwrap();
    let error = artifacts
        .export(&kept.digest, |_| Ok(()))
        .await
        .unwrap_err();
    assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
    fs::remove_file(file(&home, &kept)).unwrap();
    let error = artifacts.read(&kept.digest, 0..1).await.unwrap_err();
    assert!(
        matches!(&error, ArtifactError::Missing { path } if *path == file(&home, &kept)),
        "{error}"
    );
    // Keeping it again mends it.
    artifacts.put(new(run.id(), 2, "hello")).await.unwrap();
    assert_eq!(artifacts.read(&kept.digest, 0..9).await.unwrap(), "hello");
}

async fn a_folder_that_cannot_be_written_is_told_and_nothing_is_noted(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    fs::write(artifacts.place(), "in the way").unwrap();
    let error = artifacts.put(new(run.id(), 1, "hello")).await.unwrap_err();
    let folder = artifacts.place().display().to_string();
    assert!(error.to_string().contains(&folder), "{error}");
    assert_eq!(artifacts.list(9).await.unwrap().len(), 0);
    // The journal is none the worse.
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
}

async fn a_run_that_is_not_in_this_journal_is_no_origin(home: Home) {
    let artifacts = of(&home);
    let stranger = "20261130-094210-3f9a".parse().unwrap();
    artifacts.put(new(&stranger, 1, "hello")).await.unwrap_err();
    assert_eq!(artifacts.list(9).await.unwrap().len(), 0);
}

async fn a_closed_journal_keeps_nothing_and_still_reads(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    let kept = artifacts.put(new(run.id(), 1, "hello")).await.unwrap();
    home.journal.close().await.unwrap();
    artifacts.put(new(run.id(), 1, "more")).await.unwrap_err();
    assert_eq!(artifacts.read(&kept.digest, 0..9).await.unwrap(), "hello");
}

/// Some artifacts, the first used the longest ago.
async fn some(home: &Home, run: &Run, texts: &[&str]) -> Vec<ArtifactRef> {
    let artifacts = of(home);
    let mut kept = Vec::new();
    for text in texts {
        kept.push(
            artifacts
                .put(new(run.id(), 1, (*text).to_owned()))
                .await
                .unwrap(),
        );
    }
    kept
}

async fn the_longest_unused_go_until_the_rest_fits(home: Home) {
    let run = finished(&home).await;
    let kept = some(&home, &run, &["aaaa", "bbbb", "cccc", "dddd"]).await;
    let artifacts = of(&home);
    let rules = GcRules {
        older_than: None,
        keep_bytes: Some(9),
    };
    let would = artifacts.gc(rules, true).await.unwrap();
    assert!(would.dry_run && file(&home, &kept[0]).exists());
    let report = artifacts.gc(rules, false).await.unwrap();
    for report in [&would, &report] {
        let removed: Vec<_> = report.removed.iter().map(|line| line.digest).collect();
        assert_eq!(removed, [kept[0].digest, kept[1].digest]);
        assert_eq!(
            (report.removed_bytes, report.stay, report.stay_bytes),
            (8, 2, 8)
        );
    }
    assert!(!file(&home, &kept[0]).exists() && file(&home, &kept[2]).exists());
    // Its handle still says what became of it.
    let error = artifacts.read(&kept[0].digest, 0..9).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Collected { .. }), "{error}");
    let about = artifacts.about(&kept[0].handle).await.unwrap();
    assert!(about.line.collected.is_some() && about.all_origins.len() == 1);
    // It comes again when it is kept again.
    some(&home, &run, &["aaaa"]).await;
    assert_eq!(artifacts.read(&kept[0].digest, 0..9).await.unwrap(), "aaaa");
    assert_eq!(
        artifacts
            .about(&kept[0].handle)
            .await
            .unwrap()
            .line
            .collected,
        None
    );
}

async fn what_was_not_used_for_long_goes_and_reading_is_use(home: Home) {
    let run = finished(&home).await;
    let kept = some(&home, &run, &["old", "read", "new"]).await;
    for old in &kept[..2] {
        let sql = "UPDATE artifacts SET used_at = used_at - 90000000000 WHERE digest";
        home.execute(&format!("{sql} = '{}'", old.digest)).unwrap();
    }
    let artifacts = of(&home);
    artifacts.read(&kept[1].digest, 0..1).await.unwrap();
    let rules = GcRules {
        older_than: Some(Duration::from_hours(24)),
        keep_bytes: None,
    };
    let report = artifacts.gc(rules, false).await.unwrap();
    let removed: Vec<_> = report.removed.iter().map(|line| line.digest).collect();
    assert_eq!(removed, [kept[0].digest]);
}

async fn what_a_run_that_goes_on_was_given_stays(home: Home) {
    let artifacts = of(&home);
    let run = home.run().await;
    let kept = some(&home, &run, &["needed"]).await.remove(0);
    let everything = GcRules {
        older_than: None,
        keep_bytes: Some(0),
    };
    let report = artifacts.gc(everything, false).await.unwrap();
    assert_eq!(
        (report.removed.len(), report.in_use.len(), report.stay),
        (0, 1, 1)
    );
    assert_eq!(artifacts.read(&kept.digest, 0..9).await.unwrap(), "needed");
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    let report = artifacts.gc(everything, false).await.unwrap();
    assert_eq!((report.removed.len(), report.stay), (1, 0));
}

async fn what_is_kept_while_others_collect_is_there(home: Home) {
    let over = finished(&home).await;
    let run = home.run().await;
    let other = home.again();
    let collector = Artifacts::open(&home.folder.path().join("artifacts"), &other);
    let everything = GcRules {
        older_than: None,
        keep_bytes: Some(0),
    };
    let collecting = async {
        let mut removed = 0;
        for _ in 0..60 {
            removed += collector.gc(everything, false).await.unwrap().removed.len();
        }
        removed
    };
    let keeping = async {
        let artifacts = of(&home);
        for number in 0..60 {
            let text = format!("number {number}");
            // Nobody needs it, so it may go at any time; then somebody does.
            artifacts
                .put(new(over.id(), 1, text.clone()))
                .await
                .unwrap();
            let kept = artifacts.put(new(run.id(), 1, text.clone())).await.unwrap();
            assert_eq!(artifacts.read(&kept.digest, 0..99).await.unwrap(), text);
        }
    };
    let (removed, ()) = tokio::join!(collecting, keeping);
    let lines = of(&home).list(100).await.unwrap();
    assert_eq!(lines.len(), 60);
    assert!(lines.iter().all(|line| line.collected.is_none()));
    eprintln!("{removed} were removed meanwhile and written again");
}

async fn files_that_nothing_refers_to_are_swept_when_they_are_old(home: Home) {
    let artifacts = of(&home);
    let run = finished(&home).await;
    let kept = some(&home, &run, &["kept"]).await.remove(0);
    let stray = Digest::of(b"stray").to_string();
    let folder = artifacts.place().join(&stray[..2]);
    fs::create_dir_all(&folder).unwrap();
    let files = [
        folder.join(&stray[2..]),
        folder.join(format!("{}#1", &stray[2..])),
    ];
    for path in &files {
        fs::write(path, "stray").unwrap();
    }
    let rules = GcRules::default();
    assert_eq!(artifacts.gc(rules, false).await.unwrap().left_over, 0);
    let long_ago = SystemTime::now() - Duration::from_hours(30);
    for path in files.iter().chain([&file(&home, &kept)]) {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    assert_eq!(artifacts.gc(rules, true).await.unwrap().left_over, 2);
    assert_eq!(artifacts.gc(rules, false).await.unwrap().left_over, 2);
    assert!(files.iter().all(|path| !path.exists()) && file(&home, &kept).exists());
}
