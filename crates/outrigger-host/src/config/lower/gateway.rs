//! `[gateway]`. Its keys merge one by one, a principal and `oauth` each as a whole: the nearest file
//! wins. What a project's files say about who may connect does not count. Anything wrong is an error:
//! it may have been there to keep somebody out.

use url::Url;

use super::model::Aside;
use super::policy::mode;
use super::server::Lowering;
use super::transport::Draft;
use crate::config::gateway::{
    ApprovalWay, ClientLimits, Credentials, GatewaySettings, OAuthResource, PrincipalSettings,
};
use crate::config::node::{Entry, Node, Value};
use crate::config::origin::{Layer, Setting};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::server::WrittenKey;
use crate::config::surroundings::Surroundings;
use crate::config::value;

const KEYS: [&str; 16] = [
    "url",
    "allowed_hosts",
    "allowed_origins",
    "open_loopback",
    "max_principals",
    "max_message",
    "max_sessions",
    "max_connections",
    "idle",
    "approvals",
    "approval_timeout",
    "drain_timeout",
    "limits",
    "servers",
    "principals",
    "oauth",
];
const PRINCIPAL: [&str; 5] = ["token", "mode", "profile", "limits", "servers"];
const LIMITS: [&str; 6] = [
    "concurrent_calls",
    "calls_per_minute",
    "queue",
    "requests",
    "sessions",
    "connections",
];
/// Those that are about a server as well.
const OF_SERVERS: usize = 3;
const OAUTH: [&str; 9] = [
    "issuer",
    "audience",
    "jwks_uri",
    "claim",
    "subjects",
    "groups_claim",
    "groups",
    "scopes",
    "algorithms",
];
/// Signatures that can be asked for: none that whoever knows a public key could make.
const ALGORITHMS: [&str; 9] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA",
];
/// What is taken where nothing is said.
const USUAL: [&str; 4] = ["RS256", "PS256", "ES256", "EdDSA"];

/// Takes over what one file says. Files come from the farthest to the nearest.
pub(crate) fn lower(
    report: &mut Report<'_>,
    around: &Surroundings,
    node: &Node,
    gateway: &mut GatewaySettings,
    found: &mut Aside,
) {
    if matches!(report.source.layer, Layer::Project | Layer::TrustedProject) {
        let message =
            "`gateway` does not count in a file of a project: who may connect is not for it to say";
        report
            .warn(node.at, "gateway", message)
            .hint("say it in your own `outrigger.toml`, or with `--config`");
        return;
    }
    for entry in value::table(report, "gateway", node).unwrap_or_default() {
        match entry.key.as_str() {
            "limits" => {
                let path = (&["limits"][..], &LIMITS[..]);
                limits(report, path, &entry.node, &mut gateway.limits).note(gateway);
            }
            "servers" => servers(report, &entry.node, gateway),
            "principals" => principals(report, around, &entry.node, gateway, found),
            "oauth" => {
                let (oauth, written) = oauth(report, entry);
                gateway.forget(&["oauth"]);
                gateway.written.extend(written);
                gateway.oauth = oauth.or(gateway.oauth.take());
            }
            _ => plain(report, entry, gateway),
        }
    }
}

impl GatewaySettings {
    /// What a nearer file says in the place of.
    fn forget(&mut self, path: &[&str]) {
        self.written.retain(|written| {
            !written
                .path
                .iter()
                .map(String::as_str)
                .take(path.len())
                .eq(path.iter().copied())
        });
    }

    fn note(&mut self, written: WrittenKey) {
        self.written.retain(|known| known.path != written.path);
        self.written.push(written);
    }
}

/// Keys that were read.
struct Noted(Vec<WrittenKey>);

impl Noted {
    fn note(self, gateway: &mut GatewaySettings) {
        for written in self.0 {
            gateway.note(written);
        }
    }
}

fn written(report: &Report<'_>, path: &[&str], entry: &Entry) -> WrittenKey {
    let path = path.iter().map(|part| (*part).to_owned());
    WrittenKey {
        path: path.chain([entry.key.clone()]).collect(),
        shown: super::server::shown(&entry.node),
        origin: report.origin(entry.at),
    }
}

fn over<T>(slot: &mut Setting<T>, report: &Report<'_>, entry: &Entry, read: Option<T>) {
    if let Some(value) = read {
        let origin = report.origin(entry.at);
        slot.replace(Setting { value, origin });
    }
}

