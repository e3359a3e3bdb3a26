//! The user guides keep their word: every block of configuration in them loads as the text says,
//! every key there is is documented, and every link from page to page leads somewhere.
//!
//! A block marked `toml`, `json` or `yaml` must load without any problem; with `,broken` behind it,
//! it must have one; with `,project`, it is a file of the project. Leaves out blocks of output.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::Place;

/// Pages that show configuration.
const PAGES: [&str; 12] = [
    "chat.md",
    "configuration.md",
    "hooks.md",
    "hygiene.md",
    "journal.md",
    "models.md",
    "policy.md",
    "prompts-and-resources.md",
    "questions.md",
    "secrets.md",
    "servers.md",
    "troubleshooting.md",
];
/// Variables that the examples use.
const VARIABLES: [&str; 3] = ["NOTES_TOKEN", "SEARCH_TOKEN", "WEB_TOKEN"];

struct Block {
    /// For messages: page and line.
    at: String,
    info: String,
    text: String,
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The fenced blocks of a page.
fn blocks(name: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page(name).lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    at: format!("{name}:{}", index + 1),
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{name} has a block that does not end");
    blocks
}

/// Every problem of a block, where it is meant to stand.
fn problems(block: &Block) -> Option<String> {
    let mut words = block.info.split(',');
    let file = match words.next()? {
        "toml" => "outrigger.toml",
        "yaml" => "outrigger.yaml",
        "json" => "mcp.json",
        _ => return None,
    };
    let folder = match (words.any(|word| word == "project"), file) {
        (false, _) => "user",
        (true, "mcp.json") => "project",
        (true, _) => "project/.outrigger",
    };
    let place = Place::with(&format!("{folder}/{file}"), &block.text);
    let place = VARIABLES
        .into_iter()
        .fold(place, |place, name| place.set(name, "x"));
    Some(place.lines())
}

#[test]
fn every_block_of_configuration_loads_as_it_is_meant_to() {
    let mut loaded = 0;
    for block in PAGES.into_iter().flat_map(blocks) {
        let Some(problems) = problems(&block) else {
            continue;
        };
        let broken = block.info.split(',').any(|word| word == "broken");
        assert_eq!(!problems.is_empty(), broken, "{}: {problems}", block.at);
        loaded += 1;
    }
    assert!(loaded >= 15, "only {loaded} blocks were found");
}

#[test]
fn every_key_is_documented() {
    let page = page("configuration.md");
    let mut seen = BTreeSet::new();
    for table in [
        "",
        "[servers.x]\ncommand = \"x\"\n",
        "[servers.x]\ncommand = \"x\"\n[servers.x.timeouts]\n",
        "[servers.x]\ncommand = \"x\"\n[servers.x.limits]\n",
        "[policy]\n",
        "[[policy.rule]]\ntool = \"x\"\ndecision = \"ask\"\n",
        "[model]\n",
        "[model.providers.x]\n",
        "[limits]\n",
        "[timeouts]\n",
        "[tls]\n",
        "[builtin]\n",
        "[secrets]\n",
        "[artifacts]\n",
        "[results]\n",
        "[profiles.x]\n",
        "[hooks]\n",
        "[[hooks.before_call]]\ncommand = ['x']\n",
    ] {
        let text = format!("{table}qqqqqqqqqqqqqqqq = 1\n");
        let said = Place::with("user/outrigger.toml", &text).lines();
        let (_, keys) = said
            .split_once("known keys: ")
            .unwrap_or_else(|| panic!("no keys are named for `{table}`: {said}"));
        let keys = keys.lines().next().unwrap();
        for key in keys.split(", ") {
            let forms = [format!("`{key}`"), format!("{key} ="), format!("[{key}")];
            let told = forms.iter().any(|form| page.contains(form));
            assert!(told, "`{key}` of `{table}` is not documented");
            seen.insert(key.to_owned());
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
}

/// As GitHub makes anchors of headings.
fn anchors(name: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    page(name)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut followed = 0;
    for name in PAGES.into_iter().chain(["scripting.md"]) {
        for link in page(name).split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { name } else { file };
            assert!(docs().join(file).exists(), "{name} links to {link}");
            let found = anchor.is_empty() || anchors(file).contains(anchor);
            assert!(found, "{name} links to {link}");
            followed += 1;
        }
    }
    assert!(followed > 10);
}
