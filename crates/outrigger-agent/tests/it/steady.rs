//! What is sent before the conversation stays as it was sent first, byte for byte, while the tools of
//! a server change in the middle of a run; what changed is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_agent::provider::{ProviderKind, build};
use outrigger_agent::{Agent, Conversation, Ending, Estimates, Limits, Listener};
use outrigger_connect::{Connector, InProcessSpec, ServePipe, TransportSpec};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::{self, EntryState, Surroundings};
use outrigger_host::hooks::Hooks;
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::questions::Questions;
use outrigger_host::{Host, Parts};
use outrigger_journal::{Event, Journal, Run, RunOptions};
use outrigger_testkit::provider_server::{RecordedRequest, Turn};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::provider_play::{serve, spec};

/// A server whose tool `turn_over` takes one tool away, adds one, and defines one anew.
#[derive(Clone)]
struct Fickle(Arc<Mutex<Vec<Value>>>);

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

impl Fickle {
    fn new() -> Self {
        let names = ["zebra", "turn_over", "goes", "changes"];
        let tools = names.map(|name| tool(name, "As it was first."));
        Self(Arc::new(Mutex::new(tools.to_vec())))
    }

    fn answer(&self, message: &Value) -> Vec<Value> {
        let reply =
            |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        match message["method"].as_str() {
            Some("initialize") => vec![reply(json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "fickle", "version": "1" },
            }))],
            Some("tools/list") => vec![reply(json!({ "tools": *self.0.lock().unwrap() }))],
            Some("tools/call") => {
                let kept = json!({ "content": [{ "type": "text", "text": "kept" }] });
                if message["params"]["name"] != "turn_over" {
                    return vec![reply(kept)];
                }
                let mut tools = self.0.lock().unwrap();
                tools.retain(|tool| tool["name"] != "goes");
                tools[2] = tool("changes", "As it is now.");
                tools.insert(0, tool("arrives", "It was not there before."));
                let changed =
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                vec![changed, reply(kept)]
            }
            _ if message.get("id").is_some() => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })]
            }
            _ => Vec::new(),
        }
    }
}

impl ServePipe for Fickle {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let server = self.clone();
        Box::pin(async move {
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                for answer in server.answer(&serde_json::from_str(&line).unwrap()) {
                    if write
                        .write_all(format!("{answer}\n").as_bytes())
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            }
        })
    }
}

struct Silent;

impl Listener for Silent {
    fn text(&self, _: &str) {}
    fn reasoning(&self, _: &str) {}
}

fn host(mode: &str, run: &Run) -> Host {
    let folder = tempfile::tempdir().unwrap();
    let file = "[servers.fickle]\ncommand = 'x'\n[builtin]\ntime = false\nworkspace = false\n";
    let text = format!("{file}[discovery]\nmode = '{mode}'\n");
    std::fs::write(folder.path().join("outrigger.toml"), text).unwrap();
    let mut config = config::load(&Surroundings {
        workspace: folder.path().join("workspace"),
        user_dir: Some(folder.path().to_owned()),
        ..Surroundings::default()
    });
    for entry in config.servers.values_mut() {
        let EntryState::Ready(settings) = &mut entry.state else {
            panic!("{:?}", entry.state)
        };
        settings.spec.transport = TransportSpec::InProcess(InProcessSpec(Arc::new(Fickle::new())));
    }
    assert_eq!(config.servers.len(), 1);
    let parts = Parts {
        connector: Connector::new("test", None),
        run: run.clone(),
        builtins: Vec::new(),
        approver: Arc::new(NobodyThere),
        questions: Questions::default(),
        policy: Policy::new(&config.policy, &["*".to_owned()]).unwrap(),
        hooks: Arc::new(Hooks::none()),
        pins: Arc::new(Pins::none()),
        shared: None,
        upkeep: None,
        leases: None,
        artifacts: None,
        traces: None,
    };
    Host::start(&config, parts)
}

