//! What clients are told of without asking.

use serde_json::json;

use super::served::{Line, modern};
use crate::place::{Place, fixture, until};

fn shelf(era: &str) -> Place {
    let place = Place::new();
    let log = place.root.join("shelf.log");
    let entry = json!({ "command": "python3", "args": [fixture("shelf_server.py"), log, era] });
    place.servers(&json!({ "shelf": entry }));
    place.user("[policy]\ndefault = 'allow'");
    place
}

#[test]
fn a_client_of_the_older_era_hears_that_prompts_and_resources_are_others() {
    let place = shelf("legacy");
    let mut line = Line::start(&place, &["serve"]);
    let begun = line.begin("2025-06-18", json!({}));
    for list in ["prompts", "resources"] {
        assert_eq!(begun["result"]["capabilities"][list]["listChanged"], true);
    }
    line.ask("prompts/list", json!({}));
    line.heard.clear();
    // Its coming up may be told of late, and once: the second time it is by what it says.
    for _ in 0..2 {
        line.ask("tools/call", json!({ "name": "shelf__grow" }));
        line.hears("notifications/prompts/list_changed");
        line.hears("notifications/resources/list_changed");
    }
    let prompts = line.ask("prompts/list", json!({})).to_string();
    assert!(prompts.contains("shelf__grown"), "{prompts}");
    assert_eq!(line.end(), 0);
}

#[test]
fn a_client_of_the_newer_era_hears_of_what_it_listens_for() {
    for era in ["legacy", "modern"] {
        let place = shelf(era);
        let mut line = Line::start(&place, &["serve"]);
        // The servers are there: what comes and goes is a change as well.
        line.ask("prompts/list", modern(json!({})));
        let wanted = json!({ "notifications": {
            "promptsListChanged": true,
            "resourceSubscriptions": ["note:///a"],
        } });
        let subscription = line.send("subscriptions/listen", modern(wanted));
        let agreed = line.hears("notifications/subscriptions/acknowledged");
        assert_eq!(
            agreed["params"]["notifications"],
            json!({ "promptsListChanged": true, "resourceSubscriptions": ["note:///a"] }),
            "{era}"
        );
        let updated = line.hears("notifications/resources/updated");
        let named = &updated["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(
            (&updated["params"]["uri"], named),
            (&json!("note:///a"), &json!(subscription))
        );
        // Its coming up may be told of late, and once: the second time it is by what it says.
        line.ask("tools/call", modern(json!({ "name": "shelf__grow" })));
        line.hears("notifications/prompts/list_changed");
        line.ask("tools/call", modern(json!({ "name": "shelf__grow" })));
        let changed = line.hears("notifications/prompts/list_changed");
        let named = &changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(named, &json!(subscription));
        // Resources have changed as well, and nobody wanted to hear of that.
        line.ask("tools/call", modern(json!({ "name": "shelf__touch" })));
        until("the update is told", || {
            let told = line.hears("notifications/resources/updated");
            told["params"]["uri"] == "note:///a"
        });
        let others = line.heard.iter();
        let others = others.filter(|it| it["method"] == "notifications/resources/list_changed");
        assert_eq!(others.count(), 0);
        assert_eq!(line.end(), 0);
    }
}
