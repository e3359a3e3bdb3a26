//! Artifacts in a bucket, with a journal in a database: what replicas share, and what becomes of it when
//! the bucket is away, refuses, or was changed by somebody else.

use std::time::{Duration, Instant};

use outrigger_journal::{
    ArtifactError, ArtifactOrigin, ArtifactRef, Artifacts, Bucket, BucketSettings, Digest, GcRules,
    Journal, NewArtifact, Run, RunStatus,
};
use outrigger_testkit::bucket::{S3, server};

use crate::setup::{Home, ended};

/// A journal, and a bucket for its artifacts.
struct Shelf {
    home: Home,
    bucket: String,
    s3: &'static S3,
}

fn settings(s3: &S3, bucket: &str) -> BucketSettings {
    BucketSettings {
        url: format!("s3://{bucket}/gate"),
        endpoint: Some(s3.endpoint.clone()),
        access_key_id: Some(s3.access_key_id.clone()),
        secret_access_key: Some(s3.secret_access_key.clone()),
        ..BucketSettings::default()
    }
}

fn open(settings: &BucketSettings, journal: &Journal) -> Artifacts {
    Artifacts::open_in_bucket(&Bucket::open(settings).unwrap(), journal)
}

impl Shelf {
    fn new() -> Self {
        Self {
            home: Home::in_database(),
            bucket: server().bucket(),
            s3: server(),
        }
    }

    /// As a process sees it that has just begun.
    fn fresh(&self) -> Artifacts {
        open(&settings(self.s3, &self.bucket), &self.home.journal)
    }

    fn contents(&self) -> Vec<String> {
        let mut keys = self.s3.keys(&self.bucket);
        keys.retain(|key| key != "gate/outrigger-journal");
        keys
    }

    fn name(&self, kept: &ArtifactRef) -> String {
        format!("s3://{}/{}", self.bucket, key(&kept.digest))
    }
}

fn key(digest: &Digest) -> String {
    let digits = digest.to_string();
    format!("gate/{}/{}", &digits[..2], &digits[2..])
}

fn new(run: &Run, text: impl Into<bytes::Bytes>) -> NewArtifact {
    NewArtifact {
        bytes: text.into(),
        media_type: "text/plain".to_owned(),
        name: None,
        origin: ArtifactOrigin {
            run: run.id().clone(),
            call: 1,
            server: "files".to_owned(),
            tool: "read".to_owned(),
            block: None,
        },
    }
}

async fn exported(artifacts: &Artifacts, digest: &Digest) -> Result<Vec<u8>, ArtifactError> {
    let mut all = Vec::new();
    let take = |some: &[u8]| {
        all.extend_from_slice(some);
        Ok(())
    };
    artifacts.export(digest, take).await.map(|_| all)
}