/// Runs a question in whose middle the tools change, and a second one after it in the same
/// conversation.
async fn requests(kind: ProviderKind, mode: &str) -> Vec<RecordedRequest> {
    let call = |name: &str| Turn::calls([(format!("mcp__fickle__{name}").as_str(), json!({}))]);
    let turns = [
        call("turn_over"),
        // Before it is made, the host is in step with what the server has announced.
        call("zebra"),
        call("arrives"),
        call("goes"),
        Turn::text("Done."),
        Turn::text("Still done."),
    ];
    requests_of(kind, mode, turns).await
}

async fn requests_of(
    kind: ProviderKind,
    mode: &str,
    turns: impl IntoIterator<Item = Turn>,
) -> Vec<RecordedRequest> {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("journal.db")).unwrap();
    let started = Event::RunStarted {
        command: "test".to_owned(),
        question: None,
        model: None,
        workspace: String::new(),
        version: String::new(),
        principal: None,
    };
    let run = journal.begin(started, RunOptions::default()).await.unwrap();
    let host = host(mode, &run);
    assert!(host.settled(Duration::from_secs(30)).await.is_empty());
    let server = serve(turns).await;
    let mut spec = spec(&server, kind);
    spec.tool_search = Some(true);
    let agent = Agent {
        model: build(spec).unwrap(),
        host: host.clone(),
        run,
        limits: Limits {
            turns: 10,
            calls: 10,
            tokens: None,
            time: Duration::from_secs(60),
        },
        estimates: Estimates::default(),
    };
    let mut conversation = Conversation::default();
    for question in ["Turn them over.", "And now?"] {
        let cancel = CancellationToken::new();
        let answer = agent
            .ask(&mut conversation, question, &Silent, &cancel)
            .await;
        assert!(matches!(answer.ending, Ending::Answered), "{answer:?}");
    }
    host.close().await;
    server.requests()
}

/// The members of a JSON object, as they were written.
fn members(text: &str) -> Vec<(String, Box<RawValue>)> {
    let members: indexmap::IndexMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap();
    members.into_iter().collect()
}

/// Where a provider may cache up to here. It wanders to the end, and is no part of what is said.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// A member's items, as they were written.
fn items(request: &RecordedRequest, keys: &[&str]) -> Vec<String> {
    let members = members(&request.text);
    let (_, list) = members
        .iter()
        .find(|(key, _)| keys.contains(&key.as_str()))
        .unwrap();
    let items: Vec<Box<RawValue>> = serde_json::from_str(list.get()).unwrap();
    items
        .into_iter()
        .map(|item| item.get().replace(MARK, ""))
        .collect()
}

/// The tools of a request, one after the other, and everything else that does not grow.
fn preamble(request: &RecordedRequest) -> (Vec<String>, Vec<(String, String)>) {
    let mut tools = items(request, &["tools"]);
    if let [one] = &tools[..]
        && let Some((_, list)) = members(one)
            .iter()
            .find(|(key, _)| key == "functionDeclarations")
    {
        let list: Vec<Box<RawValue>> = serde_json::from_str(list.get()).unwrap();
        tools = list.into_iter().map(|item| item.get().to_owned()).collect();
    }
    let grows = ["tools", "messages", "input", "contents"];
    let rest = members(&request.text)
        .into_iter()
        .filter(|(key, _)| !grows.contains(&key.as_str()))
        .map(|(key, value)| (key, value.get().to_owned()))
        .collect();
    (tools, rest)
}

