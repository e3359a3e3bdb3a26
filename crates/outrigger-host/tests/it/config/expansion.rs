//! Variables, `~` and relative paths.

use super::{Place, http, states, stdio, text};

#[test]
fn variables_are_replaced_where_they_may_stand() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {
  "a": {
    "command": "${BIN}",
    "args": ["${TOKEN_A}", "${UNSET_B:-fallback}", "${EMPTY_C:-dflt}", "${UNSET:-a${TOKEN_A}b}", "$${TOKEN_A}", "$$", "%PATH%",
             "${env:TOKEN_A}", "${workspace}/x", "${workspaceFolder}", "${workspaceFolderBasename}", "${userHome}"],
    "env": {"SECRET": "Bearer ${TOKEN_A}", "PLAIN": "$TOKEN_A costs 5$"},
    "cwd": "${SUB}"
  },
  "b": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN_A}"}}
}}"#,
    )
    .set("BIN", "/bin/x")
    .set("TOKEN_A", "tok-123")
    .set("EMPTY_C", "")
    .set("SUB", "sub")
    .set("HOST", "h.example");
    let config = place.load();
    let spec = stdio(&config, "a");
    assert_eq!(spec.command, "/bin/x");
    let args: Vec<_> = spec
        .args
        .iter()
        .map(|arg| {
            place
                .tidy(&format!("{arg}/"))
                .trim_end_matches('/')
                .to_owned()
        })
        .collect();
    assert_eq!(
        args,
        [
            "tok-123",
            "fallback",
            "dflt",
            "atok-123b",
            "${TOKEN_A}",
            "$$",
            "%PATH%",
            "tok-123",
            "project/x",
            "project",
            "project",
            "home"
        ]
    );
    assert_eq!(spec.env["SECRET"], "Bearer tok-123");
    assert_eq!(spec.env["PLAIN"], "$TOKEN_A costs 5$");
    assert_eq!(spec.cwd, place.path("project/sub"));
    assert_eq!(http(&config, "b").url.as_str(), "https://h.example/mcp");
    assert_eq!(
        http(&config, "b").headers,
        [("Authorization".to_owned(), "Bearer tok-123".to_owned())]
    );
}

#[test]
fn what_a_variable_holds_is_not_expanded_again() {
    let place = Place::toml("[servers.a]\ncommand = 'x'\nargs = ['${A}']")
        .set("A", "${B}")
        .set("B", "no");
    assert_eq!(stdio(&place.load(), "a").args, ["${B}"]);
}

#[test]
fn other_keys_are_taken_as_they_are() {
    let place = Place::toml("[servers.a]\ncommand = 'x'\ndescription = 'costs ${NOTHING}'");
    let config = place.load();
    assert_eq!(
        super::ready(&config, "a").description.as_deref(),
        Some("costs ${NOTHING}")
    );
}

#[test]
fn a_tilde_is_the_home_folder_at_the_start_alone() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "~/bin/x", "args": ["~/data", "~", "a~b", "x=~/no", "~other/y"], "cwd": "~"}}}"#,
    );
    let config = place.load();
    let spec = stdio(&config, "a");
    let home = text(&place.path("home"));
    assert_eq!(spec.command, format!("{home}/bin/x"));
    assert_eq!(
        spec.args,
        [
            format!("{home}/data").as_str(),
            &home,
            "a~b",
            "x=~/no",
            "~other/y"
        ]
    );
    assert_eq!(spec.cwd, place.path("home"));
}

#[test]
fn folders_are_taken_from_the_project_of_the_file() {
    let entry = |name: &str| {
        format!(
            "[servers.{name}]\ncommand = './run'\ncwd = './sub'\n[servers.{name}-plain]\ncommand = 'bin/run'\n"
        )
    };
    let mut place = Place::new();
    place.write("project/.outrigger/outrigger.toml", entry("project"));
    place.write("user/outrigger.toml", entry("user"));
    let elsewhere = place.write("elsewhere/some.toml", entry("elsewhere"));
    let inside = place.write("other/.outrigger/outrigger.toml", entry("inside"));
    place.around.explicit = vec![elsewhere, inside];
    let config = place.load();
    let seen = |name: &str| {
        let spec = stdio(&config, name);
        place.tidy(&format!("{} in {}", spec.command, spec.cwd.display()))
    };
    assert_eq!(seen("project"), "project/sub/run in project/sub");
    assert_eq!(seen("user"), "project/sub/run in project/sub");
    assert_eq!(seen("elsewhere"), "elsewhere/sub/run in elsewhere/sub");
    assert_eq!(seen("inside"), "other/sub/run in other/sub");
    for name in [
        "project-plain",
        "user-plain",
        "elsewhere-plain",
        "inside-plain",
    ] {
        let spec = stdio(&config, name);
        assert_eq!(spec.command, text(&place.path("project/bin/run")));
        assert_eq!(spec.cwd, place.path("project"));
    }
}

#[test]
fn a_server_gets_a_short_environment_and_its_own() {
    let place =
        Place::toml("[servers.a]\ncommand = 'x'\nenv = { ONLY = '1', PATH = '/mine:${PATH}' }")
            .set("UNRELATED_SECRET", "s3cr3t")
            .set("LC_ALL", "C")
            .set("HTTPS_PROXY", "http://proxy:3128")
            .set("XDG_RUNTIME_DIR", "/run/user/1")
            .set("SSH_AUTH_SOCK", "/tmp/agent");
    let config = place.load();
    let env: Vec<_> = stdio(&config, "a")
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    insta::assert_snapshot!(env.join("\n"), @r"
    HOME=/home/of/env
    HTTPS_PROXY=http://proxy:3128
    LC_ALL=C
    ONLY=1
    PATH=/mine:/bin
    ");
}

#[test]
fn nothing_is_expanded_by_a_shell() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "/dir with space/run me.sh", "args": ["two words", "it's \"q\"", "$(touch x); echo", "*"]}}}"#,
    );
    let config = place.load();
    assert_eq!(stdio(&config, "a").command, "/dir with space/run me.sh");
    assert_eq!(
        stdio(&config, "a").args,
        ["two words", "it's \"q\"", "$(touch x); echo", "*"]
    );
    assert_eq!(states(&config), "a ready");
    assert_eq!(config.problems, []);
}
