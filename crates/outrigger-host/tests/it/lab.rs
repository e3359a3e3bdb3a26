//! A host with one scripted server in this process, a real journal, and a person who answers from a
//! list.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use outrigger_connect::{Connector, InProcessSpec, ServePipe, ServerName, TransportSpec};
use outrigger_host::approve::{Answer, Approver, Question, Repeat};
use outrigger_host::config::{Config, EntryState};
use outrigger_host::hooks::{HookRunner, Hooks};
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::toolset::Toolset;
use outrigger_host::words::Words;
use outrigger_host::{CallContext, CallReport, Host, Parts, ProposedCall};
use outrigger_journal::{Artifacts, Event, Journal, OutcomeKind, Recorded, Run, RunOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Semaphore, mpsc};

use crate::config::Place;

/// A legacy server whose tools do what their names say.
#[derive(Clone, Default)]
pub(crate) struct Server {
    pub(crate) tools: Arc<Mutex<Vec<Value>>>,
    /// Lines, as they came.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    announce: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>,
    /// Connections that it serves now.
    pub(crate) live: Arc<AtomicUsize>,
    /// The call that waits for the answer to a question.
    asking: Arc<Mutex<Option<Value>>>,
}

/// Somebody to ask.
pub(crate) struct Person {
    answers: Mutex<VecDeque<Answer>>,
    /// The questions, as `tool arguments`.
    pub(crate) asked: Mutex<Vec<String>>,
    /// What each question said about an earlier call.
    pub(crate) repeats: Mutex<Vec<Option<Repeat>>>,
    /// What a grant would be bound to.
    pub(crate) exact: Mutex<Vec<String>>,
    /// One permit for each question that may be answered.
    pub(crate) gate: Semaphore,
    open: AtomicUsize,
    pub(crate) most_open: AtomicUsize,
}

/// Everything that a test needs.
pub(crate) struct Lab {
    pub(crate) place: Place,
    pub(crate) server: Server,
    pub(crate) person: Arc<Person>,
    pub(crate) journal: Journal,
    pub(crate) run: Run,
    pub(crate) host: Host,
}

/// One tool's definition.
pub(crate) fn tool(name: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    json!({ "name": name, "inputSchema": schema })
}

impl Server {
    pub(crate) fn new() -> Self {
        let names = ["keep", "wait", "leave", "garble", "fail", "refuse", "tell"];
        let mut tools: Vec<_> = names.into_iter().map(tool).collect();
        tools.push(json!({ "name": "give", "inputSchema": { "type": "object" } }));
        let taken = json!({ "text": { "type": "string", "maxLength": 1_000_000 }, "rows": { "type": "array" } });
        tools.push(
            json!({ "name": "take", "inputSchema": { "type": "object", "properties": taken } }),
        );
        let output = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
        tools.push(
            json!({ "name": "shape", "inputSchema": { "type": "object" }, "outputSchema": output }),
        );
        tools.push(
            json!({ "name": "break", "inputSchema": { "type": "object" }, "outputSchema": output }),
        );
        let server = Self::default();
        *server.tools.lock().unwrap() = tools;
        server
    }

    /// Replaces the tools, and tells the client that they have changed.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut self.tools.lock().unwrap());
        let line = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        self.announce
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .send(format!("{line}\n"))
            .unwrap();
    }

    /// Says this line, unasked.
    pub(crate) fn say(&self, line: &str) {
        let announce = self.announce.lock().unwrap();
        announce
            .as_ref()
            .unwrap()
            .send(format!("{line}\n"))
            .unwrap();
    }

    /// The messages heard with this method.
    pub(crate) fn of(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        let all = heard
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|message| message["method"] == method).collect()
    }

    /// What is answered to one message; `None` ends the server.
    fn answer(&self, message: &Value) -> Option<String> {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "lab", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": *self.tools.lock().unwrap() }),
            Some("tools/call") => match message["params"]["name"].as_str().unwrap() {
                "wait" => return Some(String::new()),
                "leave" => return None,
                "garble" => json!([1, 2]),
                "fail" => {
                    json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true })
                }
                "tell" => {
                    json!({ "content": [{ "type": "text", "text": "the token is tok-very-secret-1" }] })
                }
                "break" => {
                    json!({ "content": [{ "type": "text", "text": "beside it" }], "structuredContent": { "n": "seven" } })
                }
                // Its own argument, as the result.
                "give" | "shape" => message["params"]["arguments"]["result"].clone(),
                "refuse" => return Some(error(message, -32000, "not today")),
                "ask" => {
                    *self.asking.lock().unwrap() = Some(message.clone());
                    let params = json!({ "message": "Really?", "requestedSchema": { "type": "object", "properties": {} } });
                    return Some(format!(
                        "{}\n",
                        json!({ "jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params })
                    ));
                }
                _ => json!({ "content": [{ "type": "text", "text": "kept" }] }),
            },
            None if message["id"] == "question" => {
                let asking = self.asking.lock().unwrap().take().unwrap();
                let text = json!({ "content": [{ "type": "text", "text": "asked" }] });
                return Some(format!(
                    "{}\n",
                    json!({ "jsonrpc": "2.0", "id": asking["id"], "result": text })
                ));
            }
            _ if message.get("id").is_some() => {
                return Some(error(message, -32601, "Method not found"));
            }
            _ => return Some(String::new()),
        };
        Some(format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
        ))
    }
}

