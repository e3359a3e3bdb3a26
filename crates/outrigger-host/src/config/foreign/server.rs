//! One server's table in another host's file: from that host's keys to ours.

use indexmap::IndexMap;

use super::settings::{Address, Settings, Text, Timeouts};
use super::words::{self, Input, Place};
use super::{ForeignServer, Host, Left, inside};
use crate::config::node::{Entry, Node, Value};
use crate::config::report::join;
use crate::config::secret;
use crate::config::source::Source;

/// Why lists of what may be called without asking stay where they are.
const NO_PERMISSION: &str =
    "what may be called without asking is not taken over; a rule in `[policy]` says it here";

/// Why an entry that `install` has written is not taken.
const OURSELVES: &str = "it is this program itself";

/// Reads one entry.
pub(super) fn read(
    host: Host,
    inputs: &[Input],
    source: &Source,
    path: &str,
    entry: &Entry,
) -> ForeignServer {
    let mut draft = Draft::new(host, inputs, path);
    let mut settings = draft.read(&entry.node);
    if let Ok(Settings {
        address: Address::Network { url, .. },
        ..
    }) = &settings
        && leads_here(&entry.key, &url.value)
    {
        settings = Err(OURSELVES.to_owned());
    }
    ForeignServer {
        host,
        file: source.path.clone(),
        line: entry.at.line,
        key: path.to_owned(),
        name: entry.key.clone(),
        settings,
        left: draft.left,
    }
}

/// What has been read of an entry.
struct Draft<'a> {
    host: Host,
    inputs: &'a [Input],
    path: &'a str,
    left: Vec<Left>,
    /// Why the server cannot be had.
    broken: Option<String>,
    kind: Option<&'static str>,
    command: Option<String>,
    args: Vec<Text>,
    env: IndexMap<String, Text>,
    cwd: Option<String>,
    url: Option<Text>,
    headers: IndexMap<String, Text>,
    description: Option<String>,
    enabled: bool,
    timeouts: Timeouts,
    allowed_tools: Option<Vec<String>>,
    disabled_tools: Vec<String>,
    client_id: Option<String>,
    client_secret: Option<Text>,
    scopes: Vec<String>,
}

impl<'a> Draft<'a> {
    fn new(host: Host, inputs: &'a [Input], path: &'a str) -> Self {
        Self {
            host,
            inputs,
            path,
            left: Vec::new(),
            broken: None,
            kind: None,
            command: None,
            args: Vec::new(),
            env: IndexMap::new(),
            cwd: None,
            url: None,
            headers: IndexMap::new(),
            description: None,
            enabled: true,
            timeouts: Timeouts::default(),
            allowed_tools: None,
            disabled_tools: Vec::new(),
            client_id: None,
            client_secret: None,
            scopes: Vec::new(),
        }
    }

    fn read(&mut self, node: &Node) -> Result<Settings, String> {
        let entries = node
            .table()
            .ok_or_else(|| format!("its entry is {} where a table is wanted", node.found()))?;
        for entry in entries {
            self.key(entry);
        }
        if let Some(why) = self.broken.take() {
            return Err(why);
        }
        let address = self.address()?;
        Ok(Settings {
            address,
            description: self.description.take(),
            enabled: self.enabled,
            timeouts: std::mem::take(&mut self.timeouts),
            allowed_tools: self.allowed_tools.take(),
            disabled_tools: std::mem::take(&mut self.disabled_tools),
            client_id: self.client_id.take(),
            client_secret: self.client_secret.take(),
            scopes: std::mem::take(&mut self.scopes),
        })
    }

    fn address(&mut self) -> Result<Address, String> {
        let stdio = self.kind == Some("stdio");
        match (self.command.take(), self.url.take()) {
            (Some(command), url) if stdio || url.is_none() => {
                if is_ourselves(&command, self.args.iter().map(|arg| arg.value.as_str())) {
                    return Err(OURSELVES.to_owned());
                }
                Ok(Address::Program {
                    command,
                    args: std::mem::take(&mut self.args),
                    env: std::mem::take(&mut self.env),
                    cwd: self.cwd.take(),
                })
            }
            (_, Some(url)) if !stdio => Ok(Address::Network {
                kind: self.kind.filter(|kind| matches!(*kind, "sse" | "ws")),
                url,
                headers: std::mem::take(&mut self.headers),
            }),
            _ => Err("it has neither a command nor an address".to_owned()),
        }
    }

