//! What the tests have in common: a folder with a journal, and short ways to write events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use outrigger_journal::{
    DecidedBy, Event, Journal, Observer, OutcomeKind, Recorded, Run, RunOptions, RunStatus, Tokens,
};
use serde_json::value::RawValue;
use tempfile::TempDir;

/// A journal in a folder of its own.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) journal: Journal,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join("journal.db")).unwrap();
        Self { folder, journal }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub(crate) async fn run(&self) -> Run {
        self.journal
            .begin(started(), RunOptions::default())
            .await
            .unwrap()
    }

    /// A connection that is not the journal's.
    pub(crate) fn connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

pub(crate) fn started() -> Event {
    Event::RunStarted {
        command: "ask".to_owned(),
        question: Some("when?".to_owned()),
        model: None,
        workspace: "/tmp".to_owned(),
        version: "0.1.0".to_owned(),
        principal: None,
    }
}

pub(crate) fn ended(status: RunStatus) -> Event {
    Event::RunEnded {
        status,
        reason: None,
        answer: None,
        usage: Tokens {
            input: 10,
            cached: 4,
            output: 2,
        },
    }
}

/// An event that changes nothing but can be told apart.
#[allow(clippy::needless_pass_by_value, reason = "short at its many callers")]
pub(crate) fn note(server: impl ToString, reason: impl ToString) -> Event {
    Event::ServerEnded {
        server: server.to_string(),
        reason: reason.to_string(),
    }
}

/// The `reason` of a [`note`].
pub(crate) fn reason(recorded: &Recorded) -> Option<&str> {
    match &recorded.event {
        Event::ServerEnded { reason, .. } => Some(reason),
        _ => None,
    }
}

pub(crate) fn proposed(call: u32) -> Event {
    Event::CallProposed {
        call,
        turn: None,
        tool: "mcp__files__write".to_owned(),
        arguments: "{}".to_owned(),
        client: None,
    }
}

pub(crate) fn prepared(call: u32) -> Event {
    Event::CallPrepared {
        call,
        server: "files".to_owned(),
        raw_tool: "write".to_owned(),
        arguments: RawValue::from_string(r#"{"n":1.50}"#.to_owned()).unwrap(),
        repairs: Vec::new(),
        artifacts: Vec::new(),
    }
}

pub(crate) fn decided(call: u32) -> Event {
    Event::CallDecided {
        call,
        allowed: true,
        rule: "default".to_owned(),
        by: DecidedBy::Policy,
        reason: None,
    }
}

pub(crate) fn intent(call: u32) -> Event {
    Event::CallIntent { call }
}

pub(crate) fn end(call: u32, outcome: OutcomeKind) -> Event {
    let result = RawValue::from_string(r#"{"content": []}"#.to_owned()).unwrap();
    Event::CallEnded {
        call,
        outcome,
        is_error: false,
        summary: "wrote".to_owned(),
        result: Some(result),
        kept: None,
        artifacts: Vec::new(),
        tokens: 3,
        took_ms: 7,
    }
}

pub(crate) fn late(call: u32, outcome: OutcomeKind) -> Event {
    Event::LateAnswer {
        call,
        outcome,
        summary: "came late".to_owned(),
        result: None,
        kept: None,
    }
}

/// Keeps what it sees.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<Recorded>>);

impl Observer for Seen {
    fn observe(&self, event: &Recorded) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Seen {
    pub(crate) fn options(self: &Arc<Self>, secrets: &[&str]) -> RunOptions {
        let secrets = secrets.iter().map(ToString::to_string).collect();
        RunOptions {
            observers: vec![Arc::clone(self) as Arc<dyn Observer>],
            secrets,
        }
    }

    pub(crate) fn as_json(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(json).collect()
    }
}

pub(crate) fn json(recorded: &Recorded) -> String {
    serde_json::to_string(recorded).unwrap()
}
