//! References to secrets: where they may stand, how they are followed, and what is said when not.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use outrigger_host::config::Trust;
use outrigger_host::config::import::rewritten;
use outrigger_host::config::{
    Config, Literal, ProviderState, Reference, Resolver, Unresolved, show,
};
use proptest::prelude::*;

use super::{Place, http, states, stdio};

/// What has these secrets by heart; anything else never comes.
#[derive(Default)]
struct Keeper {
    secrets: BTreeMap<String, String>,
    asked: Mutex<Vec<String>>,
}

impl Keeper {
    fn with(secrets: &[(&str, &str)]) -> Self {
        let secrets = secrets
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            secrets: secrets.collect(),
            ..Self::default()
        }
    }
}

#[async_trait]
impl Resolver for Keeper {
    async fn resolve(&self, reference: &Reference) -> Result<String, Unresolved> {
        let written = reference.to_string();
        self.asked.lock().unwrap().push(written.clone());
        match self.secrets.get(&written) {
            Some(secret) => Ok(secret.clone()),
            None if written == "env:NEVER" => std::future::pending().await,
            None => Err(Unresolved::new("there is none").hint("make one")),
        }
    }
}

fn followed(config: &mut Config, keeper: &Keeper) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let said = runtime.block_on(config.resolve(keeper));
    runtime.block_on(config.resolve_providers(None, keeper));
    let said: Vec<_> = said.iter().map(ToString::to_string).collect();
    said.join("\n")
}

/// Every problem after references were followed.
fn problems(place: &Place, keeper: &Keeper) -> String {
    let mut config = place.load();
    followed(&mut config, keeper);
    let said: Vec<_> = config.all_problems().map(ToString::to_string).collect();
    place.tidy(&said.join("\n"))
}

fn user(text: &str) -> Place {
    Place::with("user/outrigger.toml", text)
}

const EVERYWHERE: &str = r#"
[servers.a]
command = "x"
env = { WHOLE = "env:TOKEN", PART = "pre-${keyring:k}-${age:n}-post", PLAIN = "literal:env:TOKEN", DB = "file:./dev.db" }
[servers.b]
url = "https://h.example/mcp?key=${keyring:k}"
headers = { Authorization = 'Bearer ${cmd:["pass", "show", "a}b"]}' }
oauth.client_secret = "file:~/client"
[servers.c]
url = "file:~/address"
[servers.d]
url = "ws://d.example/${age:n}"
[model.providers.p]
kind = "openai-chat"
base_url = "https://p.example/v1"
key = "age:n"
headers.X = "${keyring:k}"
[[hooks.before_call]]
url = "http://127.0.0.1:1/${keyring:k}"
"#;

