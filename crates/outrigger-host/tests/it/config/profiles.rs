//! `[profiles.NAME]`: which file counts, what is left of a configuration under one.

use outrigger_host::config::show;

use super::Place;

const USER: &str = r#"
[servers.notes]
command = "notes"
[servers.search]
command = "search"
[servers.time]
command = "own-clock"

[profiles.clock]
description = "a clock"
servers = ["time"]
tools = ["mcp__time__*", "mcp__x[ab]"]
[profiles.all]
[profiles.none]
servers = []
"#;

#[test]
fn only_what_is_named_is_left() {
    let config = Place::with("user/outrigger.toml", USER).load();
    let left = |name: &str| {
        let config = config.with_profile(name).unwrap();
        let servers = config.servers.keys().map(ToString::to_string);
        let servers: Vec<_> = servers.collect();
        format!("{servers:?} {:?}", config.builtin_servers())
    };
    assert_eq!(left("clock"), r#"["time"] []"#);
    assert_eq!(left("all"), r#"["notes", "search", "time"] ["workspace"]"#);
    // The built-in clock does not come back in the place of the one that is hidden.
    assert_eq!(left("none"), "[] []");
    let both = config
        .with_profile("clock")
        .unwrap()
        .with_profile("all")
        .unwrap();
    assert_eq!(both.servers.len(), 1);
    assert!(both.hiding_tool("mcp__notes__read").is_some());
    assert!(both.hiding_tool("mcp__xb").is_none());
    assert_eq!(both.hiding_server("notes").unwrap().name, "clock");
    let unknown = config.with_profile("clok").unwrap_err();
    assert_eq!(
        format!("{unknown}; {}", unknown.hint()),
        "there is no profile `clok`; configured are `clock`, `all`, `none`"
    );
}

#[test]
fn it_is_shown_and_can_be_read_back() {
    let place = Place::with("user/outrigger.toml", USER);
    let shown = show::render(&place.load(), false);
    let again = Place::with("user/outrigger.toml", &shown).load();
    assert_eq!(again.fatal().count(), 0, "{shown}");
    let (_, profiles) = shown.split_once("\n[profiles").unwrap();
    insta::assert_snapshot!(format!("[profiles{profiles}"), @r#"
    [profiles.clock]
    description = "a clock"
    servers = ["time"]
    tools = ["mcp__time__*", "mcp__x[ab]"]

    [profiles.all]

    [profiles.none]
    servers = []
    "#);
    let json = show::to_json(&again.with_profile("clock").unwrap());
    assert_eq!(json["profile"], serde_json::json!(["clock"]));
    assert_eq!(json["profiles"]["clock"]["servers"][0], "time");
}

#[test]
fn the_nearer_one_counts_but_not_one_of_an_untrusted_folder() {
    let place = Place::with("user/outrigger.toml", USER);
    place.write(
        "project/.outrigger/outrigger.toml",
        "[profiles.none]\nservers = [\"*\"]\n[profiles.own]\nservers = [\"n*\"]\n",
    );
    let wary = place.load();
    assert_eq!(wary.with_profile("none").unwrap().servers.len(), 0);
    assert_eq!(wary.with_profile("own").unwrap().servers.len(), 1);
    let trusting = place.load_trusted();
    assert_eq!(trusting.with_profile("none").unwrap().servers.len(), 3);
}
