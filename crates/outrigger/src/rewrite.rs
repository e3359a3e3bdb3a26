//! Changing a file that a person also edits: shown first, then whole or not at all.
//!
//! Promises: a link stays a link, what it leads to is changed; the file as it was is kept beside it, for
//! its owner only; what somebody else has written meanwhile is not lost; permissions stay. Leaves out:
//! asking ([`agreed`] does), and what the new text is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use similar::{ChangeTag, TextDiff};

use crate::error::{CommandError, Exit};
use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::secrets::store;
use crate::visible;

/// What stands for a secret in what is shown.
const MASK: &str = "••••";

/// A larger file is not changed.
const MAX_BYTES: u64 = 32 << 20;

/// A file and what is to become of it.
pub(crate) struct Rewrite {
    /// The file itself, links followed.
    pub(crate) file: PathBuf,
    /// `None`: there is none yet.
    pub(crate) before: Option<String>,
    pub(crate) after: String,
}

/// A file as it is, links followed.
pub(crate) fn read(file: &Path) -> Result<(PathBuf, Option<String>), CommandError> {
    let unreadable = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
            _ => error.to_string(),
        };
        CommandError::failed(format!("`{}` cannot be read: {why}", file.display()))
    };
    match fs::canonicalize(file) {
        Ok(file) => {
            let metadata = fs::metadata(&file).map_err(unreadable)?;
            if !metadata.is_file() || metadata.len() > MAX_BYTES {
                let error = format!(
                    "`{}` is left as it is: it is no file, or has more than {} MiB",
                    file.display(),
                    MAX_BYTES >> 20
                );
                return Err(CommandError::failed(error));
            }
            let text = fs::read_to_string(&file).map_err(unreadable)?;
            Ok((file, Some(text)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if fs::symlink_metadata(file).is_ok() {
                let error = format!("`{}` is a link that leads nowhere", file.display());
                return Err(CommandError::failed(error));
            }
            Ok((file.to_owned(), None))
        }
        Err(error) => Err(unreadable(error)),
    }
}

impl Rewrite {
    /// Whether anything changes.
    pub(crate) fn changes(&self) -> bool {
        self.before.as_deref() != Some(self.after.as_str())
    }

    /// The lines that change, with these secrets masked.
    pub(crate) fn show(&self, secrets: &[String], screen: Screen) -> Result<(), CommandError> {
        let name = visible::line(&self.file.display().to_string()).into_owned();
        let new = if self.before.is_none() { " (new)" } else { "" };
        screen.data(&format!("{name}{new}\n"))?;
        let before = self.before.as_deref().unwrap_or_default();
        let diff = TextDiff::from_lines(before, &self.after);
        for change in diff.iter_all_changes() {
            let (sign, label, at) = match change.tag() {
                ChangeTag::Equal => continue,
                ChangeTag::Delete => ("-", Label::Bad, change.old_index()),
                ChangeTag::Insert => ("+", Label::Good, change.new_index()),
            };
            let line = change.value().trim_end_matches(['\n', '\r', '\u{feff}']);
            let line = line.trim_start_matches('\u{feff}');
            let line = masked(line, secrets);
            let line = format!("{sign}{:>5}  {line}", at.map_or(0, |at| at + 1));
            screen.data(&format!("{}\n", screen.ink(label, &line)))?;
        }
        Ok(())
    }

    /// Keeps the file as it was, and writes it anew; gives where the old one is, if there was one. What
    /// fails leaves the file as it was.
    pub(crate) fn carry_out(&self) -> Result<Option<PathBuf>, CommandError> {
        let unwritten = |error: std::io::Error| {
            CommandError::failed(format!(
                "`{}` cannot be written: {error}",
                self.file.display()
            ))
        };
        let Some(before) = &self.before else {
            if store::keep_in_file(&self.file, self.after.as_bytes())? {
                return Ok(None);
            }
            return Err(self.changed_meanwhile());
        };
        // Somebody may have changed it while the question was open.
        if fs::read_to_string(&self.file).map_err(unwritten)? != *before {
            return Err(self.changed_meanwhile());
        }
        let permissions = fs::metadata(&self.file).map_err(unwritten)?.permissions();
        let backup = beside(&self.file, "backup", before.as_bytes())?;
        let fresh = beside(&self.file, "new", self.after.as_bytes())?;
        fs::set_permissions(&fresh, permissions)
            .and_then(|()| fs::rename(&fresh, &self.file))
            .inspect_err(|_| drop(fs::remove_file(&fresh)))
            .map_err(unwritten)?;
        Ok(Some(backup))
    }

    fn changed_meanwhile(&self) -> CommandError {
        CommandError::failed(format!(
            "`{}` has changed meanwhile; nothing was done to it",
            self.file.display()
        ))
    }
}

/// A line with secrets masked, as it may stand in JSON, TOML or plain.
pub(crate) fn masked(line: &str, secrets: &[String]) -> String {
    let mut line = line.to_owned();
    for secret in secrets {
        let quoted = serde_json::Value::from(secret.as_str()).to_string();
        line = line.replace(secret.as_str(), MASK);
        line = line.replace(quoted.trim_matches('"'), MASK);
    }
    visible::line(&line).into_owned()
}

/// Ends with a refusal unless the person at the terminal says yes to `question`.
pub(crate) async fn agreed(question: &str, screen: Screen) -> Result<(), CommandError> {
    if !screen.can_ask() {
        let error = CommandError::new(
            Exit::Refused,
            "nothing was changed: nobody is there to agree",
        );
        return Err(error.hint("`--yes` agrees in advance"));
    }
    screen.prompt(format_args!("{question} [y]es, [n]o: "));
    let answer = Keyboard::default().line().await.unwrap_or_default();
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::new(Exit::Refused, "nothing was changed")),
    }
}

/// A new file beside `file`, with mode 0600.
fn beside(file: &Path, ending: &str, bytes: &[u8]) -> Result<PathBuf, CommandError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..1000_u32 {
        let number = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
        let path = file.with_file_name(format!("{name}.{ending}{number}"));
        if store::keep_in_file(&path, bytes)? {
            return Ok(path);
        }
    }
    Err(CommandError::failed(format!(
        "there is no free name beside `{}`",
        file.display()
    )))
}
