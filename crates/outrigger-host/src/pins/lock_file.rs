//! `outrigger.lock`: which definition of each tool was approved. Text, sorted, one line a tool, so
//! that a change reads well in a diff. Replaced as a whole; writers of several processes take turns.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
    /// By the server's own names for them.
    #[serde(default)]
    tools: BTreeMap<String, String>,
}

/// A lock file that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {what}: {reason}", path.display())]
pub struct PinError {
    /// The file.
    pub path: PathBuf,
    what: &'static str,
    reason: String,
}

impl PinError {
    pub(super) fn write(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path, "cannot be written", error)
    }

    fn new(path: &Path, what: &'static str, reason: impl ToString) -> Self {
        Self {
            path: path.to_owned(),
            what,
            reason: reason.to_string().trim().replace('\n', " "),
        }
    }
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
    pub(super) fn read(path: &Path) -> Result<Self, PinError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(PinError::new(path, "cannot be read", error)),
        };
        let file: Self = toml::from_str(&text)
            .map_err(|error| PinError::new(path, "is not a lock file of this program", error))?;
        if file.version > VERSION {
            let reason = format!(
                "it has version {}, and {VERSION} is the newest known here",
                file.version
            );
            return Err(PinError::new(
                path,
                "was written by a newer program",
                reason,
            ));
        }
        Ok(file)
    }

    /// Changes a file, whatever others have written to it meanwhile, and gives what it holds then.
    pub(super) fn update(path: &Path, change: impl FnOnce(&mut Self)) -> Result<Self, PinError> {
        let failed = |error: std::io::Error| PinError::write(path, &error);
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(failed)?;
        let _turn = turn(folder).map_err(failed)?;
        let mut file = Self::read(path)?;
        change(&mut file);
        let text = toml::to_string_pretty(&file)
            .map_err(|error| PinError::new(path, "cannot be written", error))?;
        let replace = || -> std::io::Result<()> {
            let mut aside = tempfile::NamedTempFile::new_in(folder)?;
            aside.write_all(HEAD.as_bytes())?;
            aside.write_all(text.as_bytes())?;
            aside.as_file().sync_all()?;
            aside.persist(path)?;
            Ok(())
        };
        replace().map_err(failed)?;
        Ok(file)
    }

    pub(super) fn pinned(&self, server: &str, tool: &str) -> Option<&str> {
        let tools = &self.server.get(server)?.tools;
        tools.get(tool).map(String::as_str)
    }

    pub(super) fn pin(&mut self, server: &str, tool: &str, digest: String) {
        let tools = &mut self.server.entry(server.to_owned()).or_default().tools;
        tools.insert(tool.to_owned(), digest);
    }
}

/// Waits for other writers; the turn ends when what is returned is dropped. The folder itself is
/// locked, so that nothing is left beside the file; where a folder cannot be opened (Windows), writers
/// do not wait, and the last one counts.
fn turn(folder: &Path) -> std::io::Result<Option<File>> {
    let Ok(folder) = File::open(folder) else {
        return Ok(None);
    };
    folder.lock()?;
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
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
