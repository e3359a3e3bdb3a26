//! `outrigger artifacts`: what was kept, found, shown, exported and removed.

use std::fs;

use outrigger_journal::{
    ArtifactOrigin, ArtifactRef, Artifacts, Event, Journal, NewArtifact, RunOptions, RunStatus,
    Tokens,
};
use tokio::runtime::Runtime;

use crate::place::Place;

/// As a run that is over has left them.
fn kept(place: &Place, contents: &[(&str, &[u8])]) -> Vec<ArtifactRef> {
    let work = async {
        let journal = Journal::open(&place.journal()).unwrap();
        let artifacts = Artifacts::open(&place.root.join("state/outrigger/artifacts"), &journal);
        let started = Event::RunStarted {
            command: "ask".to_owned(),
            question: None,
            model: None,
            workspace: "/w".to_owned(),
            version: "0".to_owned(),
            principal: None,
        };
        let run = journal.begin(started, RunOptions::default()).await.unwrap();
        let mut kept = Vec::new();
        for (block, (media_type, bytes)) in contents.iter().enumerate() {
            let new = NewArtifact {
                bytes: bytes.to_vec().into(),
                media_type: (*media_type).to_owned(),
                name: None,
                origin: ArtifactOrigin {
                    run: run.id().clone(),
                    call: 3,
                    server: "files".to_owned(),
                    tool: "read\u{1b}[2J".to_owned(),
                    block: Some(block.try_into().unwrap()),
                },
            };
            kept.push(artifacts.put(new).await.unwrap());
        }
        run.record(Event::RunEnded {
            status: RunStatus::Done,
            reason: None,
            answer: None,
            usage: Tokens::default(),
        });
        journal.close().await.unwrap();
        kept
    };
    Runtime::new().unwrap().block_on(work)
}

