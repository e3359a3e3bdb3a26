//! The table `gateway`: who may connect, and what each one's servers are given.

use std::time::Duration;

use outrigger_connect::TransportSpec;
use outrigger_host::config::{ApprovalWay, Config, EntryState, Mode, show};

use super::Place;

const HASH: &str = "sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn known() -> String {
    format!(
        r#"
[servers.db]
command = "db"
args = ["--as", "me"]
env = {{ TOKEN = "of-everybody", MODE = "fast" }}

[servers.web]
url = "https://web.example/mcp"
headers = {{ Authorization = "Bearer of-everybody", X-Mode = "fast" }}

[gateway]
url = "https://mcp.example.com/mcp"
allowed_hosts = ["mcp.example.com"]
allowed_origins = ["https://app.example.com"]
max_principals = 4
idle = "5m"
limits = {{ concurrent_calls = 9, calls_per_minute = 600 }}
servers.db = {{ concurrent_calls = 3, queue = 0 }}

[gateway.principals.alice]
token = ["{HASH}"]
mode = "plan"
limits = {{ calls_per_minute = 60 }}
servers.db.env.TOKEN = "of-alice"
servers.web.headers.authorization = "Bearer of-alice"

[gateway.oauth]
issuer = "https://id.example.com"
audience = "https://mcp.example.com/mcp"
groups = ["tools"]
"#
    )
}

fn place(text: &str) -> Place {
    Place::with("user/outrigger.toml", text)
}

fn given(config: &Config) -> (String, String, usize) {
    let transport = |name: &str| {
        let entry = config.servers.values().find(|it| it.name.as_str() == name);
        match &entry.unwrap().state {
            EntryState::Ready(settings) => settings.spec.transport.clone(),
            other => panic!("{other:?}"),
        }
    };
    let TransportSpec::Stdio(db) = transport("db") else {
        panic!()
    };
    let TransportSpec::Http(web) = transport("web") else {
        panic!()
    };
    assert_eq!(db.env["MODE"], "fast");
    (
        db.env["TOKEN"].clone(),
        web.headers[0].1.clone(),
        web.headers.len(),
    )
}

#[test]
fn each_principal_has_what_its_entry_says() {
    let config = place(&known()).load();
    assert_eq!(config.fatal().count(), 0, "{:?}", config.problems);
    let gateway = &config.gateway;
    assert!(gateway.knows_anybody());
    assert_eq!(gateway.principals["alice"].tokens[0][31], 0x1f);
    let limits = gateway.limits_of(Some("alice"));
    assert_eq!(
        (limits.concurrent_calls, limits.calls_per_minute),
        (Some(9), Some(60))
    );
    assert_eq!(gateway.limits_of(Some("bob")).calls_per_minute, Some(600));
    assert_eq!(gateway.servers["db"].queue, Some(0));
    let of_all = (
        "of-everybody".to_owned(),
        "Bearer of-everybody".to_owned(),
        2,
    );
    assert_eq!(given(&config), of_all);
    let alice = config.for_principal("alice").unwrap();
    assert_eq!(
        given(&alice),
        ("of-alice".to_owned(), "Bearer of-alice".to_owned(), 2)
    );
    assert_eq!(alice.policy.mode.value, Mode::Plan);
    assert_eq!(given(&config.for_principal("bob").unwrap()), of_all);
    // What is one's own is secret, too.
    assert!(config.secrets().contains(&"of-alice".to_owned()));
    assert!(!format!("{config:?}").contains("of-alice"));
}

#[test]
fn bounds_are_read_and_those_of_servers_are_about_calls_alone() {
    let gateway = place(
        "[gateway]\nmax_message = '1 MiB'\nmax_sessions = 7\nlimits = { sessions = 5, requests = 3 }\n\
         [gateway.principals.alice]\nlimits = { connections = 2 }",
    )
    .load()
    .gateway;
    assert_eq!(gateway.max_message.value, 1 << 20);
    assert_eq!(
        (gateway.max_sessions.value, gateway.max_connections.value),
        (7, 1024)
    );
    let alice = gateway.limits_of(Some("alice"));
    assert_eq!(
        (alice.requests, alice.sessions, alice.connections),
        (Some(3), Some(5), Some(2))
    );
    for (wrong, key) in [
        ("[gateway.servers.db]\nsessions = 3", "sessions"),
        (
            "[gateway]\nlimits = { sessions = 0 }",
            "gateway.limits.sessions",
        ),
        ("[gateway]\nmax_message = 'much'", "gateway.max_message"),
        ("[gateway]\nmax_connections = 0", "gateway.max_connections"),
    ] {
        let config = place(wrong).load();
        let fatal: Vec<_> = config.fatal().map(ToString::to_string).collect();
        assert!(
            fatal.len() == 1 && fatal[0].contains(key),
            "{wrong}: {fatal:?}"
        );
    }
}

