//! `[gateway]`: who may connect to `outrigger serve`, as whom, how much each may do, and who approves it.
//!
//! Promises: nothing here comes from a project's files, trusted or not; of a token only its hash is
//! known. Leaves out: looking at what a client shows (the gateway does).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use indexmap::IndexMap;
use outrigger_connect::{ServerName, TransportSpec};
use url::Url;

use super::gap::{Gap, Slot};
use super::origin::{Origin, Setting};
use super::policy::Mode;
use super::problem::ConfigProblem;
use super::server::{EntryState, ServerSettings, WrittenKey};
use super::{Config, Severity};

/// Principals that have their servers started at one time, unless configuration says otherwise.
const PRINCIPALS: usize = 32;
/// How long the servers of a principal that does nothing are kept.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How long something waits in the queue of approvals.
const APPROVAL: Duration = Duration::from_mins(10);
/// Bytes of one message of a client.
const MESSAGE: usize = 16 << 20;
/// Sessions of all principals.
const SESSIONS: usize = 32 << 10;
/// Connections of all clients.
const CONNECTIONS: usize = 1024;
/// How long calls that are under way have to end.
const DRAIN: Duration = Duration::from_secs(10);

/// `[gateway]`.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Where clients reach it, where that is not the address that it listens at.
    pub url: Option<Setting<Url>>,
    /// What `Host` may name besides this machine.
    pub allowed_hosts: Vec<String>,
    /// Pages that may connect, as browsers name them in `Origin`, besides those of this machine.
    pub allowed_origins: Vec<String>,
    /// On loopback nobody need show who they are, although there are principals.
    pub open_loopback: Setting<bool>,
    /// Principals whose servers are started, at most.
    pub max_principals: Setting<usize>,
    /// Bytes of one message of a client. 16 MiB by default.
    pub max_message: Setting<usize>,
    /// Clients that have begun a session over HTTP, of all principals. 32,768 by default.
    pub max_sessions: Setting<usize>,
    /// Connections at one time, over HTTP and the socket. 1,024 by default.
    pub max_connections: Setting<usize>,
    /// How long the servers of a principal that does nothing are kept.
    pub idle: Setting<Duration>,
    /// Who is asked where a rule asks, one after the other until somebody answers; with none left, what
    /// was wanted is refused. The client alone by default.
    pub approvals: Setting<Vec<ApprovalWay>>,
    /// How long something waits in the queue. 10 minutes by default.
    pub approval_timeout: Setting<Duration>,
    /// How long calls that are under way have to end when the gateway is asked to. 10 seconds by default.
    pub drain_timeout: Setting<Duration>,
    /// What each principal may do at one time, unless its own entry says otherwise.
    pub limits: ClientLimits,
    /// What all clients together may do to a server at one time.
    pub servers: IndexMap<String, ClientLimits>,
    /// Those who are known by name.
    pub principals: IndexMap<String, PrincipalSettings>,
    /// Who says who others are.
    pub oauth: Option<OAuthResource>,
    pub(crate) written: Vec<WrittenKey>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            open_loopback: Setting::builtin(false),
            max_principals: Setting::builtin(PRINCIPALS),
            max_message: Setting::builtin(MESSAGE),
            max_sessions: Setting::builtin(SESSIONS),
            max_connections: Setting::builtin(CONNECTIONS),
            idle: Setting::builtin(IDLE),
            approvals: Setting::builtin(vec![ApprovalWay::Client]),
            approval_timeout: Setting::builtin(APPROVAL),
            drain_timeout: Setting::builtin(DRAIN),
            limits: ClientLimits::default(),
            servers: IndexMap::new(),
            principals: IndexMap::new(),
            oauth: None,
            written: Vec::new(),
        }
    }
}

impl GatewaySettings {
    /// Whether a client can show who it is.
    pub fn knows_anybody(&self) -> bool {
        self.oauth.is_some()
            || self
                .principals
                .values()
                .any(|principal| !principal.tokens.is_empty())
    }

