//! `--wire`: what crosses the wire, a JSON document a line.
//!
//! Promises: secrets that are known are not in it; the file is new, a regular one, and readable by
//! its owner only; a trace that cannot be written any more is told once and ends, and no call does.
//! Leaves out: what is shown at all, and which headers, which is `outrigger_connect::Tap`'s.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_connect::{Crossing, Direction, HttpPart, Tap};
use outrigger_journal::Redactor;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;

use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::visible;

/// Writes what crosses the wire.
pub(crate) struct WireTrace {
    redactor: Redactor,
    place: String,
    screen: Screen,
    sink: Mutex<Sink>,
}

/// Where it goes.
pub(crate) enum Sink {
    File(File),
    Stderr,
    /// It could not be written, and that was told.
    Broken,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    server: &'a str,
    link: u64,
    direction: &'static str,
    transport: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Http<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unparsed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Http<'a> {
    exchange: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    headers: Headers<'a>,
}

/// As an object in the order of sending. A name that occurs twice stands there twice.
struct Headers<'a>(Vec<(&'a str, String)>);

impl Sink {
    /// A file that is begun anew, or (`-`) stderr.
    pub(crate) fn open(place: &Path) -> Result<Self, CommandError> {
        if place == Path::new("-") {
            return Ok(Self::Stderr);
        }
        begin(place).map(Self::File).map_err(|error| {
            let place = place.display();
            let error = format!("the trace `{place}` of `--wire` cannot be written: {error}");
            CommandError::usage(error).hint("name a new file, or `-` for standard error")
        })
    }
}

impl WireTrace {
    /// A trace into `sink`, without what `redactor` knows or comes to know.
    pub(crate) fn new(sink: Sink, place: &Path, redactor: Redactor, screen: Screen) -> Arc<Self> {
        Arc::new(Self {
            redactor,
            place: place.display().to_string(),
            screen,
            sink: Mutex::new(sink),
        })
    }

    fn line(&self, crossing: &Crossing<'_>) -> serde_json::Result<String> {
        let (message, unparsed) = match crossing.payload {
            Some(payload) => self.payload(&String::from_utf8_lossy(payload)),
            None => (None, None),
        };
        serde_json::to_string(&Line {
            time: format!("{:.3}", jiff::Timestamp::now()),
            server: crossing.server.as_str(),
            link: crossing.link,
            direction: match crossing.direction {
                Direction::Out => "out",
                Direction::In => "in",
            },
            transport: crossing.transport,
            http: crossing.http.as_ref().map(|http| self.http(http)),
            message,
            unparsed,
            note: crossing.note.map(|note| self.redactor.redact(note)),
        })
    }

    /// JSON as it is, on one line; anything else as text.
    fn payload(&self, text: &str) -> (Option<Box<RawValue>>, Option<String>) {
        let Ok(json) = serde_json::from_str::<&RawValue>(text) else {
            return (None, Some(self.redactor.redact(text).into_owned()));
        };
        let clean = self.redactor.redact_json(json);
        // Within strings these cannot stand as they are, so they stand between tokens.
        let line = clean.get().replace(['\n', '\r', '\t'], " ");
        match RawValue::from_string(line) {
            Ok(message) => (Some(message), None),
            Err(_) => (None, Some(clean.get().to_owned())),
        }
    }

    fn http<'a>(&self, http: &HttpPart<'a>) -> Http<'a> {
        let headers = http.headers.iter();
        let clean = |text: &str| self.redactor.redact(text).into_owned();
        Http {
            exchange: http.exchange,
            method: http.method,
            url: http.url.map(|url| clean(without_query(url).as_ref())),
            status: http.status,
            event: http.event.map(|event| self.redactor.redact(event)),
            headers: Headers(headers.map(|(name, value)| (*name, clean(value))).collect()),
        }
    }

    fn write(&self, line: &str) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match &mut *sink {
            Sink::File(file) => file.write_all(format!("{line}\n").as_bytes()),
            Sink::Stderr => writeln!(io::stderr().lock(), "{}", visible::json(line)),
            Sink::Broken => return,
        };
        if let Err(error) = written {
            *sink = Sink::Broken;
            self.screen.insist(format_args!(
                "{} the trace `{}` ends here, it cannot be written: {error}",
                self.screen.talk(Label::Warn, "warning:"),
                visible::line(&self.place)
            ));
        }
    }
}

impl Tap for WireTrace {
    fn see(&self, crossing: &Crossing<'_>) {
        match self.line(crossing) {
            Ok(line) => self.write(&line),
            Err(error) => tracing::warn!(%error, "a message cannot be traced"),
        }
    }
}

/// Creates the file, in the place of one that is there. Never through a symbolic link, and never
/// into a device or a pipe, which could make everything wait.
fn begin(place: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(place) {
        Ok(there) if there.is_file() => std::fs::remove_file(place)?,
        Ok(_) => return Err(io::Error::other("it is there and no regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    // A new file is never opened through a link that somebody has put there meanwhile.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(place)
}

/// Queries often hold keys, and always what is not about the protocol.
fn without_query(url: &str) -> Cow<'_, str> {
    match url.split_once('?') {
        Some((before, _)) => Cow::Owned(format!("{before}?…")),
        None => Cow::Borrowed(url),
    }
}

impl Headers<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Headers<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use outrigger_connect::ServerName;

    use super::*;

    fn crossing<'a>(server: &'a ServerName, payload: &'a [u8]) -> Crossing<'a> {
        Crossing {
            server,
            link: 1,
            direction: Direction::In,
            transport: "http",
            http: Some(HttpPart {
                exchange: 2,
                url: Some("https://a.example/mcp?key=abc"),
                headers: vec![("server", "s3cr3t-value".to_owned())],
                ..HttpPart::default()
            }),
            payload: Some(payload),
            note: None,
        }
    }

    fn trace(sink: Sink) -> WireTrace {
        WireTrace {
            redactor: Redactor::new(["s3cr3t-value"]),
            place: "x".to_owned(),
            screen: Screen::plain(),
            sink: Mutex::new(sink),
        }
    }

    /// Without its time.
    fn line(payload: &[u8]) -> String {
        let server = ServerName::new("a").unwrap();
        let line = trace(Sink::Stderr)
            .line(&crossing(&server, payload))
            .unwrap();
        line.split_once(',').unwrap().1.to_owned()
    }

    #[test]
    fn a_message_keeps_its_digits_on_one_line_without_secrets() {
        insta::assert_snapshot!(line(b"{\n\t\"n\": 1.50e0,\r\n \"s\": \"czNjcjN0LXZhbHVl s3cr3t-value\"}"), @r#""server":"a","link":1,"direction":"in","transport":"http","http":{"exchange":2,"url":"https://a.example/mcp?…","headers":{"server":"[redacted]"}},"message":{  "n": 1.50e0,   "s": "[redacted] [redacted]"}}"#);
        assert!(
            line(b"{\"s3cr3t-value\xff").ends_with("\"unparsed\":\"{\\\"[redacted]\u{fffd}\"}")
        );
    }

    #[test]
    fn a_trace_that_cannot_be_written_ends() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("trace");
        std::fs::write(&place, "").unwrap();
        let server = ServerName::new("a").unwrap();
        let trace = trace(Sink::File(File::open(&place).unwrap()));
        trace.see(&crossing(&server, b"{}"));
        trace.see(&crossing(&server, b"{}"));
        assert!(matches!(*trace.sink.lock().unwrap(), Sink::Broken));
    }
}
