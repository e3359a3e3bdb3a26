//! What comes with a folder does nothing before the person has said so: not at any way in, not
//! without a terminal, and not after it has changed.

use std::process::Stdio;

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran};
use crate::scripted::{Log, scripted};

/// A checkout with a server, and the person's own one beside it.
fn checkout() -> (Place, Log, Log) {
    let place = Place::new();
    let (theirs, log) = scripted(&place, "theirs");
    let (own, own_log) = scripted(&place, "own");
    place.servers(&json!({ "theirs": theirs }));
    place.write(
        "config/outrigger/mcp.json",
        json!({ "mcpServers": { "own": own } }).to_string(),
    );
    (place, log, own_log)
}

/// Runs it as somebody who has said nothing about the project on the command line.
pub(crate) fn wary(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.wary(words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ran::of(command.spawn().unwrap())
}

#[test]
fn nothing_of_a_checkout_is_started() {
    let (place, log, own_log) = checkout();
    let tools = wary(&place, &["tools"]);
    assert!(
        tools
            .out
            .contains("theirs set aside (config): it comes with this folder, which is not trusted"),
        "{tools:#?}"
    );
    assert!(
        tools.err.contains(
            "note: this folder is not trusted, so what its files bring is not used: server `theirs`"
        ),
        "{tools:#?}"
    );
    assert!(
        tools.out.contains("mcp__own__repeat"),
        "the person's own works on: {tools:#?}"
    );
    let call = wary(
        &place,
        &["call", "theirs", "repeat", "text=a", "--allow", "*"],
    );
    assert_eq!(call.code, 3, "{call:#?}");
    assert!(call.err.contains("`outrigger trust`"), "{call:#?}");
    let doctor = wary(&place, &["doctor", "--json"]);
    let servers = doctor.json()["servers"].clone();
    let theirs = servers
        .as_array()
        .unwrap()
        .iter()
        .find(|server| server["server"] == "theirs");
    assert_eq!(theirs.unwrap()["state"], "needs_approval");
    assert_eq!(wary(&place, &["login", "theirs"]).code, 3);
    assert_eq!(
        (log.heard().len(), own_log.of("initialize").is_empty()),
        (0, false)
    );
}

#[test]
fn trust_holds_until_the_files_change() {
    let (place, log, _) = checkout();
    let asked = wary(&place, &["trust"]);
    assert_eq!(asked.code, 3, "nobody is there to say so: {asked:#?}");
    let said = wary(&place, &["trust", "--yes"]);
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.err.contains("server theirs  python3 "), "{said:#?}");
    assert_eq!(
        wary(
            &place,
            &["call", "theirs", "repeat", "text=a", "--allow", "*"]
        )
        .out,
        "a\n"
    );
    let listed = wary(&place, &["trust", "list", "--json"]).json();
    assert_eq!(listed[0]["folder"], json!(place.project()));

    let file = place.project().join(".mcp.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n")).unwrap();
    let heard = log.heard().len();
    let changed = wary(
        &place,
        &["call", "theirs", "repeat", "text=a", "--allow", "*"],
    );
    assert_eq!(changed.code, 3, "{changed:#?}");
    std::fs::write(&file, text).unwrap();
    assert_eq!(wary(&place, &["trust", "revoke"]).code, 0);
    assert_eq!(
        wary(
            &place,
            &["call", "theirs", "repeat", "text=a", "--allow", "*"]
        )
        .code,
        3
    );
    assert_eq!(log.heard().len(), heard, "nothing was started in between");
}

#[test]
fn a_flag_trusts_one_run() {
    let (place, _, _) = checkout();
    let words = [
        "--trust-project",
        "call",
        "theirs",
        "repeat",
        "text=a",
        "--allow",
        "*",
    ];
    assert_eq!(wary(&place, &words).code, 0);
    assert_eq!(wary(&place, &words[1..]).code, 3);
}

#[test]
fn an_answer_that_cannot_be_read_is_none() {
    let (place, log, _) = checkout();
    assert_eq!(wary(&place, &["trust", "--yes"]).code, 0);
    let folder = place.root.join("state/outrigger/trust");
    let file = std::fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::write(file, "{").unwrap();
    assert_eq!(
        wary(
            &place,
            &["call", "theirs", "repeat", "text=a", "--allow", "*"]
        )
        .code,
        3
    );
    assert_eq!(log.heard().len(), 0);
}

#[test]
fn no_word_of_a_server_that_waits_reaches_a_model() {
    let (place, log, _) = checkout();
    let model = Model::turns((0..2).map(|_| Turn::text("Hello.")));
    model.serves(&place);
    assert_eq!(wary(&place, &["ask", "Hello"]).code, 0);
    assert_eq!(log.heard().len(), 0);
    let asked = wary(&place, &["--trust-project", "ask", "Hello"]);
    assert_eq!(asked.code, 0, "{asked:#?}");
    let told: Vec<_> = model
        .requests()
        .iter()
        .map(|request| request.text.contains("mcp__theirs__repeat"))
        .collect();
    assert_eq!(told, [false, true]);
    let own = |request: usize| model.requests()[request].text.contains("mcp__own__repeat");
    assert!(own(0) && own(1), "the person's own is there both times");
}
