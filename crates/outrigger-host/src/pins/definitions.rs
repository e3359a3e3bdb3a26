//! Approved definitions, so that a change can be shown and tools can be listed before their server has
//! started: those of a server together, in one file or one text of the database, a line each.
//!
//! Promises: what is given out has the fingerprint that it is kept under, whoever wrote it. Definitions
//! that were approved once stay: another checkout may still speak of them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::CatalogTool;
use crate::digest::Digest;
use crate::kept_file::{self, KeptFileError};
use crate::shared_texts::SharedTexts;

/// Where they are kept; nowhere, it may be.
pub(super) struct Definitions<'a> {
    pub(super) folder: Option<&'a Path>,
    /// In the place of the folder.
    pub(super) shared: Option<&'a dyn SharedTexts>,
}

/// Those of one server.
pub(super) struct Kept<'a> {
    place: Definitions<'a>,
    /// By fingerprint.
    texts: HashMap<String, String>,
}

impl<'a> Definitions<'a> {
    /// Those of the server with this key, as far as they are here.
    pub(super) fn of(self, key: &str) -> Kept<'a> {
        let text = match (self.shared, self.folder) {
            (Some(texts), _) => texts.read(&name(key), None).ok().flatten(),
            (None, Some(folder)) => {
                let text = fs::read_to_string(file(folder, key)).ok();
                text.map(|text| crate::shared_texts::SharedText { text, version: 0 })
            }
            (None, None) => None,
        };
        let text = text.map(|found| found.text).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Kept {
            texts: lines
                .map(|(digest, text)| (digest.to_owned(), text.to_owned()))
                .collect(),
            place: self,
        }
    }

    /// Adds those of these tools, which are the server's with this key.
    pub(super) fn keep(&self, key: &str, tools: &[Arc<CatalogTool>]) -> Result<(), KeptFileError> {
        if tools.is_empty() {
            return Ok(());
        }
        let add = |text: &mut String| {
            let known = text.lines().filter_map(|line| line.split_once(' '));
            let mut known: HashSet<String> = known.map(|(digest, _)| digest.to_owned()).collect();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            for tool in tools {
                let digest = tool.digest.to_string();
                if !known.contains(&digest) {
                    text.push_str(&[&digest, " ", &*tool.definition, "\n"].concat());
                    known.insert(digest);
                }
            }
        };
        match (self.shared, self.folder) {
            (Some(texts), _) => {
                let mut change = |text: Option<&str>| {
                    let mut text = text.unwrap_or_default().to_owned();
                    add(&mut text);
                    Ok(text)
                };
                texts.change(&name(key), &mut change).map(drop)
            }
            (None, Some(folder)) => {
                let read = |path: &Path| Ok(kept_file::read(path)?.unwrap_or_default());
                let write = |text: &String| Ok(text.clone());
                kept_file::update(&file(folder, key), read, add, write).map(drop)
            }
            (None, None) => Ok(()),
        }
    }
}

impl Kept<'_> {
    /// The definition with this fingerprint.
    pub(super) fn get(&self, digest: &str) -> Option<Value> {
        let sound = |text: &str| {
            let value: Value = serde_json::from_str(text).ok()?;
            // Somebody may have changed what only we write.
            (Digest::of(&value).to_string() == digest).then_some(value)
        };
        match self.texts.get(digest) {
            Some(text) => sound(text),
            None => sound(&self.alone(digest)?),
        }
    }

    /// As it was kept before those of a server were kept together.
    fn alone(&self, digest: &str) -> Option<String> {
        match (self.place.shared, self.place.folder) {
            (Some(texts), _) => {
                let found = texts.read(&format!("definition/{digest}"), None);
                found.ok().flatten().map(|found| found.text)
            }
            (None, Some(folder)) => fs::read_to_string(folder.join(format!("{digest}.json"))).ok(),
            (None, None) => None,
        }
    }
}

fn name(key: &str) -> String {
    format!("definitions/{key}")
}

/// A server's name may be anything; its fingerprint names a file. What two names of one command say
/// is kept together.
fn file(folder: &Path, key: &str) -> PathBuf {
    let digest = key.rsplit('@').next().unwrap_or(key);
    folder.join(format!("{digest}.lines"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outrigger_connect::{ServerName, ToolListing};
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::catalog::{ServerCatalog, Standing};

    fn tools(descriptions: &[&str]) -> Vec<Arc<CatalogTool>> {
        let tool = |(number, description)| {
            let name = format!("tool-{number}");
            let schema = json!({ "type": "object" });
            let tool = json!({ "name": name, "description": description, "inputSchema": schema });
            to_raw_value(&tool).unwrap()
        };
        let listing = ToolListing {
            tools: descriptions.iter().enumerate().map(tool).collect(),
            pages: 1,
            problems: Vec::new(),
            took: Duration::ZERO,
        };
        let server = ServerName::new("lab").unwrap();
        ServerCatalog::read(&server, Standing::default(), listing).tools
    }

    fn within(folder: &Path) -> Definitions<'_> {
        Definitions {
            folder: Some(folder),
            shared: None,
        }
    }

    #[test]
    fn those_of_a_server_are_one_file_and_each_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let place = || within(folder.path());
        let first = tools(&["one", "two\nlines", "三"]);
        place().keep("a/b c@0123456789abcdef", &first).unwrap();
        let second = tools(&["one", "another"]);
        place().keep("a/b c@0123456789abcdef", &second).unwrap();
        let kept = place().of("a/b c@0123456789abcdef");
        for tool in first.iter().chain(&second) {
            assert_eq!(kept.get(&tool.digest.to_string()), Some(tool.definition()));
        }
        let files = fs::read_dir(folder.path()).unwrap().count();
        let text = fs::read_to_string(folder.path().join("0123456789abcdef.lines")).unwrap();
        assert_eq!((files, text.lines().count()), (1, 4), "{text}");
    }

    #[test]
    fn what_was_changed_or_kept_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = || within(folder.path());
        let [one, two] = &tools(&["one", "two"])[..] else {
            panic!("two tools")
        };
        let (first, second) = (one.digest.to_string(), two.digest.to_string());
        place().keep("lab@0", &[Arc::clone(one)]).unwrap();
        let path = folder.path().join("0.lines");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("one", "eno")).unwrap();
        assert_eq!(
            place().of("lab@0").get(&first),
            None,
            "not what was approved"
        );
        assert_eq!(place().of("lab@0").get(&second), None);
        let alone = folder.path().join(format!("{second}.json"));
        fs::write(alone, &*two.definition).unwrap();
        assert_eq!(place().of("lab@0").get(&second), Some(two.definition()));
    }
}
