//! What becomes of results: each block once, in the form that reads best, within its budget, and
//! nothing lost.

use std::sync::Arc;

use outrigger_host::approve::Answer;
use outrigger_host::config::HookSettings;
use outrigger_host::hooks::{Heard, HookRunner};
use outrigger_host::outcome::CallOutcome;
use outrigger_host::result::Raw;
use outrigger_host::{CallContext, CallReport, ProposedCall};
use outrigger_journal::{Artifacts, Event, HandedArtifact};
use serde_json::{Value, json};

use crate::lab::{Lab, Plan, proposed, words};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn open_with(results: &str) -> Lab {
    Lab::new(Plan {
        allow: vec!["*".to_owned()],
        user: results.to_owned(),
        ..Plan::default()
    })
    .await
}

async fn give(lab: &Lab, result: Value) -> CallReport {
    lab.call("give", &json!({ "result": result }).to_string())
        .await
}

/// As a model has it: handles with their digits left out.
fn read(report: &CallReport) -> String {
    let text = words(report);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("artifact://") {
        out.push_str(&rest[..at]);
        out.push_str("artifact://…");
        rest = rest[at + 11..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    out + rest
}

fn store(lab: &Lab) -> Artifacts {
    Artifacts::open(&lab.place.path("state/artifacts"), &lab.journal)
}

/// Numbered lines.
fn rows(last: usize) -> String {
    let rows: Vec<_> = (1..=last).map(|n| format!("row {n}\n")).collect();
    rows.concat()
}

/// The first handle that a model reads.
fn handle(report: &CallReport) -> String {
    let text = words(report);
    let at = text.find("artifact://").unwrap_or_else(|| panic!("{text}"));
    text[at..at + 27].to_owned()
}

/// The bytes of the artifacts of a report, in order.
async fn kept(lab: &Lab, report: &CallReport) -> Vec<Vec<u8>> {
    let CallOutcome::Completed(result) = &report.outcome else {
        panic!("{report:?}")
    };
    let store = store(lab);
    let mut all = Vec::new();
    for artifact in result.artifacts() {
        let bytes = store.read(&artifact.digest, 0..u64::MAX).await.unwrap();
        all.push(bytes.to_vec());
    }
    all
}

fn zoo() -> Value {
    json!({ "content": [
        { "type": "text", "text": "start", "annotations": { "audience": ["user"], "priority": 1 } },
        { "type": "image", "data": PNG, "mimeType": "image/png" },
        { "type": "image", "data": "PHN2Zy8+", "mimeType": "image/svg+xml" },
        { "type": "image", "data": "not base64!", "mimeType": "image/png" },
        { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "demo://a.txt", "mimeType": "text/plain", "text": "embedded text" } },
        { "type": "resource", "resource": { "uri": "demo://b.pdf", "mimeType": "application/pdf", "blob": "JVBERi0xLjcK" } },
        { "type": "resource_link", "uri": "demo://c.csv", "name": "c.csv", "title": "Sea", "description": "levels", "mimeType": "text/csv", "size": 12345 },
        { "type": "hologram", "frames": 3 },
        { "type": "text" },
    ], "_meta": { "outcome": "rejected" } })
}

#[tokio::test]
async fn every_kind_of_block_is_told_in_order_and_kept() {
    let lab = Lab::open().await;
    let report = give(&lab, zoo()).await;
    insta::assert_snapshot!(read(&report), @r#"
    [data from lab]
    start
    [image, image/png, 70 bytes: artifact://…]
    an image
    [image, image/svg+xml, 6 bytes; not shown: models take png, jpeg, gif and webp: artifact://…]
    [image, image/png, 8 bytes; not shown: its base64 is broken (Invalid symbol 32, offset 3.): artifact://…]
    [audio, audio/wav, 4 bytes: artifact://…]
    [resource demo://a.txt]
    embedded text
    [resource demo://b.pdf, application/pdf, 9 bytes: artifact://…]
    [link to demo://c.csv: c.csv, Sea, levels, text/csv, 12,345 bytes]
    [content of a kind that is not known here: hologram]
    {"type":"hologram","frames":3}
    [content of a kind that is not known here: text]
    {"type":"text"}
    "#);
    let bytes = kept(&lab, &report).await;
    let bytes: Vec<_> = bytes
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes))
        .collect();
    assert_eq!(bytes[1..], ["<svg/>", "not base64!", "RIFF", "%PDF-1.7\n"]);
    let ended = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::CallEnded {
                result, artifacts, ..
            } => Some((result, artifacts)),
            _ => None,
        });
    let (raw, artifacts) = ended.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(raw.unwrap().get()).unwrap(),
        zoo(),
        "the record has the answer as it came"
    );
    assert_eq!(artifacts.len(), 5);
}

#[tokio::test]
async fn a_long_text_is_previewed_and_kept_whole() {
    let lab = open_with("[results]\nmax_tokens = 200\npreview_tokens = 80").await;
    let text = rows(5000);
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": text }] }),
    )
    .await;
    insta::assert_snapshot!(read(&report), @r"
    [data from lab]
    row 1
    row 2
    row 3
    row 4
    row 5
    row 6
    row 7
    row 8
    row 9
    row 10
    row 11
    row 12
    row 13
    row 14
    row 15
    row 16
    row 17
    row 18
    [… 43,740 bytes (4,978 lines) left out here, from line 19; the whole, 43,893 bytes, is artifact://… …]
    row 4997
    row 4998
    row 4999
    row 5000
    ");
    assert_eq!(kept(&lab, &report).await, [text.as_bytes()]);
    assert_eq!(report.outcome.kind().as_str(), "completed");
    let short = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": "x ".repeat(300) }] }),
    )
    .await;
    assert_eq!(
        kept(&lab, &short).await,
        Vec::<Vec<u8>>::new(),
        "what fits is shown whole"
    );
}

#[tokio::test]
async fn a_large_answer_is_kept_beside_its_record() {
    let lab = Lab::open().await;
    let big = json!({ "content": [{ "type": "text", "text": "é".repeat(400_000) }], "_meta": { "n": 1 } });
    let report = give(&lab, big.clone()).await;
    let CallOutcome::Completed(result) = &report.outcome else {
        panic!("{report:?}")
    };
    let Raw::Kept(raw) = &result.raw else {
        panic!("it stands in the record")
    };
    let bytes = store(&lab).read(&raw.digest, 0..u64::MAX).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), big);
    let recorded = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::CallEnded { result, kept, .. } => Some((result, kept)),
            _ => None,
        });
    let (inline, kept) = recorded.unwrap();
    assert!(inline.is_none());
    assert_eq!(kept.map(|kept| kept.digest), Some(raw.digest));
}

