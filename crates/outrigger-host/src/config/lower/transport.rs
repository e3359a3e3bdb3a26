//! How a server is reached: the keys `command`, `args`, `env`, `cwd`, `url`, `headers`, `ca_file`, `oauth`
//! and `type`, and what they mean together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outrigger_connect::{Framing, HttpSpec, OAuthSettings, StdioSpec, TransportSpec};
use url::Url;

use super::address::{
    as_shown, clean, hidden_parts, is_header_name, mask_url, masked, parse_http_url, refuse_mask,
};
use super::oauth;
use super::server::Lowering;
use super::tls;
use crate::config::environment;
use crate::config::expand::Expanded;
use crate::config::gap::Slot;
use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::reference::LITERAL;
use crate::config::report::join;
use crate::config::secret::{self, MASK};
use crate::config::value;

/// What is known of the transport while keys are read.
#[derive(Default)]
pub(crate) struct Draft {
    at: Pos,
    pub(crate) framing: Framing,
    kind: Option<(Kind, String)>,
    command: Option<(Pos, String)>,
    /// Each with the form in which it is shown.
    args: Vec<(String, serde_json::Value)>,
    args_at: Option<Pos>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<(Pos, String)>,
    headers: Vec<(String, String)>,
    ca_file: Option<(Pos, PathBuf)>,
    oauth: Option<(Pos, OAuthSettings)>,
    /// A key was there and could not be read; what is missing because of it is not reported.
    unread: bool,
}

/// What `type` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
    Sse,
    WebSocket,
}

