//! `outrigger.lock`: which definition of each tool was approved. Text, sorted, one line a tool, so
//! that a change reads well in a diff. Replaced as a whole; writers of several processes take turns.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kept_file::{self, KeptFileError};

const HEAD: &str = "\
# Which definition of each tool was approved: SHA-256 over name, title, description, schemas and annotations.
# A tool that differs is held back. `outrigger pin` shows what changed, asks, and writes this file.

";

/// The version of the format that is written, and the newest that is read.
const VERSION: u32 = 1;

/// A lock file in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockFile {
    version: u32,
    /// By name and identity of the server.
    #[serde(default)]
    server: BTreeMap<String, Server>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    /// Fingerprint of what it says about how it is used, where models may read that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    /// By the server's own names for them.
    #[serde(default)]
    tools: BTreeMap<String, String>,
}

impl Default for LockFile {
    fn default() -> Self {
        Self {
            version: VERSION,
            server: BTreeMap::new(),
        }
    }
}

impl LockFile {
    /// Reads a file; one that does not exist holds nothing.
    pub(super) fn read(path: &Path) -> Result<Self, KeptFileError> {
        let Some(text) = kept_file::read(path)? else {
            return Ok(Self::default());
        };
        Self::parse(path, &text)
    }

    /// Reads the text of one.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, KeptFileError> {
        let file: Self = toml::from_str(text).map_err(|error| {
            KeptFileError::new(path, "is not a lock file of this program", &error)
        })?;
        if file.version > VERSION {
            let reason = format!(
                "it has version {}, and {VERSION} is the newest known here",
                file.version
            );
            return Err(KeptFileError::new(
                path,
                "was written by a newer program",
                &reason,
            ));
        }
        Ok(file)
    }

    /// Changes a file, whatever others have written to it meanwhile, and gives what it holds then.
    pub(super) fn update(
        path: &Path,
        change: impl FnOnce(&mut Self),
    ) -> Result<Self, KeptFileError> {
        kept_file::update(path, Self::read, change, |file| file.text(path))
    }

    /// As it is written.
    pub(super) fn text(&self, path: &Path) -> Result<String, KeptFileError> {
        let text = toml::to_string_pretty(self)
            .map_err(|error| KeptFileError::new(path, "cannot be written", &error))?;
        Ok(format!("{HEAD}{text}"))
    }

    pub(super) fn pinned(&self, server: &str, tool: &str) -> Option<&str> {
        let tools = &self.server.get(server)?.tools;
        tools.get(tool).map(String::as_str)
    }

    /// The tools that are pinned of a server, each with its fingerprint.
    pub(super) fn tools(&self, server: &str) -> impl Iterator<Item = (&str, &str)> {
        let tools = self.server.get(server).map(|server| &server.tools);
        let pinned = tools.into_iter().flatten();
        pinned.map(|(tool, digest)| (tool.as_str(), digest.as_str()))
    }

    pub(super) fn instructions(&self, server: &str) -> Option<&str> {
        self.server.get(server)?.instructions.as_deref()
    }

    pub(super) fn pin_instructions(&mut self, server: &str, digest: String) {
        let server = self.server.entry(server.to_owned()).or_default();
        server.instructions = Some(digest);
    }

    pub(super) fn pin(&mut self, server: &str, tool: &str, digest: String) {
        let tools = &mut self.server.entry(server.to_owned()).or_default().tools;
        tools.insert(tool.to_owned(), digest);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_reads_back_sorted_and_two_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outrigger.lock");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    LockFile::update(path, |file| {
                        file.pin("notes@1", &format!("tool {n}"), format!("digest{n}"));
                    })
                    .unwrap();
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(text.lines().filter(|line| !line.starts_with('#')).take(7).collect::<Vec<_>>().join("\n"), @r#"

        version = 1

        [server."notes@1".tools]
        "tool 0" = "digest0"
        "tool 1" = "digest1"
        "tool 2" = "digest2"
        "#);
        let read = LockFile::read(&path).unwrap();
        assert_eq!(read.pinned("notes@1", "tool 7"), Some("digest7"));
        assert_eq!(read.pinned("notes@2", "tool 7"), None);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outrigger.lock");
        assert_eq!(LockFile::read(&path).unwrap(), LockFile::default());
        for (text, words) in [
            (
                "version = 1\n<<<<<<< ours",
                "is not a lock file of this program",
            ),
            ("version = 2", "was written by a newer program"),
            ("version = 1\n[other]", "unknown field `other`"),
        ] {
            fs::write(&path, text).unwrap();
            let error = LockFile::read(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            // What is there is not overwritten either.
            LockFile::update(&path, |_| {}).unwrap_err();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
