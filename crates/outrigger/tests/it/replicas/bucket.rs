//! Artifacts of two gateways in a bucket of S3: what one keeps the other has, and what a bucket does that
//! is away, refuses or was changed does not make a call look other than it went.

use std::fs;
use std::process::Stdio;

use outrigger_testkit::bucket::{S3, server};
use outrigger_testkit::provider_server::Turn;
use serde_json::{Value, json};

use super::Replicas;
use crate::gateway::served::{Line, Served, modern};
use crate::gateway::text;
use crate::model::Model;
use crate::place::Place;

/// Replicas with a bucket.
struct Shelves {
    all: Replicas,
    bucket: String,
}

/// More than a client is shown, with its key by reference.
fn long() -> String {
    let lines = (0..12_000).map(|line| format!("{line:06} is a line of a long text\n"));
    lines.collect()
}

fn table(place: &Place, s3: &S3, bucket: &str) -> String {
    let secret = place.write("secret-key", &s3.secret_access_key);
    format!(
        "[storage.artifacts]\nurl = 's3://{bucket}/gate'\nendpoint = '{}'\naccess_key_id = '{}'\nsecret_access_key = 'file:{}'\ntimeout = '3s'",
        s3.endpoint,
        s3.access_key_id,
        secret.display()
    )
}

impl Shelves {
    fn new(s3: &S3) -> Self {
        let all = Replicas::new();
        let bucket = s3.bucket();
        for place in [&all.one, &all.two] {
            place.user(&table(place, s3, &bucket));
        }
        Self { all, bucket }
    }

    /// The key of the object with this digest.
    fn key(digest: &str) -> String {
        format!("gate/{}/{}", &digest[..2], &digest[2..])
    }

    fn outcomes(&self) -> String {
        self.all
            .sql("SELECT string_agg(outcome, ' ' ORDER BY run, call) FROM calls")
    }
}

fn repeat(text: &str) -> Value {
    json!({ "name": "lab__repeat", "arguments": { "text": text } })
}

/// What became of the text of a result, as this place knows it.
fn kept(place: &Place) -> Value {
    let listed = place.json(&["artifacts", "list", "--json"]);
    let all = listed.as_array().unwrap();
    let text = all.iter().find(|it| it["media_type"] == "text/plain");
    text.unwrap_or_else(|| panic!("{listed}")).clone()
}

#[test]
fn what_one_keeps_is_had_from_the_other_and_nothing_of_it_is_on_a_disk() {
    let shelves = Shelves::new(server());
    let all = &shelves.all;
    let one = Served::start(&all.one, &["--allow", "*"]);
    let answer = one.modern("tools/call", repeat(&long()));
    assert_eq!(text(&answer), long());

    let two = &all.two;
    let kept = kept(two);
    let handle = kept["handle"].as_str().unwrap();
    let exported = two.root.join("exported");
    let words = ["artifacts", "export", handle, exported.to_str().unwrap()];
    let ran = two.run(&words);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(fs::read_to_string(exported).unwrap(), long());
    let shown = two.json(&["artifacts", "show", handle, "--json"]);
    assert_eq!(shown["bytes"], long().len());
    assert!(two.last_run().contains(handle));

    // Handed on, it is fetched from there.
    let again = one.modern("tools/call", repeat(handle));
    assert_eq!(again["result"]["isError"], Value::Null, "{again}");
    let calls = all.log.of("tools/call");
    assert_eq!(calls[1]["params"]["arguments"]["text"], long());
    drop(one);
    assert_eq!(shelves.outcomes(), "completed completed");
    for place in [&all.one, &all.two] {
        assert!(!place.root.join("state/outrigger/artifacts").exists());
        let shown = place.run(&["config", "show"]);
        assert!(
            shown.out.contains("artifacts.url = \"s3://"),
            "{}",
            shown.out
        );
        let events = place.events();
        assert!(!events.contains(&server().secret_access_key));
    }
    all.verified();
}

#[test]
fn a_content_that_somebody_changed_is_handed_to_nobody() {
    let s3 = server();
    let shelves = Shelves::new(s3);
    let all = &shelves.all;
    let one = Served::start(&all.one, &["--allow", "*"]);
    one.modern("tools/call", repeat(&long()));
    let kept = kept(&all.two);
    let handle = kept["handle"].as_str().unwrap();
    let key = Shelves::key(kept["digest"].as_str().unwrap());
    s3.put(
        &shelves.bucket,
        &key,
        &long().replace("000007 is", "000007 was"),
    );
    let refused = one.modern("tools/call", repeat(handle));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let damaged = format!("s3://{}/{key}` of an artifact is damaged", shelves.bucket);
    assert!(text(&refused).contains(&damaged), "{refused}");
    assert_eq!(all.log.of("tools/call").len(), 1, "nothing was sent");
    let exported = all.two.run(&["artifacts", "export", handle, "-"]);
    assert_ne!(exported.code, 0);
    assert!(exported.err.contains(&damaged), "{exported:#?}");
    drop(one);
    assert_eq!(shelves.outcomes(), "completed rejected");
    all.verified();
}

