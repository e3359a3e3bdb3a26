//! Other people's servers, through the program: listed, called, looked over, and gone afterwards.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::place::Place;
use crate::servers::Servers;

fn names(server: &Value) -> Vec<&str> {
    server["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

fn of<'a>(servers: &'a Value, name: &str) -> &'a Value {
    let all = servers.as_array().unwrap();
    all.iter()
        .find(|server| server["server"] == name)
        .unwrap_or_else(|| panic!("no `{name}` in {servers:#}"))
}

#[test]
fn servers_of_npm_and_pypi_are_listed_with_what_they_cost() {
    let servers = Servers::installed();
    let place = Place::new();
    let entries = json!({
        "clock": servers.time(), "files": servers.files(&place.project()), "everything": servers.everything(),
    });
    place.servers(&entries);
    let listed = place.json(&["tools", "--json"]);
    place.assert_nothing_runs();

    assert_eq!(
        names(of(&listed, "clock")),
        ["mcp__clock__get_current_time", "mcp__clock__convert_time"]
    );
    assert!(names(of(&listed, "files")).contains(&"mcp__files__read_text_file"));
    assert!(names(of(&listed, "everything")).contains(&"mcp__everything__get-sum"));
    assert!(
        names(of(&listed, "time")).contains(&"mcp__time__current_time"),
        "the built-in one stands beside it"
    );
    for server in listed.as_array().unwrap() {
        let tools = server["tools"].as_array().unwrap();
        let each: u64 = tools
            .iter()
            .map(|tool| tool["tokens"].as_u64().unwrap())
            .sum();
        assert_eq!(server["tokens"], each, "{}", server["server"]);
        assert!(
            tools
                .iter()
                .all(|tool| tool["tokens"].as_u64().unwrap() > 10)
        );
        assert_eq!(
            (&server["state"], &server["set_aside"]),
            (&json!("ready"), &json!([]))
        );
    }
    let all: Vec<&str> = listed.as_array().unwrap().iter().flat_map(names).collect();
    assert_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        all.len(),
        "{all:?}"
    );
    let fits = |name: &&str| {
        name.len() <= 64
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    assert!(all.iter().all(fits), "{all:?}");
}

