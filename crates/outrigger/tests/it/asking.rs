//! Servers that ask, and a person at a terminal who answers, or nobody.

use outrigger_testkit::provider_server::Turn;
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, Ran, fixture};
use crate::scripted::Log;

/// A place with one server that asks, named `lab`.
fn asking(era: &str, rest: &Value) -> (Place, Log) {
    let place = Place::new();
    let log = place.root.join("lab.log");
    let mut entry = json!({ "command": "python3", "args": [fixture("asking_server.py"), log] });
    if era == "modern" {
        entry["args"].as_array_mut().unwrap().push("modern".into());
    }
    for (key, value) in rest.as_object().unwrap() {
        entry[key] = value.clone();
    }
    place.servers(&json!({ "lab": entry }));
    (place, Log::at(log))
}

/// `call lab TOOL` at a terminal.
fn at_terminal(place: &Place, tool: &str) -> PtySession {
    let mut command = place.command(&["call", "lab", tool, "--allow", "*"]);
    command.env("NO_COLOR", "1");
    spawn_command(command, Some(60_000)).unwrap()
}

#[track_caller]
pub(crate) fn code(mut session: PtySession) -> (i32, String) {
    let rest = session.exp_eof().unwrap();
    match session.process_mut().wait().unwrap() {
        WaitStatus::Exited(_, code) => (code, rest),
        other => panic!("{other:?}: {rest}"),
    }
}

/// Nobody is there.
fn unattended(place: &Place, tool: &str) -> Ran {
    place.run(&["call", "lab", tool, "--allow", "*"])
}

#[track_caller]
pub(crate) fn says(session: &mut PtySession, words: &[&str]) {
    for word in words {
        session.exp_string(word).unwrap();
    }
}

/// What is shown of the form, and what is typed then.
pub(crate) const FILLING: &[(&[&str], &str)] = &[
    (
        &[
            "The server `lab` asks, during `form`:",
            "| Which \\u{1b}[31mroom\\u{202e}?",
            "Answer it (5 fields)? [y]es, [n]o, [c]ancel: ",
        ],
        "y",
    ),
    (&["Your name (name), text, needed: "], ""),
    (&["it is needed", "Your name (name), text, needed: "], "A"),
    (&["shorter than 2", "needed: "], "Ada"),
    (&["guests, a whole number, default 1: "], "9"),
    (&["maximum of 4", "default 1: "], ""),
    (&["quiet, yes or no: "], "yes"),
    (&["1) Sea side (sea)", "view, one of these, needed: "], "2"),
    (
        &["3) cake", "extras, any of these, with commas: "],
        "cake, 1",
    ),
    (
        &[
            "This is sent to the server:",
            "[\"cake\",\"bread\"]",
            "Send it? [y]es, [a]gain, [n]o, [c]ancel: ",
        ],
        "y",
    ),
];

#[test]
fn a_form_is_filled_in_checked_and_sent_off() {
    for era in ["legacy", "modern"] {
        let (place, log) = asking(era, &json!({}));
        let mut session = at_terminal(&place, "form");
        for (shown, typed) in FILLING {
            says(&mut session, shown);
            session.send_line(typed).unwrap();
        }
        let (code, rest) = code(session);
        assert_eq!(code, 0, "{rest}");
        assert!(!rest.contains(['\u{1b}', '\u{202e}']), "{rest:?}");
        let heard = json!({
            "action": "accept",
            "content": { "name": "Ada", "guests": 1, "quiet": true, "view": "yard", "extras": ["cake", "bread"] },
        });
        assert_eq!(log.answer(era), heard, "{era}");
        let sent = if era == "modern" { 2 } else { 1 };
        assert_eq!(
            log.of("tools/call").len(),
            sent,
            "{era}: with its question answered"
        );
        for step in ["proposed", "decided", "intent", "ended"] {
            let events = place.events().matches(&format!("\"call_{step}\"")).count();
            assert_eq!(events, 1, "{era}: one logical call, {step}");
        }
        let run = place.last_run();
        let asked = run.lines().find(|line| line.contains("asked during"));
        let asked = asked.unwrap_or_else(|| panic!("{run}"));
        assert!(
            asked.contains("`form` (`elicitation/create`)") && asked.ends_with("given by a person"),
            "{asked}"
        );
        assert!(
            !asked.contains("Ada"),
            "what was typed is not recorded: {asked}"
        );
        place.assert_nothing_runs();
    }
}

