//! Results that do not pass through the model: kept whole, read in parts, handed from one server to
//! another, in memory that does not depend on how often.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use outrigger_testkit::provider_server::{RecordedRequest, Turn};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, Ran, fixture};
use crate::scripted::Log;
use crate::servers::Servers;

/// What is dumped.
const BYTES: u64 = 50_000_000;

/// Two servers that know nothing of each other.
fn two() -> (Place, Log, Log) {
    let place = Place::new();
    let log = |name: &str| Log::at(place.root.join(format!("{name}.log")));
    let (source, sink) = (log("source"), log("sink"));
    let entry =
        |log: &Log| json!({ "command": "python3", "args": [fixture("content_server.py"), log.0] });
    place.servers(&json!({ "source": entry(&source), "sink": entry(&sink) }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    (place, source, sink)
}

/// The handle in a text.
fn handle(text: &str) -> String {
    let at = text
        .rfind("artifact://")
        .unwrap_or_else(|| panic!("{text}"));
    let digits = text[at + 11..].chars().take_while(char::is_ascii_hexdigit);
    format!("artifact://{}", digits.collect::<String>())
}

/// The text of `content_server.py dump`.
fn lines(bytes: u64) -> String {
    let bytes = usize::try_from(bytes).unwrap();
    let numbers = 1..=bytes / 29 + 1;
    let lines: Vec<_> = numbers
        .map(|number| format!("{number:08} the quick brown fox\n"))
        .collect();
    let mut text = lines.concat();
    text.truncate(bytes);
    text
}

fn told(data: &[u8]) -> String {
    format!(
        "{} {}",
        data.len(),
        outrigger_host::Digest::of_text(str::from_utf8(data).unwrap())
    )
}

/// The most memory that a process ever had, in bytes.
fn most_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// All that the model was told of results.
fn seen(request: &RecordedRequest) -> String {
    request.results().join("\n")
}

/// Dumps into one server what another has, and watches how much memory that takes: before, after the
/// one call, after both.
fn hand_over(place: &Place) -> (Ran, Model, Vec<u64>) {
    let pid = Arc::new(AtomicU32::new(0));
    let memory = Arc::new(Mutex::new(Vec::new()));
    let (watched, noted) = (Arc::clone(&pid), Arc::clone(&memory));
    let model = Model::answering(move |number, request| {
        let most = most_memory(watched.load(Ordering::SeqCst));
        noted.lock().unwrap().push(most);
        match number {
            0 => Turn::calls([("mcp__source__dump", json!({ "bytes": BYTES }))]),
            1 => {
                let text = handle(request.results().last().unwrap());
                Turn::calls([("mcp__sink__digest", json!({ "text": text }))])
            }
            _ => Turn::text("They agree."),
        }
    });
    model.serves(place);
    let mut command = place.command(&["ask", "Do they agree?", "--json", "--allow", "*"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    pid.store(child.id(), Ordering::SeqCst);
    let ran = Ran::of(child);
    let memory = memory.lock().unwrap().clone();
    (ran, model, memory)
}

#[test]
fn fifty_megabytes_pass_from_server_to_server_in_bounded_memory() {
    let (place, _source, sink) = two();
    let (ran, model, memory) = hand_over(&place);
    assert_eq!(ran.code, 0, "{ran:#?}");
    place.assert_nothing_runs();

    let text = lines(BYTES);
    let document = ran.json();
    let calls = document["calls"].as_array().unwrap();
    assert_eq!(calls[1]["summary"], told(text.as_bytes()), "byte for byte");
    assert_eq!(sink.heard().len(), 1);
    let artifact = &calls[0]["artifacts"][0];
    assert_eq!(artifact["bytes"], BYTES);
    assert_eq!(calls[1]["arguments"], json!({ "text": artifact["handle"] }));

    // Four bytes a token is what such text comes to.
    let seen: Vec<_> = model.requests().iter().map(seen).collect();
    let seen = seen.concat();
    assert!(seen.len() / 4 < 1000, "{} bytes: {seen}", seen.len());
    insta::assert_snapshot!(seen.lines().filter(|line| line.starts_with('[')).collect::<Vec<_>>().join("\n").replace(artifact["handle"].as_str().unwrap(), "artifact://…"), @r"
    [data from source]
    [… 49,997,798 bytes (1,724,062 lines) left out here, from line 58; the whole, 50,000,000 bytes, is artifact://… …]
    ");

    // In hundredths of the result.
    let times = |after: u64| after.saturating_sub(memory[0]) * 100 / BYTES;
    let (taking, both) = (times(memory[1]), times(memory[2]));
    println!("taking it: {taking}% of its size, handing it on too: {both}%");
    assert!(both < 300, "{memory:?}");

    // The whole is there, and so is the answer as it came.
    let digest = artifact["digest"].as_str().unwrap();
    let file = find(&place, digest);
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    let journal = fs::metadata(place.journal()).unwrap().len();
    assert!(
        journal < BYTES / 10,
        "the journal's file has {journal} bytes"
    );
}

/// The file of an artifact.
fn find(place: &Place, digest: &str) -> std::path::PathBuf {
    fn walk(folder: &std::path::Path, digest: &str) -> Option<std::path::PathBuf> {
        fs::read_dir(folder).unwrap().flatten().find_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                return walk(&path, digest);
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let folder = path
                .parent()
                .unwrap()
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned();
            (digest == name || digest == format!("{folder}{name}")).then_some(path)
        })
    }
    walk(&place.root.join("state/outrigger/artifacts"), digest).expect("no file of the artifact")
}

fn reading(number: usize, request: &RecordedRequest) -> Turn {
    let slice = |artifact: &str| json!({ "artifact": artifact, "line": 5000, "limit": 2 });
    match number {
        0 => Turn::calls([("mcp__source__dump", json!({ "bytes": 200_000 }))]),
        1 => {
            let artifact = handle(request.results().last().unwrap());
            let search = json!({ "artifact": artifact, "pattern": "^0000123[0-4] " });
            Turn::calls([
                ("mcp__artifacts__read_artifact", slice(&artifact)),
                ("mcp__artifacts__search_artifact", search),
                (
                    "mcp__artifacts__read_artifact",
                    slice("artifact://0123456789abcdef"),
                ),
            ])
        }
        _ => Turn::text("Read."),
    }
}

#[test]
fn a_model_reads_and_searches_what_it_was_not_shown() {
    let (place, _source, _sink) = two();
    place.user("[results]\nmax_tokens = 300\npreview_tokens = 60");
    let model = Model::answering(reading);
    model.serves(&place);
    let ran = place.run(&["ask", "Read it", "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let offered: Vec<Vec<String>> = model
        .requests()
        .iter()
        .map(RecordedRequest::tools)
        .collect();
    assert!(
        !offered[0].iter().any(|tool| tool.contains("artifact")),
        "{offered:?}"
    );
    assert_eq!(
        offered[1][..offered[0].len()],
        offered[0],
        "what was there stays where it was"
    );
    assert_eq!(
        offered[1][offered[0].len()..],
        [
            "mcp__artifacts__read_artifact",
            "mcp__artifacts__search_artifact"
        ]
    );
    assert_eq!(offered[1], offered[2]);
    assert!(ran.err.contains("artifacts      2 tools "), "{}", ran.err);
    let results = model.last_results();
    insta::assert_snapshot!(results.join("\n~~~\n"), @r"
    [data from source]
    00005000 the quick brown fox
    00005001 the quick brown fox

    Lines 5000 to 5001, bytes 144971 to 145029 of 200000. For more: line 5002.
    ~~~
    [data from source]
    1230: 00001230 the quick brown fox
    1231: 00001231 the quick brown fox
    1232: 00001232 the quick brown fox
    1233: 00001233 the quick brown fox
    1234: 00001234 the quick brown fox
    ~~~
    Not called: there is no artifact `artifact://0123456789abcdef` to hand over: this run was not given one with these digits. A handle comes with a result; use one exactly as it was given.
    ");
}

#[test]
fn a_rule_keeps_the_data_of_one_server_from_another() {
    let (place, _source, sink) = two();
    place.user("[results]\nmax_tokens = 300\n[[policy.rule]]\nserver = 'sink'\nwhen = \"'source' in args_from\"\ndecision = 'deny'\nreason = 'it stays here'");
    let model = Model::answering(move |number, request| match number {
        0 => Turn::calls([("mcp__source__dump", json!({ "bytes": 20_000 }))]),
        1 => {
            let text = handle(request.results().last().unwrap());
            Turn::calls([
                ("mcp__sink__digest", json!({ "text": text })),
                ("mcp__sink__digest", json!({ "text": "something else" })),
            ])
        }
        _ => Turn::text("Kept."),
    });
    model.serves(&place);
    let ran = place.run(&["ask", "Send it", "--allow", "*", "--json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let calls = ran.json()["calls"].clone();
    let outcomes: Vec<_> = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert_eq!(outcomes, ["completed", "rejected", "completed"]);
    assert_eq!(sink.heard().len(), 1);
    assert!(model.last_results()[0].contains("it stays here"));
}

#[test]
fn bytes_are_handed_on_as_base64() {
    let (place, _source, sink) = two();
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let result = place.write(
        "result.json",
        json!({ "content": [{ "type": "image", "data": png, "mimeType": "image/png" }] })
            .to_string(),
    );
    let first = place.json(&[
        "call",
        "source",
        "answer",
        &format!("name={}", result.display()),
        "--allow",
        "*",
        "--json",
    ]);
    let handle = first["artifacts"][0]["handle"].as_str().unwrap();
    assert_eq!(first["blocks"][0]["artifact"]["handle"], handle);
    let second = place.json(&[
        "call",
        "sink",
        "digest_bytes",
        &format!("data={handle}"),
        "--allow",
        "*",
        "--json",
    ]);
    assert_eq!(second["arguments"], json!({ "data": handle }));
    assert!(
        second["words"].as_str().unwrap().ends_with(&format!(
            "70 {}",
            first["artifacts"][0]["digest"].as_str().unwrap()
        )),
        "{second:#}"
    );
    assert_eq!(sink.heard().len(), 1);
}

#[test]
fn a_call_prints_each_part_once() {
    let (place, _source, _sink) = two();
    let result = place.write(
        "result.json",
        json!({
            "content": [
                { "type": "text", "text": "{\"rows\": [1, 2]}" },
                { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" },
            ],
            "structuredContent": { "rows": [1, 2] },
            "_meta": { "outcome": "rejected", "call": 99 },
        })
        .to_string(),
    );
    let words = [
        "call",
        "-q",
        "source",
        "answer",
        &format!("name={}", result.display()),
        "--allow",
        "*",
    ];
    let ran = place.run(&words);
    let shown = ran.out.replace(&handle(&ran.out), "artifact://…");
    insta::assert_snapshot!(shown, @r#"
    {"rows": [1, 2]}
    [audio, audio/wav, 4 bytes: artifact://…]
    "#);
    let record = place.json(&[&words[..], &["--json"]].concat());
    let record: Value = serde_json::from_str(
        &record
            .to_string()
            .replace(record["artifacts"][0]["digest"].as_str().unwrap(), "…"),
    )
    .unwrap();
    assert_eq!(
        (&record["call"], &record["outcome"]),
        (&json!(1), &json!("completed"))
    );
    assert_eq!(record["meta"], json!({ "outcome": "rejected", "call": 99 }));
    assert_eq!(record["structured"], json!({ "rows": [1, 2] }));
    assert_eq!(record["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(record["server"], "source");
}

/// What calls of a server tell a model, without what differs from run to run.
fn told_by(place: &Place, calls: &[&[&str]]) -> String {
    let mut told = Vec::new();
    for words in calls {
        let call = [
            &["call", "-q", "everything"],
            *words,
            &["--allow", "*", "--json"],
        ];
        let record = place.json(&call.concat());
        let list = |key: &str| record[key].as_array().unwrap().clone();
        let kinds: Vec<_> = list("blocks")
            .iter()
            .map(|block| block["type"].as_str().unwrap().to_owned())
            .collect();
        let mut text = record["words"].as_str().unwrap().to_owned();
        for artifact in list("artifacts") {
            text = text.replace(artifact["handle"].as_str().unwrap(), "artifact://…");
        }
        let kept = list("artifacts").len();
        told.push(format!(
            "{}\n{text}\n-- {} blocks, {kept} artifacts\n",
            words.join(" "),
            kinds.join(" ")
        ));
    }
    let told = told.concat();
    let lines = told
        .lines()
        .map(|line| match line.split_once("created at ") {
            Some((before, _)) => format!("{before}created at …"),
            None => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

const CALLS: [&[&str]; 6] = [
    &["get-tiny-image"],
    &[
        "get-annotated-message",
        "messageType=error",
        "includeImage=true",
    ],
    &["get-resource-links", "count=2"],
    &["get-structured-content", "location=New York"],
    &[
        "get-resource-reference",
        "resourceType=Blob",
        "resourceId=1",
    ],
    &[
        "get-resource-reference",
        "resourceType=Text",
        "resourceId=1",
    ],
];

#[test]
fn the_blocks_of_a_server_of_npm_are_told_and_kept() {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({ "everything": servers.everything() }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    // One of them tells the time of day, whose hours have one digit or two.
    let told = told_by(&place, &CALLS).replace("56 bytes", "55 bytes");
    insta::assert_snapshot!(told, @r#"
    get-tiny-image
    [data from everything]
    Here's the image you requested:
    [image, image/png, 4,033 bytes: artifact://…]
    The image above is the MCP logo.
    -- text image text blocks, 1 artifacts
    get-annotated-message messageType=error includeImage=true
    [data from everything]
    Error: Operation failed
    [image, image/png, 4,033 bytes: artifact://…]
    -- text image blocks, 1 artifacts
    get-resource-links count=2
    [data from everything]
    Here are 2 resource links to resources available in this server:
    [link to demo://resource/dynamic/blob/1: Blob Resource 1, Resource 1: plaintext resource, text/plain]
    [link to demo://resource/dynamic/text/2: Text Resource 2, Resource 2: plaintext resource, text/plain]
    -- text resource_link resource_link blocks, 0 artifacts
    get-structured-content location=New York
    [data from everything]
    {"temperature":33,"conditions":"Cloudy","humidity":82}
    -- text blocks, 0 artifacts
    get-resource-reference resourceType=Blob resourceId=1
    [data from everything]
    Returning resource reference for Resource 1:
    [resource demo://resource/dynamic/blob/1, text/plain, 55 bytes: artifact://…]
    You can access this resource using the URI: demo://resource/dynamic/blob/1
    -- text resource text blocks, 1 artifacts
    get-resource-reference resourceType=Text resourceId=1
    [data from everything]
    Returning resource reference for Resource 1:
    [resource demo://resource/dynamic/text/1]
    Resource 1: This is a plaintext resource created at …
    You can access this resource using the URI: demo://resource/dynamic/text/1
    -- text resource text blocks, 0 artifacts
    "#);
}