    /// What a principal may do at one time.
    pub fn limits_of(&self, principal: Option<&str>) -> ClientLimits {
        let own = principal.and_then(|name| self.principals.get(name));
        own.map_or(self.limits, |own| own.limits.or(self.limits))
    }
}

/// A way to somebody who may approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalWay {
    /// The client that makes the call, by elicitation.
    Client,
    /// Whoever looks at the queue of approvals.
    Queue,
}

impl ApprovalWay {
    pub(super) const WORDS: [(&'static str, Self); 2] =
        [("client", Self::Client), ("queue", Self::Queue)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Queue => "queue",
        }
    }
}

/// How much may be done. `None`: what the program takes as a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Calls at one time.
    pub concurrent_calls: Option<usize>,
    /// Calls in a minute, on average; as many may come at once.
    pub calls_per_minute: Option<u32>,
    /// Calls that wait for one of the others to end.
    pub queue: Option<usize>,
    /// Requests of one client that take their time, at one time; of principals.
    pub requests: Option<usize>,
    /// Clients that have begun a session over HTTP; of principals.
    pub sessions: Option<usize>,
    /// Connections over HTTP; of principals.
    pub connections: Option<usize>,
}

impl ClientLimits {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            concurrent_calls: self.concurrent_calls.or(others.concurrent_calls),
            calls_per_minute: self.calls_per_minute.or(others.calls_per_minute),
            queue: self.queue.or(others.queue),
            requests: self.requests.or(others.requests),
            sessions: self.sessions.or(others.sessions),
            connections: self.connections.or(others.connections),
        }
    }
}

/// `[gateway.principals.NAME]`.
#[derive(Debug, Clone)]
pub struct PrincipalSettings {
    /// SHA-256 of each of its tokens.
    pub tokens: Vec<[u8; 32]>,
    /// How freely its calls may act, where that is not said for all.
    pub mode: Option<Setting<Mode>>,
    /// The profile that it sees, within what `--profile` leaves.
    pub profile: Option<Setting<String>>,
    /// What it may do at one time.
    pub limits: ClientLimits,
    /// What its servers are given in the place of what they are given for others.
    pub servers: IndexMap<String, Credentials>,
    /// Where it begins.
    pub origin: Origin,
}

/// What one server is given for one principal. Its Debug form has names only.
#[derive(Clone, Default)]
pub struct Credentials {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) written: Vec<WrittenKey>,
    /// An error here, until it is known that there is no such thing to say.
    pub(crate) at: Option<ConfigProblem>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Credentials")
            .field("env", &self.env.keys())
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// `[gateway.oauth]`: the authorization server whose tokens are taken (RFC 9068), and what must be in
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthResource {
    /// `iss`, exactly.
    pub issuer: String,
    /// `aud` must hold one of these.
    pub audience: Vec<String>,
    /// Where its keys are; otherwise its metadata says so (RFC 8414, or the discovery of `OpenID` Connect).
    pub jwks_uri: Option<Url>,
    /// The claim that names the principal.
    pub claim: String,
    /// Globs over that name; none: all.
    pub subjects: Vec<String>,
    /// The claim that lists groups.
    pub groups_claim: String,
    /// The token must have one of these; none: any.
    pub groups: Vec<String>,
    /// The token must have all of these.
    pub scopes: Vec<String>,
    /// Signatures that are taken (RFC 7518).
    pub algorithms: Vec<String>,
    /// Where it begins.
    pub origin: Origin,
}

impl OAuthResource {
    /// Whether it says the same, wherever that is written.
    pub fn is_like(&self, other: &Self) -> bool {
        let here = Self {
            origin: other.origin.clone(),
            ..self.clone()
        };
        here == *other
    }
}