#[tokio::test]
async fn many_blocks_share_the_room_and_the_rest_is_named() {
    let lab = open_with("[results]\nmax_tokens = 400\npreview_tokens = 100").await;
    let block = |n: usize| json!({ "type": "text", "text": format!("block {n}: {}", "word ".repeat(n * 4)) });
    let few: Vec<Value> = (0..8).map(|n| block(n * 3)).collect();
    let report = give(&lab, json!({ "content": few })).await;
    let told = read(&report);
    assert_eq!(told.matches("left out here").count(), 2, "{told}");
    assert!(
        told.contains("block 0: \nblock 3: word"),
        "the small ones are whole: {told}"
    );
    let many: Vec<Value> = (0..50).map(block).collect();
    let report = give(&lab, json!({ "content": many.clone() })).await;
    let told = read(&report);
    assert!(
        told.ends_with(
            "[… 42 more blocks are not shown; the whole answer is artifact://… (JSON) …]"
        ),
        "{told}"
    );
    let whole = kept(&lab, &report).await.pop().unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&whole).unwrap()["content"],
        json!(many)
    );
}

#[tokio::test]
async fn the_results_of_a_turn_share_its_room() {
    let lab =
        open_with("[results]\nmax_tokens = 1000\nturn_max_tokens = 1500\npreview_tokens = 300")
            .await;
    let text =
        |words: usize| json!({ "content": [{ "type": "text", "text": "word ".repeat(words) }] });
    let mut reports = Vec::new();
    for words in [20, 700, 750, 780] {
        reports.push(give(&lab, text(words)).await);
    }
    lab.host.fit_turn(&mut reports).await;
    let sizes: Vec<usize> = reports
        .iter()
        .map(|report| words(report).len() / 4)
        .collect();
    assert_eq!(sizes[0], 25 + 4, "a small one is not cut");
    assert!(sizes.iter().sum::<usize>() <= 1500, "{sizes:?}");
    for report in &reports[1..] {
        let told = words(report);
        assert!(told.contains("left out here"), "{told}");
        let whole = kept(&lab, report).await.pop().unwrap();
        assert!(whole.len() > 3000);
        // What was cut for the turn can be handed on, too.
        let handle = told.split("artifact://").nth(1).unwrap();
        let handle = format!("artifact://{}", &handle[..16]);
        let taken = lab
            .call("take", &json!({ "text": handle }).to_string())
            .await;
        assert_eq!(taken.outcome.kind().as_str(), "completed");
    }
}

