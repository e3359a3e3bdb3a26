//! The report as a person reads it.

use std::io;

use serde_json::Value;

use crate::display::seconds;
use crate::screen::{Label, Screen};
use crate::visible;

/// Names of one kind that are shown; `--json` has all.
const SHOWN: usize = 50;

pub(super) fn print(document: &Value, screen: Screen) -> io::Result<()> {
    let page = Page { screen };
    let name = text(&document["server"]);
    page.line(&format!(
        "{} {}",
        screen.ink(Label::Name, &visible::line(name)),
        standing(document)
    ))?;
    page.row("configured", text(&document["configured_at"]))?;
    if document["state"] == "ready" {
        page.ready(document)?;
    } else {
        page.section("why", &lines(&document["error"]))?;
        page.section("last said", &bars(&document["stderr_tail"]))?;
        page.section("hint", &strings(&document["hints"]))?;
    }
    page.section("warnings", &strings(&document["warnings"]))
}

/// One line behind the name.
fn standing(document: &Value) -> String {
    let transport = text(&document["transport"]);
    let over = if transport.is_empty() {
        String::new()
    } else {
        format!(" over {transport}")
    };
    if document["state"] == "ready" {
        let (era, version) = (text(&document["era"]), text(&document["protocol_version"]));
        return format!("{era}, protocol {}{over}", visible::line(version));
    }
    let (word, at) = (text(&document["state"]), text(&document["stage"]));
    if at.is_empty() {
        format!("{word}{over}")
    } else {
        format!("{word} at {at}{over}")
    }
}

struct Page {
    screen: Screen,
}

impl Page {
    fn ready(&self, document: &Value) -> io::Result<()> {
        let own = [&document["server_name"], &document["server_version"]];
        let own = own.map(text).join(" ");
        self.row("calls itself", own.trim())?;
        self.row("capabilities", &capabilities(&document["capabilities"]))?;
        self.row("took", &timings(&document["timings"]))?;
        self.section(
            "instructions",
            &bars(&Value::from(
                text(&document["instructions"]).lines().collect::<Vec<_>>(),
            )),
        )?;
        let tools = &document["tools"];
        self.listing("tools", tools, &strings(&tools["names"]))?;
        for (key, title) in [
            ("resources", "resources"),
            ("resource_templates", "resource templates"),
            ("prompts", "prompts"),
        ] {
            let listing = &document[key];
            let entries = listing["entries"].as_array();
            let names: Vec<_> = entries.into_iter().flatten().map(entry).collect();
            self.listing(title, listing, &names)?;
        }
        self.section("processes", &tree(&document["processes"]))?;
        self.section("last said", &bars(&document["said"]))
    }

    fn line(&self, line: &str) -> io::Result<()> {
        self.screen.data(&format!("{line}\n"))
    }

    fn row(&self, key: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        let key = format!("{key:<18}");
        let key = self.screen.ink(Label::Dim, &key);
        self.line(&format!("  {key} {}", visible::line(value)))
    }

    /// A title and what belongs to it, when there is something.
    fn section(&self, title: &str, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.line(&format!("  {}", self.screen.ink(Label::Dim, title)))?;
        for line in lines {
            self.line(&format!("    {}", visible::line(line)))?;
        }
        Ok(())
    }

    /// How many, and the first names. Nothing for what the server does not offer.
    fn listing(&self, title: &str, listing: &Value, names: &[String]) -> io::Result<()> {
        let Some(count) = listing["count"].as_u64() else {
            return Ok(());
        };
        let pages = listing["pages"].as_u64().unwrap_or_default();
        let pages = if pages > 1 {
            format!(" in {pages} pages")
        } else {
            String::new()
        };
        let tokens = listing["tokens"].as_u64();
        let tokens = tokens.map_or_else(String::new, |tokens| format!(", ~{tokens} tokens"));
        self.row(title, &format!("{count}{pages}{tokens}"))?;
        for name in names.iter().take(SHOWN) {
            self.line(&format!("    {}", visible::line(name)))?;
        }
        if names.len() > SHOWN {
            let more = names.len() - SHOWN;
            self.line(&format!("    … and {more} more (`--json` has all)"))?;
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn lines(value: &Value) -> Vec<String> {
    text(value).lines().map(ToOwned::to_owned).collect()
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| text(one).to_owned()).collect()
}

/// Lines that are somebody else's words.
fn bars(value: &Value) -> Vec<String> {
    let all = strings(value).into_iter();
    all.map(|line| format!("| {line}")).collect()
}

fn entry(value: &Value) -> String {
    let (name, uri) = (text(&value["name"]), text(&value["uri"]));
    match (name, uri) {
        ("", uri) => uri.to_owned(),
        (name, "") => name.to_owned(),
        (name, uri) => format!("{name} ({uri})"),
    }
}

/// `tools (listChanged), logging`.
fn capabilities(value: &Value) -> String {
    let all = value.as_object().into_iter().flatten();
    let words = all.map(|(name, inner)| {
        let members = inner.as_object().into_iter().flatten();
        let set = members.filter(|(_, value)| **value != Value::Bool(false));
        let set: Vec<&str> = set.map(|(name, _)| name.as_str()).collect();
        if set.is_empty() {
            name.clone()
        } else {
            format!("{name} ({})", set.join(", "))
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// `start 3 ms, handshake 40 ms, tools 2 ms`.
fn timings(value: &Value) -> String {
    let all = value.as_object().into_iter().flatten();
    let words = all.map(|(stage, took)| {
        let stage = stage.trim_end_matches("_ms").replace('_', " ");
        format!("{stage} {}", seconds(took.as_u64().unwrap_or_default()))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Each process under its parent.
fn tree(value: &Value) -> Vec<String> {
    let all: Vec<&Value> = value.as_array().into_iter().flatten().collect();
    let is_root = |process: &&&Value| all.iter().all(|other| other["pid"] != process["parent"]);
    let mut out = Vec::new();
    for root in all.iter().filter(is_root) {
        branch(root, &all, 0, &mut out);
    }
    out
}

fn branch(process: &Value, all: &[&Value], depth: usize, out: &mut Vec<String>) {
    let pid = process["pid"].as_u64().unwrap_or_default();
    let ended = if process["ended"] == true {
        " (ended)"
    } else {
        ""
    };
    let command = visible::beginning(text(&process["command"]), 200);
    out.push(format!("{}{pid} {command}{ended}", "  ".repeat(depth)));
    // Each is there once, so this ends; a number used twice while we looked must not make it a loop.
    if out.len() > all.len() {
        return;
    }
    for child in all.iter().filter(|other| other["parent"] == pid) {
        branch(child, all, depth + 1, out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn processes_stand_under_their_parents() {
        let process = |pid, parent| json!({ "pid": pid, "parent": parent, "command": "a" });
        let all = json!([process(5, 1), process(7, 5), process(6, 5), process(8, 7)]);
        assert_eq!(tree(&all), ["5 a", "  7 a", "    8 a", "  6 a"]);
    }

    #[test]
    fn capabilities_are_told_with_what_is_set_in_them() {
        let value = json!({ "tools": { "listChanged": true, "x": false }, "logging": {} });
        assert_eq!(capabilities(&value), "tools (listChanged), logging");
    }
}
