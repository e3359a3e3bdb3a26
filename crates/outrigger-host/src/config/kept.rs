//! Configuration files as they may be kept with a recording and shown to others: line for line as they
//! were read, so that every value stays where it was, without comments and without secrets.
//!
//! What stands after a word that sounds secret is masked even when it is none. Leaves out: values that
//! neither stand where a secret stands nor look like one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::secret::{is_secret_name, is_secret_shape, mask_line};
use super::source::Source;
use super::{Config, FileState, Surroundings};

/// Stands for a secret: legible in a header and an address too, and part of the mark that redactors
/// leave, so that none of them takes it for a secret.
const MASKED: &str = "redacted";

/// The files of a configuration, and the variables that they name.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Texts by path.
    pub files: BTreeMap<PathBuf, String>,
    /// Of the environment, what the files name. Secrets are masked.
    pub variables: BTreeMap<String, String>,
}

/// Reads the files of `config` again; `redact` takes known secrets out of a line.
pub fn kept(config: &Config, around: &Surroundings, redact: &dyn Fn(&str) -> String) -> Kept {
    let read = config
        .files
        .iter()
        .filter(|file| matches!(file.state, FileState::Read { .. }));
    let mut kept = Kept::default();
    for file in read {
        // A file that has gone meanwhile is missed when the recording is used.
        if let Ok(Some(source)) = Source::read(file.layer, &file.path) {
            let text = clean(&source.text, redact);
            kept.files.insert(file.path.to_path_buf(), text);
        }
    }
    let named = |name: &str| {
        let ways = [format!("${{{name}"), format!("${{env:{name}")];
        let texts = || kept.files.values();
        ways.iter()
            .any(|way| texts().any(|text| text.contains(way.as_str())))
    };
    kept.variables = around
        .env
        .iter()
        .filter(|(name, _)| named(name))
        .map(|(name, value)| {
            let secret = is_secret_name(name) || is_secret_shape(value);
            let value = if secret {
                MASKED.to_owned()
            } else {
                redact(value)
            };
            (name.clone(), value)
        })
        .collect();
    kept
}

fn clean(text: &str, redact: &dyn Fn(&str) -> String) -> String {
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let begin = line.trim_start();
        if !begin.starts_with('#') && !begin.starts_with("//") {
            push_masked(&mut clean, &mask_line(&redact(line)));
        }
        clean.push_str(end);
    }
    clean
}

/// Each run of mask characters becomes one word.
fn push_masked(out: &mut String, line: &str) {
    let mut masked = false;
    for c in line.chars() {
        if c != '•' {
            out.push(c);
        } else if !masked {
            out.push_str(MASKED);
        }
        masked = c == '•';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_where_they_are_and_lose_their_secrets() {
        let text = "# the old token was hunter2hunter2\n[servers.a]\nurl = \"https://a.example/s3cr3t-value\"\n\
                    headers = { Authorization = \"Bearer ${A_TOKEN}\", X-Key = \"abcdefgh\" }\nread_only = true";
        let redact = |line: &str| line.replace("s3cr3t-value", "[redacted]");
        insta::assert_snapshot!(clean(text, &redact), @r#"

        [servers.a]
        url = "https://a.example/[redacted]"
        headers = { Authorization = "Bearer ${A_TOKEN}", X-Key = "redacted" }
        read_only = true
        "#);
    }
}
