//! The effective configuration as TOML that can be read back. Values that are masked cannot: they
//! are refused by name when they come back.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::duration_text;
use crate::config::model::{ProviderEntry, ProviderState};
use crate::config::origin::{Origin, Setting};
use crate::config::problem::ConfigProblem;
use crate::config::server::{EntryState, ServerEntry, WrittenKey};
use crate::config::{Config, Severity};
use crate::policy::Condition;

/// Renders the configuration; with `origin`, every value is followed by its file and line.
pub fn render(config: &Config, origin: bool) -> String {
    let mut page = Page {
        out: String::new(),
        origin,
    };
    for entry in config.servers.values() {
        page.server(config, entry);
    }
    page.policy(config);
    page.model(config);
    page.limits(config);
    page.builtin(config);
    page.artifacts(config);
    page.discovery(config);
    page.results(config);
    page.gateway(config);
    page.hooks(config);
    let errors: Vec<_> = config
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .collect();
    if !errors.is_empty() {
        page.blank();
        page.comment("What is shown is not complete:");
        page.problems(errors);
    }
    page.out
}

struct Page {
    out: String,
    origin: bool,
}

impl Page {
    fn server(&mut self, config: &Config, entry: &ServerEntry) {
        self.blank();
        let name = key(entry.name.as_str());
        match &entry.state {
            EntryState::Ready(settings) => {
                self.header(&format!("[servers.{name}]"), &entry.origin);
                self.written(&settings.written);
            }
            EntryState::NeedsTrust(settings) => {
                self.comment("Not started: it comes with this folder, which is not trusted (`outrigger trust`).");
                self.header(&format!("[servers.{name}]"), &entry.origin);
                self.written(&settings.written);
            }
            EntryState::Disabled => {
                self.header(&format!("[servers.{name}]"), &entry.origin);
                self.line("enabled", &Value::Bool(false), None);
            }
            EntryState::Broken(problems) => {
                self.comment(&format!("[servers.{name}] is set aside:"));
                self.problems(problems);
            }
        }
        if self.origin {
            for replaced in config
                .shadowed
                .iter()
                .filter(|shadowed| shadowed.name == entry.name)
            {
                self.comment(&format!("replaces the entry at {}", replaced.origin));
            }
        }
    }

    fn policy(&mut self, config: &Config) {
        self.blank();
        self.put("[policy]");
        self.setting("default", &config.policy.default, |decision| {
            decision.as_str().into()
        });
        self.setting("mode", &config.policy.mode, |mode| mode.as_str().into());
        for rule in &config.policy.rules {
            self.blank();
            if rule.broken {
                self.comment(&format!(
                    "the rule at {} cannot be read; {} is denied",
                    rule.origin, rule.tools
                ));
                continue;
            }
            self.header("[[policy.rule]]", &rule.origin);
            if !rule.counts() {
                self.comment(
                    "does not count: an `allow` in a file of a project that is not trusted",
                );
            }
            let texts = [
                ("tool", rule.tools.tool.as_deref()),
                ("server", rule.tools.server.as_deref()),
                ("raw", rule.tools.raw.as_deref()),
                ("prompt", rule.tools.prompt.as_deref()),
                ("resource", rule.tools.resource.as_deref()),
                ("decision", Some(rule.decision.as_str())),
                ("when", rule.when.as_ref().map(Condition::source)),
                ("reason", rule.reason.as_deref()),
            ];
            for (key, text) in texts {
                if let Some(text) = text {
                    self.line(key, &text.into(), None);
                }
            }
            if let Some(read_only) = rule.read_only {
                self.line("read_only", &read_only.into(), None);
            }
        }
    }

    fn model(&mut self, config: &Config) {
        if let Some(default) = &config.model.default {
            self.blank();
            self.put("[model]");
            self.setting("default", default, |model| model.as_str().into());
        }
        for (name, entry) in &config.model.providers {
            self.provider(name, entry);
        }
    }

    fn provider(&mut self, name: &str, entry: &ProviderEntry) {
        self.blank();
        let name = key(name);
        match &entry.state {
            ProviderState::Ready(settings) => {
                self.header(&format!("[model.providers.{name}]"), &entry.origin);
                self.written(&settings.written);
            }
            ProviderState::Broken(problems) => {
                self.comment(&format!("[model.providers.{name}] is set aside:"));
                self.problems(problems);
            }
        }
    }

    fn limits(&mut self, config: &Config) {
        let limits = &config.limits;
        self.blank();
        self.put("[limits]");
        self.setting("max_turns", &limits.max_turns, |&turns| turns.into());
        self.setting("max_calls", &limits.max_calls, |&calls| calls.into());
        self.setting("max_tokens", &limits.max_tokens, |tokens| {
            tokens.map_or_else(|| "none".into(), Value::from)
        });
        self.setting("max_time", &limits.max_time, |&time| {
            duration_text(time).into()
        });
        for (key, setting) in super::server_limits(&config.defaults) {
            self.setting(key, &setting, Value::clone);
        }
        self.blank();
        self.put("[timeouts]");
        for (key, setting) in super::timeouts(&config.defaults) {
            self.setting(key, &setting, Value::clone);
        }
        if let Some(files) = super::authorities(&config.defaults) {
            self.blank();
            self.put("[tls]");
            self.setting("ca_files", &files, Value::clone);
        }
    }

