//! A server with `start = "lazy"`: not started with a run, listed as it was last seen, and started by
//! the call of one of its tools.

use serde_json::{Value, json};

use crate::model::Model;
use crate::place::Place;
use crate::scripted::scripted;
use outrigger_testkit::provider_server::Turn;

#[test]
fn it_is_listed_as_it_was_last_seen_and_a_call_starts_it() {
    let place = Place::new();
    let (entry, log) = scripted(&place, "lab");
    let args: Vec<Value> = entry["args"].as_array().unwrap().clone();
    place.user(&format!(
        "[servers.lab]\ncommand = {}\nargs = {}\nstart = 'lazy'\n",
        entry["command"],
        Value::from(args)
    ));
    let starts = || log.of("initialize").len();
    let state = || {
        let listed = place.json(&["tools", "--json"]);
        let all = listed.as_array().unwrap().clone();
        let lab = all
            .into_iter()
            .find(|server| server["server"] == "lab")
            .unwrap();
        (lab["state"].clone(), lab["tools"].as_array().unwrap().len())
    };
    // Never seen: whoever asks what it has gets it started.
    let kept = place.run(&["call", "lab", "keep", "--args", "{}", "--allow", "*"]);
    assert_eq!((kept.code, starts()), (0, 1), "{kept:#?}");
    let (listed, tools) = state();
    assert_eq!((listed, starts()), (json!("idle"), 1));
    assert!(tools > 0);

    // A model sees its tools, and a call starts it.
    let model = Model::turns([
        Turn::text("nothing to do"),
        Turn::calls([("mcp__lab__keep", json!({}))]),
        Turn::text("${result.0}"),
    ]);
    model.serves(&place);
    let idle = place.run(&["ask", "Nothing.", "--allow", "*"]);
    assert_eq!((idle.code, starts()), (0, 1), "{idle:#?}");
    assert!(
        model.requests()[0]
            .tools()
            .contains(&"mcp__lab__keep".to_owned())
    );
    let made = place.run(&["ask", "Keep it.", "--allow", "*"]);
    assert_eq!((made.code, starts()), (0, 2), "{made:#?}");
    assert!(made.out.contains("kept"), "{made:#?}");
    let doctor = place.run(&["doctor"]);
    assert_eq!(starts(), 3, "{doctor:#?}");
    place.assert_nothing_runs();
}
