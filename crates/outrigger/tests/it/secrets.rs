//! A secret goes where it was configured to go, and nowhere else: no output, no log, no journal.

use std::fs;

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran};
use crate::scripted::{Log, scripted};
use crate::servers::Servers;

const TOKEN: &str = "tok-5f1e0c9a-very-secret";
const BEARER: &str = "bearer-77aa31-very-secret";
const KEY: &str = "key-90d3b2-very-secret";

/// A server that was given a secret and tells it to anybody, and one that has it in a header.
fn place(http: &str) -> (Place, Log) {
    let place = Place::new();
    let (mut lab, log) = scripted(&place, "lab");
    lab["env"] = json!({ "TOKEN": "${LAB_TOKEN}" });
    place.servers(&json!({
        "lab": lab, "stock": { "url": http, "headers": { "Authorization": "Bearer ${STOCK_BEARER}" } },
    }));
    (place, log)
}

fn run(place: &Place, words: &[&str]) -> Ran {
    place.run_with(words, |command| {
        command
            .env("LAB_TOKEN", TOKEN)
            .env("STOCK_BEARER", BEARER)
            .env("MODEL_KEY", KEY);
    })
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for secret in [TOKEN, BEARER, KEY] {
        assert!(!text.contains(secret), "{what} tells {secret}:\n{text}");
    }
}

#[track_caller]
fn assert_journal_clean(place: &Place) {
    let folder = place.journal().parent().unwrap().to_path_buf();
    for entry in fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_file())
    {
        assert_clean(
            &entry.path().display().to_string(),
            &String::from_utf8_lossy(&fs::read(entry.path()).unwrap()),
        );
    }
}

#[test]
fn no_command_tells_a_secret() {
    let http = Servers::installed().http("http_mcp.py");
    let (place, _log) = place(&http.url);
    let mut said = String::new();
    for words in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["tools", "--json"],
        &["tools", "lab"],
        &["doctor"],
        &["doctor", "--json"],
        &["call", "stock", "count", "item=bolts", "--allow", "*"],
        &["call", "lab", "keep", "--allow", "*", "--json"],
        &["call", "lab", "tell_secret", "--allow", "*"],
        &["call", "lab", "tell_secret", "--allow", "*", "--json"],
        &["runs", "list"],
    ] {
        let ran = run(&place, &[words, &["-vv"]].concat());
        assert_eq!(ran.code, 0, "{words:?}: {ran:#?}");
        assert_clean(
            &format!("{words:?}"),
            &[ran.out.as_str(), &ran.err].concat(),
        );
        said.push_str(&ran.out);
    }
    assert!(
        said.contains("${LAB_TOKEN}"),
        "the name of the variable is shown: {said}"
    );
    assert!(said.contains("started with [redacted]"), "{said}");
    assert_clean("the run", &place.last_run());
    assert_journal_clean(&place);
}

#[test]
fn a_server_that_fails_with_its_secret_on_its_lips() {
    let place = Place::with_servers(&json!({ "loud": {
        "command": "sh", "args": ["-c", "echo cannot log in with $TOKEN >&2; exit 1"], "env": { "TOKEN": "${LAB_TOKEN}" },
    } }));
    for words in [
        &["tools"][..],
        &["tools", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["call", "loud", "x"],
    ] {
        let ran = run(&place, &[words, &["-vv"]].concat());
        assert_eq!(ran.code, 4, "{words:?}: {ran:#?}");
        assert_clean(
            &format!("{words:?}"),
            &[ran.out.as_str(), &ran.err].concat(),
        );
    }
    assert_clean("the run", &place.last_run());
    assert_journal_clean(&place);
}

#[test]
fn no_question_tells_a_secret_to_the_model_or_the_journal() {
    let http = Servers::installed().http("http_mcp.py");
    let (place, log) = place(&http.url);
    let model = Model::answering(|number, request| match number {
        0 => Turn::calls([
            ("mcp__lab__tell_secret", json!({})),
            ("mcp__stock__count", json!({ "item": "nuts" })),
        ]),
        _ => Turn::text(format!("It said: {}", request.results().join(" and "))),
    });
    place.user(&format!(
        "[model]\ndefault = 'scripted:one'\n[model.providers.scripted]\nkind = 'openai-chat'\nbase_url = '{}'\nkey_env = 'MODEL_KEY'",
        model.base_url()
    ));
    for words in [
        &["ask", "Tell me", "--allow", "*", "--stats", "-vv"][..],
        &["ask", "Tell me", "--allow", "*", "--json", "-vv"],
    ] {
        let ran = run(&place, words);
        assert_eq!(ran.code, 0, "{ran:#?}");
        assert_clean(
            &format!("{words:?}"),
            &[ran.out.as_str(), &ran.err].concat(),
        );
    }
    let requests = model.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    for request in &requests {
        assert_clean("a request to the model", &request.text);
    }
    assert!(
        requests[1].results()[0].contains("started with [redacted]"),
        "{:?}",
        requests[1].results()
    );
    assert_clean("the run", &place.last_run());
    assert_journal_clean(&place);
    assert!(
        !log.text().contains(KEY) && !log.text().contains(BEARER),
        "a server heard another's secret"
    );
}

#[test]
fn servers_get_their_own_secrets_and_no_others() {
    let place = Place::with_servers(
        &json!({ "env": { "command": "sh", "args": ["-c", "env >&2; exit 1"] } }),
    );
    let ran = place.run_with(&["doctor"], |command| {
        command
            .env("OPENAI_API_KEY", KEY)
            .env("GITHUB_TOKEN", TOKEN);
    });
    assert_eq!(ran.code, 4);
    assert!(
        ran.out.contains("| PATH=") || ran.out.contains("| HOME="),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains("OPENAI_API_KEY") && !ran.out.contains("GITHUB_TOKEN"),
        "{}",
        ran.out
    );
}
