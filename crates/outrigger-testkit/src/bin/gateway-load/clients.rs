//! The clients: each calls one tool after the other, and remembers what it was told of every call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{
    CallError, CallOptions, Connection, Connector, Deadlines, HttpSpec, Limits, Protocol,
    ServerName, ServerSpec, TransportSpec,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::Failure;
use crate::accidents::Dice;
use crate::server::{ALL, Kind};

/// How long a client waits for an answer of the server that never gives one.
const IMPATIENT: Duration = Duration::from_millis(1500);
/// And of the others: longer than any of them is away.
const PATIENT: Duration = Duration::from_secs(60);
/// After a call that was not sent.
const PAUSE: Duration = Duration::from_millis(100);
/// Every so many calls one goes to the server that hangs, and one to the one that floods.
const SELDOM: u64 = 64;

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    /// The answer of the server.
    Answered,
    /// That nothing was sent.
    NotSent,
    /// That nobody knows.
    Unknown,
    /// Nothing: it gave up.
    GaveUp,
    /// That the gateway is busy.
    Busy,
}

/// What every client was told of each of its calls, by the call's text.
pub(crate) type AllTold = BTreeMap<String, Told>;

/// Clients, and how long they go on.
pub(crate) struct Load {
    pub(crate) url: Url,
    pub(crate) time: Duration,
    pub(crate) clients: usize,
    pub(crate) seed: u64,
}

impl Load {
    /// Lets all of them call until the time is over. What cannot be explained is an error.
    pub(crate) async fn run(&self) -> Result<AllTold, Failure> {
        let end = Instant::now() + self.time;
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            // Both eras at once.
            let protocol = if number % 2 == 0 {
                Protocol::Modern
            } else {
                Protocol::Legacy
            };
            let connection = connect(&self.url, protocol).await?;
            let dice = Dice::new(self.seed + number as u64 + 1);
            clients.spawn(client(connection, number, dice, end));
        }
        let mut all = AllTold::new();
        while let Some(told) = clients.join_next().await {
            all.extend(told??);
        }
        Ok(all)
    }
}

async fn connect(url: &Url, protocol: Protocol) -> Result<Connection, Failure> {
    let spec = ServerSpec {
        name: ServerName::new("gateway")?,
        transport: TransportSpec::Http(HttpSpec::new(url.clone())),
        protocol,
        versions: None,
        deadlines: Deadlines::default(),
        limits: Limits::default(),
    };
    let connector = Connector::new(env!("CARGO_PKG_VERSION"), None);
    let connected = Box::pin(connector.connect(&spec, &CancellationToken::new())).await;
    let connection = connected.map_err(|error| error.message)?;
    connection.list_tools().await?;
    Ok(connection)
}

async fn client(
    connection: Connection,
    number: usize,
    mut dice: Dice,
    end: Instant,
) -> Result<AllTold, Failure> {
    let mut told = AllTold::new();
    let counting: Vec<_> = ALL
        .iter()
        .filter(|(_, kind)| *kind == Kind::Counts)
        .collect();
    while Instant::now() < end {
        let (name, kind) = match dice.below(SELDOM) {
            0 => ("hangs", Kind::Hangs),
            1 => ("floods", Kind::Floods),
            roll => *counting[usize::try_from(roll)? % counting.len()],
        };
        let text = format!("{name}-{number}-{}", told.len());
        let said = call(&connection, name, kind, &text).await?;
        told.insert(text, said);
        if said == Told::NotSent {
            // Whoever is told that a server is away does not ask again at once.
            tokio::time::sleep(PAUSE).await;
        }
    }
    connection.close().await;
    Ok(told)
}

async fn call(
    connection: &Connection,
    name: &str,
    kind: Kind,
    text: &str,
) -> Result<Told, Failure> {
    let arguments = RawValue::from_string(format!("{{\"text\":\"{text}\"}}"))?;
    let options = CallOptions {
        deadline: Some(if kind == Kind::Hangs {
            IMPATIENT
        } else {
            PATIENT
        }),
        ..CallOptions::default()
    };
    let tool = format!("{name}__echo");
    let answer = Arc::new(connection.call_tool(&tool, &arguments, options).await);
    let result: Value = match &*answer {
        Ok(result) => serde_json::from_str(result.get())?,
        Err(CallError::Deadline { .. }) => return Ok(Told::GaveUp),
        Err(CallError::Rpc { code: -32000, .. }) => return Ok(Told::Busy),
        Err(error) => return Err(format!("{text}: {error}").into()),
    };
    match result["_meta"]["outrigger/call"]["outcome"].as_str() {
        None if result["content"][0]["text"] == text => Ok(Told::Answered),
        Some("not_sent" | "rejected") => Ok(Told::NotSent),
        Some("unknown") => Ok(Told::Unknown),
        _ => Err(format!("{text}: answered with {result}").into()),
    }
}