#[test]
fn a_doctor_sees_the_era_and_version_of_each() {
    let servers = Servers::installed();
    let place = Place::new();
    let (mcp, fastmcp) = (servers.http("http_mcp.py"), servers.http("http_fastmcp.py"));
    place.servers(&json!({
        "clock": servers.time(), "files": servers.files(&place.project()), "everything": servers.everything(),
        "stock": { "type": "http", "url": mcp.url }, "prices": { "url": fastmcp.url },
    }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    let seen = place.json(&["doctor", "--json"]);
    place.assert_nothing_runs();

    let standing = |name: &str| {
        let server = of(&seen["servers"], name);
        ["era", "protocol_version", "server_name"]
            .map(|key| server[key].as_str().unwrap().to_owned())
            .join(" ")
    };
    assert_eq!(standing("clock"), "modern 2026-07-28 mcp-time");
    assert_eq!(
        standing("files"),
        "legacy 2025-11-25 secure-filesystem-server"
    );
    assert_eq!(
        standing("everything"),
        "legacy 2025-11-25 mcp-servers/everything"
    );
    assert_eq!(standing("stock"), "modern 2026-07-28 stock");
    assert_eq!(standing("prices"), "modern 2026-07-28 prices");
    assert_eq!(of(&seen["servers"], "stock")["server_version"], "7.1");
    let counts = &seen["counts"];
    assert_eq!(
        (&counts["configured"], &counts["connected"]),
        (&json!(5), &json!(5))
    );
    let tools: usize = seen["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["tools"].as_array().unwrap().len())
        .sum();
    assert!(tools > 25);
    for layer in ["discovered", "allowed", "active"] {
        assert_eq!(counts[layer], tools, "{layer}");
    }
}

#[test]
fn a_server_that_keeps_something_and_two_of_other_sdks_over_stdio() {
    let servers = Servers::installed();
    let place = Place::new();
    let graph = place.root.join("graph.jsonl");
    place.servers(&json!({
        "memory": servers.memory(&graph),
        "stock": servers.stdio("http_mcp.py"), "prices": servers.stdio("http_fastmcp.py"),
    }));
    let call = |words: &[&str]| {
        let ran = place.run(&[&["call"], words, &["--allow", "*", "--json"]].concat());
        place.assert_nothing_runs();
        let told = ran.json();
        assert_eq!(told["outcome"], "completed", "{told:#}");
        told["words"].as_str().unwrap().to_owned()
    };
    let ada = json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": ["wrote notes"] }] });
    call(&["memory", "create_entities", "--args", &ada.to_string()]);
    assert!(call(&["memory", "read_graph"]).contains("wrote notes"));
    assert!(call(&["stock", "count", "item=bolts"]).contains("12"));
    assert!(call(&["prices", "price", "item=nuts", "amount=4"]).contains('2'));
}

#[test]
fn calls_to_the_servers_of_npm() {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(
        &json!({ "everything": servers.everything(), "files": servers.files(&place.project()) }),
    );
    let call = |words: &[&str]| {
        let ran = place.run(&[&["call"], words, &["--allow", "*", "--json"]].concat());
        place.assert_nothing_runs();
        ran.json()
    };
    let sum = call(&["everything", "get-sum", "a=19", "b=23"]);
    assert_eq!(sum["outcome"], "completed");
    assert!(sum["words"].as_str().unwrap().contains("42"), "{sum:#}");

    let weather = call(&["everything", "get-structured-content", "location=Chicago"]);
    assert!(
        weather["result"]["structuredContent"]["temperature"].is_number(),
        "{weather:#}"
    );

    place.write("project/notes.txt", "two\nlines\n");
    let file = place.project().join("notes.txt").display().to_string();
    let read = call(&["files", "read_text_file", &format!("path={file}"), "head=1"]);
    assert_eq!(read["words"], "[data from files]\ntwo");
    let outside = call(&["files", "read_text_file", "path=/etc/hostname"]);
    assert_eq!(
        (&outside["outcome"], &outside["is_error"]),
        (&json!("completed"), &json!(true))
    );
    assert!(
        outside["words"]
            .as_str()
            .unwrap()
            .contains("outside allowed directories"),
        "{outside:#}"
    );
}

#[test]
fn calls_over_http_and_to_pypi() {
    let servers = Servers::installed();
    let (mcp, fastmcp) = (servers.http("http_mcp.py"), servers.http("http_fastmcp.py"));
    let place = Place::with_servers(&json!({
        "clock": servers.time(), "stock": { "url": mcp.url }, "prices": { "url": fastmcp.url },
    }));
    let allowed =
        |words: &[&str]| place.run(&[&["call"], words, &["--allow", "*", "--quiet"]].concat());
    let count = allowed(&["stock", "count", "item=nuts"]);
    assert_eq!(
        (count.code, count.out.trim(), count.err.as_str()),
        (0, "30", "")
    );
    let price = allowed(&["prices", "price", "item=bolts", "amount=6"]);
    assert_eq!(
        (price.code, price.out.trim(), price.err.as_str()),
        (0, "1.5", "")
    );
    let time = allowed(&[
        "clock",
        "convert_time",
        "source_timezone=Asia/Tokyo",
        "time=20:00",
        "target_timezone=UTC",
    ]);
    assert_eq!(time.code, 0, "{time:#?}");
    assert!(time.out.contains("T11:00:00"), "{}", time.out);
    let failed = allowed(&["stock", "count", "item=cogs"]);
    assert_eq!(failed.code, 1, "{failed:#?}");
    place.assert_nothing_runs();
}

#[test]
fn one_dead_server_costs_the_others_nothing() {
    let servers = Servers::installed();
    let place = Place::with_servers(&json!({
        "clock": servers.time(), "gone": { "command": "no-such-program" }, "away": { "url": "http://127.0.0.1:1/mcp" },
    }));
    let ran = place.run(&["tools", "--json"]);
    assert_eq!(ran.code, 4);
    let listed = ran.json();
    assert_eq!(of(&listed, "gone")["state"], "quarantined");
    assert_eq!(of(&listed, "away")["state"], "quarantined");
    assert_eq!(names(of(&listed, "clock")).len(), 2);
    place.assert_nothing_runs();
}