    fn key(&mut self, entry: &Entry) {
        let (node, key) = (&entry.node, entry.key.as_str());
        if node.value == Value::Null {
            return;
        }
        match key {
            "type" | "transport" => self.kind(entry),
            "command" => self.command(entry),
            "args" => self.args(entry, false),
            "env" | "environment" => {
                for (name, value) in self.values(entry) {
                    self.env.insert(name, value);
                }
            }
            "env_vars" => self.forwarded(entry),
            "cwd" => self.cwd = self.text(entry, Place::Plain),
            "url" | "httpUrl" | "serverUrl" => self.url(entry),
            "headers" | "http_headers" => {
                for (name, value) in self.values(entry) {
                    self.headers.insert(name, value);
                }
            }
            "env_http_headers" => self.headers_by_variable(entry),
            "bearer_token_env_var" => {
                if let Some(name) = self.plain(entry) {
                    let value = Text {
                        value: format!("Bearer ${{{name}}}"),
                        secret: None,
                    };
                    self.headers.insert("Authorization".to_owned(), value);
                }
            }
            "bearer_token" => {
                if let Some(token) = self.plain(entry) {
                    let text = format!("Bearer {token}");
                    let (value, _) = words::value(Host::Codex, &[], "Authorization", &text);
                    self.headers.insert("Authorization".to_owned(), value);
                }
            }
            "enabled" | "disabled" => match node.value {
                Value::Bool(on) => self.enabled = on == (key == "enabled"),
                _ => self.wrong(entry, "`true` or `false`"),
            },
            "description" => self.description = self.plain(entry),
            "startup_timeout_sec" | "startup_timeout_ms" | "tool_timeout_sec" | "timeout" => {
                self.timeout(entry);
            }
            "includeTools" | "enabled_tools" | "enabledTools" | "allowedTools" => {
                self.allowed_tools = self.tools(entry);
            }
            "excludeTools" | "disabled_tools" | "disabledTools" => {
                self.disabled_tools = self.tools(entry).unwrap_or_default();
            }
            "oauth" | "auth" => self.oauth(entry),
            "scopes" if self.host == Host::Codex => self.scopes = self.list(entry),
            _ => self.other(entry),
        }
    }

    /// What has no key here.
    fn other(&mut self, entry: &Entry) {
        match entry.key.as_str() {
            "autoApprove" | "alwaysAllow" | "autoAllow" | "trust"
            | "default_tools_approval_mode" => self.leave(entry, NO_PERMISSION),
            "tools" if self.host == Host::Codex => self.leave(entry, NO_PERMISSION),
            "source" => match self.plain(entry).as_deref() {
                Some("extension") => {
                    self.broken = Some("an extension of the editor starts it".to_owned());
                }
                Some("custom") | None => {}
                Some(_) => self.leave(entry, "it is not known what it means"),
            },
            "envFile" => self.leave(
                entry,
                "the file is not read, and without its variables the server may not work; put them into `env`",
            ),
            "headersHelper" => self.leave(
                entry,
                "nothing is run for headers; a reference such as `cmd:[\"program\"]` can stand in one",
            ),
            "sandbox" | "sandboxEnabled" => {
                self.leave(entry, "the editor's sandbox does not hold here");
            }
            key if key.starts_with(['_', '$', '/']) => {}
            _ => self.leave(entry, "there is no such key here"),
        }
    }

    fn leave(&mut self, entry: &Entry, why: impl Into<String>) {
        let key = join(self.path, &entry.key);
        self.left.push(Left {
            key,
            why: why.into(),
        });
    }

    fn wrong(&mut self, entry: &Entry, wanted: &str) {
        let why = format!("{wanted} is wanted, found {}", entry.node.found());
        self.leave(entry, why);
    }

    /// Text that holds no variables.
    fn plain(&mut self, entry: &Entry) -> Option<String> {
        if let Value::Text(text) = &entry.node.value {
            return Some(text.clone());
        }
        self.wrong(entry, "text");
        None
    }

    fn text(&mut self, entry: &Entry, place: Place<'_>) -> Option<String> {
        let text = self.plain(entry)?;
        let (text, notes) = words::ours(self.host, self.inputs, &text, place);
        self.notes(entry, notes);
        Some(text)
    }

    fn notes(&mut self, entry: &Entry, notes: Vec<String>) {
        for note in notes {
            self.leave(entry, note);
        }
    }

    fn kind(&mut self, entry: &Entry) {
        let Some(word) = self.plain(entry) else {
            return;
        };
        self.kind = match word.as_str() {
            "stdio" | "local" => Some("stdio"),
            "http" | "https" | "remote" | "streamable-http" | "streamable_http"
            | "streamableHttp" => Some("http"),
            "sse" => Some("sse"),
            "ws" | "websocket" => Some("ws"),
            _ => {
                self.broken = Some(format!("nothing here is of the type `{word}`"));
                None
            }
        };
    }

