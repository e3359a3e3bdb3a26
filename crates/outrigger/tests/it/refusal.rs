//! What is refused never reaches a server, and the words say who refused it.

use std::process::Stdio;

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::Ran;
use crate::scripted::lab;

fn asks_for(tool: &str) -> Model {
    Model::turns([
        Turn::calls([(tool, json!({ "text": "hello" }))]),
        Turn::text("It was not done."),
    ])
}

#[test]
fn nobody_there_is_not_a_person_who_declined() {
    let (place, log) = lab();
    let model = asks_for("mcp__lab__repeat");
    model.serves(&place);
    let ran = place.run(&["ask", "Repeat hello"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert_eq!(ran.out, "It was not done.\n");
    insta::assert_snapshot!(ran.err.lines().rev().take(2).collect::<Vec<_>>().join("\n"), @"
    hint: allow tools with `--allow 'GLOB'`, or run in a terminal to be asked
    error: 1 call was not made: nobody was there to approve
    ");
    insta::assert_snapshot!(model.last_results().join("\n"), @"Not called: it needs approval, and nobody is there to give it. This is not a decision of the user.");
    assert_eq!(log.of("tools/call").len(), 0);
    assert_eq!(log.of("tools/list").len(), 1);
    let told = [place.last_run(), ran.err, model.last_results().join("\n")]
        .concat()
        .to_lowercase();
    assert!(
        !told.contains("declined") && !told.contains("user refused"),
        "{told}"
    );
}

#[test]
fn a_single_call_is_refused_in_the_same_way() {
    let (place, log) = lab();
    let ran = place.run(&["call", "lab", "repeat", "text=hello", "--json"]);
    assert_eq!(ran.code, 3);
    assert_eq!(ran.json()["outcome"], "rejected");
    let allowed = place.run(&[
        "call",
        "lab",
        "repeat",
        "text=hello",
        "--allow",
        "mcp__lab__re*",
        "--quiet",
    ]);
    assert_eq!(
        (allowed.code, allowed.out.as_str(), allowed.err.as_str()),
        (0, "hello\n", "")
    );
    let other = place.run(&["call", "lab", "keep", "--allow", "mcp__lab__re*"]);
    assert_eq!(other.code, 3);
    assert_eq!(log.of("tools/call").len(), 1);
}

#[test]
fn what_a_rule_denies_is_not_shown_and_cannot_be_allowed() {
    let (place, log) = lab();
    let model = asks_for("mcp__lab__repeat");
    model.serves(&place);
    place.user(
        "[[policy.rule]]\ntool = 'mcp__lab__repeat'\ndecision = 'deny'\nreason = 'it echoes'",
    );
    let ran = place.run(&["ask", "Repeat hello", "--allow", "*", "--json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(ran.json()["calls"][0]["outcome"], "rejected");
    let tools = model.requests()[0].tools();
    assert!(
        !tools.contains(&"mcp__lab__repeat".to_owned())
            && tools.contains(&"mcp__lab__keep".to_owned())
    );
    let called = place.run(&["call", "lab", "repeat", "text=hello", "--allow", "*"]);
    assert_eq!(called.code, 3);
    assert!(
        called
            .err
            .contains("`repeat` is denied by `mcp__lab__repeat` at "),
        "{}",
        called.err
    );
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn a_project_file_tightens_and_never_loosens() {
    let (place, log) = lab();
    place.write(
        "project/.outrigger/outrigger.toml",
        "[[policy.rule]]\ntool = 'mcp__lab__*'\ndecision = 'allow'\n[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'deny'",
    );
    // The server is the person's own; the rules of the folder are not trusted.
    let servers = std::fs::read_to_string(place.project().join(".mcp.json")).unwrap();
    place.write("config/outrigger/mcp.json", servers);
    std::fs::remove_file(place.project().join(".mcp.json")).unwrap();
    let wary = |words: &[&str]| {
        let mut command = place.wary(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ran::of(command.spawn().unwrap()).code
    };
    assert_eq!(wary(&["call", "lab", "repeat", "text=a"]), 3);
    assert_eq!(wary(&["call", "lab", "keep", "--allow", "*"]), 3);
    assert_eq!(log.of("tools/call").len(), 0);
    // Once it is trusted, it may open something, and a deny is still a deny.
    assert_eq!(place.run(&["call", "lab", "repeat", "text=a"]).code, 0);
    assert_eq!(place.run(&["call", "lab", "keep", "--allow", "*"]).code, 3);
    assert_eq!(log.of("tools/call").len(), 1);
    place.user("[[policy.rule]]\ntool = 'mcp__lab__*'\ndecision = 'allow'");
    assert_eq!(wary(&["call", "lab", "repeat", "text=a"]), 0);
    assert_eq!(wary(&["call", "lab", "keep"]), 3);
    assert_eq!(log.of("tools/call").len(), 2);
}

#[test]
fn a_broken_rule_stops_everything() {
    let (place, log) = lab();
    place.user("[[policy.rule]]\ntool = 'mcp__lab__['\ndecision = 'deny'");
    let ran = place.run(&["call", "lab", "repeat", "text=a", "--allow", "*"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert_eq!(log.heard().len(), 0);
}