/// How many of something there may be, or how large.
fn bound(report: &mut Report<'_>, key: &str, entry: &Entry, gateway: &mut GatewaySettings) {
    let node = &entry.node;
    if entry.key == "max_message" {
        let most = value::size(report, key, node);
        return over(&mut gateway.max_message, report, entry, most);
    }
    let most = value::count(report, key, node);
    let slot = match entry.key.as_str() {
        "max_sessions" => &mut gateway.max_sessions,
        "max_connections" => &mut gateway.max_connections,
        _ => &mut gateway.max_principals,
    };
    over(slot, report, entry, most);
}

fn plain(report: &mut Report<'_>, entry: &Entry, gateway: &mut GatewaySettings) {
    let key = join("gateway", &entry.key);
    let node = &entry.node;
    match entry.key.as_str() {
        "url" => {
            let url = address(report, &key, node);
            let origin = report.origin(entry.at);
            let url = url.map(|value| Setting { value, origin });
            gateway.url = url.or(gateway.url.take());
        }
        "allowed_hosts" => {
            let hosts = texts(report, &key, node);
            gateway.allowed_hosts = hosts.unwrap_or_default();
        }
        "allowed_origins" => {
            gateway.allowed_origins = origins(report, &key, node);
        }
        "open_loopback" => {
            let open = value::truth(report, &key, node);
            over(&mut gateway.open_loopback, report, entry, open);
        }
        "max_principals" | "max_message" | "max_sessions" | "max_connections" => {
            bound(report, &key, entry, gateway);
        }
        "idle" => {
            let idle = value::duration(report, &key, node);
            over(&mut gateway.idle, report, entry, idle);
        }
        "approvals" => {
            let ways = ways(report, &key, node);
            over(&mut gateway.approvals, report, entry, ways);
        }
        "approval_timeout" => {
            let patience = value::duration(report, &key, node);
            over(&mut gateway.approval_timeout, report, entry, patience);
        }
        "drain_timeout" => {
            let drain = value::duration(report, &key, node);
            over(&mut gateway.drain_timeout, report, entry, drain);
        }
        _ => return report.unknown(Severity::Error, entry, "gateway", &KEYS),
    }
    let noted = written(report, &[], entry);
    gateway.note(noted);
}

/// Pages, as browsers name them.
fn origins(report: &mut Report<'_>, key: &str, node: &Node) -> Vec<String> {
    let origins = texts(report, key, node).unwrap_or_default();
    for origin in &origins {
        let is_one =
            Url::parse(origin).is_ok_and(|url| url.origin().ascii_serialization() == *origin);
        if !is_one {
            let message = format!(
                "`{key}` has `{}`, which is no origin",
                origin.escape_debug()
            );
            report.error(node.at, key, message).hint(
                "an origin is written as browsers do: `https://app.example.com`, without a path",
            );
        }
    }
    origins
}

/// Who is asked, each once.
fn ways(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Vec<ApprovalWay>> {
    let Value::List(items) = &node.value else {
        report.mismatch(key, node, "a list of `client` and `queue`");
        return None;
    };
    let mut ways = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let key = format!("{key}[{index}]");
        let way = value::word(report, &key, item, &ApprovalWay::WORDS)?;
        if ways.contains(&way) {
            let message = format!("`{}` is there twice", way.as_str());
            report.error(item.at, &key, message);
            return None;
        }
        ways.push(way);
    }
    Some(ways)
}

fn address(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Url> {
    let text = value::text(report, key, node)?;
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.has_host() => Some(url),
        _ => {
            let message = format!("`{key}` is no address: `{}`", text.escape_debug());
            report
                .error(node.at, key, message)
                .hint("it begins with `https://`");
            None
        }
    }
}

