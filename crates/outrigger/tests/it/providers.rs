//! The same question to each of the four kinds of providers, with their base URL from configuration.

use outrigger_testkit::provider_server::{Script, Turn};
use serde_json::json;

use crate::model::Model;
use crate::place::Place;

/// Thinks, makes two calls at once, and answers from both results.
fn script() -> Script {
    let calls = [
        (
            "mcp__time__days_between",
            json!({ "start": "2026-12-01", "end": "2027-01-01" }),
        ),
        ("mcp__workspace__read", json!({ "path": "notes.txt" })),
    ];
    Script::new([
        Turn::calls(calls)
            .reasoning("Two things to look up.")
            .usage(300, 100, 20),
        Turn::text("Counted: ${result.0}\nRead: ${result.1}").usage(400, 300, 30),
    ])
}

#[test]
fn all_kinds_answer_alike() {
    for kind in ["openai-chat", "openai-responses", "anthropic", "gemini"] {
        let place = Place::new();
        place.write("project/notes.txt", "buy milk\n");
        let model = Model::turns(script().turns);
        place.user(&format!(
            "[model]\ndefault = 'mine:one'\n[model.providers.mine]\nkind = '{kind}'\nbase_url = '{}'",
            model.base_url()
        ));
        let document = place.json(&["ask", "How long, and what to buy?", "--json"]);
        let answer = document["answer"].as_str().unwrap();
        assert!(
            answer.contains("31") && answer.contains("buy milk"),
            "{kind}: {answer}"
        );
        assert_eq!(document["model"], "mine:one", "{kind}");
        assert_eq!(
            document["usage"],
            json!({ "input": 700, "cached": 400, "output": 50 }),
            "{kind}"
        );
        let outcomes: Vec<_> = document["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["outcome"].clone())
            .collect();
        assert_eq!(outcomes, ["completed", "completed"], "{kind}");
        assert_eq!(model.requests().len(), 2, "{kind}");
    }
}
