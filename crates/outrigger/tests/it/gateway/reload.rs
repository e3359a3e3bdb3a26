//! The configuration is read again while the gateway runs: what stays, what goes, and what is said.

use std::fs::{self, File};
use std::process::Command;

use serde_json::{Value, json};

use super::served::{Line, Served, modern};
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::{Log, lab, scripted};

const CHANGED: &str = "notifications/tools/list_changed";

/// A gateway whose talk goes to a file.
fn gateway(place: &Place, mut command: Command) -> Line {
    command.arg("serve");
    Line::of(
        command,
        File::create(place.root.join("talk")).unwrap().into(),
    )
}

fn talk(place: &Place) -> String {
    fs::read_to_string(place.root.join("talk")).unwrap()
}

#[track_caller]
fn says(place: &Place, words: &str) {
    until(words, || talk(place).contains(words));
}

/// The processes of a server, by its log.
fn pids(log: &Log) -> Vec<String> {
    let log = log.0.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ours = entries.filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let program = line.split('\0').next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        name.starts_with("python") && line.contains(&log)
    });
    ours.map(|process| process.file_name().into_string().unwrap())
        .collect()
}

/// The one process of a server.
#[track_caller]
fn pid(log: &Log) -> String {
    let all = pids(log);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

fn repeat(line: &mut Line, server: &str) -> Value {
    let name = format!("{server}__repeat");
    line.ask(
        "tools/call",
        json!({ "name": name, "arguments": { "text": "still here" } }),
    )
}

fn lists(line: &mut Line, tool: &str) -> bool {
    let listed = line.ask("tools/list", json!({}));
    listed.to_string().contains(&format!("\"{tool}\""))
}

#[test]
fn servers_come_and_go_and_the_others_keep_their_processes() {
    let (place, log) = lab();
    place.user("[policy]\ndefault = 'allow'");
    let mut line = gateway(&place, place.command(&[]));
    line.begin("2025-11-25", json!({}));
    assert!(lists(&mut line, "lab__repeat"));
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let subscription = line.send("subscriptions/listen", modern(wanted));
    line.hears("notifications/subscriptions/acknowledged");
    let before = pid(&log);
    line.heard.clear();

    let (entry, _) = scripted(&place, "lab");
    let (more, more_log) = scripted(&place, "more");
    place.servers(&json!({ "lab": entry, "more": more }));
    says(
        &place,
        "note: the configuration was read again: servers added `more`",
    );
    // The session and the subscription; what came of the start may be told as well.
    let mut who = [false, false];
    until("both hear of it", || {
        let told = line.hears(CHANGED);
        let of = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        who[usize::from(*of == subscription)] = true;
        who == [true, true]
    });
    assert!(lists(&mut line, "more__repeat"));
    assert_eq!(text(&repeat(&mut line, "more")), "still here");
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    assert_eq!(pid(&log), before);

    // Another entry is another process, and one that is not there any more has none.
    let (mut entry, _) = scripted(&place, "lab");
    entry["env"] = json!({ "OTHER": "1" });
    place.servers(&json!({ "lab": entry }));
    says(&place, "removed `more`; changed `lab`");
    until("it is gone", || pids(&more_log).is_empty());
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    assert!(!lists(&mut line, "more__repeat"));
    until("one is left", || pids(&log).len() == 1);
    assert_ne!(pid(&log), before);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
    let events = place.events();
    assert!(
        events.contains(r#""configuration_read","added":["more"]"#),
        "{events}"
    );
    assert!(
        events.contains(r#""configuration_read","removed":["more"],"changed":["lab"]"#),
        "{events}"
    );
}

#[test]
fn a_running_call_ends_with_the_server_that_it_began_with() {
    let place = Place::new();
    let log = Log::at(place.root.join("asker.log"));
    let entry_of_asker = json!({
        "command": "python3", "args": [fixture("asking_server.py"), log.0], "answers": ["elicitation"],
    });
    let (entry, _) = scripted(&place, "lab");
    place.servers(&json!({ "asker": entry_of_asker, "lab": entry }));
    place.user("[policy]\ndefault = 'allow'");
    let mut line = gateway(&place, place.command(&[]));
    line.begin("2025-11-25", json!({ "elicitation": { "form": {} } }));
    assert!(lists(&mut line, "asker__form"));
    let call = line.send(
        "tools/call",
        json!({ "name": "asker__form", "arguments": {} }),
    );
    let asked = line.wait(call);
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let before = pid(&log);

    place.servers(&json!({ "lab": entry }));
    says(&place, "removed `asker`");
    let late = line.ask(
        "tools/call",
        json!({ "name": "asker__form", "arguments": {} }),
    );
    assert!(
        late.get("error").is_some() || late["result"]["isError"] == true,
        "{late}"
    );
    assert_eq!(pid(&log), before);
    let answer = json!({ "action": "accept", "content": { "name": "Ada", "view": "sea" } });
    line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
    let end = line.wait(call);
    assert!(text(&end).contains("Ada"), "{end}");
    until("the server is gone", || pids(&log).is_empty());
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

#[test]
fn the_next_call_is_under_the_new_policy_and_a_broken_file_changes_nothing() {
    let (place, log) = lab();
    place.user("[policy]\ndefault = 'allow'");
    let mut line = gateway(&place, place.command(&[]));
    line.begin("2025-11-25", json!({}));
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    let before = pid(&log);

    let file = "config/outrigger/outrigger.toml";
    place.write(file, "[policy]\ndefault = 'perhaps'\n");
    says(&place, "the one before stays");
    let said = talk(&place);
    assert!(
        said.contains("outrigger.toml") && said.contains("policy.default"),
        "{said}"
    );
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");

    place.write(
        "project/.mcp.json",
        r#"{ "mcpServers": { "lab": { "command": 7 } } }"#,
    );
    place.write(file, "[policy]\ndefault = 'allow'\n");
    says(&place, "`lab` cannot be started");
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");

    let (entry, _) = scripted(&place, "lab");
    place.servers(&json!({ "lab": entry }));
    place.write(file, "[policy]\ndefault = 'deny'\n");
    says(&place, "read again; the servers are the same");
    let refused = repeat(&mut line, "lab");
    assert!(!refused.to_string().contains("still here"), "{refused}");
    assert_eq!(log.of("tools/call").len(), 3);
    assert_eq!(pid(&log), before);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

#[test]
fn a_hook_that_lacks_a_secret_changes_nothing_and_is_named() {
    let (place, _) = lab();
    place.user("[policy]\ndefault = 'allow'");
    let mut line = gateway(&place, place.command(&[]));
    line.begin("2025-11-25", json!({}));
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    place.user("[[hooks.before_call]]\ncommand = ['false']\nenv = { KEY = 'env:NOT_THERE' }");
    says(
        &place,
        "the one before stays: a hook lacks a secret, and may be there to say no",
    );
    let said = talk(&place);
    assert!(said.contains("NOT_THERE"), "{said}");
    assert!(!said.contains("nothing was started"), "{said}");
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    assert_eq!(line.end(), 0);
}

#[test]
fn a_hangup_reads_it_again_and_nobody_trusts_what_came_meanwhile() {
    let place = Place::new();
    let (own, log) = scripted(&place, "own");
    let servers = json!({ "mcpServers": { "own": own } });
    place.write("config/outrigger/mcp.json", servers.to_string());
    place.user("[policy]\ndefault = 'allow'");
    let mut line = gateway(&place, place.wary(&[]));
    line.begin("2025-11-25", json!({}));
    assert_eq!(text(&repeat(&mut line, "own")), "still here");
    let before = pid(&log);
    line.poke("-HUP");
    says(&place, "read again; the servers are the same");
    let (theirs, their_log) = scripted(&place, "theirs");
    place.servers(&json!({ "theirs": theirs }));
    says(&place, "not trusted as they are now");
    says(&place, "servers added `theirs`");
    assert_eq!(text(&repeat(&mut line, "own")), "still here");
    assert_eq!(pid(&log), before);
    assert!(their_log.text().is_empty() && pids(&their_log).is_empty());
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

#[test]
fn clients_of_a_socket_stay_connected() {
    let (place, log) = lab();
    place.user("[policy]\ndefault = 'allow'");
    let path = place.root.join("gate.sock");
    let served = Served::socket(&place, path.to_str().unwrap());
    let mut line = Served::connect_socket(&path);
    line.begin("2025-11-25", json!({}));
    assert!(lists(&mut line, "lab__repeat"));
    let before = pid(&log);
    let (entry, _) = scripted(&place, "lab");
    let (more, _) = scripted(&place, "more");
    place.servers(&json!({ "lab": entry, "more": more }));
    until("it is listed once that is told", || {
        line.hears(CHANGED);
        lists(&mut line, "more__repeat")
    });
    assert_eq!(text(&repeat(&mut line, "more")), "still here");
    assert_eq!(text(&repeat(&mut line, "lab")), "still here");
    assert_eq!(pid(&log), before);
    drop(line);
    drop(served);
    place.assert_nothing_runs();
}