#[test]
fn a_call_is_what_it_was_although_its_result_cannot_be_kept() {
    let s3 = S3::start();
    let shelves = Shelves::new(&s3);
    let all = &shelves.all;
    let one = Served::start(&all.one, &["--allow", "*"]);
    s3.stop();
    let answer = one.modern("tools/call", repeat(&long()));
    assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
    assert_eq!(text(&answer), long(), "a client has all of it");
    // Nor is anything else held up.
    assert_eq!(text(&one.modern("tools/call", repeat("on"))), "on");
    drop(one);
    // A model has its two ends, and why the rest is nowhere.
    all.one
        .user("[results]\nmax_tokens = 300\npreview_tokens = 60");
    let model = Model::answering(|number, _| match number {
        0 => Turn::calls([("mcp__lab__repeat", json!({ "text": long() }))]),
        _ => Turn::text("Read."),
    });
    model.serves(&all.one);
    let asked = all.one.run(&["ask", "Read it", "--allow", "*"]);
    assert_eq!(asked.code, 0, "{asked:#?}");
    let told = model.last_results().concat();
    let named = format!("`s3://{}/gate", shelves.bucket);
    assert!(told.contains("000000 is a line"), "{told}");
    assert!(
        told.contains(&named) && told.contains("cannot be"),
        "{told}"
    );
    assert_eq!(shelves.outcomes(), "completed completed completed");
    let listed = all.two.json(&["artifacts", "list", "--json"]);
    assert_eq!(listed, json!([]));
    // All of it is in the event instead.
    assert!(all.two.events().contains("011999 is a line"));
    all.verified();
}

#[test]
fn the_environment_fills_in_what_configuration_does_not_say() {
    let s3 = server();
    let all = Replicas::new();
    let bucket = s3.bucket();
    for place in [&all.one, &all.two] {
        place.user(&format!("[storage.artifacts]\nurl = 's3://{bucket}'"));
    }
    let mut command = all.one.command(&["serve", "--allow", "*"]);
    command
        .env("AWS_ACCESS_KEY_ID", &s3.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &s3.secret_access_key)
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/none")
        .env("AWS_ENDPOINT_URL", &s3.endpoint);
    let mut line = Line::of(command, Stdio::null());
    let answer = line.ask("tools/call", modern(repeat(&long())));
    assert_eq!(text(&answer), long());
    assert_eq!(line.end(), 0);
    let keys = s3.keys(&bucket);
    assert!(
        keys.contains(&"outrigger-journal".to_owned()) && keys.len() > 1,
        "{keys:?}"
    );
}

#[test]
fn a_bucket_that_is_not_said_right_starts_nothing() {
    let s3 = server();
    for (said, told) in [
        (
            "endpoint = 'https://s3.example'",
            "`storage.artifacts` names no bucket",
        ),
        (
            "url = 'https://s3.example/kept'",
            "`url` has to be `s3://BUCKET`",
        ),
        (
            "url = 's3://kept'\naccess_key_id = 'AKIA'",
            "`secret_access_key` is missing",
        ),
        (
            "url = 's3://kept'\nendpoint = 'http://s3.example'",
            "`endpoint` begins with `http://`, and `s3.example` is not this machine",
        ),
        ("url = 's3://kept'\nregio = 'x'", "unknown key `regio`"),
        (
            "url = 's3://kept'\nsecret_access_key = 'env:NOT_SET_ANYWHERE'",
            "refers to `env:NOT_SET_ANYWHERE`",
        ),
    ] {
        let all = Replicas::new();
        all.one.user(&format!("[storage.artifacts]\n{said}"));
        let ran = all
            .one
            .run(&["call", "lab", "repeat", "text=a", "--allow", "*"]);
        assert_eq!(ran.code, 2, "{said}: {ran:#?}");
        assert!(ran.err.contains(told), "{said}: {ran:#?}");
        assert_eq!(all.log.heard().len(), 0, "{said}");
    }
    let place = Place::new();
    place.user(&table(&place, s3, "kept"));
    let ran = place.run(&["artifacts"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(
        ran.err.contains("`storage.artifacts` needs `storage.url`"),
        "{ran:#?}"
    );
    let literal = Replicas::new();
    literal.one.user("[storage.artifacts]\nurl = 's3://kept'\naccess_key_id = 'one'\nsecret_access_key = 'written-out-here'");
    let shown = literal.one.run(&["config", "show"]);
    assert!(!shown.out.contains("written-out-here"), "{shown:#?}");
    assert!(!shown.err.contains("written-out-here"), "{shown:#?}");
    assert!(
        shown
            .err
            .contains("looks like a secret that stands in the file itself"),
        "{shown:#?}"
    );
}