impl Config {
    /// The configuration for calls of one principal: its mode, and what its servers are given. An error
    /// names what cannot be used.
    pub fn for_principal(&self, name: &str) -> Result<Self, super::ModeRefused> {
        let mut config = self.clone();
        let Some(principal) = self.gateway.principals.get(name) else {
            return Ok(config);
        };
        if let Some(mode) = &principal.mode {
            config.policy.choose_mode(mode.value)?;
        }
        for (server, credentials) in &principal.servers {
            let entry = config
                .servers
                .values_mut()
                .find(|entry| entry.name.as_str() == server);
            if let Some(entry) = entry
                && let EntryState::Ready(settings) = &mut entry.state
            {
                credentials.give(settings);
            }
        }
        Ok(config)
    }

    /// The profile that the entry of a principal names.
    pub fn profile_of(&self, principal: &str) -> Option<&str> {
        let entry = self.gateway.principals.get(principal)?;
        entry.profile.as_ref().map(|profile| profile.value.as_str())
    }

    /// Whether the entry of a principal says how freely its calls may act.
    pub fn has_mode(&self, principal: &str) -> bool {
        let entry = self.gateway.principals.get(principal);
        entry.is_some_and(|entry| entry.mode.is_some())
    }

    /// Complains about what principals' servers are given and cannot take.
    pub(crate) fn check_credentials(&mut self) {
        let mut problems = Vec::new();
        for (name, principal) in &self.gateway.principals {
            for (server, credentials) in &principal.servers {
                let entry = ServerName::new(server)
                    .ok()
                    .and_then(|server| self.servers.get(&server));
                let misfit = match entry.map(|entry| &entry.state) {
                    None => Some("names a server that is not configured"),
                    Some(EntryState::Ready(settings) | EntryState::NeedsTrust(settings)) => {
                        credentials.misfit(&settings.spec.transport)
                    }
                    Some(_) => None,
                };
                if let (Some(misfit), Some(at)) = (misfit, &credentials.at) {
                    let mut problem = at.clone();
                    problem.severity = Severity::Error;
                    problem.message =
                        format!("`gateway.principals.{name}.servers.{server}` {misfit}");
                    problems.push(problem);
                }
            }
        }
        self.problems.extend(problems);
    }
}

impl Credentials {
    fn misfit(&self, transport: &TransportSpec) -> Option<&'static str> {
        match transport {
            TransportSpec::Stdio(_) if !self.headers.is_empty() => {
                Some("has `headers`, and the server is a program: give it `env`")
            }
            TransportSpec::Http(_) | TransportSpec::Sse(_) | TransportSpec::WebSocket(_)
                if !self.env.is_empty() =>
            {
                Some("has `env`, and the server has an address: give it `headers`")
            }
            _ => None,
        }
    }

    /// Puts these in the place of what the server is given otherwise.
    fn give(&self, settings: &mut ServerSettings) {
        let gaps = &mut settings.gaps;
        match &mut settings.spec.transport {
            TransportSpec::Stdio(stdio) => {
                gaps.retain(
                    |gap| !matches!(&gap.slot, Slot::Env(name) if self.env.contains_key(name)),
                );
                stdio.env.extend(self.env.clone());
                gaps.extend(self.gaps.iter().cloned());
            }
            TransportSpec::Http(http)
            | TransportSpec::Sse(http)
            | TransportSpec::WebSocket(http) => {
                for (at, (name, value)) in self.headers.iter().enumerate() {
                    let is_it = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
                    let place = http.headers.iter().position(is_it);
                    let place = place.unwrap_or(http.headers.len());
                    match http.headers.get_mut(place) {
                        Some(header) => header.1.clone_from(value),
                        None => http.headers.push((name.clone(), value.clone())),
                    }
                    gaps.retain(|gap| gap.slot != Slot::Header(place));
                    let own = self.gaps.iter().filter(|gap| gap.slot == Slot::Header(at));
                    gaps.extend(own.map(|gap| gap.at(Slot::Header(place))));
                }
            }
            TransportSpec::InProcess(_) => {}
        }
        for written in &self.written {
            settings.written.retain(|known| known.path != written.path);
            settings.written.push(written.clone());
        }
    }
}
