//! One gate: whoever asks for a call, and whatever changes it on its way, it is decided about once, before
//! it is sent, and ends once.

use outrigger_testkit::provider_server::Turn;
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, fixture};
use crate::scripted::lab;

/// The kinds of the events about calls of the newest run, in order.
fn kinds(place: &Place) -> Vec<String> {
    let runs = place.json(&["runs", "list", "--json"]);
    let shown = place.run(&["runs", "show", runs[0]["id"].as_str().unwrap(), "--json"]);
    let events = shown
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds = events.map(|recorded| recorded["event"]["type"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with("call_")).collect()
}

const ONCE: [&str; 5] = [
    "call_proposed",
    "call_prepared",
    "call_decided",
    "call_intent",
    "call_ended",
];

#[test]
fn every_way_in_passes_the_same_stages() {
    let (place, log) = lab();
    assert_eq!(
        place
            .run(&["call", "lab", "repeat", "text=a", "--allow", "*"])
            .code,
        0
    );
    assert_eq!(kinds(&place), ONCE);
    let model = Model::turns([
        Turn::calls([("mcp__lab__repeat", json!({ "text": "a" }))]),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    assert_eq!(place.run(&["ask", "Say it", "--allow", "*"]).code, 0);
    assert_eq!(kinds(&place), ONCE);

    // A call that a hook has changed is prepared and decided about again, as it is then.
    place.user(&format!(
        "[[hooks.before_call]]\ncommand = ['python3', '{}', '{}', 'shout']",
        fixture("hook.py"),
        place.root.join("hooks.log").display()
    ));
    assert_eq!(
        place
            .run(&["call", "lab", "repeat", "text=a", "--allow", "*"])
            .code,
        0
    );
    let changed = kinds(&place);
    let count = |kind: &str| changed.iter().filter(|known| *known == kind).count();
    assert_eq!(
        (
            count("call_proposed"),
            count("call_decided"),
            count("call_intent"),
            count("call_ended")
        ),
        (1, 1, 1, 1),
        "{changed:?}"
    );
    assert_eq!(log.of("tools/call").len(), 3);

    // And one that policy denies has no intent, whoever asks.
    place.user("[[policy.rule]]\nserver = 'lab'\nwhen = \"args.text != 'a'\"\ndecision = 'deny'");
    assert_eq!(
        place
            .run(&["call", "lab", "repeat", "text=a", "--allow", "*"])
            .code,
        3,
        "as the hook has changed it"
    );
    assert_eq!(log.of("tools/call").len(), 3);
    assert!(!kinds(&place).contains(&"call_intent".to_owned()));
}
