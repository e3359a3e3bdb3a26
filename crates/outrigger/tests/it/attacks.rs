//! Servers that attack with text, through the real program: what they say is quarantined, marked,
//! framed or told, and beside each attack stands the honest twin that must still work.

mod changing;
mod claims;
mod hidden;
mod injection;
mod instructions;
mod names;
mod padding;
mod steering;
mod terminal;

use outrigger_testkit::provider_server::Turn;
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, fixture};
use crate::scripted::Log;

/// A place whose servers say what is asked of them: name, and what `hostile_server.py` takes.
fn servers(specs: &[(&str, Value)]) -> (Place, Vec<Log>) {
    let place = Place::new();
    let (mut entries, mut logs) = (json!({}), Vec::new());
    for (index, (name, spec)) in specs.iter().enumerate() {
        let said = place.write(&format!("said-{index}.json"), spec.to_string());
        let log = place.root.join(format!("heard-{index}.log"));
        entries[*name] =
            json!({ "command": "python3", "args": [fixture("hostile_server.py"), said, log] });
        logs.push(Log(log));
    }
    place.servers(&entries);
    (place, logs)
}

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A model that makes these calls, a turn each, and then says goodbye.
fn calling(place: &Place, calls: &[(&'static str, Value)]) -> Model {
    let turns = calls.iter().cloned().map(|call| Turn::calls([call]));
    let model = Model::turns(turns.chain([Turn::text("That is all.")]));
    model.serves(place);
    model
}

/// The server of this name as `tools --json` or `doctor --json` tells it.
#[track_caller]
fn told_of<'a>(servers: &'a Value, name: &str) -> &'a Value {
    servers
        .as_array()
        .unwrap()
        .iter()
        .find(|server| server["server"] == name)
        .unwrap_or_else(|| panic!("{name}: {servers:#}"))
}

/// `tool: reason` of each entry.
fn reasons(list: &Value) -> Vec<String> {
    let entries = list.as_array().unwrap().iter();
    entries
        .map(|entry| {
            let tool = entry["tool"].as_str().unwrap_or("the server");
            format!("{tool}: {}", entry["reason"].as_str().unwrap())
        })
        .collect()
}
