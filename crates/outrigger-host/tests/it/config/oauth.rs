//! The table `oauth` of a server.

use outrigger_connect::{OAuthFlow, OAuthSettings, Secret};
use outrigger_host::config::show;

use super::{Place, http, states};

const WIKI: &str = r#"
[servers.wiki]
url = "https://wiki.example/mcp"

[servers.wiki.oauth]
client_id = "${CLIENT}"
client_secret = "${CLIENT_SECRET}"
scopes = ["read", "write:pages"]
flow = "client_credentials"
"#;

fn place(text: &str) -> Place {
    Place::toml(text)
        .set("CLIENT", "outrigger-1")
        .set("CLIENT_SECRET", "hush-hush")
}

#[test]
fn everything_about_signing_in_can_be_said() {
    let config = place(WIKI).load();
    assert_eq!(config.all_problems().count(), 0);
    assert_eq!(
        http(&config, "wiki").oauth,
        OAuthSettings {
            client_id: Some("outrigger-1".to_owned()),
            client_secret: Some(Secret::new("hush-hush")),
            scopes: vec!["read".to_owned(), "write:pages".to_owned()],
            flow: OAuthFlow::ClientCredentials,
        }
    );
    assert!(config.secrets().contains(&"hush-hush".to_owned()));
    assert!(!format!("{config:?}").contains("hush-hush"));
}

#[test]
fn it_is_shown_as_it_was_written_and_can_be_read_back() {
    let place = place(WIKI);
    let shown = show::render(&place.load_trusted(), true);
    let wiki = shown.split("\n\n").next().unwrap();
    insta::assert_snapshot!(place.tidy(wiki), @r#"
    [servers.wiki]  # project/.outrigger/outrigger.toml:2
    url = "https://wiki.example/mcp"  # project/.outrigger/outrigger.toml:3
    oauth.client_id = "${CLIENT}"  # project/.outrigger/outrigger.toml:6
    oauth.client_secret = "${CLIENT_SECRET}"  # project/.outrigger/outrigger.toml:7
    oauth.scopes = ["read", "write:pages"]  # project/.outrigger/outrigger.toml:8
    oauth.flow = "client_credentials"  # project/.outrigger/outrigger.toml:9
    "#);
    let again = self::place(wiki).load_trusted();
    assert_eq!(
        http(&again, "wiki").oauth,
        http(&place.load_trusted(), "wiki").oauth
    );
    let json = show::to_json(&place.load_trusted());
    assert_eq!(
        json["servers"]["wiki"]["settings"]["oauth.client_secret"]["value"],
        "${CLIENT_SECRET}"
    );
}

#[test]
fn json_says_it_the_same_way() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"wiki": {"url": "https://wiki.example/mcp", "oauth": {"client_id": "x"}}}}"#,
    );
    let config = place.load();
    assert_eq!(config.all_problems().count(), 0);
    assert_eq!(http(&config, "wiki").oauth.client_id.as_deref(), Some("x"));
}

#[test]
fn what_does_not_fit_is_said() {
    let said = |inner: &str| {
        let place = place(&format!(
            "[servers.a]\nurl = 'https://h.example/'\n{inner}\n"
        ));
        let config = place.load();
        assert_eq!(states(&config), "a broken", "{inner}");
        let said: Vec<_> = config
            .all_problems()
            .map(|problem| {
                place
                    .tidy(&problem.to_string())
                    .replace("project/.outrigger/outrigger.toml:", "")
            })
            .collect();
        assert!(!said.join("").contains("literal"), "{said:?}");
        said.join("\n")
    };
    insta::assert_snapshot!(said("oauth.client_secret = 'literal-secret'"), @"3:23: `servers.a.oauth.client_secret` is a secret that stands in the file itself; `outrigger secrets import` moves it out; or put it into the environment, and write a variable such as `${CLIENT_SECRET}`");
    insta::assert_snapshot!(said("oauth.client_secret = '${NOT_SET}'"), @"3:23: `servers.a.oauth.client_secret` uses `${NOT_SET}`, and no variable `NOT_SET` is set; set `NOT_SET` in the environment, or write `${NOT_SET:-…}` with a default");
    insta::assert_snapshot!(said("oauth.client_secret = '••••'"), @"3:23: `servers.a.oauth.client_secret` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`");
    insta::assert_snapshot!(said("oauth.client_id = ' '"), @"3:19: `servers.a.oauth.client_id` is empty; leave it out where no client is registered; most servers register one");
    insta::assert_snapshot!(said("oauth.flow = 'password'"), @"3:14: `servers.a.oauth.flow` cannot be `password`; it can be `authorization_code`, `client_credentials`");
    insta::assert_snapshot!(said("oauth.flow = 'client_credentials'"), @"3:1: `servers.a.oauth.flow` needs `client_id` and `client_secret`; with `client_credentials` this program signs in for itself, as that client");
    insta::assert_snapshot!(said("oauth.scopes = ['read write']"), @"3:17: `servers.a.oauth.scopes` has `read write`, which is no scope; write each scope as an item of its own");
    insta::assert_snapshot!(said("oauth.scope = 'read'"), @"3:7: unknown key `scope` in `servers.a.oauth`; did you mean `scopes`?");
    insta::assert_snapshot!(said("oauth = true"), @"3:9: `servers.a.oauth` must be a table, found `true`");
}

#[test]
fn a_program_does_not_sign_in() {
    let place = Place::toml("[servers.a]\ncommand = 'x'\noauth.scopes = ['read']\n");
    let config = place.load();
    assert_eq!(states(&config), "a ready");
    let said: Vec<_> = config
        .problems
        .iter()
        .map(|problem| place.tidy(&problem.to_string()))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"project/.outrigger/outrigger.toml:3:1: `servers.a.oauth` is not used: the server is of type `stdio`");
}