fn error(message: &Value, code: i64, text: &str) -> String {
    let error = json!({ "code": code, "message": text });
    format!(
        "{}\n",
        json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })
    )
}

/// Counts a connection while it lives.
struct Live(Arc<AtomicUsize>);

impl Live {
    fn count(live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(live))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ServePipe for Server {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let server = self.clone();
        let (send, mut announced) = mpsc::unbounded_channel();
        *server.announce.lock().unwrap() = Some(send);
        Box::pin(async move {
            let _live = Live::count(&server.live);
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            loop {
                let answer = tokio::select! {
                    Some(line) = announced.recv() => Some(line),
                    Ok(Some(line)) = lines.next_line() => {
                        server.heard.lock().unwrap().push(line.clone());
                        server.answer(&serde_json::from_str(&line).unwrap())
                    }
                    else => None,
                };
                let Some(answer) = answer else { return };
                if write.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
    }
}

impl Person {
    fn new(answers: impl IntoIterator<Item = Answer>, gate: usize) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
            repeats: Mutex::default(),
            exact: Mutex::default(),
            gate: Semaphore::new(gate),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        }
    }
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let mut asked = format!("{} {}", question.tool.raw_name, question.arguments);
        for given in question.artifacts {
            asked = format!("{asked} ({})", given.described());
        }
        self.asked.lock().unwrap().push(asked);
        self.repeats.lock().unwrap().push(question.repeats.cloned());
        self.exact.lock().unwrap().push(question.exact.to_owned());
        self.most_open.fetch_max(
            self.open.fetch_add(1, Ordering::SeqCst) + 1,
            Ordering::SeqCst,
        );
        self.gate.acquire().await.unwrap().forget();
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.answers
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Answer::Nobody)
    }
}

/// How a [`Lab`] is set up.
pub(crate) struct Plan {
    /// `project/.outrigger/outrigger.toml`; it has the server `lab`.
    pub(crate) project: String,
    /// `user/outrigger.toml`.
    pub(crate) user: String,
    /// `--allow`.
    pub(crate) allow: Vec<String>,
    pub(crate) answers: Vec<Answer>,
    /// Questions that are answered at once.
    pub(crate) gate: usize,
    pub(crate) recorded: bool,
    /// Whether there is a store of artifacts.
    pub(crate) keeps: bool,
    /// The store of another host, to be used in its place.
    pub(crate) store: Option<Artifacts>,
    /// Runs the hooks of the configuration.
    pub(crate) runner: Option<Arc<dyn HookRunner>>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            project: "[servers.lab]\ncommand = 'x'\nenv.TOKEN = '${LAB_TOKEN}'".to_owned(),
            user: String::new(),
            allow: Vec::new(),
            answers: Vec::new(),
            gate: 100,
            recorded: true,
            keeps: true,
            store: None,
            runner: None,
        }
    }
}