#[tokio::test]
async fn declarations_are_only_added_to_and_the_conversation_only_grows() {
    for kind in ProviderKind::ALL {
        let requests = requests(kind, "never").await;
        assert_eq!(requests.len(), 6, "{kind:?}");
        for (before, after) in requests.iter().zip(&requests[1..]) {
            let (tools, rest) = preamble(before);
            let (tools_after, rest_after) = preamble(after);
            assert_eq!(rest, rest_after, "{kind:?}");
            assert_eq!(tools, tools_after[..tools.len()], "{kind:?}");
            let said = |request| items(request, &["messages", "input", "contents"]);
            let (said_before, said_after) = (said(before), said(after));
            assert_eq!(said_before, said_after[..said_before.len()], "{kind:?}");
        }
        let names = ["changes", "goes", "turn_over", "zebra", "arrives"];
        let names = names.map(|name| format!("mcp__fickle__{name}"));
        assert_eq!(requests[0].tools(), names[..4], "sorted, {kind:?}");
        assert_eq!(requests[2].tools(), names, "{kind:?}");
        // Told once, where it happened: new, gone, and what the declared one is now.
        let told = |request: &RecordedRequest| request.text.matches("As it is now.").count();
        assert_eq!(
            requests.iter().map(told).collect::<Vec<_>>(),
            [0, 0, 1, 1, 1, 1],
            "{kind:?}"
        );
        let note = requests[2].question().unwrap();
        assert!(
            note.contains("New tools: `mcp__fickle__arrives`."),
            "{note}"
        );
        assert!(
            note.contains("No longer there: `mcp__fickle__goes`."),
            "{note}"
        );
        let results = requests[4].results().concat();
        assert!(
            results.contains("there is no tool `mcp__fickle__goes`"),
            "{results}"
        );
    }
}

#[tokio::test]
async fn with_tools_that_are_found_nothing_before_the_conversation_changes_at_all() {
    for kind in ProviderKind::ALL {
        let requests = requests(kind, "always").await;
        let first = preamble(&requests[0]);
        assert!(
            requests.iter().all(|request| preamble(request) == first),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn what_is_left_to_the_providers_search_is_only_added_to_as_well() {
    for kind in [ProviderKind::Anthropic, ProviderKind::OpenAiResponses] {
        let call = |name: &str| Turn::calls([(format!("mcp__fickle__{name}").as_str(), json!({}))]);
        let requests = requests_of(
            kind,
            "always'\nsearch = 'provider",
            [
                call("turn_over")
                    .searching(["turn_over"])
                    .reasoning("Which?"),
                call("zebra").searching(["zebra"]),
                call("arrives").searching(["arrives there"]),
                call("goes").searching(["goes"]),
                Turn::text("Done."),
                Turn::text("Still done."),
            ],
        )
        .await;
        assert_eq!(requests.len(), 6, "{kind:?}");
        for (before, after) in requests.iter().zip(&requests[1..]) {
            let ((tools, rest), (tools_after, rest_after)) = (preamble(before), preamble(after));
            assert_eq!(rest, rest_after, "{kind:?}");
            assert_eq!(tools, tools_after[..tools.len()], "{kind:?}");
            let said = |request| items(request, &["messages", "input"]);
            let (said_before, said_after) = (said(before), said(after));
            assert_eq!(said_before, said_after[..said_before.len()], "{kind:?}");
        }
        // What came later is at the end, and deferred like the others.
        let names = ["changes", "goes", "turn_over", "zebra", "arrives"];
        let names = names.map(|name| format!("mcp__fickle__{name}"));
        let offered = requests[2].tools();
        let offered: Vec<_> = offered
            .iter()
            .filter(|name| name.contains("fickle__"))
            .collect();
        assert_eq!(offered, names.iter().collect::<Vec<_>>(), "{kind:?}");
        let deferred = requests[2].text.matches(r#""defer_loading":true"#).count();
        assert!(deferred >= names.len(), "{kind:?}: {deferred}");
        assert!(!requests[0].text.contains("search_tools"), "{kind:?}");
        let results = requests[4].results().concat();
        assert!(
            results.contains("there is no tool `mcp__fickle__goes`"),
            "{kind:?}: {results}"
        );
    }
}