#[tokio::test]
async fn a_handle_is_replaced_by_its_content_and_the_record_has_the_handle() {
    let lab = open_with("[results]\nmax_tokens = 100\npreview_tokens = 60").await;
    let text = rows(2000).replace("row", "\"row\"");
    give(
        &lab,
        json!({ "content": [{ "type": "text", "text": text }] }),
    )
    .await;
    let given = lab.host.toolset();
    let events = lab.events().await;
    let handle = events.iter().find_map(|recorded| match &recorded.event {
        Event::CallEnded { artifacts, .. } => Some(artifacts.first()?.handle.clone()),
        _ => None,
    });
    let handle = handle.unwrap();
    drop(given);
    let arguments = json!({ "text": format!("<{handle}>"), "n": 1 }).to_string();
    let report = lab.call("take", &arguments).await;
    assert_eq!(report.arguments.unwrap().get(), arguments);
    let sent = lab.server.of("tools/call").pop().unwrap();
    assert_eq!(
        sent["params"]["arguments"],
        json!({ "text": format!("<{text}>"), "n": 1 })
    );
    let prepared = lab
        .events()
        .await
        .into_iter()
        .rev()
        .find_map(|recorded| match recorded.event {
            Event::CallPrepared {
                arguments,
                artifacts,
                ..
            } => Some((arguments, artifacts)),
            _ => None,
        });
    let (recorded, artifacts) = prepared.unwrap();
    assert_eq!(recorded.get(), arguments);
    let [HandedArtifact { artifact, origins }] = &artifacts[..] else {
        panic!("{artifacts:?}")
    };
    assert_eq!(
        (&artifact.handle, artifact.bytes),
        (&handle, text.len() as u64)
    );
    assert_eq!(origins, &["lab"]);
}