    fn command(&mut self, entry: &Entry) {
        match &entry.node.value {
            Value::Text(_) => {
                self.command = self.text(entry, Place::Plain);
            }
            // opencode's whole command line.
            Value::List(_) => self.args(entry, true),
            // As Zed had it.
            Value::Table(inner) => {
                for inner in inner {
                    match inner.key.as_str() {
                        "path" => self.command = self.text(inner, Place::Plain),
                        "args" | "env" => self.key(inner),
                        _ => self.leave(inner, "there is no such key here"),
                    }
                }
            }
            _ => self.wrong(entry, "text"),
        }
    }

    /// Arguments; with the program before them where it is `whole`.
    fn args(&mut self, entry: &Entry, whole: bool) {
        let Value::List(items) = &entry.node.value else {
            return self.wrong(entry, "a list of text");
        };
        let mut previous: Option<String> = None;
        for (at, item) in items.iter().enumerate() {
            let Some(text) = spelled(item) else {
                self.broken = Some(format!(
                    "`{}[{at}]` is {} where text is wanted",
                    join(self.path, &entry.key),
                    item.found()
                ));
                return;
            };
            let (value, notes) = words::ours(self.host, self.inputs, text, Place::Plain);
            self.notes(entry, notes);
            if whole && at == 0 {
                self.command = Some(value);
                continue;
            }
            let hidden = secret::secret_of_arg(previous.as_deref(), &value);
            let hidden = hidden.filter(|part| !part.is_empty() && !value.contains("${"));
            let secret = hidden.map(ToOwned::to_owned);
            if secret.is_some() {
                let why = format!(
                    "argument {} looks like a secret on a command line, where everybody on this machine can read it; it is taken as it stands. Most servers also take it from a variable (`env`)",
                    at + 1
                );
                self.leave(entry, why);
            }
            previous = Some(value.clone());
            self.args.push(Text { value, secret });
        }
    }

    /// A table of values.
    fn values(&mut self, entry: &Entry) -> Vec<(String, Text)> {
        let Some(entries) = entry.node.table() else {
            self.wrong(entry, "a table of text");
            return Vec::new();
        };
        let mut values = Vec::new();
        for inner in entries {
            let Some(text) = spelled(&inner.node) else {
                let key = join(&join(self.path, &entry.key), &inner.key);
                let why = format!("text is wanted, found {}", inner.node.found());
                self.left.push(Left { key, why });
                continue;
            };
            let (value, notes) = words::value(self.host, self.inputs, &inner.key, text);
            let key = join(&join(self.path, &entry.key), &inner.key);
            let notes = notes.into_iter().map(|why| Left {
                key: key.clone(),
                why,
            });
            self.left.extend(notes);
            values.push((inner.key.clone(), value));
        }
        values
    }

    /// Codex's list of variables that are handed on: names, or tables with a name.
    fn forwarded(&mut self, entry: &Entry) {
        let Value::List(items) = &entry.node.value else {
            return self.wrong(entry, "a list of text");
        };
        for item in items {
            let name = inside(item, &["name"]).unwrap_or(item);
            match &name.value {
                Value::Text(name) => {
                    let value = Text {
                        value: format!("${{{name}}}"),
                        secret: None,
                    };
                    self.env.entry(name.clone()).or_insert(value);
                }
                _ => self.wrong(entry, "a list of text"),
            }
        }
    }

    fn headers_by_variable(&mut self, entry: &Entry) {
        for inner in entry.node.table().unwrap_or_default() {
            if let Some(name) = self.plain(inner) {
                let value = Text {
                    value: format!("${{{name}}}"),
                    secret: None,
                };
                self.headers.insert(inner.key.clone(), value);
            }
        }
    }

    fn url(&mut self, entry: &Entry) {
        let Some(text) = self.text(entry, Place::Value("url")) else {
            return;
        };
        // For Gemini CLI the key tells the transport.
        if self.host == Host::Gemini && entry.key == "url" && self.kind.is_none() {
            self.kind = Some("sse");
        } else if entry.key == "httpUrl" {
            self.kind = Some("http");
        }
        let mut hidden = crate::config::lower::address::hidden_parts(&text).into_iter();
        let secret = hidden.find(|part| !part.is_empty() && !part.contains("${"));
        self.url = Some(Text {
            value: text,
            secret,
        });
    }