impl Lab {
    pub(crate) async fn new(plan: Plan) -> Self {
        let place = Place::toml(&plan.project).set("LAB_TOKEN", "tok-very-secret-1");
        place.write("user/outrigger.toml", &plan.user);
        let server = Server::new();
        let config = configured(&place, &(Arc::new(server.clone()) as Arc<dyn ServePipe>));
        let journal = Journal::open(&place.path("state/journal.db")).unwrap();
        let run = if plan.recorded {
            journal
                .begin(started(), RunOptions::default())
                .await
                .unwrap()
        } else {
            Run::unrecorded(RunOptions::default())
        };
        let person = Arc::new(Person::new(plan.answers, plan.gate));
        let parts = Parts {
            connector: Connector::new("0.0.0", None),
            run: run.clone(),
            builtins: Vec::new(),
            approver: person.clone(),
            questions: outrigger_host::questions::Questions::default(),
            policy: Policy::new(&config.policy, &plan.allow).unwrap(),
            hooks: Arc::new(match plan.runner {
                Some(runner) => Hooks::new(&config.hooks, runner).unwrap(),
                None => Hooks::none(),
            }),
            pins: Arc::new(Pins::none()),
            shared: None,
            upkeep: None,
            leases: None,
            artifacts: plan.store.or_else(|| {
                plan.keeps
                    .then(|| Artifacts::open(&place.path("state/artifacts"), &journal))
            }),
            traces: None,
        };
        let host = Host::start(&config, parts);
        assert_eq!(
            host.settled(Duration::from_secs(30)).await,
            Vec::<ServerName>::new()
        );
        Self {
            place,
            server,
            person,
            journal,
            run,
            host,
        }
    }

    /// Where every call may run.
    pub(crate) async fn open() -> Self {
        Self::new(Plan {
            allow: vec!["*".to_owned()],
            ..Plan::default()
        })
        .await
    }

    /// With a person who gives these answers.
    pub(crate) async fn asking(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::new(Plan {
            answers: answers.into_iter().collect(),
            ..Plan::default()
        })
        .await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> CallReport {
        self.call_with(
            &self.host.toolset(),
            tool,
            arguments,
            CallContext::default(),
        )
        .await
    }

    pub(crate) async fn call_with(
        &self,
        toolset: &Toolset,
        tool: &str,
        arguments: &str,
        context: CallContext,
    ) -> CallReport {
        self.host
            .call(toolset, proposed(tool, arguments), context)
            .await
    }

    /// The events so far; what was recorded before is on disk.
    pub(crate) async fn events(&self) -> Vec<Recorded> {
        let flush = Event::ServerEnded {
            server: "flush".to_owned(),
            reason: "flush".to_owned(),
        };
        self.run.record_durable(flush).await.unwrap();
        self.journal.events(self.run.id()).await.unwrap()
    }

    /// The ends of a call in the journal.
    pub(crate) async fn ends(&self, call: u32) -> Vec<OutcomeKind> {
        let events = self.events().await;
        let of_call = |recorded: &Recorded| match &recorded.event {
            Event::CallEnded {
                call: of, outcome, ..
            } if *of == call => Some(*outcome),
            _ => None,
        };
        events.iter().filter_map(of_call).collect()
    }

    /// Waits until the catalog is another one than that of `toolset`.
    pub(crate) async fn changed_from(&self, toolset: &Toolset) {
        until(|| self.host.catalog().revision > toolset.revision()).await;
    }
}

/// The configuration of a place, with `server` in the place of each of its servers.
pub(crate) fn configured(place: &Place, server: &Arc<dyn ServePipe>) -> Config {
    let mut config = place.load();
    assert_eq!(config.fatal().count(), 0, "{}", place.page());
    config.builtin.time.value = false;
    config.builtin.workspace.value = false;
    for entry in config.servers.values_mut() {
        // A folder that nobody trusts starts nothing; its rules are what is looked at here.
        let mut settings = match &entry.state {
            EntryState::Ready(settings) | EntryState::NeedsTrust(settings) => settings.clone(),
            _ => panic!("{}", place.page()),
        };
        settings.spec.transport = TransportSpec::InProcess(InProcessSpec(Arc::clone(server)));
        entry.state = EntryState::Ready(settings);
    }
    config
}

pub(crate) fn proposed(tool: &str, arguments: &str) -> ProposedCall {
    ProposedCall {
        tool: format!("mcp__lab__{tool}"),
        arguments: arguments.to_owned(),
        turn: None,
    }
}

/// What the model reads, as one text.
pub(crate) fn words(report: &CallReport) -> String {
    let texts = report.words.iter().map(|words| match words {
        Words::Text(text) => text.as_str(),
        Words::Image { .. } => "an image",
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Waits until `done`, which something else brings about.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .expect("it never happened");
}

pub(crate) fn started() -> Event {
    Event::RunStarted {
        command: "call".to_owned(),
        question: None,
        model: None,
        workspace: "/".to_owned(),
        version: "0.0.0".to_owned(),
        principal: None,
    }
}
