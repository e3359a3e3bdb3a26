//! Prompts, resources and completions through the gateway, for both eras.

use serde_json::{Value, json};

use super::served::{Line, modern_with};
use crate::place::{Place, fixture};

fn place() -> Place {
    let place = Place::new();
    let entry = json!({ "command": "python3", "args": [fixture("conformance_server.py")] });
    let other = json!({ "command": "python3", "args": [fixture("asking_server.py"), place.root.join("log")] });
    place.servers(&json!({ "conf": entry, "other": other }));
    place
}

fn keys(listed: &Value, member: &str, key: &str) -> Vec<String> {
    let entries = listed["result"][member].as_array();
    let entries = entries.unwrap_or_else(|| panic!("no {member}: {listed}"));
    entries
        .iter()
        .map(|entry| entry[key].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn they_are_listed_under_names_that_lead_back() {
    let place = place();
    place.user("[policy]\ndefault = 'allow'");
    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    let prompts = line.ask("prompts/list", json!({}));
    let names = keys(&prompts, "prompts", "name");
    assert!(
        names.contains(&"conf__test_simple_prompt".to_owned()),
        "{names:?}"
    );
    assert!(names.contains(&"other__greet".to_owned()), "{names:?}");
    let uris = keys(&line.ask("resources/list", json!({})), "resources", "uri");
    assert!(
        uris.contains(&"test://static-text".to_owned()) && uris.contains(&"note:1".to_owned()),
        "{uris:?}"
    );
    let templates = keys(
        &line.ask("resources/templates/list", json!({})),
        "resourceTemplates",
        "uriTemplate",
    );
    assert_eq!(templates, ["test://template/{id}/data", "note:{n}"]);

    let arguments = json!({ "arg1": "a", "arg2": "b" });
    let got = line.ask(
        "prompts/get",
        json!({ "name": "conf__test_prompt_with_arguments", "arguments": arguments }),
    );
    assert_eq!(
        got["result"]["messages"][0]["content"]["text"],
        "Prompt with arguments: arg1='a', arg2='b'"
    );
    let read = line.ask("resources/read", json!({ "uri": "test://template/7/data" }));
    assert!(
        read["result"]["contents"][0]["text"]
            .as_str()
            .unwrap()
            .contains("ID: 7"),
        "{read}"
    );
    let missing = line.ask("resources/read", json!({ "uri": "test://nothing" }));
    assert!(missing["error"]["code"].is_i64(), "{missing}");
    let done = line.ask(
        "completion/complete",
        json!({
            "ref": { "type": "ref/prompt", "name": "conf__test_prompt_with_arguments" },
            "argument": { "name": "arg1", "value": "walk" },
        }),
    );
    assert_eq!(
        done["result"]["completion"]["values"],
        json!(["walking", "walker"])
    );
    assert_eq!(line.end(), 0);
}

#[test]
fn a_fetch_that_policy_asks_about_is_asked_of_the_client() {
    let place = place();
    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({ "elicitation": {} }));
    line.ask("resources/list", json!({}));
    for (answer, read) in [("approve", true), ("decline", false)] {
        let id = line.send("resources/read", json!({ "uri": "test://static-text" }));
        let asked = line.wait(id);
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let result = json!({ "action": "accept", "content": { "decision": answer } });
        line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        let end = line.wait(id);
        assert_eq!(end["result"].is_object(), read, "{end}");
    }
    // A prompt whose server asks, for a client that comes back.
    let can = json!({ "elicitation": {} });
    let mut params = json!({ "name": "conf__test_input_required_result_prompt" });
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    let context = json!({ "action": "accept", "content": { "context": "rain" } });
    for answer in [approve, context] {
        let asked = line.ask("prompts/get", modern_with(params.clone(), can.clone()));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let questions = asked["result"]["inputRequests"].as_object().unwrap();
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = json!({ questions.keys().next().unwrap(): answer });
    }
    let got = line.ask("prompts/get", modern_with(params, can));
    assert_eq!(
        got["result"]["messages"][0]["content"]["text"], "Context: rain",
        "{got}"
    );
    assert_eq!(line.end(), 0);
    // One record of each, of who had the last word.
    let events = place.events();
    let of = |kind: &str| {
        let kind = format!(r#""type":"{kind}""#);
        let lines = events.lines().filter(|line| line.contains(&kind));
        lines
            .map(|line| line.contains(r#""by":"client""#))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("resource_read"), of("prompt_fetched")),
        (vec![true, true], vec![true])
    );

    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    let refused = line.ask("resources/read", json!({ "uri": "test://static-text" }));
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("by a rule of its configuration"), "{words}");
    assert_eq!(line.end(), 0);
}