/// A list of text, or one.
fn texts(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Vec<String>> {
    if let Value::Text(text) = &node.value {
        return Some(vec![text.clone()]);
    }
    let items = value::list(report, key, node)?;
    Some(items.into_iter().map(|(_, text)| text).collect())
}

/// `known`: the keys that may stand there.
fn limits(
    report: &mut Report<'_>,
    (path, known): (&[&str], &[&str]),
    node: &Node,
    limits: &mut ClientLimits,
) -> Noted {
    let mut noted = Vec::new();
    let table = join("gateway", &path.join("."));
    for entry in value::table(report, &table, node).unwrap_or_default() {
        let key = join(&table, &entry.key);
        let node = &entry.node;
        match entry.key.as_str() {
            word if !known.contains(&word) => {
                report.unknown(Severity::Error, entry, &table, known);
                continue;
            }
            "requests" => limits.requests = value::count(report, &key, node),
            "sessions" => limits.sessions = value::count(report, &key, node),
            "connections" => limits.connections = value::count(report, &key, node),
            "concurrent_calls" => {
                limits.concurrent_calls = value::count(report, &key, node);
            }
            "calls_per_minute" => {
                limits.calls_per_minute = value::count(report, &key, node);
            }
            // None is as good a number as any.
            _ => {
                limits.queue = match &node.value {
                    Value::Number(digits) if digits == "0" => Some(0),
                    _ => value::count(report, &key, node),
                };
            }
        }
        noted.push(written(report, path, entry));
    }
    Noted(noted)
}

/// `[gateway.servers.NAME]`: what all clients together may do to one.
fn servers(report: &mut Report<'_>, node: &Node, gateway: &mut GatewaySettings) {
    for entry in value::table(report, "gateway.servers", node).unwrap_or_default() {
        let mut of_server = ClientLimits::default();
        let path = ["servers", entry.key.as_str()];
        gateway.forget(&path);
        let known = &LIMITS[..OF_SERVERS];
        limits(report, (&path, known), &entry.node, &mut of_server).note(gateway);
        gateway.servers.insert(entry.key.clone(), of_server);
    }
}

fn principals(
    report: &mut Report<'_>,
    around: &Surroundings,
    node: &Node,
    gateway: &mut GatewaySettings,
    found: &mut Aside,
) {
    for entry in value::table(report, "gateway.principals", node).unwrap_or_default() {
        let path = join("gateway.principals", &entry.key);
        if !is_principal_name(&entry.key) {
            let message = format!("`{}` cannot name a principal", entry.key.escape_debug());
            report.error(entry.at, &path, message).hint(
                "a name has letters, digits, `_`, `-`, `.`, `@`, at most 64, and begins with a letter or digit",
            );
            continue;
        }
        gateway.forget(&["principals", &entry.key]);
        let (principal, noted) = principal(report, around, entry, found);
        Noted(noted).note(gateway);
        for token in &principal.tokens {
            let other = gateway
                .principals
                .iter()
                .find(|(name, other)| **name != entry.key && other.tokens.contains(token));
            if let Some((other, _)) = other {
                let message = format!("`{path}.token` is that of `{other}` too");
                report
                    .error(entry.at, &path, message)
                    .hint("`outrigger gateway token NAME` makes one for each");
            }
        }
        gateway.principals.insert(entry.key.clone(), principal);
    }
}

/// Whether a principal may have this name: it can stand in paths and headers.
pub fn is_principal_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(good)
}

fn principal(
    report: &mut Report<'_>,
    around: &Surroundings,
    at: &Entry,
    found: &mut Aside,
) -> (PrincipalSettings, Vec<WrittenKey>) {
    let mut principal = PrincipalSettings {
        tokens: Vec::new(),
        mode: None,
        profile: None,
        limits: ClientLimits::default(),
        servers: indexmap::IndexMap::new(),
        origin: report.origin(at.at),
    };
    let table = join("gateway.principals", &at.key);
    let path = ["principals", at.key.as_str()];
    let mut noted = Vec::new();
    for entry in value::table(report, &table, &at.node).unwrap_or_default() {
        let key = join(&table, &entry.key);
        match entry.key.as_str() {
            "token" => {
                let texts = texts(report, &key, &entry.node).unwrap_or_default();
                let tokens = texts
                    .iter()
                    .map(|text| hash(report, &key, &entry.node, text));
                let tokens: Vec<_> = tokens.collect();
                // What is no hash may be a token, and is shown nowhere.
                if tokens.iter().all(Option::is_some) {
                    noted.push(written(report, &path, entry));
                }
                principal.tokens = tokens.into_iter().flatten().collect();
            }
            "mode" => {
                let mode = mode(report, &key, &entry.node);
                let origin = report.origin(entry.at);
                principal.mode = mode.map(|value| Setting { value, origin });
                noted.push(written(report, &path, entry));
            }
            "profile" => {
                let profile = value::text(report, &key, &entry.node);
                let origin = report.origin(entry.at);
                principal.profile = profile.map(|value| Setting { value, origin });
                noted.push(written(report, &path, entry));
            }
            "limits" => {
                let path = [path[0], path[1], "limits"];
                let own = &mut principal.limits;
                noted.extend(limits(report, (&path, &LIMITS), &entry.node, own).0);
            }
            "servers" => {
                for server in value::table(report, &key, &entry.node).unwrap_or_default() {
                    let credentials = credentials(report, around, (&key, server), found);
                    noted.extend(credentials.written.iter().map(|written| {
                        let inner = written.path.iter().cloned();
                        let outer = [path[0], path[1], "servers", &server.key];
                        WrittenKey {
                            path: outer.map(str::to_owned).into_iter().chain(inner).collect(),
                            ..written.clone()
                        }
                    }));
                    principal.servers.insert(server.key.clone(), credentials);
                }
            }
            _ => report.unknown(Severity::Error, entry, &table, &PRINCIPAL),
        }
    }
    (principal, noted)
}

