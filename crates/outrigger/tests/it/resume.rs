//! Going on where an earlier run stopped: what the model is given again, what counts as before, and
//! what cannot be gone on with.

use std::process::{Command, Stdio};

use outrigger_testkit::provider_server::{Stop, Turn};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, until};
use crate::scripted::{Log, lab};

/// The roles and texts of the messages of a request, one a line; the system message is left out.
fn messages(body: &Value) -> Vec<String> {
    let said = |message: &Value| {
        let calls = message["tool_calls"].as_array().map(|calls| {
            let call = |call: &Value| {
                format!(
                    " {}{}",
                    call["function"]["name"].as_str().unwrap(),
                    call["function"]["arguments"].as_str().unwrap()
                )
            };
            calls.iter().map(call).collect::<String>()
        });
        let text = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let parts = parts
                    .iter()
                    .map(|part| part["text"].as_str().unwrap_or("?"));
                parts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        let role = message["role"].as_str().unwrap();
        format!("{role}: {text}{}", calls.unwrap_or_default())
    };
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] != "system")
        .map(said)
        .collect()
}

fn newest(place: &Place) -> String {
    let runs = place.json(&["runs", "list", "--json"]);
    runs[0]["id"].as_str().unwrap().to_owned()
}

/// A model that calls `tool` with these arguments and then says what it has to say, a turn each.
fn scripted(turns: Vec<Turn>) -> (Place, Log, Model) {
    let (place, log) = lab();
    let model = Model::turns(turns);
    model.serves(&place);
    (place, log, model)
}

fn repeat(text: &str) -> Turn {
    Turn::calls([("mcp__lab__repeat", json!({ "text": text }))])
}

