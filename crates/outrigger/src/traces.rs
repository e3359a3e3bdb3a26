//! Diagnosis on stderr, without secrets. A library may trace what it sends, and an error may quote it, so every
//! line passes the redactor before it is written. It may hold words of servers, and is made visible too.

use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};

use outrigger_journal::Redactor;

use crate::visible;

/// What knows what is secret so far.
static REDACTORS: RwLock<Vec<Redactor>> = RwLock::new(Vec::new());

/// From now on these values are taken out of traces too.
pub(crate) fn hide(secrets: &[String]) {
    follow(&Redactor::new(secrets));
}

/// From now on what this redactor knows, and will learn, is taken out of traces too.
pub(crate) fn follow(redactor: &Redactor) {
    let mut redactors = REDACTORS.write().unwrap_or_else(PoisonError::into_inner);
    redactors.push(redactor.clone());
}

/// Where one trace goes.
pub(crate) fn line() -> Line {
    Line { json: false }
}

/// The same for one that is a JSON document, and stays one.
pub(crate) fn document() -> Line {
    Line { json: true }
}

/// Takes one trace, which comes as a whole.
pub(crate) struct Line {
    json: bool,
}

impl Write for Line {
    fn write(&mut self, trace: &[u8]) -> io::Result<usize> {
        io::stderr()
            .lock()
            .write_all(cleaned(trace, self.json).as_bytes())?;
        Ok(trace.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn cleaned(trace: &[u8], json: bool) -> String {
    let redactors = REDACTORS.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::from_utf8_lossy(trace).into_owned();
    for redactor in redactors.iter() {
        text = redactor.redact(&text).into_owned();
    }
    if json {
        return visible::json(&text).into_owned();
    }
    visible::lines(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_secret_is_taken_out() {
        assert_eq!(cleaned(b"sent s3cr3t-value", false), "sent s3cr3t-value");
        hide(&["s3cr3t-value".to_owned()]);
        assert_eq!(
            cleaned(b"sent s3cr3t-value in ?k=%733cr3t-value\x1b", false),
            "sent [redacted] in ?k=[redacted]\\u{1b}"
        );
        let line = r#"{"message":"sent s3cr3t-value\u202e"}"#.replace("\\u202e", "\u{202e}");
        let cleaned = cleaned(line.as_bytes(), true);
        let read: serde_json::Value = serde_json::from_str(&cleaned).unwrap();
        assert_eq!(read["message"], "sent [redacted]\u{202e}");
        assert!(!cleaned.contains('\u{202e}'), "{cleaned}");
    }
}
