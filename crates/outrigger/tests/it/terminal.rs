//! A person at a terminal: asked before a call runs, shown what is really sent, heard when saying no.

use outrigger_testkit::provider_server::Turn;
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, until};
use crate::scripted::{Log, lab};

pub(crate) const PROMPT: &str =
    "Run it? [y]es, yes for this [s]ession, [a]lways, [n]o (or say why not): ";

/// The program at a terminal of its own.
pub(crate) fn at_terminal(place: &Place, words: &[&str]) -> PtySession {
    let mut command = place.command(words);
    command.env("NO_COLOR", "1");
    spawn_command(command, Some(60_000)).unwrap()
}

/// Its exit code, and what it printed until then.
#[track_caller]
pub(crate) fn code(mut session: PtySession) -> (i32, String) {
    let rest = session.exp_eof().unwrap();
    match session.process_mut().wait().unwrap() {
        WaitStatus::Exited(_, code) => (code, rest),
        other => panic!("{other:?}: {rest}"),
    }
}

/// A question whose model makes these calls, a turn each, and then says goodbye.
fn asking(calls: Vec<(&'static str, Value)>) -> (Place, Log, Model, PtySession) {
    let (place, log) = lab();
    let turns = calls.into_iter().map(|call| Turn::calls([call]));
    let model = Model::turns(turns.chain([Turn::text("That is all.")]));
    model.serves(&place);
    let session = at_terminal(&place, &["ask", "Do it"]);
    (place, log, model, session)
}

#[test]
fn yes_is_for_one_call_and_session_for_all_of_that_tool() {
    let repeat = |text: &str| ("mcp__lab__repeat", json!({ "text": text }));
    let calls = vec![
        repeat("one"),
        repeat("two"),
        repeat("three"),
        ("mcp__lab__keep", json!({})),
    ];
    let (place, log, _model, mut session) = asking(calls);
    session.exp_string("A call needs your approval:").unwrap();
    session
        .exp_string("mcp__lab__repeat (`repeat` of the server `lab`)")
        .unwrap();
    session.exp_string("text: \"one\"").unwrap();
    session.exp_string("the default of the policy").unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_line("y").unwrap();
    session.exp_string("text: \"two\"").unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_line("s").unwrap();
    // `three` is not asked about; another tool is.
    let between = session.exp_string("mcp__lab__keep (`keep`").unwrap();
    assert_eq!(between.matches(PROMPT).count(), 0, "{between}");
    session.exp_string(PROMPT).unwrap();
    session.send_line("n").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("That is all."), "{rest}");
    let texts: Vec<_> = log
        .of("tools/call")
        .iter()
        .map(|call| call["params"]["arguments"]["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let run = place.last_run();
    assert!(
        run.contains("call 1: allowed by a person")
            && run.contains("call 4: not allowed by a person"),
        "{run}"
    );
    place.assert_nothing_runs();
}

#[test]
fn a_call_that_may_have_been_made_is_asked_about_in_its_own_words() {
    let wait = || ("mcp__lab__wait", json!({ "n": 1 }));
    let (place, log) = lab();
    place.user("[timeouts]\ncall = '300ms'\nlate = '50ms'");
    let turns = [
        Turn::calls([wait()]),
        Turn::calls([wait()]),
        Turn::text("That is all."),
    ];
    let model = Model::turns(turns);
    model.serves(&place);
    let mut session = at_terminal(&place, &["ask", "Do it"]);
    session.exp_string("A call needs your approval:").unwrap();
    session.exp_string(PROMPT).unwrap();
    // Neither what is granted nor what was said for the session answers the other question.
    session.send_line("a").unwrap();
    session.exp_string("Always for which arguments?").unwrap();
    session.send_line("*").unwrap();
    session.exp_string("granted until").unwrap();
    session
        .exp_string("This call was made before, and nobody knows what came of it:")
        .unwrap();
    session.exp_string("before    call 1, ").unwrap();
    session.exp_string("no answer came within 0.").unwrap();
    session.exp_string("without an idempotency key").unwrap();
    session
        .exp_string("the outcome of the same call is unknown: call 1")
        .unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_line("n").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 5, "{rest}");
    assert_eq!(log.of("tools/call").len(), 1);
    place.assert_nothing_runs();
}

#[test]
fn the_reason_of_a_no_reaches_the_model() {
    let (place, log, model, mut session) =
        asking(vec![("mcp__lab__keep", json!({ "where": "/etc" }))]);
    session.exp_string(PROMPT).unwrap();
    session
        .send_line("not into /etc, use the project folder")
        .unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(log.of("tools/call").len(), 0);
    insta::assert_snapshot!(model.last_results().join("\n"), @"Not called: the user declined: not into /etc, use the project folder");
    assert!(
        place
            .last_run()
            .contains("not allowed by a person (the default of the policy): not into /etc, use"),
        "{}",
        place.last_run()
    );
}

#[test]
fn arguments_are_shown_as_they_are_and_cannot_paint() {
    let text = "\u{1b}[2K\u{1b}[1A\rharmless\u{202e}gnp.exe\u{200b}\u{9b}31m\u{7}";
    let (_place, log, _model, mut session) =
        asking(vec![("mcp__lab__repeat", json!({ "text": text }))]);
    session.exp_string("arguments").unwrap();
    let shown = session.exp_string(PROMPT).unwrap();
    assert!(
        shown.contains("harmless\\u{202e}gnp.exe\\u{200b}"),
        "{shown:?}"
    );
    assert!(
        !shown.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{9b}', '\u{7}']),
        "{shown:?}"
    );
    session.send_line("y").unwrap();
    let (_, rest) = code(session);
    assert!(
        !rest.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{9b}', '\u{7}']),
        "{rest:?}"
    );
    assert_eq!(
        log.of("tools/call")[0]["params"]["arguments"]["text"],
        text,
        "what is sent is what was written"
    );
}

#[test]
fn the_answer_of_a_model_cannot_paint_either() {
    let (place, _log) = lab();
    let model = Model::turns([Turn::text("fine\u{1b}]0;owned\u{7}\u{202e}evil")]);
    model.serves(&place);
    let (code, shown) = code(at_terminal(&place, &["ask", "Paint"]));
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains("fine\\u{1b}]0;owned\\u{7}\\u{202e}evil"),
        "{shown:?}"
    );
    assert!(
        !shown.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{shown:?}"
    );
}