    fn timeout(&mut self, entry: &Entry) {
        if self.host == Host::Opencode && entry.node.table().is_some() {
            for inner in entry.node.table().unwrap_or_default() {
                match inner.key.as_str() {
                    "startup" => self.timeouts.start = self.time(inner, "ms"),
                    "request" => self.timeouts.call = self.time(inner, "ms"),
                    _ => self.leave(inner, "there is no such key here"),
                }
            }
            return;
        }
        match (self.host, entry.key.as_str()) {
            (Host::Codex, "startup_timeout_sec") => self.timeouts.start = self.time(entry, "s"),
            (Host::Codex, "startup_timeout_ms") => self.timeouts.start = self.time(entry, "ms"),
            (Host::Codex, "tool_timeout_sec") => self.timeouts.call = self.time(entry, "s"),
            // What it waits for when it lists tools.
            (Host::Opencode, "timeout") => self.timeouts.list = self.time(entry, "ms"),
            (Host::Gemini | Host::Claude, "timeout") => {
                self.timeouts.call = self.time(entry, "ms");
            }
            _ => self.leave(
                entry,
                "it is not certain whether seconds or milliseconds are meant; `timeouts.call` says it here",
            ),
        }
    }

    /// A number of seconds or milliseconds, in our words.
    fn time(&mut self, entry: &Entry, unit: &str) -> Option<String> {
        let milliseconds = match &entry.node.value {
            Value::Number(digits) => digits.parse::<f64>().ok(),
            _ => None,
        };
        let milliseconds =
            milliseconds.map(|number| if unit == "s" { number * 1000.0 } else { number });
        let time = milliseconds.map(|number| format!("{number:.0}ms"));
        let time = time.and_then(|time| {
            let long = crate::config::value::parse_duration(&time)?;
            let fits = !long.is_zero() && long.as_secs() <= 365 * 24 * 3600;
            fits.then(|| {
                if long.subsec_millis() == 0 {
                    format!("{}s", long.as_secs())
                } else {
                    time
                }
            })
        });
        if time.is_none() {
            self.wrong(entry, "a time above zero");
        }
        time
    }

    /// Names of tools, as globs.
    fn tools(&mut self, entry: &Entry) -> Option<Vec<String>> {
        matches!(entry.node.value, Value::List(_))
            .then(|| {
                let names = self.list(entry);
                // Gemini CLI also takes `tool(arguments)`; the name counts.
                let name = |text: String| {
                    let name = text.split('(').next().unwrap_or_default().to_owned();
                    globset::escape(&name)
                };
                names.into_iter().map(name).collect()
            })
            .or_else(|| {
                self.wrong(entry, "a list of text");
                None
            })
    }

    fn list(&mut self, entry: &Entry) -> Vec<String> {
        match &entry.node.value {
            Value::Text(text) => text.split_whitespace().map(ToOwned::to_owned).collect(),
            Value::List(items) => {
                let texts: Vec<_> = items
                    .iter()
                    .filter_map(spelled)
                    .map(ToOwned::to_owned)
                    .collect();
                if texts.len() < items.len() {
                    self.wrong(entry, "a list of text");
                }
                texts
            }
            _ => {
                self.wrong(entry, "a list of text");
                Vec::new()
            }
        }
    }

    fn oauth(&mut self, entry: &Entry) {
        let Some(entries) = entry.node.table() else {
            if entry.node.value != Value::Bool(false) {
                self.wrong(entry, "a table");
            }
            return;
        };
        for inner in entries {
            match inner.key.as_str() {
                "clientId" | "client_id" | "CLIENT_ID" => {
                    self.client_id = self.text(inner, Place::Value("client_id"));
                }
                "clientSecret" | "client_secret" | "CLIENT_SECRET" => {
                    self.client_secret = self.client_secret(inner);
                }
                "scopes" | "scope" => self.scopes = self.list(inner),
                "enabled" => {}
                _ => {
                    let key = join(&join(self.path, &entry.key), &inner.key);
                    let why = "there is no such key here".to_owned();
                    self.left.push(Left { key, why });
                }
            }
        }
    }

    /// Always a secret, unless it is a variable.
    fn client_secret(&mut self, entry: &Entry) -> Option<Text> {
        let value = self.text(entry, Place::Value("client_secret"))?;
        let secret = (!value.contains("${")).then(|| value.trim().to_owned());
        Some(Text { value, secret })
    }
}

/// Text, or what is its own spelling.
fn spelled(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Some(text),
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        _ => None,
    }
}

/// Whether an entry of this name leads to where this program listens, as far as that can be told from it.
pub(crate) fn leads_here(name: &str, url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    name.starts_with("outrigger") && loopback && url.path() == "/mcp"
}

/// Whether an entry starts this program as a gateway: behind itself it would start itself for ever.
pub(crate) fn is_ourselves<'a>(command: &str, mut args: impl Iterator<Item = &'a str>) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_suffix(".exe").unwrap_or(name);
    name == "outrigger" && args.any(|arg| arg == "serve")
}
