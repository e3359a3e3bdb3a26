//! Words of a definition that reach beyond the tool: to other servers' tools, to the conversation,
//! to credentials, or out of the reader's view.

use std::collections::{BTreeSet, HashMap};

use outrigger_connect::ServerName;
use serde_json::Value;

use super::lookalike::shape;
use crate::catalog::{Catalog, CatalogTool};

/// Blank characters in a row, line ends among them or not, that push text out of view.
const BLANKS: usize = 200;
/// Line ends in a row, with nothing between them, that do.
const LINE_ENDS: usize = 20;
/// Shorter names are words of everyday language.
const TELLING: usize = 6;

/// What no honest tool asks a model for, as words in a row, and what to say of it.
const GREEDY: [(&[&str], &str); 15] = [
    (&["conversation", "history"], CONVERSATION),
    (&["chat", "history"], CONVERSATION),
    (&["entire", "conversation"], CONVERSATION),
    (&["full", "conversation"], CONVERSATION),
    (&["conversation", "so", "far"], CONVERSATION),
    (&["previous", "messages"], CONVERSATION),
    (&["system", "prompt"], CONVERSATION),
    (&["id", "ed25519"], CREDENTIALS),
    (&["id", "rsa"], CREDENTIALS),
    (&["aws", "credentials"], CREDENTIALS),
    (&["etc", "passwd"], CREDENTIALS),
    (&["mcp", "json"], CREDENTIALS),
    (&["not", "tell", "the", "user"], SECRECY),
    (&["not", "mention", "this"], SECRECY),
    (&["ignore", "all", "previous"], SECRECY),
];
const CONVERSATION: &str = "asks for the conversation";
const CREDENTIALS: &str = "speaks of files that hold credentials";
const SECRECY: &str = "gives orders to the model against its user";

/// The names that a description should not use unless they are its own server's.
pub(super) struct Index<'a> {
    /// Telling names of tools, by shape, and whose they are.
    tools: HashMap<String, Vec<&'a CatalogTool>>,
    /// Names of servers as words in a row. Built-in servers are called by everyday words.
    servers: Vec<(Vec<String>, &'a ServerName)>,
}

impl<'a> Index<'a> {
    pub(super) fn of(catalog: &'a Catalog, names: &'a BTreeSet<ServerName>) -> Self {
        let mut tools: HashMap<String, Vec<&CatalogTool>> = HashMap::new();
        for tool in catalog.tools().filter(|tool| is_telling(&tool.raw_name)) {
            tools.entry(shape(&tool.raw_name)).or_default().push(tool);
        }
        let builtin = |name: &&ServerName| {
            let found = catalog.servers.get(*name);
            found.is_some_and(|found| found.tools.iter().any(|tool| tool.standing.builtin))
        };
        let servers = names.iter().filter(|name| !builtin(name));
        Self {
            tools,
            servers: servers
                .map(|name| (words(name.as_str()), name))
                .filter(|(words, _)| !words.is_empty())
                .collect(),
        }
    }

    pub(super) fn of_tool(&self, tool: &CatalogTool) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut say = |reason: String| {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        };
        texts(tool, &mut |text| {
            self.others(tool, text).into_iter().for_each(&mut say);
            let said = words(text);
            for (phrase, what) in GREEDY {
                if said.windows(phrase.len()).any(|words| words == phrase) {
                    say(format!("it {what} (`{}`)", phrase.join(" ")));
                }
            }
            padding(text).into_iter().for_each(&mut say);
        });
        reasons
    }

    /// What a text says about other servers' tools.
    fn others(&self, tool: &CatalogTool, text: &str) -> Vec<String> {
        let mut reasons = Vec::new();
        let own = server_part(tool.name.as_str());
        for name in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-') {
            let name = name.trim_matches(['-', '_']);
            if name.starts_with("mcp__") && server_part(name) != own {
                reasons.push(format!("its words name the tool `{name}`"));
            }
            if !is_telling(name) {
                continue;
            }
            let theirs = self.tools.get(&shape(name)).map_or(&[][..], Vec::as_slice);
            let also_own = theirs.iter().any(|other| other.server == tool.server);
            if let Some(other) = theirs.first().filter(|_| !also_own) {
                let (theirs, server) = (&other.raw_name, &other.server);
                reasons.push(format!("its words name the tool `{theirs}` of `{server}`"));
            }
        }
        let said = words(text);
        for (name, server) in self
            .servers
            .iter()
            .filter(|(_, name)| **name != tool.server)
        {
            let named = said.windows(name.len() + 1).any(|run| {
                let (first, last) = run.split_at(name.len());
                first == name && matches!(last, [last] if last == "server" || last == "mcp")
            });
            if named {
                reasons.push(format!("its words name the server `{server}`"));
            }
        }
        reasons
    }
}

/// `mcp__server` of `mcp__server__tool`.
fn server_part(name: &str) -> &str {
    let end = name.get(5..).and_then(|rest| rest.find("__"));
    end.map_or(name, |end| &name[..5 + end])
}

/// Whether a name is not also a word of everyday language.
fn is_telling(name: &str) -> bool {
    let bytes = name.as_bytes();
    let humps = bytes
        .windows(2)
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    name.len() >= TELLING && (humps || name.contains(['_', '-']))
}

/// Calls `each` with every text of a definition that a model reads, keys among them.
fn texts(tool: &CatalogTool, each: &mut impl FnMut(&str)) {
    each(&tool.description);
    each(tool.title.as_deref().unwrap_or_default());
    within(&tool.input_schema, each);
}

fn within(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| within(item, each)),
        Value::Object(members) => {
            for (key, value) in members {
                each(key);
                within(value, each);
            }
        }
        _ => {}
    }
}

/// The words of a text in lower case; `readFile`, `read_file` and `read file` have the same two.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut small) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        if (!c.is_alphanumeric() || (small && c.is_uppercase())) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        small = c.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Says so when blanks push the rest of a text out of view.
fn padding(text: &str) -> Option<String> {
    let (mut blanks, mut line_ends) = (0, 0);
    let (mut most_blanks, mut most_line_ends) = (0, 0);
    for c in text.trim_end().chars() {
        if c.is_whitespace() || c == '\u{2800}' {
            blanks += 1;
            line_ends += usize::from(c == '\n');
            most_blanks = most_blanks.max(blanks);
            most_line_ends = most_line_ends.max(line_ends);
        } else {
            (blanks, line_ends) = (0, 0);
        }
    }
    if most_line_ends >= LINE_ENDS {
        return Some(format!(
            "it has text behind {} blank lines",
            most_line_ends - 1
        ));
    }
    (most_blanks >= BLANKS).then(|| format!("it has text behind {most_blanks} blanks"))
}