const KINDS: &[(&str, Kind)] = &[
    ("stdio", Kind::Stdio),
    ("local", Kind::Stdio),
    ("http", Kind::Http),
    ("https", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamable_http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("remote", Kind::Http),
    ("sse", Kind::Sse),
    ("ws", Kind::WebSocket),
    ("websocket", Kind::WebSocket),
];

impl Draft {
    /// Nothing read yet; `at` is where the entry begins.
    pub(crate) fn new(at: Pos) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    /// Reads one of the nine keys.
    pub(crate) fn key(&mut self, low: &mut Lowering<'_>, key: &str, path: &str, entry: &Entry) {
        let node = &entry.node;
        let read = match key {
            "command" => self.read_command(low, path, entry),
            "args" => self.read_args(low, path, entry),
            "env" => self.read_env(low, path, node),
            "cwd" => self.read_cwd(low, path, entry),
            "url" => self.read_url(low, path, entry),
            "headers" => self.read_headers(low, path, node),
            "ca_file" => self.read_ca_file(low, path, entry),
            "oauth" => {
                oauth::read(low, path, node).map(|settings| self.oauth = Some((entry.at, settings)))
            }
            _ => self.read_kind(low, path, entry),
        };
        self.unread |= read.is_none();
    }

    /// The address, as far as it was read.
    pub(crate) fn take_url(&mut self) -> Option<(Pos, String)> {
        self.url.take()
    }

    /// The variables, as far as they were read.
    pub(crate) fn take_env(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.env)
    }

    /// The headers, as far as they were read.
    pub(crate) fn take_headers(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.headers)
    }

    fn read_kind(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let written = value::text(&mut low.report, path, &entry.node)?;
        let kind = KINDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(&written))
            .map(|&(_, kind)| kind);
        let Some(kind) = kind else {
            low.report
                .error(
                    entry.node.at,
                    path,
                    format!("`{path}` cannot be `{}`", written.escape_debug()),
                )
                .hint(
                    "it can be `stdio`, `http` (also written `streamable-http`), `sse` or `ws`, or be left out",
                );
            return None;
        };
        low.note("type", entry.at, written.clone().into());
        self.kind = Some((kind, written));
        Some(())
    }

    fn read_command(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let node = &entry.node;
        // Some hosts write the whole argument vector as `command`.
        if let Value::List(items) = &node.value {
            let [first, rest @ ..] = items.as_slice() else {
                low.report
                    .error(node.at, path, format!("`{path}` is empty"));
                return None;
            };
            self.command_text(low, path, first, entry.at)?;
            self.args_at.get_or_insert(entry.at);
            return self.list(low, path, rest, true);
        }
        self.command_text(low, path, node, entry.at)
    }

    fn command_text(
        &mut self,
        low: &mut Lowering<'_>,
        path: &str,
        node: &Node,
        at: Pos,
    ) -> Option<()> {
        let written = value::text(&mut low.report, path, node)?;
        let expanded = low.expand(path, node, &written)?;
        let command = low.tilde(path, node, expanded.text)?;
        if command.trim().is_empty() {
            low.report
                .error(node.at, path, format!("`{path}` is empty"))
                .hint("write the program to start");
            return None;
        }
        if command.contains(char::is_whitespace) && !command.contains(['/', '\\']) {
            let program = command
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned();
            low.report
                .warn(
                    node.at,
                    path,
                    format!("`{path}` has a space in it, and no shell takes it apart"),
                )
                .hint(format!(
                    "write `{program}` as `command` and the rest as a list in `args`"
                ));
        }
        low.note("command", at, as_shown(&written, &command).into());
        self.command = Some((node.at, command));
        Some(())
    }

    fn read_args(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let Value::List(items) = &entry.node.value else {
            low.report.mismatch(path, &entry.node, "a list of text");
            return None;
        };
        self.args_at = Some(entry.at);
        self.list(low, path, items, false)
    }

    /// Reads arguments and puts them where they belong among those already read.
    fn list(
        &mut self,
        low: &mut Lowering<'_>,
        path: &str,
        items: &[Node],
        first: bool,
    ) -> Option<()> {
        let mut read: Vec<(String, serde_json::Value)> = Vec::new();
        let mut sound = true;
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let arg = value::spelled(&mut low.report, &path, item).and_then(|written| {
                let expanded = low.expand(&path, item, &written)?;
                refuse_mask(low, &path, item, &expanded.text)?;
                let secret = expanded.used.iter().any(|(name, held)| is_told(name, held));
                Some((low.tilde(&path, item, expanded.text)?, written, secret))
            });
            let Some((arg, written, mut secret)) = arg else {
                sound = false;
                continue;
            };
            let mut shown = as_shown(&written, &arg);
            // What stands before is not known once an argument could not be read.
            let previous = read.last().filter(|_| sound).map(|(arg, _)| arg.as_str());
            if let Some(hidden) =
                secret::secret_of_arg(previous, &arg).filter(|hidden| !hidden.is_empty())
            {
                low.secrets.add(hidden);
                if !written.contains("${") {
                    shown = shown.replace(hidden, MASK);
                }
                secret = true;
            }
            if secret {
                let message = format!(
                    "`{path}` puts a secret on a command line, where everybody on this machine can read it (`ps`)"
                );
                let problem = low.report.warn(item.at, &path, message);
                problem
                    .hint("most servers also take it from a variable; give it in `env`")
                    .excerpt = None;
            }
            read.push((arg, shown.into()));
        }
        let at = if first { 0 } else { self.args.len() };
        self.args.splice(at..at, read);
        sound.then_some(())
    }

    fn read_env(&mut self, low: &mut Lowering<'_>, path: &str, node: &Node) -> Option<()> {
        let mut sound = true;
        for (entry, written) in value::text_table(&mut low.report, path, node)? {
            let path = join(path, &entry.key);
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                let message = format!(
                    "`{}` cannot name an environment variable",
                    entry.key.escape_debug()
                );
                low.report.error(entry.at, &path, message);
                sound = false;
                continue;
            }
            sound &= self.env_entry(low, &path, entry, &written).is_some();
        }
        sound.then_some(())
    }

    fn env_entry(
        &mut self,
        low: &mut Lowering<'_>,
        path: &str,
        entry: &Entry,
        written: &str,
    ) -> Option<()> {
        let slot = Slot::Env(entry.key.clone());
        let value = low.expand_value(path, &entry.node, written, slot)?;
        let (text, whole) = (value.text, value.missing.is_empty());
        refuse_mask(low, path, &entry.node, &text)?;
        let hidden = secret::is_secret_name(&entry.key) || secret::is_secret_shape(&text);
        if hidden && whole {
            low.secrets.add(&text);
        }
        let shown = shown(written, &text, hidden, whole);
        low.note_inner("env", entry, shown.into());
        if whole {
            low.check_literal(path, entry, written);
        }
        self.env.insert(entry.key.clone(), text);
        Some(())
    }

    fn read_cwd(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let written = value::text(&mut low.report, path, &entry.node)?;
        let expanded = low.expand(path, &entry.node, &written)?;
        let text = low.tilde(path, &entry.node, expanded.text)?;
        let folder = clean(&low.report.source.base(&low.around.workspace).join(&text));
        low.note(
            "cwd",
            entry.at,
            as_shown(&written, &folder.to_string_lossy()).into(),
        );
        self.cwd = Some(folder.to_string_lossy().into_owned());
        Some(())
    }

    fn read_url(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let written = value::text(&mut low.report, path, &entry.node)?;
        let value = low.expand_value(path, &entry.node, &written, Slot::Url)?;
        let text = value.text.trim().to_owned();
        refuse_mask(low, path, &entry.node, &text)?;
        let masked = mask_url(&mut low.secrets, &text);
        if value.missing.is_empty() {
            low.note("url", entry.at, as_shown(&written, &masked).into());
            // A password or a parameter may be the secret; the first one is told.
            let mut hidden = hidden_parts(&text).into_iter();
            if let Some(part) =
                hidden.find(|part| !part.is_empty() && written.contains(part.as_str()))
            {
                low.literal(path, &entry.node, &text, &part);
            }
            self.url = Some((entry.node.at, text));
        } else {
            low.note("url", entry.at, written.into());
            // What it comes to is read once the secrets are in it; until then their places are held.
            let text = if text.is_empty() {
                "http://secret.invalid/".to_owned()
            } else {
                held(&value)
            };
            self.url = Some((entry.node.at, text));
        }
        Some(())
    }

    fn read_ca_file(&mut self, low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<()> {
        let written = value::text(&mut low.report, path, &entry.node)?;
        let file = tls::file(low, path, &entry.node, &written)?;
        let shown = as_shown(&written, &file.to_string_lossy());
        low.note("ca_file", entry.at, shown.into());
        self.ca_file = Some((entry.at, file));
        Some(())
    }

    fn read_headers(&mut self, low: &mut Lowering<'_>, path: &str, node: &Node) -> Option<()> {
        let mut sound = true;
        for (entry, written) in value::text_table(&mut low.report, path, node)? {
            let path = join(path, &entry.key);
            sound &= self.header(low, &path, entry, &written).is_some();
        }
        sound.then_some(())
    }

    fn header(
        &mut self,
        low: &mut Lowering<'_>,
        path: &str,
        entry: &Entry,
        written: &str,
    ) -> Option<()> {
        if !is_header_name(&entry.key) {
            low.report.error(
                entry.at,
                path,
                format!("`{}` cannot name an HTTP header", entry.key.escape_debug()),
            );
            return None;
        }
        let slot = Slot::Header(self.headers.len());
        let value = low.expand_value(path, &entry.node, written, slot)?;
        refuse_mask(low, path, &entry.node, &value.text)?;
        let whole = value.missing.is_empty();
        let text = value.text.trim_matches([' ', '\t']).to_owned();
        let hidden = secret::is_secret_name(&entry.key) || secret::is_secret_shape(&text);
        if hidden && whole {
            low.secrets.add(&text);
        }
        if let Some(bad) = text
            .chars()
            .find(|&c| c != '\t' && (c.is_ascii_control() || !c.is_ascii()))
        {
            let message = format!(
                "`{path}` holds `{}`, which a header cannot carry",
                bad.escape_debug()
            );
            let problem = low.report.error(entry.node.at, path, message);
            if bad == '\n' || bad == '\r' {
                problem.hint("a value read from a file often ends with a line break; remove it");
            }
            return None;
        }
        let shown = shown(written, &text, hidden, whole);
        low.note_inner("headers", entry, shown.into());
        if whole {
            low.check_literal(path, entry, written);
        }
        self.headers.push((entry.key.clone(), text));
        Some(())
    }
}

