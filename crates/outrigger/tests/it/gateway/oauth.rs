//! An authorization server says who clients are: its keys are fetched, rotated and gone for a while,
//! and what is not signed by them, not for this gateway or not good any more lets nobody in.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};

use super::principals::Somebody;
use super::served::Served;
use super::text;
use crate::place::{Place, Ran, fixture, until};
use crate::scripted::lab;
use crate::servers::Servers;

const AUDIENCE: &str = "https://mcp.example.com/mcp";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of the authorization server.
enum Key {
    P256(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    fn p256() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    fn ed() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn public(&self) -> &[u8] {
        match self {
            Self::P256(pair) => pair.public_key().as_ref(),
            Self::Ed(pair) => pair.public_key().as_ref(),
        }
    }

    fn jwk(&self, id: &str) -> Value {
        let public = self.public();
        match self {
            Self::P256(_) => json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig",
                "x": encoded(&public[1..33]), "y": encoded(&public[33..]) }),
            Self::Ed(_) => json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA",
                "x": encoded(public) }),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::P256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message).unwrap();
                signed.as_ref().to_vec()
            }
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with these claims.
    fn token(&self, id: &str, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "kid": id, "typ": "at+jwt" });
        let message = signed_part(&header, claims);
        let signature = encoded(self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

fn signed_part(header: &Value, claims: &Value) -> String {
    format!(
        "{}.{}",
        encoded(header.to_string()),
        encoded(claims.to_string())
    )
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// An authorization server, as far as a resource server meets it.
struct Issuer {
    id: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let id = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self {
            id: id.clone(),
            keys: Arc::new(Mutex::new(json!({ "keys": [] }))),
            asked: Arc::default(),
        };
        let (keys, asked) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.asked));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                asked.lock().unwrap().push(path.clone());
                let found = match path.as_str() {
                    "/.well-known/openid-configuration" => {
                        json!({ "issuer": id, "jwks_uri": format!("{id}/keys") })
                    }
                    "/keys" => keys.lock().unwrap().clone(),
                    _ => Value::Null,
                };
                let status = if found.is_null() {
                    "404 Not Found"
                } else {
                    "200 OK"
                };
                let body = found.to_string();
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        issuer
    }

    fn publish(&self, keys: &[Value]) {
        *self.keys.lock().unwrap() = json!({ "keys": keys });
    }

    fn claims(&self, subject: &str) -> Value {
        json!({ "iss": self.id, "aud": AUDIENCE, "sub": subject, "exp": now() + 300,
            "scope": "other mcp", "groups": ["staff", "tools"] })
    }

    /// What configuration says of it.
    fn known(&self, place: &Place, more: &str) {
        place.user(&format!(
            "[gateway.oauth]\nissuer = \"{}\"\naudience = \"{AUDIENCE}\"\nscopes = [\"mcp\"]\n{more}",
            self.id
        ));
    }
}

fn with(claims: &Value, member: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[member] = value;
    claims
}

/// Tokens of which none lets anybody in, and what is wrong with each.
fn bad_tokens(
    issuer: &Issuer,
    (key, other, ed): (&Key, &Key, &Key),
    good: &str,
) -> Vec<(&'static str, String)> {
    let claims = issuer.claims("alice");
    let mut told = forgeries((key, other, ed), &claims, good);
    told.extend([
        (
            "another issuer",
            key.token("k", &with(&claims, "iss", json!("http://127.0.0.1:1"))),
        ),
        (
            "two issuers",
            key.token(
                "k",
                &with(&claims, "iss", json!([issuer.id, "http://127.0.0.1:1"])),
            ),
        ),
        (
            "another audience",
            key.token("k", &with(&claims, "aud", json!("https://mcp.example.com"))),
        ),
        (
            "no audience",
            key.token("k", &with(&claims, "aud", Value::Null)),
        ),
        (
            "over",
            key.token("k", &with(&claims, "exp", json!(now() - 60))),
        ),
        ("no end", key.token("k", &with(&claims, "exp", Value::Null))),
        (
            "not yet",
            key.token("k", &with(&claims, "nbf", json!(now() + 120))),
        ),
    ]);
    told
}