/// The hash of a token, as `outrigger gateway token` writes it.
fn hash(report: &mut Report<'_>, key: &str, node: &Node, text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:").filter(|it| it.len() == 64);
    let bytes: Option<Vec<u8>> = digits.and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2);
        let pairs = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        pairs.collect()
    });
    let hash = bytes.and_then(|bytes| bytes.try_into().ok());
    if hash.is_none() {
        // What stands there may be a token.
        let message = format!("`{key}` is not the hash of a token (`sha256:` and 64 hex digits)");
        let problem = report.error(node.at, key, message);
        problem
            .hint("`outrigger gateway token NAME` makes a token and the line to put here")
            .excerpt = None;
    }
    hash
}

fn credentials(
    report: &mut Report<'_>,
    around: &Surroundings,
    (table, at): (&str, &Entry),
    found: &mut Aside,
) -> Credentials {
    let path = join(table, &at.key);
    let mut low = Lowering::new(report.source, around, &path);
    let mut draft = Draft::new(at.at);
    for entry in value::table(&mut low.report, &path, &at.node).unwrap_or_default() {
        match entry.key.as_str() {
            key @ ("env" | "headers") => draft.key(&mut low, key, &join(&path, key), entry),
            _ => low
                .report
                .unknown(Severity::Error, entry, &path, &["env", "headers"]),
        }
    }
    let mut problem = report.source.problem(Severity::Error, at.at, String::new());
    problem.key.clone_from(&path);
    let credentials = Credentials {
        env: draft.take_env(),
        headers: draft.take_headers(),
        written: low.take_written(),
        gaps: std::mem::take(&mut low.gaps),
        at: Some(problem),
    };
    found.secrets.extend(low.secrets);
    found.literals.extend(low.literals);
    report.problems.append(&mut low.report.problems);
    credentials
}

fn oauth(report: &mut Report<'_>, at: &Entry) -> (Option<OAuthResource>, Vec<WrittenKey>) {
    let mut oauth = OAuthResource {
        issuer: String::new(),
        audience: Vec::new(),
        jwks_uri: None,
        claim: "sub".to_owned(),
        subjects: Vec::new(),
        groups_claim: "groups".to_owned(),
        groups: Vec::new(),
        scopes: Vec::new(),
        algorithms: USUAL.map(str::to_owned).to_vec(),
        origin: report.origin(at.at),
    };
    let table = "gateway.oauth";
    let mut noted = Vec::new();
    for entry in value::table(report, table, &at.node).unwrap_or_default() {
        let key = join(table, &entry.key);
        let node = &entry.node;
        let slot = match entry.key.as_str() {
            "issuer" => {
                oauth.issuer = address(report, &key, node)
                    .and(value::text(report, &key, node))
                    .unwrap_or_default();
                None
            }
            "jwks_uri" => {
                oauth.jwks_uri = address(report, &key, node);
                None
            }
            "claim" => {
                oauth.claim = value::text(report, &key, node).unwrap_or_default();
                None
            }
            "groups_claim" => {
                oauth.groups_claim = value::text(report, &key, node).unwrap_or_default();
                None
            }
            "audience" => Some(&mut oauth.audience),
            "subjects" => Some(&mut oauth.subjects),
            "groups" => Some(&mut oauth.groups),
            "scopes" => Some(&mut oauth.scopes),
            "algorithms" => Some(&mut oauth.algorithms),
            _ => {
                report.unknown(Severity::Error, entry, table, &OAUTH);
                continue;
            }
        };
        if let Some(slot) = slot {
            *slot = texts(report, &key, node).unwrap_or_default();
        }
        noted.push(written(report, &["oauth"], entry));
    }
    checked(report, at, &oauth);
    (Some(oauth), noted)
}

fn checked(report: &mut Report<'_>, at: &Entry, oauth: &OAuthResource) {
    let table = "gateway.oauth";
    if oauth.issuer.is_empty() {
        report.error(at.at, table, format!("`{table}` has no `issuer`"));
    }
    if oauth.audience.is_empty() {
        report
            .error(at.at, table, format!("`{table}` has no `audience`"))
            .hint("a token that was made for another program would be taken otherwise");
    }
    for algorithm in &oauth.algorithms {
        if !ALGORITHMS.contains(&algorithm.as_str()) {
            let message = format!(
                "`{table}.algorithms` has `{}`, which is not taken",
                algorithm.escape_debug()
            );
            report
                .error(at.at, table, message)
                .hint(format!("it takes {}", ALGORITHMS.join(", ")));
        }
    }
    for glob in &oauth.subjects {
        if let Err(error) = crate::policy::glob(glob) {
            report.error(at.at, table, format!("`{table}.subjects`: {error}"));
        }
    }
}