#[test]
fn an_empty_line_is_no_answer_and_the_end_of_input_is_nobody() {
    let (_place, log, model, mut session) = asking(vec![("mcp__lab__keep", json!({}))]);
    session.exp_string(PROMPT).unwrap();
    session.send_line("").unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_control('d').unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 3, "{rest}");
    assert!(
        model.last_results()[0].contains("nobody is there"),
        "{:?}",
        model.last_results()
    );
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn control_c_during_a_call_tells_the_server() {
    let (place, log, _model, mut session) = asking(vec![("mcp__lab__wait", json!({}))]);
    session.exp_string(PROMPT).unwrap();
    session.send_line("y").unwrap();
    until("the call reaches the server", || {
        !log.of("tools/call").is_empty()
    });
    session.send_control('c').unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 130, "{rest}");
    assert!(rest.contains("error: interrupted"), "{rest}");
    let cancelled = log.of("notifications/cancelled");
    assert_eq!(
        cancelled[0]["params"]["requestId"],
        log.of("tools/call")[0]["id"]
    );
    let run = place.last_run();
    assert!(run.contains("call 1: unknown"), "{run}");
    assert!(run.contains("ended: interrupted"), "{run}");
    place.assert_nothing_runs();
}

#[test]
fn control_c_at_the_question_sends_nothing() {
    let (place, log, _model, mut session) = asking(vec![("mcp__lab__keep", json!({}))]);
    session.exp_string(PROMPT).unwrap();
    session.send_control('c').unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 130, "{rest}");
    assert_eq!(log.of("tools/call").len(), 0);
    assert!(
        place.last_run().contains("call 1: rejected"),
        "{}",
        place.last_run()
    );
    place.assert_nothing_runs();
}