#[test]
fn they_are_listed_shown_and_found_by_their_first_digits() {
    let place = Place::new();
    let text = "first line\nsecond \u{1b}]0;title\u{7}line\n".repeat(40);
    let kept = kept(
        &place,
        &[
            ("text/plain", text.as_bytes()),
            ("image/png", b"\x89PNG\r\n\0"),
        ],
    );
    let listed = place.run(&["artifacts"]);
    insta::assert_snapshot!(place.tidy(&listed.out), @r"
    artifact://01c23e81a431d764    7 bytes  image/png  files read\u{1b}[2J  RUN  just now
    artifact://5dccd431149b26e3    1.2 KiB  text/plain  files read\u{1b}[2J  RUN  just now
    ");
    let shown = place.run(&["artifacts", "show", &kept[0].handle[11..17]]);
    let kept_at = |line: &&str| !line.starts_with("kept ");
    let shown: Vec<_> = shown.out.lines().filter(kept_at).collect();
    let (facts, preview) = shown.split_at(7);
    insta::assert_snapshot!(place.tidy(&facts.join("\n")), @r"
    artifact://5dccd431149b26e3
    type    text/plain
    size    1.2 KiB (1320 bytes)
    sha256  5dccd431149b26e3f267d33f6b6d0c85ae80ee707b79bef64d93543c734afe0d
    used    just now
    from    files read\u{1b}[2J, block 0 of call 3, run RUN
    ");
    let lines = ["first line", r"second \u{1b}]0;title\u{7}line"].repeat(10);
    assert_eq!(preview, [&lines[..], &["… 990 bytes more"]].concat());
    let image = place.run(&["artifacts", "show", &kept[1].handle]).out;
    assert!(
        image.ends_with("\nit is not text; `outrigger artifacts export` writes it into a file\n"),
        "{image}"
    );
    let json = place.json(&["artifacts", "show", &kept[1].handle, "--json"]);
    assert_eq!(json["media_type"], "image/png");
    assert_eq!(
        (
            &json["all_origins"][0]["call"],
            &json["all_origins"][0]["block"]
        ),
        (&3.into(), &1.into())
    );
    assert_eq!(
        place
            .json(&["artifacts", "list", "-n", "1", "--json"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn what_is_no_artifact_is_told() {
    let place = Place::new();
    let none = place.run(&["artifacts"]);
    assert_eq!(
        (none.code, none.err.trim()),
        (
            0,
            "no artifacts; results that are large or not text become some"
        )
    );
    let said = |words: &[&str]| {
        let ran = place.run(words);
        format!("exit {}\n{}", ran.code, ran.err.trim_end())
    };
    insta::assert_snapshot!(said(&["artifacts", "show", "artifact://0123456789abcdef"]), @"
    exit 2
    error: there is no artifact `artifact://0123456789abcdef`
    hint: `outrigger artifacts list` lists them
    ");
    insta::assert_snapshot!(said(&["artifacts", "export", "../../etc/passwd", "-"]), @"
    exit 2
    error: `../../etc/passwd` is not an artifact: one is written `artifact://` and at least four of its hex digits
    hint: `outrigger artifacts list` lists them
    ");
}

#[test]
fn the_content_is_exported_byte_for_byte_and_replaces_nothing_unasked() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    let kept = kept(
        &place,
        &[
            ("application/octet-stream", &bytes),
            ("text/plain", b"as it is\n"),
        ],
    );
    let handle = kept[0].handle.as_str();
    let file = place.project().join("out.bin");
    let written = place.json(&["artifacts", "export", handle, "out.bin", "--json"]);
    assert_eq!(written["digest"], kept[0].digest.to_string());
    assert!(fs::read(&file).unwrap() == bytes);
    let again = place.run(&["artifacts", "export", &kept[1].handle, "out.bin"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (
            2,
            "error: `out.bin` is there already\nhint: `--force` replaces it\n"
        )
    );
    assert!(fs::read(&file).unwrap() == bytes);
    assert_eq!(
        place
            .run(&["artifacts", "export", &kept[1].handle, "out.bin", "--force"])
            .code,
        0
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it is\n");
    assert_eq!(
        place
            .run(&["artifacts", "export", &kept[1].handle, "-"])
            .out,
        "as it is\n"
    );
}

#[test]
fn a_damaged_content_is_not_exported() {
    let place = Place::new();
    let kept = kept(&place, &[("text/plain", b"as it was")]);
    let digits = kept[0].digest.to_string();
    let file = format!(
        "state/outrigger/artifacts/{}/{}",
        &digits[..2],
        &digits[2..]
    );
    place.write(&file, "as it is!");
    let ran = place.run(&["artifacts", "export", &kept[0].handle, "out"]);
    assert!(ran.code == 1 && ran.err.contains("is damaged"), "{ran:#?}");
    assert!(!place.project().join("out").exists());
}

#[test]
fn room_is_made_by_flags_or_configuration_and_what_went_is_told() {
    let place = Place::new();
    let kept = kept(
        &place,
        &[("text/plain", b"0123456789"), ("text/plain", b"abcdefghij")],
    );
    let files = || {
        let folders = fs::read_dir(place.root.join("state/outrigger/artifacts")).unwrap();
        folders
            .map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count())
            .sum::<usize>()
    };
    assert_eq!(
        place.run(&["artifacts", "gc"]).err.trim(),
        "removed 0 artifacts, 0 bytes; 2 of 20 bytes stay"
    );
    let would = place.run(&["artifacts", "gc", "--keep", "15", "--dry-run"]);
    assert_eq!(
        would.err.trim(),
        "would remove 1 artifact, 10 bytes; 1 of 10 bytes stay"
    );
    assert!(
        would.out.starts_with(&kept[0].handle) && files() == 2,
        "{would:#?}"
    );
    // A folder that nobody trusts has no say.
    place.write("project/.outrigger/outrigger.toml", "[artifacts]\nkeep = 1");
    let wary = place.run_wary(&["artifacts", "gc", "--json"]);
    assert!(
        wary.json()["removed"].as_array().unwrap().is_empty(),
        "{wary:#?}"
    );
    assert!(
        wary.err.contains("`artifacts.keep` does not count"),
        "{}",
        wary.err
    );
    fs::remove_dir_all(place.root.join("project/.outrigger")).unwrap();
    place.user("[artifacts]\nkeep = 15\nolder_than = \"none\"");
    let report = place.json(&["artifacts", "gc", "--json"]);
    assert_eq!(
        (&report["removed_bytes"], &report["stay"]),
        (&10.into(), &1.into())
    );
    assert_eq!(files(), 1);
    let gone = place.run(&["artifacts", "export", &kept[0].handle, "-"]);
    assert!(
        gone.code == 1 && gone.err.contains("was removed on "),
        "{gone:#?}"
    );
    let shown = place.run(&["artifacts", "show", &kept[0].handle]).out;
    assert!(
        shown.ends_with("\nits content was removed just now to make room\n"),
        "{shown}"
    );
    assert_eq!(
        place.run(&["artifacts", "gc", "--older-than", "soon"]).code,
        2
    );
}