/// A value as people should see it, so that it means the same when it is read again.
fn shown(written: &str, meant: &str, hidden: bool, whole: bool) -> String {
    if !whole || (written.starts_with(LITERAL) && !hidden) {
        return written.to_owned();
    }
    masked(written, meant, hidden)
}

/// Whether a variable is one that nobody should read on a command line.
fn is_told(name: &str, held: &str) -> bool {
    let named = secret::is_secret_name(name) && !held.starts_with(['/', '~', '.']);
    (named && held.len() >= 6) || secret::is_secret_shape(held)
}

/// An address with something in each place where a secret will stand.
fn held(value: &Expanded) -> String {
    let mut text = value.text.clone();
    for (at, _) in value.missing.iter().rev() {
        text.insert(*at, 'x');
    }
    text.trim().to_owned()
}

/// Puts the keys together. `authorities`: the files of certificates that hold for all servers.
pub(crate) fn finish(
    low: &mut Lowering<'_>,
    draft: Draft,
    authorities: &[PathBuf],
) -> Option<TransportSpec> {
    let path = low.path;
    let kind = match (&draft.kind, &draft.command, &draft.url) {
        (Some((kind, _)), _, _) => *kind,
        (None, Some(_), Some(_)) => {
            low.report
                .error(
                    draft.at,
                    path,
                    format!("`{path}` has both `command` and `url`"),
                )
                .hint("keep one, or say which is meant with `type`");
            return None;
        }
        (None, Some(_), None) => Kind::Stdio,
        (None, None, Some((_, url))) if url.starts_with("ws://") || url.starts_with("wss://") => {
            Kind::WebSocket
        }
        (None, None, Some(_)) => Kind::Http,
        (None, None, None) => {
            if !draft.unread {
                low.report
                    .error(
                        draft.at,
                        path,
                        format!("`{path}` has neither `command` nor `url`"),
                    )
                    .hint(
                        "a program to start needs `command`, a server on the network needs `url`",
                    );
            }
            return None;
        }
    };
    match kind {
        Kind::Stdio => finish_stdio(low, draft).map(TransportSpec::Stdio),
        Kind::Http => finish_http(low, draft, authorities).map(TransportSpec::Http),
        Kind::Sse => finish_http(low, draft, authorities).map(TransportSpec::Sse),
        Kind::WebSocket => finish_websocket(low, draft, authorities).map(TransportSpec::WebSocket),
    }
}