const EVERYTHING: GcRules = GcRules {
    older_than: None,
    keep_bytes: Some(0),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_keeps_the_other_reads_and_it_is_kept_once() {
    let shelf = Shelf::new();
    let (one, two) = (shelf.fresh(), shelf.home.again());
    let two = open(&settings(shelf.s3, &shelf.bucket), &two);
    let run = shelf.home.run().await;
    let large: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    for content in [&b"hello"[..], b"", &large] {
        let kept = one.put(new(&run, content.to_vec())).await.unwrap();
        let handle = two.about(&kept.handle).await.unwrap().line.digest;
        let size = content.len() as u64;
        for range in [0..u64::MAX, 0..3, 1..size.max(1) - 1, size..size + 9] {
            let at = |place: u64| usize::try_from(place.min(size)).unwrap();
            let (start, end) = (at(range.start), at(range.end));
            let part = &content[start..end.max(start)];
            assert_eq!(two.read(&handle, range.clone()).await.unwrap(), part);
        }
        assert_eq!(exported(&two, &handle).await.unwrap(), content);
        // And as the first that a process does with it.
        let part = shelf.fresh().read(&handle, 2..4).await.unwrap();
        assert_eq!(part, content.get(2..4).unwrap_or_default());
    }
    assert_eq!(shelf.contents().len(), 3);
    assert_eq!(
        one.place().display().to_string(),
        format!("s3://{}/gate", shelf.bucket)
    );

    let path = format!("/{}/{}", shelf.bucket, key(&Digest::of(b"hello")));
    two.put(new(&run, "hello")).await.unwrap();
    let asked = shelf.s3.requests();
    let written = |asked: &[String]| {
        let put = format!("PUT {path}");
        asked.iter().filter(|asked| **asked == put).count()
    };
    assert_eq!(written(&asked), 1, "the second time nothing is sent");
    let line = two.about(&Digest::of(b"hello").to_string()).await.unwrap();
    assert_eq!(line.line.origins, 1, "from the same call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_that_somebody_changed_is_never_taken_for_what_it_was() {
    let shelf = Shelf::new();
    let run = shelf.home.run().await;
    let writer = shelf.fresh();
    let kept = writer.put(new(&run, "hello, world")).await.unwrap();
    let reader = shelf.fresh();
    assert_eq!(reader.read(&kept.digest, 0..5).await.unwrap(), "hello");
    // Of the same length, so that nothing but the content tells.
    shelf
        .s3
        .put(&shelf.bucket, &key(&kept.digest), "hello, w0rld");
    for artifacts in [&writer, &reader, &shelf.fresh()] {
        for range in [0..5, 0..99, 7..9] {
            let error = artifacts.read(&kept.digest, range).await.unwrap_err();
            let named = matches!(&error, ArtifactError::Damaged { path }
                if path.display().to_string() == shelf.name(&kept));
            assert!(named, "{error}");
        }
        let error = exported(artifacts, &kept.digest).await.unwrap_err();
        assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
    }
    shelf.s3.remove(&shelf.bucket, &key(&kept.digest));
    for artifacts in [&writer, &reader, &shelf.fresh()] {
        let error = artifacts.read(&kept.digest, 0..5).await.unwrap_err();
        let missing = matches!(&error, ArtifactError::Missing { path }
            if path.display().to_string() == shelf.name(&kept));
        assert!(missing, "{error}");
    }
    // Keeping it again mends it.
    writer.put(new(&run, "hello, world")).await.unwrap();
    assert_eq!(reader.read(&kept.digest, 7..12).await.unwrap(), "world");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_is_told_and_nothing_is_noted() {
    let s3 = S3::start();
    let home = Home::in_database();
    let bucket = s3.bucket();
    let artifacts = open(&settings(&s3, &bucket), &home.journal);
    let run = home.run().await;
    let kept = artifacts.put(new(&run, "hello")).await.unwrap();
    s3.stop();
    let begun = Instant::now();
    let error = artifacts
        .put(new(&run, "more"))
        .await
        .unwrap_err()
        .to_string();
    let named = format!(
        "`s3://{bucket}/{}` cannot be written: ",
        key(&Digest::of(b"more"))
    );
    assert!(
        error.starts_with(&named) && error.contains("onnection refused"),
        "{error}"
    );
    let error = artifacts
        .put(new(&run, "hello"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be looked at: "), "{error}");
    let error = artifacts
        .read(&kept.digest, 0..9)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be read: "), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(artifacts.list(9).await.unwrap().len(), 1);
    // The journal is none the worse.
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    let error = artifacts
        .gc(EVERYTHING, false)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be removed: "), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_hangs_is_waited_for_once_and_holds_up_nobody_who_records() {
    let s3 = S3::start();
    let home = Home::in_database();
    let settings = BucketSettings {
        timeout: Some(Duration::from_secs(2)),
        ..settings(&s3, &s3.bucket())
    };
    let artifacts = open(&settings, &home.journal);
    let run = home.run().await;
    let kept = artifacts.put(new(&run, "hello")).await.unwrap();
    s3.hang(true);
    let begun = Instant::now();
    let other = home.run().await;
    let (put, (), recorded) = tokio::join!(
        artifacts.put(new(&run, "hello")),
        tokio::time::sleep(Duration::from_millis(300)),
        async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let begun = Instant::now();
            other.record_durable(ended(RunStatus::Done)).await.unwrap();
            begun.elapsed()
        },
    );
    let error = put.unwrap_err().to_string();
    assert!(
        error.contains("cannot be looked at: it did not answer within 2 seconds"),
        "{error}"
    );
    assert!(recorded < Duration::from_secs(1), "{recorded:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    let begun = Instant::now();
    for text in ["one", "two", "three"] {
        let error = artifacts
            .put(new(&run, text))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("did not answer within"), "{error}");
    }
    artifacts.read(&kept.digest, 0..9).await.unwrap_err();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    s3.hang(false);
    let fresh = open(&settings, &home.journal);
    assert_eq!(fresh.read(&kept.digest, 0..9).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_refused_is_told() {
    let shelf = Shelf::new();
    let run = shelf.home.run().await;
    let kept = shelf.fresh().put(new(&run, "hello")).await.unwrap();
    let right = settings(shelf.s3, &shelf.bucket);
    for (wrong, code) in [
        (
            BucketSettings {
                secret_access_key: Some("an-0ther-secret".to_owned()),
                ..right.clone()
            },
            "SignatureDoesNotMatch",
        ),
        (
            BucketSettings {
                access_key_id: Some("AKIA0000000000000000".to_owned()),
                ..right.clone()
            },
            "InvalidAccessKeyId",
        ),
    ] {
        let artifacts = open(&wrong, &shelf.home.journal);
        let error = artifacts
            .read(&kept.digest, 0..9)
            .await
            .unwrap_err()
            .to_string();
        let said = format!(
            "`{}` cannot be read: the bucket refuses that to this key ({code}: ",
            shelf.name(&kept)
        );
        assert!(error.starts_with(&said), "{error}");
        for hidden in ["an-0ther-secret", &shelf.s3.secret_access_key] {
            assert!(!error.contains(hidden), "{error}");
        }
        let error = artifacts
            .put(new(&run, "more"))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the bucket refuses that to this key"),
            "{error}"
        );
    }
    assert_eq!(shelf.fresh().list(9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_told() {
    let shelf = Shelf::new();
    let run = shelf.home.run().await;
    let kept = shelf.fresh().put(new(&run, "hello")).await.unwrap();
    let nowhere = settings(shelf.s3, "nobody-made-this");
    let artifacts = open(&nowhere, &shelf.home.journal);
    let error = artifacts
        .put(new(&run, "more"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no such bucket (NoSuchBucket"),
        "{error}"
    );
    let error = artifacts
        .read(&kept.digest, 0..9)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no such bucket (NoSuchBucket"),
        "{error}"
    );
    assert_eq!(shelf.fresh().list(9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_rules_remove_goes_and_so_does_what_nothing_refers_to() {
    let shelf = Shelf::new();
    let artifacts = shelf.fresh();
    let run = shelf.home.run().await;
    let given = artifacts
        .put(new(&run, "given to a run that goes on"))
        .await
        .unwrap();
    let over = shelf.home.run().await;
    let kept = artifacts.put(new(&over, "kept")).await.unwrap();
    over.record_durable(ended(RunStatus::Done)).await.unwrap();
    let (stray, fresh) = (Digest::of(b"stray"), Digest::of(b"being written"));
    for (name, hours) in [
        (key(&stray), 30),
        (key(&fresh), 1),
        (key(&given.digest), 30),
        ("gate/ab/notes.txt".to_owned(), 30),
        (stray.to_string(), 30),
    ] {
        if name != key(&given.digest) {
            shelf.s3.put(&shelf.bucket, &name, "stray");
        }
        shelf.s3.age(&shelf.bucket, &name, hours);
    }
    let would = artifacts.gc(EVERYTHING, true).await.unwrap();
    assert_eq!((would.removed.len(), would.left_over), (1, 1));
    assert!(shelf.contents().contains(&key(&kept.digest)));
    let report = artifacts.gc(EVERYTHING, false).await.unwrap();
    assert_eq!(report.removed[0].digest, kept.digest);
    assert_eq!((report.in_use.len(), report.left_over), (1, 1));
    let mut left = vec![
        key(&given.digest),
        key(&fresh),
        "gate/ab/notes.txt".to_owned(),
        stray.to_string(),
    ];
    left.sort();
    assert_eq!(shelf.contents(), left);
    // Its handle still says what became of it, and it comes again when it is kept again.
    let error = shelf.fresh().read(&kept.digest, 0..9).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Collected { .. }), "{error}");
    artifacts.put(new(&run, "kept")).await.unwrap();
    assert_eq!(artifacts.read(&kept.digest, 0..9).await.unwrap(), "kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_while_others_collect_is_there() {
    let shelf = Shelf::new();
    let over = shelf.home.run().await;
    over.record_durable(ended(RunStatus::Done)).await.unwrap();
    let run = shelf.home.run().await;
    let other = shelf.home.again();
    let collector = open(&settings(shelf.s3, &shelf.bucket), &other);
    let collecting = async {
        let mut removed = 0;
        for _ in 0..25 {
            removed += collector.gc(EVERYTHING, false).await.unwrap().removed.len();
        }
        removed
    };
    let keeping = async {
        let artifacts = shelf.fresh();
        for number in 0..25 {
            let text = format!("number {number}");
            // Nobody needs it, so it may go at any time; then somebody does.
            artifacts.put(new(&over, text.clone())).await.unwrap();
            let kept = artifacts.put(new(&run, text.clone())).await.unwrap();
            assert_eq!(artifacts.read(&kept.digest, 0..99).await.unwrap(), text);
        }
    };
    let (removed, ()) = tokio::join!(collecting, keeping);
    let lines = shelf.fresh().list(100).await.unwrap();
    assert_eq!(lines.len(), 25);
    assert!(lines.iter().all(|line| line.collected.is_none()));
    assert_eq!(shelf.contents().len(), 25);
    eprintln!("{removed} were removed meanwhile and written again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_journals_is_neither_written_nor_removed() {
    let shelf = Shelf::new();
    let run = shelf.home.run().await;
    let kept = shelf.fresh().put(new(&run, "hello")).await.unwrap();
    shelf.s3.age(&shelf.bucket, &key(&kept.digest), 30);
    let stranger = Home::in_database();
    let artifacts = open(&settings(shelf.s3, &shelf.bucket), &stranger.journal);
    assert_eq!(artifacts.gc(EVERYTHING, false).await.unwrap().left_over, 0);
    let other = stranger.run().await;
    for error in [
        artifacts.put(new(&other, "mine")).await.unwrap_err(),
        artifacts.gc(EVERYTHING, false).await.unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            format!(
                "`s3://{}/gate/outrigger-journal` cannot be used: what is there belongs to another journal; give each a prefix of its own",
                shelf.bucket
            )
        );
    }
    assert_eq!(shelf.contents(), [key(&kept.digest)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_in_a_file_has_no_artifacts_in_a_bucket() {
    let home = Home::new();
    let s3 = server();
    let artifacts = open(&settings(s3, &s3.bucket()), &home.journal);
    let run = home.run().await;
    let error = artifacts
        .put(new(&run, "hello"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("artifacts in a bucket need a journal in a database"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_journal_keeps_nothing_and_still_reads() {
    let shelf = Shelf::new();
    let artifacts = shelf.fresh();
    let run = shelf.home.run().await;
    let kept = artifacts.put(new(&run, "hello")).await.unwrap();
    shelf.home.journal.close().await.unwrap();
    artifacts.put(new(&run, "more")).await.unwrap_err();
    assert_eq!(artifacts.read(&kept.digest, 0..9).await.unwrap(), "hello");
}