/// What is no key for signatures, or none that is known here, is left out.
fn published(key: &Key, ed: &Key) -> [Value; 5] {
    [
        json!({ "kty": "RSA", "kid": "e", "use": "enc", "n": "AQAB", "e": "AQAB" }),
        json!({ "kty": "odd", "kid": "k" }),
        json!({ "kty": "oct", "kid": "shared", "k": encoded("secret") }),
        key.jwk("k"),
        ed.jwk("ed"),
    ]
}

/// Those whose signature is none.
fn forgeries(
    (key, other, ed): (&Key, &Key, &Key),
    claims: &Value,
    good: &str,
) -> Vec<(&'static str, String)> {
    let none = signed_part(&json!({ "alg": "none", "kid": "k" }), claims);
    let hmac = json!({ "alg": "HS256", "kid": "shared" });
    let hmac = signed_part(&hmac, claims);
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"secret");
    let shared = encoded(ring::hmac::sign(&secret, hmac.as_bytes()));
    let confused = json!({ "alg": "HS256", "kid": "k" });
    let confused = signed_part(&confused, claims);
    let public = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.public());
    let with_public = encoded(ring::hmac::sign(&public, confused.as_bytes()));
    let (head, tail) = good.rsplit_once('.').unwrap();
    let changed = with(claims, "sub", json!("user-2"));
    let mut forged = signed_part(
        &json!({ "alg": "ES256", "kid": "k", "typ": "at+jwt" }),
        &changed,
    );
    write!(forged, ".{tail}").unwrap();
    let id_token = signed_part(
        &json!({ "alg": "ES256", "kid": "k", "typ": "dpop+jwt" }),
        claims,
    );
    let id_token = format!("{id_token}.{}", encoded(key.sign(id_token.as_bytes())));
    vec![
        ("no signature", format!("{none}.")),
        ("a shared secret", format!("{hmac}.{shared}")),
        (
            "a public key as a secret",
            format!("{confused}.{with_public}"),
        ),
        ("another's signature", forged),
        ("half of it", head.to_owned()),
        ("another kind", id_token),
        ("another key of that name", other.token("k", claims)),
        ("a key of another kind", ed.token("k", claims)),
    ]
}

#[test]
fn only_good_tokens_let_somebody_in() {
    let (place, _) = lab();
    let issuer = Issuer::start();
    let (key, other) = (Key::p256(), Key::p256());
    let ed = Key::ed();
    issuer.publish(&published(&key, &ed));
    issuer.known(
        &place,
        "subjects = [\"user-*\", \"alice\"]\ngroups = [\"tools\"]",
    );
    let served = Served::start(&place, &["--allow", "*"]);
    let status = |token: &str| {
        let heard = Somebody::with(&served, token).heard("server/discover", json!({}));
        let challenge = heard.header("www-authenticate").unwrap_or_default();
        (heard.status, challenge)
    };
    let claims = issuer.claims("alice");
    let good = key.token("k", &claims);
    let alice = Somebody::with(&served, &good);
    assert_eq!(
        text(&alice.call("lab__repeat", json!({ "text": "a" }))),
        "a"
    );
    assert_eq!(status(&good).0, 200, "and once more, as it is remembered");
    assert_eq!(status(&ed.token("ed", &claims)).0, 200);
    let several = with(&claims, "aud", json!(["https://other.example", AUDIENCE]));
    assert_eq!(status(&key.token("k", &several)).0, 200);
    let listed = with(&with(&claims, "scope", Value::Null), "scp", json!(["mcp"]));
    assert_eq!(status(&key.token("k", &listed)).0, 200);

    let told = bad_tokens(&issuer, (&key, &other, &ed), &good);
    for (what, token) in told {
        let (status, challenge) = status(&token);
        assert_eq!(status, 401, "{what}: {challenge}");
        assert!(
            challenge.contains("error=\"invalid_token\""),
            "{what}: {challenge}"
        );
        let place = "resource_metadata=\"http://127.0.0.1:";
        assert!(challenge.contains(place), "{what}: {challenge}");
    }
    for (what, claims) in [
        (
            "a scope is missing",
            with(&claims, "scope", json!("mcpx other")),
        ),
        ("somebody else", with(&claims, "sub", json!("bob"))),
        ("nobody", with(&claims, "sub", Value::Null)),
        ("no group", with(&claims, "groups", json!(["staff"]))),
    ] {
        let (status, challenge) = status(&key.token("k", &claims));
        assert_eq!(status, 403, "{what}: {challenge}");
        let scope = what.starts_with("a scope");
        assert_eq!(
            challenge.contains("error=\"insufficient_scope\""),
            scope,
            "{challenge}"
        );
        assert!(challenge.contains("scope=\"mcp\""), "{challenge}");
    }
}