#[test]
fn it_is_shown_as_it_was_written_and_can_be_read_back() {
    let text = known()
        .replace("\"of-alice\"", "\"env:ALICE\"")
        .replace("Bearer of-alice", "Bearer ${ALICE}");
    let load = |text: &str| place(text).set("ALICE", "secret-of-alice").load();
    let shown = show::render(&load(&text), false);
    let from = shown.find("[gateway]").unwrap();
    let part = shown[from..].split("\n\n").next().unwrap();
    assert!(!part.contains("secret-of-alice"), "{part}");
    assert!(part.contains("servers.web.headers.authorization"), "{part}");
    let again = load(&format!(
        "{}\n{part}",
        text.split("[gateway]").next().unwrap()
    ));
    assert_eq!(again.fatal().count(), 0, "{part}\n{:?}", again.problems);
    let gateway = |config: &Config| {
        let gateway = config.gateway.clone();
        let alice = &gateway.principals["alice"];
        format!(
            "{:?}",
            (
                gateway.url.map(|it| it.value),
                gateway.limits,
                gateway.servers,
                &alice.tokens,
                alice.limits,
                gateway.oauth.map(|it| it.groups)
            )
        )
    };
    assert_eq!(gateway(&again), gateway(&load(&text)));
    assert_eq!(
        given(&again.for_principal("alice").unwrap()),
        given(&load(&text).for_principal("alice").unwrap())
    );
}

#[test]
fn a_project_has_no_say_in_who_may_connect() {
    let text = format!(
        "[gateway]\nopen_loopback = true\n[gateway.principals.mallory]\ntoken = \"{HASH}\""
    );
    let place = Place::toml(&text);
    for config in [place.load(), place.load_trusted()] {
        assert!(!config.gateway.knows_anybody());
        assert!(!config.gateway.open_loopback.value);
        assert!(
            config
                .problems
                .iter()
                .any(|it| it.to_string().contains("does not count"))
        );
    }
}

#[test]
fn what_cannot_be_meant_ends_everything() {
    for (text, said) in [
        ("[gateway]\nopen = true", "open"),
        ("[gateway.principals.\"../x\"]", "cannot name a principal"),
        (
            "[gateway.principals.a]\ntoken = \"ogt_secret\"",
            "not the hash of a token",
        ),
        (
            "[gateway.principals.a]\nservers.none.env.X = \"1\"",
            "not configured",
        ),
        (
            "[servers.db]\ncommand = \"db\"\n[gateway.principals.a]\nservers.db.headers.X = \"1\"",
            "give it `env`",
        ),
        (
            "[gateway.oauth]\nissuer = \"https://id.example.com\"",
            "no `audience`",
        ),
        (
            "[gateway.oauth]\nissuer = \"id\"\naudience = \"x\"",
            "no address",
        ),
        (
            "[gateway.oauth]\nissuer = \"https://id.example.com\"\naudience = \"x\"\nalgorithms = [\"HS256\"]",
            "HS256",
        ),
        (
            "[gateway]\nallowed_origins = [\"https://app.example.com/x\"]",
            "no origin",
        ),
        (
            &format!(
                "[gateway.principals.a]\ntoken = \"{HASH}\"\n[gateway.principals.b]\ntoken = \"{HASH}\""
            ),
            "that of `a` too",
        ),
    ] {
        let place = place(text);
        let config = place.load();
        let told: Vec<_> = config.fatal().map(ToString::to_string).collect();
        assert!(told.iter().any(|it| it.contains(said)), "{text}: {told:?}");
        assert!(!place.page().contains("ogt_secret"), "{}", place.page());
    }
}

#[test]
fn the_name_of_the_principal_leads_to_its_secrets() {
    let text =
        "[servers.db]\ncommand = \"db\"\nargs = [\"/data/${principal}\"]\nenv.MODE = \"fast\"";
    let mut place = place(text);
    let config = place.load();
    let entry = config.servers.values().next().unwrap();
    assert!(
        matches!(entry.state, EntryState::Broken(_)),
        "it is nobody's"
    );
    assert!(
        place.lines().contains("outrigger serve"),
        "{}",
        place.lines()
    );
    place.around.principal = Some("alice".to_owned());
    let config = place.load();
    match &config.servers.values().next().unwrap().state {
        EntryState::Ready(settings) => match &settings.spec.transport {
            TransportSpec::Stdio(db) => assert_eq!(db.args, ["/data/alice"]),
            _ => panic!(),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_approves_is_said_in_order() {
    let config = Place::new().load();
    assert_eq!(config.gateway.approvals.value, [ApprovalWay::Client]);
    let text = "[gateway]\napprovals = ['queue', 'client']\napproval_timeout = '90s'";
    let config = Place::with("user/outrigger.toml", text).load();
    let gateway = config.gateway;
    let ways = [ApprovalWay::Queue, ApprovalWay::Client];
    assert_eq!(gateway.approvals.value, ways);
    assert_eq!(gateway.approval_timeout.value, Duration::from_secs(90));
    let none = Place::with("user/outrigger.toml", "[gateway]\napprovals = []").load();
    assert_eq!(none.gateway.approvals.value, []);
}

#[test]
fn what_cannot_be_meant_is_an_error_and_a_project_has_no_say() {
    for (text, said) in [
        ("approvals = ['page']", "cannot be `page`"),
        ("approvals = 'queue'", "a list of `client` and `queue`"),
        ("approvals = ['queue', 'queue']", "`queue` is there twice"),
        ("approval = []", "did you mean `approvals`?"),
    ] {
        let place = Place::with("user/outrigger.toml", &format!("[gateway]\n{text}"));
        let lines = place.lines();
        assert!(lines.contains(said), "{text}: {lines}");
        let ways = place.load().gateway.approvals.value;
        assert_eq!(ways, [ApprovalWay::Client], "{text}");
    }
    let text = "[gateway]\napprovals = []";
    let place = Place::with("project/.outrigger/outrigger.toml", text);
    assert_eq!(place.load().gateway.approvals.value, [ApprovalWay::Client]);
    assert!(
        place
            .lines()
            .contains("`gateway` does not count in a file of a project"),
        "{}",
        place.lines()
    );
}