#[tokio::test]
async fn only_what_a_run_was_given_can_be_handed_over() {
    let lab = open_with("[results]\nmax_tokens = 100\npreview_tokens = 60").await;
    let told = lab
        .call("take", r#"{"text":"artifact://0123456789abcdef"}"#)
        .await;
    insta::assert_snapshot!(words(&told), @"Not called: there is no artifact `artifact://0123456789abcdef` to hand over: this run was not given one with these digits. A handle comes with a result; use one exactly as it was given.");
    // The schema is about what is sent.
    let long = json!({ "content": [{ "type": "text", "text": "x".repeat(1_000_001) }] });
    let report = give(&lab, long).await;
    let handle = handle(&report);
    let told = lab
        .call("take", &json!({ "text": handle }).to_string())
        .await;
    insta::assert_snapshot!(words(&told), @r"
    Not called: the arguments do not fit the tool's schema:
    - `/text`: a text of 1000001 bytes is longer than 1000000 characters
    ");
    assert_eq!(lab.server.of("tools/call").len(), 1);
    // A person may name what another run has kept.
    let other = Lab::open().await;
    let toolset = other.host.toolset();
    let context = CallContext {
        principal: outrigger_host::policy::Principal::Person,
        ..CallContext::default()
    };
    let call: ProposedCall = proposed("take", &json!({ "text": handle }).to_string());
    let told = other.host.call(&toolset, call, context).await;
    assert!(
        words(&told).contains("there is no artifact"),
        "of another journal: {}",
        words(&told)
    );
}

#[tokio::test]
async fn rules_see_where_the_contents_of_arguments_came_from() {
    let lab = Lab::new(Plan {
        allow: vec!["*".to_owned()],
        user: "[results]\nmax_tokens = 100\n[[policy.rule]]\nraw = 'take'\nwhen = \"'lab' in args_from\"\ndecision = 'deny'\nreason = 'data of the lab stays there'".to_owned(),
        ..Plan::default()
    })
    .await;
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] }),
    )
    .await;
    let handle = handle(&report);
    let allowed = lab.call("take", r#"{"text":"x"}"#).await;
    assert_eq!(allowed.outcome.kind().as_str(), "completed");
    let denied = lab
        .call("take", &json!({ "text": handle }).to_string())
        .await;
    insta::assert_snapshot!(words(&denied), @"Not called: the rules of this host do not allow it: data of the lab stays there");
    assert_eq!(lab.server.of("tools/call").len(), 2);
}

#[tokio::test]
async fn a_tool_that_keeps_breaking_its_contract_is_set_aside() {
    let lab = Lab::open().await;
    let shown = lab.host.toolset();
    let shaped = |n: Value| json!({ "result": { "structuredContent": { "n": n } } }).to_string();
    for n in [json!("x"), json!("x"), json!(1), json!("x"), json!("x")] {
        lab.call("shape", &shaped(n)).await;
    }
    assert!(lab.host.toolset().get("mcp__lab__shape").is_some());
    let report = lab.call("shape", &shaped(json!("x"))).await;
    let CallOutcome::Violated(violation) = &report.outcome else {
        panic!("{report:?}")
    };
    assert_eq!(
        (
            violation.server.as_str(),
            violation.tool.as_str(),
            violation.pointer.as_deref()
        ),
        ("lab", "shape", Some("/n"))
    );
    assert!(lab.host.toolset().get("mcp__lab__shape").is_none());
    assert!(lab.host.toolset().get("mcp__lab__keep").is_some());
    let refused = lab
        .call_with(&shown, "shape", "{}", CallContext::default())
        .await;
    insta::assert_snapshot!(words(&refused), @r#"Not called: the tool is set aside for the rest of this run: it broke its own contract 3 times in a row, the last time so: the structured content breaks the tool's output schema: `/n`: "x" is not of type "integer"."#);
    let told = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::ToolSetAside { tool, reason, .. } => Some(format!("{tool}: {reason}")),
            _ => None,
        });
    insta::assert_snapshot!(told.unwrap(), @r#"shape: it broke its own contract 3 times in a row, the last time so: the structured content breaks the tool's output schema: `/n`: "x" is not of type "integer""#);
    assert_eq!(lab.server.of("tools/call").len(), 6);
    // It stays so when the server lists its tools again.
    let before = lab.host.toolset();
    lab.server
        .change(|tools| tools.retain(|tool| tool["name"] != "tell"));
    lab.changed_from(&before).await;
    assert!(lab.host.toolset().get("mcp__lab__shape").is_none());
}

