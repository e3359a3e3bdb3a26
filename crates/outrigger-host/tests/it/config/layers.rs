//! Which file counts.

use outrigger_host::config::{Layer, Severity};

use super::{Place, states, stdio};

fn server(name: &str, command: &str) -> String {
    format!("[servers.{name}]\ncommand = '{command}'\n")
}

#[test]
fn the_nearest_layer_replaces_a_server_as_a_whole() {
    let mut place = Place::new();
    place.write(
        "user/outrigger.toml",
        "[servers.a]\ncommand = 'user'\nargs = ['kept?']\nread_only = true",
    );
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "project"}}}"#,
    );
    let config = place.load();
    assert_eq!(stdio(&config, "a").command, "project");
    assert_eq!(stdio(&config, "a").args.len(), 0);
    assert!(!super::ready(&config, "a").read_only);
    assert_eq!(config.shadowed.len(), 1);
    assert_eq!(config.shadowed[0].origin.layer, Layer::User);
    assert_eq!(config.shadowed[0].by.layer, Layer::Project);
    assert_eq!(config.problems, []);

    let explicit = place.write("mine.toml", server("a", "explicit"));
    place.around.explicit = vec![explicit];
    assert_eq!(stdio(&place.load(), "a").command, "explicit");
    place.write("managed/outrigger.toml", server("a", "managed"));
    let config = place.load();
    assert_eq!(stdio(&config, "a").command, "managed");
    assert_eq!(config.shadowed.len(), 3);
}

#[test]
fn a_broken_nearer_entry_does_not_fall_back() {
    let place = Place::new();
    place.write("user/outrigger.toml", server("a", "user"));
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"args": ["x"]}}}"#,
    );
    assert_eq!(states(&place.load()), "a broken");
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "x", "disabled": true}}}"#,
    );
    assert_eq!(states(&place.load()), "a disabled");
}

#[test]
fn a_replaced_entry_is_not_judged() {
    let place = Place::new();
    place.write("user/outrigger.toml", "[servers.a]\nnonsense = 1");
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    assert_eq!(place.load().all_problems().count(), 0);
}

#[test]
fn two_files_of_one_layer_are_said_and_the_later_one_counts() {
    let place = Place::new();
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "first"}}}"#,
    );
    place.write(
        "project/mcp.json",
        r#"{"mcpServers": {"a": {"command": "second"}}}"#,
    );
    place.write("project/.outrigger/outrigger.toml", server("a", "third"));
    let config = place.load();
    assert_eq!(stdio(&config, "a").command, "third");
    assert_eq!(config.problems.len(), 2);
    assert!(
        config
            .problems
            .iter()
            .all(|problem| problem.severity == Severity::Warning)
    );
    insta::assert_snapshot!(place.tidy(&config.problems[0].render()), @r"
    warning: `a` is configured here and at project/mcp.json:1; this one counts
      project/.outrigger/outrigger.toml:1:10
         |
       1 | [servers.a]
         |          ^
      hint: keep one of the two
    ");
}

#[test]
fn single_values_merge_key_by_key() {
    let mut place = Place::new();
    place.write(
        "user/outrigger.toml",
        "[limits]\nmax_turns = 10\nmax_calls = 20\n[builtin]\necho = true\n[model]\ndefault = 'a:b'\n[model.providers.x]\nkind = 'k'\nkey_env = 'K'",
    );
    place.write(
        "project/.outrigger/outrigger.toml",
        "[limits]\nmax_turns = 5\nmax_time = '10m'\nmax_tokens = 1000\n[builtin]\ntime = false",
    );
    place.around.explicit = vec![place.write(
        "mine.toml",
        "[model.providers.x]\nbase_url = 'http://localhost:1/v1'",
    )];
    let config = place.load();
    assert_eq!(config.limits.max_turns.value, 5);
    assert_eq!(config.limits.max_turns.origin.layer, Layer::Project);
    assert_eq!(config.limits.max_turns.origin.line, 2);
    assert_eq!(config.limits.max_calls.value, 20);
    assert_eq!(config.limits.max_time.value.as_secs(), 600);
    assert_eq!(config.limits.max_tokens.value, Some(1000));
    assert_eq!(config.builtin_servers(), ["workspace", "echo"]);
    assert_eq!(config.model.default.as_ref().unwrap().value, "a:b");
    let outrigger_host::config::ProviderState::Ready(provider) = &config.model.providers["x"].state
    else {
        panic!("the provider is not ready");
    };
    assert_eq!(
        provider.base_url.as_ref().unwrap().value.as_str(),
        "http://localhost:1/v1"
    );
    assert!(provider.key_env.is_none(), "a provider merges as a whole");
}

#[test]
fn a_project_does_not_choose_the_model() {
    let place = Place::new();
    place.write("user/outrigger.toml", "[model]\ndefault = 'mine:a'");
    place.write(
        "project/.outrigger/outrigger.toml",
        "[model]\ndefault = 'theirs:b'\n[model.providers.theirs]\nbase_url = 'http://h.example/v1'\nkey_env = 'OPENAI_API_KEY'",
    );
    let config = place.load();
    assert_eq!(config.model.default.as_ref().unwrap().value, "mine:a");
    assert!(config.model.providers.is_empty());
    insta::assert_snapshot!(place.lines(), @"project/.outrigger/outrigger.toml:1:2: `model` in a file of the project is not used: it decides who reads what you ask, and gets your key; say it in your own `outrigger.toml`, or with `--config`");
}

#[test]
fn a_configured_server_stands_in_place_of_a_built_in_one() {
    assert_eq!(Place::new().load().builtin_servers(), ["time", "workspace"]);
    assert_eq!(
        Place::toml(&server("time", "x")).load().builtin_servers(),
        ["workspace"]
    );
    assert_eq!(
        Place::toml("[servers.time]\nenabled = false")
            .load()
            .builtin_servers(),
        ["workspace"]
    );
}

#[test]
fn off_in_any_spelling_is_off() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"off1": {"disabled": true, "command": "x"}, "off2": {"enabled": false, "nonsense": 1},
            "on1": {"disabled": false, "command": "x"}, "on2": {"enabled": true, "command": "x"}}}"#,
    );
    assert_eq!(
        states(&place.load()),
        "off1 disabled, off2 disabled, on1 ready, on2 ready"
    );
}

#[test]
fn without_any_file_there_are_the_defaults() {
    let mut place = Place::new();
    place.around.user_dir = None;
    place.around.managed_dir = None;
    place.around.home = None;
    let config = place.load();
    assert!(config.servers.is_empty());
    assert_eq!(config.limits.max_turns.value, 40);
    assert_eq!(config.limits.max_calls.value, 200);
    assert_eq!(config.limits.max_tokens.value, None);
    assert_eq!(config.limits.max_time.value.as_secs(), 1800);
    assert_eq!(config.problems, []);
}