#[test]
fn no_answer_and_no_are_told_apart_and_from_nobody() {
    for (keys, action, told) in [
        ("n", json!("decline"), "declined by a person"),
        ("c", json!("cancel"), "dismissed by a person"),
    ] {
        for era in ["legacy", "modern"] {
            let (place, log) = asking(era, &json!({}));
            let mut session = at_terminal(&place, "form");
            says(&mut session, &["[c]ancel: "]);
            session.send_line(keys).unwrap();
            let (code, rest) = code(session);
            assert_eq!(code, 0, "{rest}");
            assert_eq!(log.answer(era), json!({ "action": action }), "{era}");
            assert!(place.last_run().contains(told), "{}", place.last_run());
        }
    }
    let (place, log) = asking("legacy", &json!({}));
    let mut session = at_terminal(&place, "form");
    says(&mut session, &["[c]ancel: "]);
    session.send_control('d').unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(log.answer("legacy")["code"], -1);
    let run = place.last_run();
    assert!(
        run.contains("refused: nobody is there to answer any more") && !run.contains("by a person"),
        "{run}"
    );
}

#[test]
fn a_form_can_be_left_and_begun_again() {
    let (place, log) = asking("legacy", &json!({}));
    let mut session = at_terminal(&place, "form");
    says(&mut session, &["[c]ancel: "]);
    session.send_line("y").unwrap();
    says(&mut session, &["needed: "]);
    session.send_line("!").unwrap();
    says(
        &mut session,
        &["Leave it? [a]gain, [n]o (decline), [c]ancel: "],
    );
    session.send_line("a").unwrap();
    says(&mut session, &["Your name (name), text, needed: "]);
    session.send_line("!").unwrap();
    says(&mut session, &["Leave it?"]);
    session.send_line("n").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(log.answer("legacy"), json!({ "action": "decline" }));
}

#[test]
fn without_a_terminal_nobody_is_asked_and_nobody_answers() {
    for (era, expected) in [("legacy", 0), ("modern", 5)] {
        let (place, log) = asking(era, &json!({}));
        let ran = unattended(&place, "form");
        assert_eq!(ran.code, expected, "{ran:#?}");
        if era == "legacy" {
            let capabilities = &log.of("initialize")[0]["params"]["capabilities"];
            assert!(capabilities.get("elicitation").is_none(), "{capabilities}");
            assert_eq!(log.answer(era)["code"], -32601);
        }
        assert!(
            ran.err.contains("asked `elicitation/create`, not answered"),
            "{ran:#?}"
        );
        let run = place.last_run();
        assert!(
            run.contains("(`elicitation/create`)")
                && run.contains(": refused")
                && !run.contains("by a person"),
            "{run}"
        );
        place.assert_nothing_runs();
    }
}

