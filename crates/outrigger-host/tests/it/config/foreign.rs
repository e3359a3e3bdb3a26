//! Lists of other hosts that nobody wrote: whatever stands where a server is wanted, nothing breaks, and
//! no key gets lost without a word.

use outrigger_host::config::foreign::{self, Host};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Keys that mean something to some host, and some that mean nothing to any.
const KEYS: [&str; 30] = [
    "type",
    "command",
    "args",
    "env",
    "environment",
    "env_vars",
    "cwd",
    "url",
    "httpUrl",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "enabled",
    "disabled",
    "description",
    "timeout",
    "startup_timeout_sec",
    "tool_timeout_sec",
    "includeTools",
    "disabled_tools",
    "oauth",
    "auth",
    "scopes",
    "autoApprove",
    "trust",
    "source",
    "envFile",
    "tools",
    "whatever",
];
/// Texts in which hosts see something.
const TEXTS: [&str; 12] = [
    "stdio",
    "sse",
    "npx",
    "${X}",
    "$Y",
    "{env:Z}",
    "{file:~/x}",
    "${input:a b}",
    "${",
    "file:/x",
    "é$",
    "--token",
];

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!(1e308)),
        prop::sample::select(&TEXTS[..]).prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            prop::sample::select(&KEYS[..]).prop_map(ToOwned::to_owned),
            "[a-z.$ ]{0,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn servers() -> impl Strategy<Value = Map<String, Value>> {
    let server = prop::collection::vec((prop::sample::select(&KEYS[..]), values()), 0..8);
    let server = server.prop_map(|keys| {
        let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
        Value::Object(keys.collect())
    });
    let entry = ("\\PC{0,5}", prop_oneof![4 => server, 1 => values()]);
    prop::collection::vec(entry, 0..4).prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #[test]
    fn whatever_stands_there_costs_no_more_than_itself(servers in servers(), inputs in values()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.json");
        for host in Host::ALL.into_iter().filter(|host| *host != Host::Codex) {
            let table = foreign::table_in(host, &file, "");
            let root = json!({ table[0]: servers, "inputs": inputs });
            std::fs::write(&file, root.to_string()).unwrap();
            let found = foreign::read(host, &file, folder.path()).unwrap().unwrap();
            // opencode takes a server called `servers` for its newer table.
            if host != Host::Opencode {
                prop_assert_eq!(found.servers.len(), servers.len());
            }
            for server in &found.servers {
                let nobody = server.left.iter().filter(|left| left.why.is_empty());
                prop_assert_eq!(nobody.count(), 0);
                let written = servers.get(&server.name).and_then(|it| it.get("whatever"));
                if written.is_some_and(|value| !value.is_null()) {
                    let named = server.left.iter().any(|left| left.key.ends_with(".whatever"));
                    prop_assert!(named, "{:?}", server);
                }
            }
        }
    }
}
