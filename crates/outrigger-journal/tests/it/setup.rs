//! What the tests have in common: a folder with a journal, and short ways to write events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use outrigger_journal::{
    Database, DecidedBy, Event, Journal, Observer, OutcomeKind, Place, Recorded, Run, RunOptions,
    RunStatus, Tokens,
};
use serde_json::value::RawValue;
use tempfile::TempDir;

/// A journal in a folder of its own, or in a database.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    /// As [`place`] takes it.
    pub(crate) address: String,
    pub(crate) place: Place,
    pub(crate) journal: Journal,
}

/// Names tests that are about any store: each runs over a file, and over a database where the feature
/// is there. A third store would be a third module here.
macro_rules! over_stores {
    ($($test:ident),* $(,)?) => {
        mod in_a_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::setup::Home::new()).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod in_a_database {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::setup::Home::in_database()).await;
            })*
        }
    };
}

pub(crate) use over_stores;

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db").display().to_string();
        Self::at(folder, path)
    }

    /// Hosts that are away count as gone at once.
    #[cfg(feature = "postgres")]
    pub(crate) fn in_database() -> Self {
        let url = outrigger_testkit::postgres::server().database();
        Self::at(tempfile::tempdir().unwrap(), url)
    }

    fn at(folder: TempDir, address: String) -> Self {
        let place = place(&address);
        let journal = Journal::open_in(&place).unwrap();
        Self {
            folder,
            address,
            place,
            journal,
        }
    }

    /// The same journal, opened once more.
    pub(crate) fn again(&self) -> Journal {
        Journal::open_in(&self.place).unwrap()
    }

    /// What somebody else does to it.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), String> {
        match &self.place {
            Place::File(_) => self
                .connection()
                .execute_batch(sql)
                .map_err(|error| error.to_string()),
            #[cfg(feature = "postgres")]
            Place::Database(database) => {
                let name = database.name().display().to_string();
                let sql = format!("SET search_path = outrigger; {sql}");
                let server = outrigger_testkit::postgres::server();
                let name = outrigger_testkit::postgres::name_of(&name);
                server.sql(name, &sql).map(drop)
            }
            #[cfg(not(feature = "postgres"))]
            Place::Database(_) => unreachable!("there is none"),
        }
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

/// The place with this name: a path, or the address of a database.
pub(crate) fn place(name: &str) -> Place {
    if !name.starts_with("postgres://") {
        return Place::File(name.into());
    }
    let mut database = Database::new(name, "a test").unwrap();
    database.grace = std::time::Duration::ZERO;
    Place::Database(database)
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
