//! The search of tools that a model's provider has, with other people's servers; and what is learned from
//! the tokens that a provider reports.

use outrigger_testkit::provider_server::{RecordedRequest, Turn};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::Place;
use crate::servers::Servers;

const CREATE: &str = "mcp__memory__create_entities";
const READ: &str = "mcp__memory__read_graph";

/// A provider of this kind with a model of this name, and two servers of many tools.
fn place(model: &Model, kind: &str, name: &str, more: &str) -> Place {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({
        "memory": servers.memory(&place.root.join("graph.json")),
        "files": servers.files(&place.project()),
    }));
    place.user(&format!(
        "[discovery]\nmode = 'always'\n[model]\ndefault = 'mine:{name}'\n[model.providers.mine]\nkind = '{kind}'\nbase_url = '{}'\n{more}",
        model.base_url()
    ));
    place
}

const KINDS: [(&str, &str); 2] = [
    ("anthropic", "claude-sonnet-5-5"),
    ("openai-responses", "gpt-5.6-sol"),
];

fn create() -> (&'static str, Value) {
    let lamp = json!({ "name": "lamp", "entityType": "thing", "observations": ["it is on"] });
    (CREATE, json!({ "entities": [lamp] }))
}

/// The deferred tools of a request, by their names.
fn deferred(request: &RecordedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap().iter();
    let each = tools.flat_map(|tool| match tool["tools"].as_array() {
        Some(tools) => tools.iter().collect::<Vec<_>>(),
        None => vec![tool],
    });
    let deferred = each.filter(|tool| tool["defer_loading"] == true);
    deferred
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// What is declared, and how: the deferred tools are those that may be called, and not needed at once.
fn assert_left_to_search(kind: &str, requests: &[RecordedRequest]) {
    let first = deferred(&requests[0]);
    assert!(
        first.contains(&CREATE.to_owned()) && first.len() > 15,
        "{kind}: {first:?}"
    );
    // Neither what policy denies, nor what is shown at once, nor the host's own search.
    assert!(!requests[0].text.contains("delete_entities"), "{kind}");
    assert!(
        !first.contains(&"mcp__time__current_time".to_owned()),
        "{kind}: {first:?}"
    );
    assert!(
        requests[0]
            .tools()
            .contains(&"mcp__time__current_time".to_owned()),
        "{kind}"
    );
    assert!(!requests[0].text.contains("search_tools"), "{kind}");
    assert_eq!(
        requests[0].body["tools"], requests[2].body["tools"],
        "{kind}"
    );
}

#[test]
fn a_provider_finds_what_a_model_needs_and_the_rest_stays_out_of_its_context() {
    for (kind, name) in KINDS {
        let model = Model::turns([
            Turn::calls([create()])
                .searching(["create entities in the graph"])
                .reasoning("Something that remembers."),
            Turn::calls([(READ, json!({}))]).searching(["read the whole graph"]),
            Turn::text("Known: ${result.0}"),
            Turn::text("Still known."),
        ]);
        let place = place(
            &model,
            kind,
            name,
            "[[policy.rule]]\ntool = 'mcp__memory__delete_*'\ndecision = 'deny'",
        );
        let words = [
            "ask",
            "Remember the lamp.",
            "--tool-search",
            "provider",
            "--allow",
            "*",
            "--stats",
        ];
        let ran = place.run(&words);
        assert_eq!(ran.code, 0, "{kind}: {ran:#?}");
        assert!(ran.out.contains("it is on"), "{kind}: {ran:#?}");

        assert_left_to_search(kind, &model.requests());
        assert!(
            ran.err.contains("left to the provider's search"),
            "{kind}: {}",
            ran.err
        );
        let shown = place.last_run();
        assert!(
            shown.contains("more left to the provider's search"),
            "{kind}: {shown}"
        );
        assert!(
            shown.contains(&format!("the provider's search found {CREATE}")),
            "{kind}: {shown}"
        );

        // Later, in another run, with what was found.
        let runs = place.json(&["runs", "list", "--json"]);
        let id = runs[0]["id"].as_str().unwrap();
        let again = place.run(&["resume", id, "And now?", "--tool-search", "provider"]);
        assert_eq!(again.code, 0, "{kind}: {again:#?}");
        assert!(again.out.contains("Still known."), "{kind}: {again:#?}");
        place.assert_nothing_runs();
    }
}

#[test]
fn what_is_deferred_is_not_counted_before_it_is_found() {
    let model = Model::turns([
        Turn::calls([create()]).searching(["create entities"]),
        Turn::text("Done."),
    ]);
    let place = place(&model, "anthropic", "claude-sonnet-5-5", "");
    place.write(
        "config/outrigger/outrigger.toml",
        format!(
            "[discovery]\nmode = 'always'\nsearch = 'provider'\n[model]\ndefault = 'mine:claude-sonnet-5-5'\n[model.providers.mine]\nkind = 'anthropic'\nbase_url = '{}'\n",
            model.base_url()
        ),
    );
    let ran = place.run(&["ask", "Remember the lamp.", "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let counted: Vec<Value> = place
        .events()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|event| {
            event
                .pointer("/event/counted")
                .or(event.get("counted"))
                .cloned()
        })
        .collect();
    let of = |turn: usize| {
        let servers = counted[turn]["servers"].as_array().unwrap();
        let memory = servers
            .iter()
            .find(|server| server["server"] == "memory")
            .unwrap()
            .clone();
        let number = |key: &str| memory.get(key).and_then(Value::as_u64).unwrap_or(0);
        (number("tools"), number("deferred"), number("tokens"))
    };
    let ((tools, before, nothing), (_, after, something)) = (of(0), of(1));
    assert_eq!((before, nothing), (tools, 0), "{counted:#?}");
    assert!(after < before && something > 0, "{counted:#?}");
}

#[test]
fn a_model_without_one_is_named_and_the_programs_own_search_is_used() {
    for (kind, name, why) in [
        (
            "openai-chat",
            "gpt-5.6-sol",
            "the Chat Completions API has no tool search",
        ),
        (
            "openai-responses",
            "gpt-4o",
            "models have tool search since gpt-5.4",
        ),
        (
            "anthropic",
            "claude-3-5-haiku-latest",
            "models have tool search since Claude 4.5",
        ),
    ] {
        let model = Model::turns([Turn::text("Nothing to do.")]);
        let place = place(&model, kind, name, "");
        let ran = place.run(&["ask", "Hello", "--tool-search", "provider"]);
        assert_eq!(ran.code, 0, "{ran:#?}");
        let told =
            format!("warning: `mine:{name}`: its provider's search of tools is not used: {why}");
        assert!(ran.err.contains(&told), "{}", ran.err);
        assert!(
            model.requests()[0]
                .tools()
                .contains(&"search_tools".to_owned()),
            "{kind}"
        );
        assert!(
            !model.requests()[0].text.contains("defer_loading"),
            "{kind}"
        );
        assert!(
            place
                .last_run()
                .contains("its provider's search of tools is not used"),
            "{kind}"
        );
        place.assert_nothing_runs();
    }
}

#[test]
fn a_run_that_goes_on_without_the_search_says_nothing_of_it() {
    for (kind, name) in KINDS {
        let model = Model::turns([
            Turn::calls([create()]).searching(["create entities"]),
            Turn::text("Done."),
            Turn::text("Still done."),
        ]);
        let place = place(&model, kind, name, "");
        let ran = place.run(&[
            "ask",
            "Remember.",
            "--tool-search",
            "provider",
            "--allow",
            "*",
        ]);
        assert_eq!(ran.code, 0, "{kind}: {ran:#?}");
        let runs = place.json(&["runs", "list", "--json"]);
        let id = runs[0]["id"].as_str().unwrap();
        let again = place.run(&["resume", id, "And now?"]);
        assert_eq!(again.code, 0, "{kind}: {again:#?}");
        let last = model.requests().pop().unwrap();
        assert!(
            last.text.contains("create_entities")
                && last.tools().contains(&"search_tools".to_owned())
        );
        for word in ["server_tool_use", "tool_search_", "\"namespace\""] {
            assert!(!last.text.contains(word), "{kind}: {word}");
        }
        place.assert_nothing_runs();
    }
}

#[test]
fn a_turn_that_the_provider_pauses_goes_on() {
    let pause = outrigger_testkit::provider_server::Stop::Paused;
    let model = Model::turns([
        Turn::text("Let me see. ")
            .searching(["create entities"])
            .stop(pause),
        Turn::calls([create()]),
        Turn::text("Done."),
    ]);
    let place = place(&model, "anthropic", "claude-sonnet-5-5", "");
    let ran = place.run(&[
        "ask",
        "Remember.",
        "--tool-search",
        "provider",
        "--allow",
        "*",
    ]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(model.requests().len(), 3);
    assert!(ran.out.contains("Done."), "{ran:#?}");
}

#[test]
fn estimates_learn_from_what_is_reported_and_say_so() {
    // Twice what is estimated, whatever that is: the second run estimates with the first one's report.
    let model = Model::turns([
        Turn::text("One.").usage(9_000, 1_000, 10),
        Turn::text("Two.").usage(0, 0, 0),
    ]);
    let place = place(&model, "anthropic", "claude-sonnet-5-5", "");
    place.write(
        "config/outrigger/outrigger.toml",
        format!(
            "[discovery]\nmode = 'never'\n[model]\ndefault = 'mine:claude-sonnet-5-5'\n[model.providers.mine]\nkind = 'anthropic'\nbase_url = '{}'\n",
            model.base_url()
        ),
    );
    let tokens = || {
        place.json(&[
            "tools",
            "--tokens",
            "--model",
            "mine:claude-sonnet-5-5",
            "--json",
        ])
    };
    let before = tokens();
    assert_eq!(
        (&before["exact"], &before["corrected_by"]),
        (&json!(false), &json!(0))
    );
    for _ in 0..2 {
        let ran = place.run(&["ask", "Hello"]);
        assert_eq!(ran.code, 0, "{ran:#?}");
    }
    // A report of nothing taught nothing.
    let after = tokens();
    assert_eq!(after["corrected_by"], 1, "{after}");
    assert!(
        after["tokens"].as_u64() > before["tokens"].as_u64(),
        "{before} {after}"
    );
    let told = place
        .run(&["tools", "--tokens", "--model", "mine:claude-sonnet-5-5"])
        .out;
    assert!(
        told.contains("an estimate, corrected by reports of 1 request"),
        "{told}"
    );
    let shown = place.last_run();
    assert!(
        shown.contains("(estimate, corrected by reports of 1 request)"),
        "{shown}"
    );
    assert_only_what_is_true_is_believed(&place);
    assert_eq!(tokens(), before);
}

/// Another model has its own reports, a known vocabulary needs none, and a damaged file says nothing.
fn assert_only_what_is_true_is_believed(place: &Place) {
    let other = place
        .run(&["tools", "--tokens", "--model", "mine:claude-opus-5"])
        .out;
    assert!(
        other.contains("an estimate: the vocabulary is not known"),
        "{other}"
    );
    let exact = place
        .run(&["tools", "--tokens", "--model", "openai:gpt-5.6-sol"])
        .out;
    assert!(exact.contains("counted with o200k"), "{exact}");
    for file in std::fs::read_dir(place.root.join("cache/outrigger/reports")).unwrap() {
        std::fs::write(file.unwrap().path(), "1 99999999 3 1\n").unwrap();
    }
}