#[test]
fn the_conversation_goes_on_as_it_was_and_nothing_is_called_again() {
    let (place, log, model) = scripted(vec![
        repeat("one"),
        Turn::text("It said one."),
        repeat("two"),
        Turn::text("And two."),
        Turn::text("That was all."),
    ]);
    assert_eq!(place.run(&["ask", "Say one", "--allow", "*"]).code, 0);
    let first = newest(&place);
    let second = place.run(&["resume", &first, "Now two", "--allow", "*"]);
    assert_eq!(
        (second.code, second.out.as_str()),
        (0, "And two.\n"),
        "{second:#?}"
    );
    let last = newest(&place);
    assert_ne!(first, last);
    let third = place.run(&["resume", &last[last.len() - 4..], "And?", "--json"]);
    assert_eq!(third.json()["answer"], "That was all.");
    insta::assert_snapshot!(messages(&model.requests()[4].body).join("\n"), @r#"
    user: Say one
    assistant:  mcp__lab__repeat{"text":"one"}
    tool: [data from lab]
    one
    assistant: It said one.
    user: Now two
    assistant:  mcp__lab__repeat{"text":"two"}
    tool: [data from lab]
    two
    assistant: And two.
    user: And?
    "#);
    assert_eq!(log.of("tools/call").len(), 2);
    let shown = place.run(&["runs", "show", &last]).out;
    assert!(
        shown.contains(&format!("goes on where {first} stopped")),
        "{shown}"
    );
    let listed = place.json(&["runs", "list", "--json"]);
    let of: Vec<_> = (0..3)
        .map(|at| (&listed[at]["command"], &listed[at]["question"]))
        .collect();
    assert_eq!(
        of,
        [
            (&json!("resume"), &json!("And?")),
            (&json!("resume"), &json!("Now two")),
            (&json!("ask"), &json!("Say one"))
        ]
    );
}

#[test]
fn what_cannot_be_gone_on_with_is_said() {
    let (place, log, model) = scripted(vec![
        Turn::text("Done."),
        Turn::calls([("mcp__lab__wait", json!({}))]),
        Turn::text("never"),
    ]);
    place.run(&["call", "lab", "keep", "--allow", "*"]);
    let call = newest(&place);
    place.run(&["ask", "Anything?"]);
    let done = newest(&place);
    let mut told = Vec::new();
    for words in [
        &["resume", "nothing"][..],
        &["resume", &call, "Go on"],
        &["resume", &done],
    ] {
        let ran = place.run(words);
        assert_eq!(ran.code, 2, "{ran:#?}");
        told.push(place.tidy(&ran.err));
    }
    let elsewhere = place.run(&[
        "--workspace",
        place.root.to_str().unwrap(),
        "resume",
        &done,
        "x",
    ]);
    told.push(place.tidy(&elsewhere.err));
    let mut child = place
        .command(&["ask", "Wait", "--allow", "*"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it waits", || log.of("tools/call").len() == 2);
    let alive = place.run(&["resume", &newest(&place), "Go on"]);
    told.push(place.tidy(&alive.err));
    child.kill().unwrap();
    child.wait().unwrap();
    insta::assert_snapshot!(told.join("\n"), @r#"
    error: there is no run `nothing`
    hint: `outrigger runs` lists them
    error: the run RUN is one of `outrigger call`: there is no conversation to go on with
    hint: `outrigger runs show RUN says what it did
    error: the run RUN has its answer
    hint: say what more you want: outrigger resume RUN "…"
    error: the run RUN is bound to another folder
    hint: go on there: outrigger --workspace '/project' resume RUN
    error: the run RUN is still going on
    hint: end it first, or wait for its answer
    "#);
    assert_eq!(model.requests().len(), 2, "nobody was asked");
}

#[test]
fn a_run_that_came_to_a_limit_is_finished_with_another_model() {
    let (place, log, model) = scripted(vec![repeat("one"), Turn::text("never")]);
    place.user("[limits]\nmax_turns = 1");
    assert_eq!(place.run(&["ask", "Say one", "--allow", "*"]).code, 1);
    let other = Model::turns([Turn::text("It said one.").stop(Stop::Done)]);
    place.user(&format!(
        "[model.providers.other]\nkind = 'anthropic'\nbase_url = '{}'\nkey_env = 'PATH'",
        other.base_url().trim_end_matches("/v1")
    ));
    let ran = place.run(&["resume", &newest(&place), "--model", "other:two"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "It said one.\n"),
        "{ran:#?}"
    );
    assert_eq!((model.requests().len(), log.of("tools/call").len()), (1, 1));
    let given = other.requests()[0].text.clone();
    assert!(
        given.contains("Say one")
            && given.contains(r"[data from lab]")
            && given.contains("tool_use"),
        "{given}"
    );
}

#[test]
fn servers_whose_data_was_read_count_as_before() {
    let (place, log, _model) = scripted(vec![
        repeat("one"),
        Turn::text("It said one."),
        Turn::calls([("mcp__lab__keep", json!({}))]),
        Turn::text("It may not."),
    ]);
    place.user(
        "[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'deny'\nwhen = \"'lab' in origins\"\nreason = 'it has read'",
    );
    place.run(&["ask", "Say one", "--allow", "*"]);
    let ran = place.run(&["resume", &newest(&place), "Keep it", "--allow", "*"]);
    assert!(
        ran.err.contains("denied by ") && ran.err.contains("it has read"),
        "{}",
        ran.err
    );
    assert_eq!(log.of("tools/call").len(), 1);
}

#[test]
fn what_a_person_found_out_is_told_once() {
    let (place, _log, model) = scripted(vec![
        Turn::calls([("mcp__lab__wait", json!({ "n": 1 }))]),
        Turn::text("I do not know."),
        Turn::text("I see."),
        Turn::text("Indeed."),
    ]);
    place.user("[timeouts]\ncall = '300ms'\nlate = '50ms'");
    assert_eq!(place.run(&["ask", "Wait", "--allow", "*"]).code, 5);
    let run = newest(&place);
    let words = [
        "runs",
        "settle",
        &run,
        "1",
        "--did-not",
        "--note",
        "the log is empty",
    ];
    assert_eq!(place.run(&words).code, 0);
    let heard = place.run(&["resume", &run]);
    assert_eq!(
        (heard.code, heard.out.as_str()),
        (0, "I see.\n"),
        "{heard:#?}"
    );
    assert!(!heard.err.contains("Nobody knows"), "{}", heard.err);
    let resumed = newest(&place);
    assert_eq!(place.run(&["resume", &resumed, "Really?"]).code, 0);
    let said = messages(&model.requests()[3].body);
    let found: Vec<_> = said
        .iter()
        .filter(|said| said.contains("A person has looked"))
        .collect();
    assert_eq!(found.len(), 1, "{said:?}");
    assert_eq!(
        *found[0],
        format!(
            "user: [a note of this host, not of the user] The outcome of call 1 of the run {run} to `mcp__lab__wait` was unknown. \
             A person has looked: it did not take effect. They say: the log is empty"
        )
    );
}

/// A result that the host had, and did not come to tell.
#[test]
fn a_result_that_was_not_told_is_told_from_the_ledger() {
    let (place, log, model) = scripted(vec![Turn::calls([
        ("mcp__lab__repeat", json!({ "text": "kept" })),
        ("mcp__lab__wait", json!({})),
    ])]);
    let mut command: Command = place.command(&["ask", "Say it", "--allow", "*"]);
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the second call waits", || log.of("tools/call").len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    until("nothing runs", || place.processes().is_empty());
    let other = Model::turns([Turn::text("It said kept.")]);
    place.user(&format!(
        "[model.providers.other]\nkind = 'openai-chat'\nbase_url = '{}'",
        other.base_url()
    ));
    let ran = place.run(&["resume", &newest(&place), "--model", "other:one"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    insta::assert_snapshot!(messages(&other.requests()[0].body).join("\n"), @r#"
    user: Say it
    assistant:  mcp__lab__repeat{"text":"kept"} mcp__lab__wait{}
    tool: [data from lab]
    kept
    tool: Outcome unknown: the call was sent to the server `lab`, but the host stopped before the answer came. It may or may not have taken effect. Do not simply repeat it. Tell the user what is not known.
    "#);
    assert_eq!((model.requests().len(), log.of("tools/call").len()), (1, 2));
}