#[tokio::test]
async fn a_person_is_shown_the_handle_and_what_it_stands_for() {
    let lab = Lab::new(Plan {
        user: "[results]\nmax_tokens = 100\n[policy.tools]\n'mcp__lab__give' = 'allow'".to_owned(),
        answers: vec![Answer::Once],
        ..Plan::default()
    })
    .await;
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": "x".repeat(50_000) }] }),
    )
    .await;
    let handle = handle(&report);
    let arguments = json!({ "text": handle }).to_string();
    lab.call("take", &arguments).await;
    let asked = lab.person.asked.lock().unwrap().clone();
    let shown = format!("take {arguments} ({handle}: text/plain, 50,000 bytes, from lab)");
    assert_eq!(asked, [shown]);
    assert_eq!(lab.server.of("tools/call").len(), 2);
}

#[tokio::test]
async fn a_grant_is_for_the_very_content() {
    // What a grant is bound to has the whole digest, whatever a model wrote of it.
    let lab = Lab::new(Plan {
        user: "[results]\nmax_tokens = 100\n[policy.tools]\n'mcp__lab__give' = 'allow'".to_owned(),
        answers: vec![Answer::Once],
        ..Plan::default()
    })
    .await;
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] }),
    )
    .await;
    let CallOutcome::Completed(result) = &report.outcome else {
        panic!("{report:?}")
    };
    let digest = result.artifacts()[0].digest;
    let handle = handle(&report);
    lab.call("take", &json!({ "text": handle }).to_string())
        .await;
    let exact = lab.person.exact.lock().unwrap().clone();
    assert_eq!(
        exact,
        [json!({ "text": format!("artifact://{digest}") }).to_string()]
    );
}

#[tokio::test]
async fn what_a_hook_keeps_back_is_not_handed_out_either() {
    let lab = Lab::new(Plan {
        allow: vec!["*".to_owned()],
        user: "[results]\nmax_tokens = 100\n[[hooks.after_call]]\ncommand = ['x']\ntool = 'mcp__lab__give'".to_owned(),
        runner: Some(Arc::new(Says(r#"{"redact":["row"]}"#))),
        ..Plan::default()
    })
    .await;
    let text = rows(2000);
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": text }] }),
    )
    .await;
    let told = words(&report);
    assert!(
        !told.contains("row") && !told.contains("artifact://"),
        "{told}"
    );
    assert!(told.contains("is kept back by a hook"), "{told}");
    let CallOutcome::Completed(result) = &report.outcome else {
        panic!("{report:?}")
    };
    let handle = result.artifacts()[0].handle.clone();
    let refused = lab
        .call("take", &json!({ "text": handle }).to_string())
        .await;
    assert!(
        words(&refused).contains("there is no artifact"),
        "{}",
        words(&refused)
    );
}

/// A hook that always says this.
struct Says(&'static str);

#[async_trait::async_trait]
impl HookRunner for Says {
    async fn run(&self, _: &HookSettings, _: &str) -> Result<Heard, String> {
        Ok(Heard::Said(self.0.to_owned()))
    }
}

#[tokio::test]
async fn a_run_that_goes_on_has_what_it_was_given() {
    let results = "[results]\nmax_tokens = 100";
    let lab = open_with(results).await;
    let report = give(
        &lab,
        json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] }),
    )
    .await;
    let arguments = json!({ "text": handle(&report) }).to_string();
    let events = lab.events().await;
    let later = Lab::new(Plan {
        allow: vec!["*".to_owned()],
        store: Some(store(&lab)),
        ..Plan::default()
    })
    .await;
    let refused = later.call("take", &arguments).await;
    assert_eq!(refused.outcome.kind().as_str(), "rejected");
    later.host.given_before(&events).await;
    let taken = later.call("take", &arguments).await;
    assert_eq!(taken.outcome.kind().as_str(), "completed");
    let sent = later.server.of("tools/call").pop().unwrap();
    assert_eq!(sent["params"]["arguments"]["text"], "x".repeat(5000));
}