#[test]
fn always_is_for_arguments_like_these_and_can_be_taken_back() {
    let (place, log) = lab();
    let mut session = at_terminal(&place, &["call", "lab", "keep", "path=docs/a.md"]);
    session.exp_string(PROMPT).unwrap();
    session.send_line("a").unwrap();
    session.exp_string("Always for which arguments?").unwrap();
    session.send_line("file=docs/*").unwrap();
    session
        .exp_string("the call has no argument `file`; it has `path`")
        .unwrap();
    session.exp_string("Always for which arguments?").unwrap();
    session.send_line("path=docs/*").unwrap();
    session.exp_string("granted until ").unwrap();
    let (ended, rest) = code(session);
    assert_eq!(ended, 0, "{rest}");

    // Also where nobody is there; and for nothing else.
    let keep = |path: &str| place.run(&["call", "lab", "keep", path]).code;
    assert_eq!(keep("path=docs/b.md"), 0);
    assert_eq!(keep("path=docs/../secret"), 3);
    assert_eq!(keep("path=other/b.md"), 3);
    assert_eq!(place.run(&["call", "lab", "repeat", "text=docs/a"]).code, 3);
    assert!(place.run(&["runs"]).out.contains("call"));
    let granted = place.run(&["call", "lab", "keep", "path=docs/c.md"]);
    assert_eq!(granted.code, 0);
    let run = place.last_run();
    assert!(
        run.contains("call 1: allowed by a grant (the default of the policy): "),
        "{run}"
    );

    // Not for a server of that name that is started in another way, and not after it is taken back.
    let listed = place.run(&["grants", "list", "--json"]).json();
    let id = listed[0]["id"].as_str().unwrap();
    let shown = place.run(&["grants"]);
    assert!(
        shown.out.contains("mcp__lab__keep with path~docs/* until "),
        "{shown:#?}"
    );
    let sent = log.of("tools/call").len();
    let file = place.project().join(".mcp.json");
    let entry = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        entry
            .replace("\"python3\"", "\"python3\", \"env\": {}")
            .replace("scripted_server.py\",", "scripted_server.py\", "),
    )
    .unwrap();
    assert_eq!(keep("path=docs/d.md"), 0, "the command line is the same");
    std::fs::write(
        &file,
        entry
            .replace("\"python3\"", "\"/usr/bin/env\"")
            .replace("\"args\": [", "\"args\": [\"python3\","),
    )
    .unwrap();
    assert_eq!(keep("path=docs/d.md"), 3, "another command line");
    std::fs::write(&file, entry).unwrap();
    assert_eq!(place.run(&["grants", "revoke", "nosuch"]).code, 2);
    assert_eq!(place.run(&["grants", "revoke", id]).code, 0);
    assert_eq!(keep("path=docs/b.md"), 3);
    assert_eq!(log.of("tools/call").len(), sent + 1);
}

#[test]
fn what_is_folded_can_be_looked_at() {
    let (place, _log) = lab();
    let long = format!("text={}HIDDEN{}", "a".repeat(900), "b".repeat(900));
    let mut session = at_terminal(&place, &["call", "lab", "repeat", &long]);
    let folded = session.exp_string("[v]iew what is folded. ").unwrap();
    assert!(
        folded.contains("characters folded, sha256") && !folded.contains("HIDDEN"),
        "{folded}"
    );
    session.send_line("v").unwrap();
    session.exp_string("HIDDEN").unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_line("n").unwrap();
    assert_eq!(code(session).0, 3);
}

#[test]
fn a_folder_is_trusted_at_the_terminal_or_not() {
    let (place, log) = lab();
    let ask = |answer: &str| {
        let mut command = place.wary(&["call", "lab", "repeat", "text=hello", "--allow", "*"]);
        command.env("NO_COLOR", "1");
        let mut session = spawn_command(command, Some(60_000)).unwrap();
        session.exp_string("brings its own configuration:").unwrap();
        session.exp_string("server lab").unwrap();
        session
            .exp_string("Trust it? [y]es, for this [r]un only, [n]o: ")
            .unwrap();
        assert_eq!(log.heard().len(), 0, "nothing is started before the answer");
        session.send_line(answer).unwrap();
        code(session)
    };
    assert_eq!(ask("n").0, 3);
    assert_eq!(log.heard().len(), 0);
    let (once, said) = ask("r");
    assert_eq!(once, 0, "{said}");
    std::fs::remove_file(&log.0).unwrap();
    let (always, said) = ask("y");
    assert_eq!(always, 0, "{said}");
    let mut command = place.wary(&["call", "lab", "repeat", "text=again", "--allow", "*"]);
    let ran = command.output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}