    fn builtin(&mut self, config: &Config) {
        self.blank();
        self.put("[builtin]");
        let running = config.builtin_servers();
        for (name, on) in config.builtin.each() {
            self.setting(name, on, |&on| on.into());
            if on.value && !running.contains(&name) {
                self.comment(&format!(
                    "the configured server `{name}` stands in its place"
                ));
            }
        }
        let artifacts = &config.builtin.artifacts;
        if artifacts.origin.line > 0 {
            self.setting("artifacts", artifacts, |&on| on.into());
        }
    }

    fn results(&mut self, config: &Config) {
        let results = &config.results;
        let written = results
            .each()
            .into_iter()
            .filter(|(_, it)| it.origin.line > 0);
        let written: Vec<_> = written.collect();
        if !written.is_empty() {
            self.blank();
            self.put("[results]");
        }
        for (name, tokens) in written {
            self.setting(name, tokens, |&tokens| tokens.into());
        }
        if !results.tools.is_empty() {
            self.blank();
            self.put("[results.tools]");
        }
        for (at, room) in results.tools.iter().enumerate() {
            // Of one glob, the nearest file counts.
            let later = &results.tools[at + 1..];
            if !later.iter().any(|other| other.written == room.written) {
                self.line(&key(&room.written), &room.tokens.into(), Some(&room.origin));
            }
        }
    }

    fn gateway(&mut self, config: &Config) {
        let settings = super::gateway(&config.gateway);
        let written: Vec<_> = settings
            .into_iter()
            .filter(|(_, setting)| setting.origin.line > 0)
            .collect();
        if !written.is_empty() {
            self.blank();
            self.put("[gateway]");
        }
        for (key, setting) in written {
            self.setting(key, &setting, Value::clone);
        }
    }

    fn artifacts(&mut self, config: &Config) {
        let settings = super::artifacts(&config.artifacts);
        if settings.iter().all(|(_, setting)| setting.origin.line == 0) {
            return;
        }
        self.blank();
        self.put("[artifacts]");
        for (key, setting) in settings {
            self.setting(key, &setting, Clone::clone);
        }
    }

    fn discovery(&mut self, config: &Config) {
        self.blank();
        self.put("[discovery]");
        for (key, setting) in super::discovery(&config.discovery) {
            self.setting(key, &setting, Value::clone);
        }
    }

    fn hooks(&mut self, config: &Config) {
        if config.secret_timeout.origin.line > 0 {
            self.blank();
            self.put("[secrets]");
            self.setting("timeout", &config.secret_timeout, |&time| {
                duration_text(time).into()
            });
        }
        for hook in &config.hooks {
            self.blank();
            if !hook.is_trusted() {
                self.comment(
                    "Not run: it comes with this folder, which is not trusted (`outrigger trust`).",
                );
            }
            self.header(&format!("[[hooks.{}]]", hook.event), &hook.origin);
            self.written(&hook.written);
        }
    }

    fn written(&mut self, written: &[WrittenKey]) {
        for WrittenKey {
            path,
            shown,
            origin,
        } in written
        {
            let path: Vec<_> = path.iter().map(|part| key(part)).collect();
            self.line(&path.join("."), shown, Some(origin));
        }
    }

    fn setting<T>(&mut self, name: &str, setting: &Setting<T>, value: impl FnOnce(&T) -> Value) {
        self.line(name, &value(&setting.value), Some(&setting.origin));
    }

    fn header(&mut self, header: &str, origin: &Origin) {
        let place = if self.origin {
            format!("  # {}", plain(&origin.to_string()))
        } else {
            String::new()
        };
        self.put(&format!("{header}{place}"));
    }

    fn line(&mut self, name: &str, value: &Value, origin: Option<&Origin>) {
        let place = match origin {
            Some(origin) if self.origin => format!("  # {}", plain(&origin.to_string())),
            _ => String::new(),
        };
        self.put(&format!("{name} = {}{place}", Toml(value)));
    }

    fn problems<'p>(&mut self, problems: impl IntoIterator<Item = &'p ConfigProblem>) {
        for problem in problems {
            self.comment(&format!("  {problem}"));
        }
    }

    fn comment(&mut self, text: &str) {
        self.put(&format!("# {}", plain(text)));
    }

    fn put(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn blank(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }
}

/// A comment ends with its line, so it must not hold a line break.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
}

fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare {
        name.to_owned()
    } else {
        Toml(&name.into()).to_string()
    }
}

/// A JSON value written as TOML on one line.
struct Toml<'v>(&'v Value);

impl fmt::Display for Toml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // TOML has no null; none of the keys can be one.
            Value::Null => f.write_str("\"\""),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::String(text) => basic_string(f, text),
            Value::Array(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", Toml(item))?;
                }
                f.write_char(']')
            }
            Value::Object(entries) => {
                f.write_str("{ ")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{} = {}", key(name), Toml(value))?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// TOML 1.1, "String": what must be escaped in a basic string.
fn basic_string(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