#[test]
fn a_page_is_shown_whole_and_opened_only_with_leave() {
    let (place, log) = asking("legacy", &json!({}));
    // What opens pages here writes down which.
    let opened = place.root.join("opened");
    let script = format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", opened.display());
    let bin = place.write("bin/xdg-open", script);
    std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let visit = |answer: &str| {
        let mut command = place.command(&["call", "lab", "visit", "--allow", "*"]);
        let path = format!(
            "{}:{}",
            bin.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        command.env("NO_COLOR", "1").env("PATH", path);
        let mut session = spawn_command(command, Some(60_000)).unwrap();
        says(
            &mut session,
            &[
                "The server `lab` wants you to visit a page, during `visit`:",
                "| Sign in",
                "https://id.example/start?x=1",
                "id.example",
                "Open it in a browser? [y]es, [m]yself elsewhere, [n]o, [c]ancel: ",
            ],
        );
        session.send_line(answer).unwrap();
        let (code, rest) = code(session);
        assert_eq!(code, 0, "{rest}");
    };
    visit("n");
    assert_eq!(log.answer("legacy"), json!({ "action": "decline" }));
    visit("m");
    assert_eq!(log.answer("legacy"), json!({ "action": "accept" }));
    assert!(!opened.exists(), "nothing was opened without leave");
    visit("y");
    assert_eq!(log.answer("legacy"), json!({ "action": "accept" }));
    crate::place::until("the page is opened", || {
        std::fs::read_to_string(&opened).is_ok_and(|page| page == "https://id.example/start?x=1")
    });
}

#[test]
fn a_file_is_no_page() {
    let (place, log) = asking("legacy", &json!({}));
    let mut session = at_terminal(&place, "trick");
    says(
        &mut session,
        &["not answered: `file:` is not a page to visit"],
    );
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(
        log.answer("legacy")["message"],
        "`file:` is not a page to visit"
    );
}

#[test]
fn the_workspace_is_named_where_configuration_says_so() {
    let (place, log) = asking("legacy", &json!({ "answers": ["roots"] }));
    assert_eq!(unattended(&place, "roots").code, 0);
    let uri = format!("file://{}", place.project().display());
    assert_eq!(
        log.answer("legacy"),
        json!({ "roots": [{ "uri": uri, "name": "project" }] })
    );
    let run = place.last_run();
    assert!(
        run.contains("(`roots/list`)") && run.contains("given by configuration"),
        "{run}"
    );
    let (place, log) = asking("legacy", &json!({}));
    assert_eq!(unattended(&place, "roots").code, 0);
    assert_eq!(log.answer("legacy")["code"], -32601);
    let (place, log) = asking("legacy", &json!({}));
    assert_eq!(unattended(&place, "odd").code, 0);
    assert_eq!(log.answer("legacy")["code"], -32601);
}

#[test]
fn the_model_is_asked_after_the_person_and_answers_through_the_person() {
    let (place, log) = asking("legacy", &json!({ "answers": ["sampling"] }));
    let model = Model::turns([
        Turn::calls([("mcp__lab__sample", json!({}))]),
        Turn::text("Cod\u{1b}[2J"),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    let mut command = place.command(&["ask", "--allow", "*", "Do it"]);
    command.env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    says(
        &mut session,
        &[
            "The server `lab` wants to ask your model, during `sample`:",
            "Be short.",
            "Name a fish",
            "100 tokens",
            "Ask it? [y]es, [n]o, [c]ancel: ",
        ],
    );
    assert_eq!(model.requests().len(), 1, "the model is not asked before");
    session.send_line("y").unwrap();
    says(
        &mut session,
        &[
            "would get this answer of your model",
            "Cod\\u{1b}[2J",
            "Send it? ",
        ],
    );
    session.send_line("y").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    let answer = log.answer("legacy");
    assert_eq!(answer["content"]["text"], "Cod\u{1b}[2J");
    assert_eq!(
        (&answer["model"], &answer["role"]),
        (&json!("scripted:one"), &json!("assistant"))
    );
    let asked = &model.requests()[1].body;
    assert_eq!(asked["messages"][0]["content"], "Be short.");
    assert!(
        asked
            .get("tools")
            .is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty)),
        "{asked}"
    );
    let run = place.last_run();
    assert!(
        run.contains("(`sampling/createMessage`)") && run.contains("given by a person"),
        "{run}"
    );
}

#[test]
fn a_no_keeps_the_model_out_of_it() {
    let (place, log) = asking("legacy", &json!({ "answers": ["sampling"] }));
    let model = Model::turns([
        Turn::calls([("mcp__lab__sample", json!({}))]),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    let mut command = place.command(&["ask", "--allow", "*", "Do it"]);
    command.env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    says(&mut session, &["Ask it? "]);
    session.send_line("n").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(log.answer("legacy")["message"], "the user said no");
    assert_eq!(model.requests().len(), 2);
    assert!(
        place.last_run().contains("declined by a person"),
        "{}",
        place.last_run()
    );
}

#[test]
fn the_clock_of_a_call_stands_while_a_person_thinks() {
    let (place, log) = asking("legacy", &json!({}));
    let mut command = place.command(&["call", "lab", "form", "--allow", "*", "--timeout", "0.5"]);
    command.env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    says(&mut session, &["[c]ancel: "]);
    // Longer than the call may take; nothing here is to happen by then.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    session.send_line("n").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert_eq!(log.answer("legacy"), json!({ "action": "decline" }));
}

#[test]
fn a_server_of_npm_is_answered_too() {
    let servers = crate::servers::Servers::installed();
    let place = Place::new();
    place.servers(&json!({ "everything": servers.everything() }));
    let words = [
        "call",
        "everything",
        "trigger-elicitation-request",
        "--allow",
        "*",
    ];
    let mut command = place.command(&words);
    command.env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    says(
        &mut session,
        &["The server `everything` asks", "[c]ancel: "],
    );
    session.send_line("y").unwrap();
    // It needs a name; all else is left as it is.
    says(&mut session, &["needed: "]);
    session.send_line("Ada").unwrap();
    loop {
        let (_, found) = session
            .exp_any(vec![
                rexpect::session::ReadUntil::String("Send it? ".to_owned()),
                rexpect::session::ReadUntil::String(": ".to_owned()),
            ])
            .unwrap();
        if found == "Send it? " {
            break;
        }
        session.send_line("").unwrap();
    }
    session.send_line("y").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("Ada"), "{rest}");
    place.assert_nothing_runs();
}

#[test]
fn what_answers_may_hold_is_checked() {
    let (place, _) = asking("legacy", &json!({ "answers": ["elicitations"] }));
    let ran = unattended(&place, "roots");
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(
        ran.err.contains("which no server can ask for here") && ran.err.contains("`elicitation`"),
        "{ran:#?}"
    );
}

impl Log {
    /// The last answer to a question.
    fn answer(&self, era: &str) -> Value {
        if era == "modern" {
            let calls = self.of("tools/call");
            return calls.last().unwrap()["params"]["inputResponses"]["q1"].clone();
        }
        let heard = self.heard();
        let answer = heard.iter().rfind(|message| message["id"] == "q1").unwrap();
        answer.get("result").unwrap_or(&answer["error"]).clone()
    }
}
