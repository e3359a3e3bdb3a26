//! Models that cannot be had.

use outrigger_testkit::provider_server::Turn;

use crate::model::Model;
use crate::place::{Place, Ran};

fn said(place: &Place, ran: &Ran) -> String {
    let errors = ran
        .err
        .lines()
        .skip_while(|line| !line.starts_with("error:"))
        .collect::<Vec<_>>()
        .join("\n");
    place.tidy(&format!("exit {}\n{errors}", ran.code))
}

#[cfg(not(feature = "local"))]
#[test]
fn no_model_at_all() {
    let place = Place::new();
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?"])), @"
    exit 4
    error: no model is available
    hint: set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY`, `GOOGLE_API_KEY`, `DEEPSEEK_API_KEY` or `OPENROUTER_API_KEY`
    hint: or start Ollama with a model installed
    hint: or build with `--features local` for a model that needs no key
    ");
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?", "--model", "local"])), @"
    exit 4
    error: this build has no local model
    hint: build it with `--features local`
    ");
}

#[test]
fn models_that_are_not_there() {
    let place = Place::new();
    let asked = |model: &str| said(&place, &place.run(&["ask", "Anybody?", "--model", model]));
    insta::assert_snapshot!(asked("opnai:gpt-5"), @"
    exit 2
    error: unknown model provider `opnai`
    hint: did you mean `openai` or `openai-chat`?
    hint: known providers: anthropic, openai, openai-chat, gemini, deepseek, openrouter, ollama, vllm, llamacpp, and `local`
    ");
    insta::assert_snapshot!(asked("anthropic:claude"), @"
    exit 4
    error: `anthropic` needs an API key, and `ANTHROPIC_API_KEY` is not set
    hint: set `ANTHROPIC_API_KEY`
    ");
    insta::assert_snapshot!(asked("ollama"), @"
    exit 4
    error: `ollama` was named without a model, and nothing answers at http://127.0.0.1:1/v1
    hint: `ollama serve` starts the server; `OLLAMA_HOST` says where it is
    ");
}

#[test]
fn a_wrong_key() {
    let place = Place::new();
    let model = Model::turns([Turn::status(401, "Incorrect API key provided: sk-wr***ng")]);
    model.serves(&place);
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?"])), @"
    exit 4
    error: scripted:one: Incorrect API key provided: sk-wr***ng (401 Unauthorized)
    hint: no key was sent to http://127.0.0.1:PORT/v1; configure one for `scripted`
    ");
    assert!(
        place.last_run().contains("ended: failed"),
        "{}",
        place.last_run()
    );

    let named = Model::turns([Turn::status(401, "Incorrect API key provided: sk-wr***ng")]);
    let ran = place.run_with(
        &["ask", "Anybody?", "--model", "openai-chat:gpt-x"],
        |command| {
            command
                .env("OPENAI_BASE_URL", named.base_url())
                .env("OPENAI_API_KEY", "sk-wrong-wrong");
        },
    );
    insta::assert_snapshot!(said(&place, &ran), @"
    exit 4
    error: openai-chat:gpt-x: Incorrect API key provided: sk-wr***ng (401 Unauthorized)
    hint: the key came from `OPENAI_API_KEY` in the environment; check that it is current and meant for http://127.0.0.1:PORT/v1
    ");
    assert!(!ran.err.contains("sk-wrong-wrong"));
}

#[test]
fn a_model_that_stops_in_the_middle() {
    let place = Place::new();
    let model = Model::turns([Turn::body(
        200,
        "text/html",
        "<h1>Welcome to the proxy</h1>",
    )]);
    model.serves(&place);
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?"])), @"
    exit 1
    error: scripted:one: the server answered 200 OK with text/html where a stream of events was expected
    hint: check that the base URL http://127.0.0.1:PORT/v1 is the API of `scripted`
    ");
    let silent = Model::turns([Turn::text("")]);
    place.user(&format!(
        "[model.providers.silent]\nkind = 'openai-chat'\nbase_url = '{}'",
        silent.base_url()
    ));
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?", "--model", "silent:one"])), @"
    exit 1
    error: the model gave no answer
    hint: `outrigger runs show RUN has the particulars
    ");
}

#[test]
fn a_provider_with_an_unknown_kind() {
    let place = Place::new();
    place.user("[model.providers.mine]\nkind = 'telepathy'\nbase_url = 'http://127.0.0.1:1/v1'");
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "Anybody?", "--model", "mine:one"])), @"
    exit 2
    error: the model provider `mine` has the unknown kind `telepathy`
    hint: it is one of `openai-chat`, `openai-responses`, `anthropic`, `gemini`
    ");
}

#[test]
fn a_key_in_the_environment_is_enough() {
    let place = Place::new();
    let model = Model::turns([Turn::text("Here I am.")]);
    let ran = place.run_with(&["ask", "Anybody?"], |command| {
        command
            .env("OPENAI_BASE_URL", model.base_url())
            .env("OPENAI_API_KEY", "sk-any-key-at-all");
    });
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "Here I am.\n"),
        "{ran:#?}"
    );
    assert_eq!(
        model.requests()[0].header("authorization"),
        Some("Bearer sk-any-key-at-all")
    );
}

#[test]
fn the_question_may_come_over_standard_input() {
    use std::io::Write as _;
    let place = Place::new();
    let model = Model::turns([Turn::text("I heard you.")]);
    model.serves(&place);
    let mut command = place.command(&["ask", "-", "--quiet"]);
    let pipe = std::process::Stdio::piped;
    let mut child = command
        .stdin(pipe())
        .stdout(pipe())
        .stderr(pipe())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"Do you hear me?\n")
        .unwrap();
    let ran = Ran::of(child);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "I heard you.\n", "")
    );
    assert_eq!(
        model.requests()[0].question().as_deref(),
        Some("Do you hear me?")
    );
}