/// `ws://` and `wss://` are `http://` and `https://` as far as an address goes, and are checked as
/// such. An address written that way is meant for the same place.
fn finish_websocket(
    low: &mut Lowering<'_>,
    mut draft: Draft,
    authorities: &[PathBuf],
) -> Option<HttpSpec> {
    if let Some((_, url)) = &mut draft.url
        && let Some(rest) = url.strip_prefix("ws")
    {
        *url = format!("http{rest}");
    }
    let mut spec = finish_http(low, draft, authorities)?;
    let scheme = if spec.url.scheme() == "https" {
        "wss"
    } else {
        "ws"
    };
    spec.url.set_scheme(scheme).ok()?;
    Some(spec)
}

fn finish_stdio(low: &mut Lowering<'_>, draft: Draft) -> Option<StdioSpec> {
    let path = low.path;
    let Some((_, command)) = draft.command else {
        if !draft.unread {
            low.report.error(
                draft.at,
                path,
                format!("`{path}` is of type `stdio` and has no `command`"),
            );
        }
        return None;
    };
    if let Some((at, _)) = draft.url {
        low.report.warn(
            at,
            path,
            format!("`{path}.url` is not used: the server is of type `stdio`"),
        );
    }
    let unused = [
        ("oauth", draft.oauth.map(|(at, _)| at)),
        ("ca_file", draft.ca_file.map(|(at, _)| at)),
    ];
    for (key, at) in unused {
        if let Some(at) = at {
            let message = format!("`{path}.{key}` is not used: the server is of type `stdio`");
            low.report.warn(at, path, message);
        }
    }
    let (args, shown): (Vec<_>, Vec<_>) = draft.args.into_iter().unzip();
    if let Some(at) = draft.args_at {
        low.note("args", at, shown.into());
    }
    let cwd = draft
        .cwd
        .map_or_else(|| low.around.workspace.clone(), PathBuf::from);
    // As for a program that changes its folder and then starts another.
    let relative = command.contains('/') && !Path::new(&command).is_absolute();
    let command = if relative {
        clean(&cwd.join(&command)).to_string_lossy().into_owned()
    } else {
        command
    };
    let mut env = environment::inherited(&low.around.env);
    env.extend(draft.env);
    Some(StdioSpec {
        command,
        args,
        env,
        cwd,
        framing: draft.framing,
    })
}

fn finish_http(low: &mut Lowering<'_>, draft: Draft, authorities: &[PathBuf]) -> Option<HttpSpec> {
    let path = low.path;
    let Some((at, written)) = draft.url else {
        if !draft.unread {
            let kind = draft
                .kind
                .map_or_else(|| "http".to_owned(), |(_, written)| written);
            low.report.error(
                draft.at,
                path,
                format!("`{path}` is of type `{kind}` and has no `url`"),
            );
        }
        return None;
    };
    if let Some((at, _)) = draft.command {
        low.report.warn(
            at,
            path,
            format!("`{path}.command` is not used: the server is reached by its `url`"),
        );
    }
    let url = http_url(low, &format!("{path}.url"), at, &written)?;
    Some(HttpSpec {
        headers: draft.headers,
        ca_files: draft
            .ca_file
            .map(|(_, file)| file)
            .into_iter()
            .chain(authorities.iter().cloned())
            .collect(),
        oauth: draft
            .oauth
            .map(|(_, settings)| settings)
            .unwrap_or_default(),
        ..HttpSpec::new(url)
    })
}

/// Reads an `http` or `https` address.
pub(crate) fn http_url(low: &mut Lowering<'_>, path: &str, at: Pos, written: &str) -> Option<Url> {
    match parse_http_url(written) {
        Ok(url) => Some(url),
        Err(fault) => {
            let problem = low
                .report
                .error(at, path, format!("`{path}` {}", fault.message));
            if let Some(hint) = fault.hint {
                problem.hint(hint);
            }
            None
        }
    }
}