fn keeper(place: &Place) -> Keeper {
    let home = |name: &str| format!("file:{}", place.path("home").join(name).display());
    Keeper::with(&[
        ("env:TOKEN", "tok-12345\n"),
        ("keyring:k", "key/1 +"),
        ("age:n", "n1-very-long"),
        (r#"cmd:["pass","show","a}b"]"#, "cmd-secret\r\n"),
        (&home("client"), "client-1"),
        (&home("address"), "https://z.example/secret-part/"),
    ])
}

#[test]
fn references_stand_wherever_a_secret_may() {
    let place = user(EVERYWHERE);
    let mut config = place.load();
    assert_eq!(place.lines(), "");
    let keeper = keeper(&place);
    assert_eq!(
        keeper.asked.lock().unwrap().len(),
        0,
        "loading follows nothing"
    );
    let said = followed(&mut config, &keeper);
    assert_eq!(said, "");
    let env = &stdio(&config, "a").env;
    assert_eq!(env["WHOLE"], "tok-12345");
    assert_eq!(env["PART"], "pre-key/1 +-n1-very-long-post");
    assert_eq!(
        (env["PLAIN"].as_str(), env["DB"].as_str()),
        ("env:TOKEN", "file:./dev.db")
    );
    let b = http(&config, "b");
    assert_eq!(b.url.as_str(), "https://h.example/mcp?key=key%2F1%20%2B");
    assert_eq!(
        b.headers,
        [("Authorization".to_owned(), "Bearer cmd-secret".to_owned())]
    );
    assert_eq!(b.oauth.client_secret.as_ref().unwrap().reveal(), "client-1");
    assert_eq!(
        http(&config, "c").url.as_str(),
        "https://z.example/secret-part/"
    );
    assert_eq!(
        http(&config, "d").url.as_str(),
        "ws://d.example/n1-very-long"
    );
    let ProviderState::Ready(p) = &config.model.providers["p"].state else {
        panic!("{:?}", config.model.providers)
    };
    assert_eq!(p.key.as_ref().unwrap().value, "n1-very-long");
    assert_eq!(p.headers[0].1, "key/1 +");
    assert!(!p.is_incomplete());
    let mut asked = keeper.asked.lock().unwrap().clone();
    asked.retain(|reference| reference == "keyring:k");
    assert_eq!(
        asked.len(),
        2,
        "once for servers and hooks, once for providers"
    );
    for secret in ["tok-12345", "n1-very-long", "client-1"] {
        assert!(config.secrets().contains(&secret.to_owned()), "{secret}");
    }
    let debug = format!("{config:?}");
    assert!(
        !debug.contains("n1-very-long") && !debug.contains("client-1"),
        "{debug}"
    );
}

#[test]
fn what_is_shown_is_the_reference_and_reads_back() {
    let place = user(EVERYWHERE);
    let mut config = place.load();
    let before = show::render(&config, false);
    followed(&mut config, &keeper(&place));
    let after = show::render(&config, false);
    assert_eq!(before, after);
    for part in [
        "env.WHOLE = \"env:TOKEN\"",
        "key = \"age:n\"",
        "oauth.client_secret = \"file:~/client\"",
        "env.PLAIN = \"literal:env:TOKEN\"",
    ] {
        assert!(after.contains(part), "{after}");
    }
    let again = user(&after);
    assert_eq!(again.lines(), "");
    assert_eq!(show::render(&again.load(), false), after);
}

#[test]
fn what_cannot_be_followed_sets_its_server_aside() {
    let place = user(
        r#"
[secrets]
timeout = "20ms"
[servers.none]
command = "x"
env.T = "age:nothing"
[servers.late]
command = "x"
env.T = "env:NEVER"
[servers.empty]
command = "x"
env.T = "keyring:empty"
[servers.lines]
url = "https://h.example/"
headers.X = "keyring:lines"
[servers.address]
url = "keyring:lines"
[servers.good]
command = "x"
env.T = "keyring:good"
[model.providers.p]
kind = "openai-chat"
base_url = "https://p.example/v1"
key = "age:nothing"
"#,
    );
    let keeper = Keeper::with(&[
        ("keyring:empty", " \n"),
        ("keyring:lines", "two\nlines"),
        ("keyring:good", "good-one"),
    ]);
    insta::assert_snapshot!(problems(&place, &keeper), @r"
    user/outrigger.toml:6:9: `servers.none.env.T` refers to `age:nothing`: there is none; make one
    user/outrigger.toml:9:9: `servers.late.env.T` refers to `env:NEVER`: nothing came within 0.0 s; `[secrets] timeout` is how long is waited
    user/outrigger.toml:12:9: `servers.empty.env.T` refers to `keyring:empty`: it is empty
    user/outrigger.toml:15:13: `servers.lines.headers.X` comes to a value with a character that a header cannot carry, such as a line break
    user/outrigger.toml:17:7: `servers.address.url` does not come to an address once its secrets are in it
    user/outrigger.toml:24:7: `model.providers.p.key` refers to `age:nothing`: there is none; make one
    ");
    let mut config = place.load();
    followed(&mut config, &keeper);
    assert_eq!(
        states(&config),
        "none broken, late broken, empty broken, lines broken, address broken, good ready"
    );
}

#[test]
fn what_cannot_be_hidden_is_told() {
    let place = user(
        "[servers.a]\ncommand = 'x'\nargs = ['--flag=plain-text']\nenv = { A = 'keyring:short', B = 'keyring:seen' }",
    );
    let mut config = place.load();
    let keeper = Keeper::with(&[("keyring:short", "12345"), ("keyring:seen", "plain-text")]);
    let said = place.tidy(&followed(&mut config, &keeper));
    insta::assert_snapshot!(said, @r"
    user/outrigger.toml:4:13: `servers.a.env.A` refers to `keyring:short`, which is too short to be kept out of records (fewer than 6 characters)
    user/outrigger.toml:4:34: `servers.a.env.B` refers to `keyring:seen`, which also stands in `args`, where everybody on this machine can read it (`ps`)
    ");
    assert_eq!(states(&config), "a ready");
}

#[test]
fn a_hook_that_lacks_a_secret_is_fatal() {
    let place = user("[[hooks.session_start]]\ncommand = ['x']\nenv.T = 'age:nothing'");
    let mut config = place.load();
    followed(&mut config, &Keeper::default());
    assert_eq!(config.fatal().count(), 1);
}

#[test]
fn references_that_are_wrong_are_told_when_read() {
    let said = user(
        r#"
[servers.a]
command = "x"
args = ["${keyring:k}"]
[servers.b]
command = "x"
env = { A = "cmd:[1]", B = "${file:here}", C = "${age:../x}" }
[model.providers.p]
kind = "openai-chat"
base_url = "https://p.example/v1"
key = "sk-literal-literal"
"#,
    )
    .lines();
    insta::assert_snapshot!(said, @r#"
    user/outrigger.toml:4:9: `servers.a.args[0]` refers to `keyring:k`, and a secret cannot stand here; everybody on this machine can read a command line; give it to the server in `env`
    user/outrigger.toml:7:13: `servers.b.env.A` has a reference `cmd:`, which must be followed by a list in JSON: `cmd:["program", "argument"]`; write `literal:` before a text that is meant as it stands
    user/outrigger.toml:7:28: `servers.b.env.B` has a reference `file:`, which must be followed by a whole path, or one that begins with `~/`; write `literal:` before a text that is meant as it stands
    user/outrigger.toml:7:48: `servers.b.env.C` has a reference `age:`, which must be followed by a name of letters, digits, `.`, `_` and `-` that begins with none of the last two; write `literal:` before a text that is meant as it stands
    user/outrigger.toml:11:7: `model.providers.p.key` is a secret that stands in the file itself; `outrigger secrets import` moves it out; or write a reference such as `env:API_KEY`
    "#);
}

#[test]
fn a_project_has_nothing_followed_for_it_until_it_is_trusted() {
    let mut place = Place::with(
        "project/.mcp.json",
        r#"{ "mcpServers": {
  "cmd": { "command": "x", "env": { "T": "cmd:[\"touch\", \"/tmp/x\"]", "U": "env:TOKEN" } },
  "key": { "url": "https://h.example", "headers": { "X": "${keyring:k}" } }
} }"#,
    );
    place.write(
        "project/.outrigger/outrigger.toml",
        "[[hooks.session_start]]\ncommand = ['x']\nenv.T = 'age:n'",
    );
    let keeper = Keeper::with(&[
        (r#"cmd:["touch","/tmp/x"]"#, "from-cmd"),
        ("env:TOKEN", "tok-12345"),
        ("keyring:k", "key-12345"),
        ("age:n", "age-12345"),
    ]);
    let mut config = place.load();
    followed(&mut config, &keeper);
    assert_eq!(keeper.asked.lock().unwrap().len(), 0);
    assert_eq!(config.references().len(), 0);
    let brings = config.project.as_ref().unwrap().brings.iter();
    let brings: Vec<_> = brings
        .map(|one| format!("{} {}: {}", one.kind, one.name, one.what))
        .collect();
    insta::assert_snapshot!(brings.join("\n"), @r#"
    server cmd: x (with T from cmd:["touch", "/tmp/x"], U)
    server key: https://h.example (with X from ${keyring:k})
    hook session_start: x (with T from age:n)
    "#);
    place.around.trust = Trust::ThisRun;
    let mut config = place.load();
    followed(&mut config, &keeper);
    assert_eq!(keeper.asked.lock().unwrap().len(), 4);
    assert_eq!(stdio(&config, "cmd").env["T"], "from-cmd");
    assert!(config.hooks[0].is_trusted());
}

#[test]
fn literals_that_look_like_secrets_warn() {
    let text = r#"
[servers.a]
command = "x"
args = ["--token", "0f3c9a7be15d2846", "${MY_TOKEN}"]
env = { API_KEY = "0f3c9a7be15d2846", MODE = "fast", GH = "ghp_abcdefghijklmnop1234", NOTE_KEY = "changeme" }
[servers.b]
url = "https://h.example/mcp?api_key=0f3c9a7be15d2846"
headers = { Authorization = "Bearer abcdefgh", X-Team = "red" }
"#;
    let place = user(text).set("MY_TOKEN", "0f3c9a7be15d2846");
    insta::assert_snapshot!(place.lines(), @r"
    user/outrigger.toml:4:20: `servers.a.args[1]` puts a secret on a command line, where everybody on this machine can read it (`ps`); most servers also take it from a variable; give it in `env`
    user/outrigger.toml:4:40: `servers.a.args[2]` puts a secret on a command line, where everybody on this machine can read it (`ps`); most servers also take it from a variable; give it in `env`
    user/outrigger.toml:5:19: `servers.a.env.API_KEY` looks like a secret that stands in the file itself; `outrigger secrets import` moves it out; or write a variable such as `${TOKEN}` yourself
    user/outrigger.toml:5:59: `servers.a.env.GH` looks like a secret that stands in the file itself; `outrigger secrets import` moves it out; or write a variable such as `${TOKEN}` yourself
    user/outrigger.toml:7:7: `servers.b.url` looks like a secret that stands in the file itself; `outrigger secrets import` moves it out; or write a variable such as `${TOKEN}` yourself
    user/outrigger.toml:8:29: `servers.b.headers.Authorization` looks like a secret that stands in the file itself; `outrigger secrets import` moves it out; or write a variable such as `${TOKEN}` yourself
    ");
    let page = place.page();
    assert!(
        !page.contains("0f3c9a7be15d2846") && !page.contains("ghp_abc"),
        "{page}"
    );
    let config = place.load();
    let names: Vec<_> = config.literals.iter().map(Literal::name).collect();
    assert_eq!(names, ["a-API_KEY", "a-GH", "b-url", "b-Authorization"]);
}

/// A file with all its literals moved into the keyring.
fn moved(file: &str, text: &str) -> String {
    let config = Place::with(file, text).load();
    let references: Vec<_> = config
        .literals
        .iter()
        .map(|literal| Reference::Keyring(literal.name()))
        .collect();
    let pairs: Vec<_> = config.literals.iter().zip(&references).collect();
    rewritten(text, &pairs).unwrap_or_else(|error| error.reason)
}

#[test]
fn literals_are_moved_and_nothing_else_changes() {
    insta::assert_snapshot!(moved("user/outrigger.toml", r#"
# mine
[servers.a]   # the first
command = 'x'
env = { API_KEY = '0f3c9a7be15d2846', "Ü" = "ü", GH = "ghp_abcdefghijklmnop1234" } # end
[servers.b]
url = "https://h.example/mcp?api_key=0f3c9a7be15d2846&x=1"
headers.Authorization = "Bearer abcdefgh"
oauth.client_secret = "literal"
"#), @r#"

    # mine
    [servers.a]   # the first
    command = 'x'
    env = { API_KEY = "keyring:a-API_KEY", "Ü" = "ü", GH = "keyring:a-GH" } # end
    [servers.b]
    url = "https://h.example/mcp?api_key=${keyring:b-url}&x=1"
    headers.Authorization = "Bearer ${keyring:b-Authorization}"
    oauth.client_secret = "keyring:b-oauth-client_secret"
    "#);
    insta::assert_snapshot!(moved("user/mcp.json", r#"{
  // mine
  "mcpServers": { "a": { "command": "x", "env": { "API_KEY": "0f3c9a7b\u0065\"15d2846", "B": "b", }, } },
}"#), @r#"
    {
      // mine
      "mcpServers": { "a": { "command": "x", "env": { "API_KEY": "keyring:a-API_KEY", "B": "b", }, } },
    }
    "#);
    insta::assert_snapshot!(moved("user/outrigger.yaml", "servers:\n  a:\n    command: x\n    env:\n      API_KEY: 0f3c9a7be15d2846 # a\n      B_KEY: \"1f3c9a7be15d2846\"\n"), @r#"
    servers:
      a:
        command: x
        env:
          API_KEY: "keyring:a-API_KEY" # a
          B_KEY: "keyring:a-B_KEY"
    "#);
    insta::assert_snapshot!(moved("user/outrigger.toml", "[servers.a]\ncommand = 'x'\nenv.API_KEY = '''0f3c9a7be15d2846'''"), @"the value of `servers.a.env.API_KEY` on line 3 is written in a way that is not changed by itself; change it by hand");
}

fn piece() -> impl Strategy<Value = (String, bool)> {
    ("[a-z ./é]{0,8}", any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn secrets_go_where_their_references_stood(pieces in prop::collection::vec(piece(), 1..6), secret in "[!-~é]{6,12}") {
        let (mut written, mut meant) = (String::from("x"), String::from("x"));
        for (text, referred) in &pieces {
            written.push_str(text);
            meant.push_str(text);
            if *referred {
                written.push_str("${keyring:k}");
                meant.push_str(&secret);
            }
        }
        let place = user(&format!("[servers.a]\ncommand = 'x'\nenv.V = {}", serde_json::Value::from(written)));
        let mut config = place.load();
        followed(&mut config, &Keeper::with(&[("keyring:k", &secret)]));
        prop_assert_eq!(&stdio(&config, "a").env["V"], &meant);
    }

    #[test]
    fn moving_changes_one_value(before in "[a-zé\"\\\\ #]{0,10}", after in "[a-zé\"\\\\ #]{0,10}", secret in "ghp_[a-zA-Z0-9]{20}") {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let text = |value: &str| format!(
            "[servers.a]\ncommand = 'x'\nenv = {{ A = {}, T = {}, Z = {} }} # {}\n",
            quoted(&before), quoted(value), quoted(&after), after.replace('"', "")
        );
        prop_assert_eq!(moved("user/outrigger.toml", &text(&secret)), text("keyring:a-T"));
    }
}