#[test]
fn what_is_told_of_the_resource_leads_to_the_authorization_server() {
    let (place, _) = lab();
    let issuer = Issuer::start();
    issuer.known(&place, "");
    let served = Served::start(&place, &[]);
    let heard = served.modern_heard("tools/list", json!({}));
    assert_eq!(heard.status, 401);
    let challenge = heard.header("www-authenticate").unwrap();
    let (_, rest) = challenge.split_once("resource_metadata=\"").unwrap();
    let place_of = rest.split('"').next().unwrap();
    let path = place_of.split_once("/.well-known").unwrap().1;
    assert_eq!(path, "/oauth-protected-resource/mcp");
    for path in ["/mcp", ""] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let told = served.request("GET", &path, &[], b"").json();
        assert_eq!(told["authorization_servers"], json!([issuer.id]));
        assert_eq!(told["scopes_supported"], json!(["mcp"]));
        assert_eq!(told["resource"], served.place);
    }
    let elsewhere = "/.well-known/oauth-protected-resource/other";
    assert_eq!(served.request("GET", elsewhere, &[], b"").status, 404);
    assert!(
        issuer.asked.lock().unwrap().is_empty(),
        "nothing is fetched for nobody"
    );
}

#[test]
fn what_is_said_of_the_authorization_server_can_be_said_anew() {
    let (place, _) = lab();
    let issuer = Issuer::start();
    let key = Key::p256();
    issuer.publish(&[key.jwk("k")]);
    issuer.known(&place, "");
    let file = place.root.join("config/outrigger/outrigger.toml");
    let first = std::fs::read_to_string(&file).unwrap();
    let served = Served::start(&place, &["--allow", "*"]);
    let claims = issuer.claims("alice");
    let token = key.token("k", &claims);
    let alice = Somebody::with(&served, &token);
    let status = |somebody: &Somebody<'_>| somebody.heard("server/discover", json!({})).status;
    let session = alice.session();
    let ping = json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" });
    assert_eq!(alice.within(&session, &ping).status, 200);

    // Something else changes: what is known of the authorization server stays.
    let asked = issuer.asked.lock().unwrap().len();
    std::fs::write(
        &file,
        format!("# Moved down.\n{first}\n[gateway]\nidle = '1h'"),
    )
    .unwrap();
    served.reload();
    until("it is read again", || {
        served.talk().contains("was read again")
    });
    assert_eq!(alice.within(&session, &ping).status, 200);
    assert_eq!(issuer.asked.lock().unwrap().len(), asked);

    let other = "https://other.example.com/mcp";
    std::fs::write(&file, first.replace(AUDIENCE, other)).unwrap();
    served.reload();
    until("the token is for another audience", || {
        status(&alice) == 401
    });
    let token = key.token("k", &with(&claims, "aud", json!(other)));
    let again = Somebody::with(&served, &token);
    assert_eq!(status(&again), 200);
    assert_eq!(again.within(&session, &ping).status, 404, "it is over");

    let moved = Issuer::start();
    moved.publish(&[key.jwk("k")]);
    std::fs::write(&file, first.replace(&issuer.id, &moved.id)).unwrap();
    served.reload();
    until("the issuer is another one", || status(&again) == 401);
    let token = key.token("k", &moved.claims("alice"));
    assert_eq!(status(&Somebody::with(&served, &token)), 200);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn keys_are_rotated_and_are_not_fetched_for_every_name() {
    let (place, _) = lab();
    let issuer = Issuer::start();
    let (old, new) = (Key::p256(), Key::p256());
    issuer.publish(&[old.jwk("old")]);
    issuer.known(&place, "");
    place.user("[gateway]\nurl = \"https://mcp.example.com/mcp\"");
    let served = Served::start(&place, &["--allow", "*"]);
    let heard = |token: &str| Somebody::with(&served, token).heard("server/discover", json!({}));
    let claims = issuer.claims("alice");
    assert_eq!(heard(&old.token("old", &claims)).status, 200);
    // The name of the gateway is told as configuration has it.
    let challenge = heard("x").header("www-authenticate").unwrap();
    let place = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
    assert!(challenge.contains(place), "{challenge}");
    issuer.publish(&[old.jwk("old"), new.jwk("new")]);
    assert_eq!(heard(&new.token("new", &claims)).status, 200);
    let fetched = || {
        issuer
            .asked
            .lock()
            .unwrap()
            .iter()
            .filter(|path| *path == "/keys")
            .count()
    };
    assert_eq!(fetched(), 2);
    let other = issuer.claims("bob");
    for number in 0..30 {
        let token = new.token(&format!("made-up-{number}"), &other);
        assert_ne!(heard(&token).status, 200);
    }
    assert!(fetched() <= 4, "{}", fetched());
    assert_eq!(
        heard(&new.token("new", &other)).status,
        200,
        "known keys go on to be"
    );
}

#[test]
fn without_keys_nobody_is_let_in_and_that_is_said() {
    let (place, _) = lab();
    let issuer = Issuer::start();
    let key = Key::p256();
    // No set of keys.
    *issuer.keys.lock().unwrap() = json!({ "error": "later" });
    issuer.known(&place, "");
    let served = Served::start(&place, &[]);
    let token = key.token("k", &issuer.claims("alice"));
    let heard = Somebody::with(&served, &token).heard("server/discover", json!({}));
    assert_eq!(heard.status, 503, "{heard:?}");
    assert!(heard.header("retry-after").is_some() && heard.header("www-authenticate").is_none());
    issuer.publish(&[key.jwk("k")]);
    let heard = Somebody::with(&served, &token).heard("server/discover", json!({}));
    assert_eq!(heard.status, 200, "{heard:?}");
}

#[test]
fn the_python_sdk_with_a_token() {
    let servers = Servers::installed();
    let (place, _) = lab();
    let issuer = Issuer::start();
    let key = Key::p256();
    issuer.publish(&[key.jwk("k")]);
    issuer.known(&place, "");
    let served = Served::start(&place, &["--allow", "*"]);
    for mode in ["legacy", "auto"] {
        let mut client = Command::new(servers.python("python"));
        client.args([&fixture("sdk_client.py"), mode, &served.place]);
        client.env("BEARER", key.token("k", &issuer.claims("auth0|12")));
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = client.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(br#"[["lab__repeat", { "text": "hello" }]]"#)
            .unwrap();
        drop(stdin);
        let ran = Ran::of(child);
        assert_eq!(ran.code, 0, "{ran:#?}");
        assert_eq!(ran.json()["calls"][0]["texts"][0], "hello");
    }
    drop(served);
    let run = place.last_run();
    assert!(run.contains("auth0%7C12"), "{run}");
}
