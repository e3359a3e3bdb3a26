//! For random catalogs, policies and budgets: what is allowed is reached in two steps, and what is not
//! is nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connector, InProcessSpec, TransportSpec};
use outrigger_host::config::{Config, EntryState};
use outrigger_host::discovery::{Embedder, Embeddings};
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::policy::Policy;
use outrigger_host::toolset::Toolset;
use outrigger_host::{Host, Parts, tokens};
use outrigger_journal::{Journal, RunOptions};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{ALWAYS, call};
use crate::config::Place;
use crate::lab::{Server, started, words};

/// Words that names are made of.
const PARTS: [&str; 8] = [
    "read", "write", "file", "issue", "create", "x", "日程", "list",
];

/// Tools by server, each with whether it may be used.
type Tools = BTreeMap<String, BTreeMap<String, bool>>;

fn tools() -> impl Strategy<Value = Tools> {
    let name = vec(select(&PARTS[..]), 1..4).prop_map(|parts| parts.join("_"));
    let tools = btree_map(name, any::<bool>(), 0..12);
    btree_map(
        select(vec!["git", "my files", "日历", "a__b"]).prop_map(str::to_owned),
        tools,
        1..4,
    )
}

/// A word that stands in the definition of one tool alone, and in no name.
fn mark(server: &str, tool: &str) -> String {
    let hex = |text: &str| {
        text.bytes().fold(String::new(), |hex, byte| {
            // Letters alone, so that it is one word: `g` to `v` for the digits.
            hex + &[byte >> 4, byte & 15]
                .map(|digit| char::from(b'g' + digit))
                .iter()
                .collect::<String>()
        })
    };
    format!("q{}q{}q", hex(server), hex(tool))
}

/// Puts servers in this process in the place of those that are configured.
fn serve(config: &mut Config, tools: &Tools) {
    config.builtin.time.value = false;
    config.builtin.workspace.value = false;
    for (name, entry) in &mut config.servers {
        let (EntryState::Ready(settings) | EntryState::NeedsTrust(settings)) = &entry.state else {
            panic!("{:?}", entry.state)
        };
        let mut settings = settings.clone();
        let server = Server::default();
        let listed = tools[name.as_str()].keys().map(|tool| {
            let mark = mark(name.as_str(), tool);
            let parameter = json!({ "type": "string", "description": mark });
            json!({
                "name": tool,
                "description": format!("About {mark}."),
                "inputSchema": { "type": "object", "properties": { "p": parameter } },
            })
        });
        *server.tools.lock().unwrap() = listed.collect();
        settings.spec.transport = TransportSpec::InProcess(InProcessSpec(Arc::new(server)));
        entry.state = EntryState::Ready(settings);
    }
}

/// Finds everything alike, and so would bring up what may not be seen.
struct Toy;

impl Embedder for Toy {
    fn id(&self) -> &'static str {
        "toy"
    }

    fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let count = |byte: u8| text.bytes().filter(|b| *b % 8 == byte).count();
        let part = |byte: u8| f32::from(u16::try_from(1 + count(byte)).unwrap());
        Some((0..8).map(part).collect())
    }
}

async fn read_all(host: &Host) {
    let mut reads = host.find_by_meaning(Embeddings {
        load: Box::new(|| Some(Arc::new(Toy))),
        folder: None,
    });
    let now = *host.published().borrow();
    reads.wait_for(|read| *read >= now).await.unwrap();
}

struct World {
    host: Host,
    /// Model-facing names with their marks.
    allowed: Vec<(String, String, String)>,
    denied: Vec<(String, String, String)>,
    _place: Place,
}

impl World {
    async fn new(tools: &Tools, index_tokens: u64, by_meaning: bool) -> Self {
        let mut project = String::new();
        for server in tools.keys() {
            let _ = writeln!(project, "[servers.'{server}']\ncommand = 'x'");
        }
        let place = Place::toml(&project);
        let mut user = format!("{ALWAYS}index_tokens = {index_tokens}\n");
        for (server, tools) in tools {
            for (tool, _) in tools.iter().filter(|(_, allowed)| !**allowed) {
                let _ = writeln!(
                    user,
                    "[[policy.rule]]\nserver = '{server}'\nraw = '{tool}'\ndecision = 'deny'"
                );
            }
        }
        place.write("user/outrigger.toml", &user);
        let mut config = place.load();
        assert_eq!(config.fatal().count(), 0, "{}", place.page());
        serve(&mut config, tools);
        let journal = Journal::open(&place.path("state/journal.db")).unwrap();
        let run = journal.begin(started(), RunOptions::default()).await;
        let parts = Parts {
            connector: Connector::new("0.0.0", None),
            run: run.unwrap(),
            builtins: Vec::new(),
            approver: Arc::new(outrigger_host::approve::NobodyThere),
            questions: outrigger_host::questions::Questions::default(),
            policy: Policy::new(&config.policy, &["*".to_owned()]).unwrap(),
            hooks: Arc::new(outrigger_host::hooks::Hooks::none()),
            pins: Arc::new(outrigger_host::pins::Pins::none()),
            shared: None,
            upkeep: None,
            leases: None,
            artifacts: None,
            traces: None,
        };
        let host = Host::start(&config, parts);
        assert!(host.settled(Duration::from_secs(30)).await.is_empty());
        if by_meaning {
            read_all(&host).await;
        }
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        for tool in host.catalog().tools() {
            let (server, raw) = (tool.server.as_str(), tool.raw_name.as_str());
            let known = (tool.name.to_string(), raw.to_owned(), mark(server, raw));
            if tools[server][raw] {
                allowed.push(known);
            } else {
                denied.push(known);
            }
        }
        Self {
            host,
            allowed,
            denied,
            _place: place,
        }
    }

    /// Whether a text tells of a tool that may not be used: by its mark, or by its name as a word.
    fn betrays(&self, text: &str) -> Option<String> {
        let part = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
        let said: BTreeSet<&str> = text.split(part).collect();
        self.denied
            .iter()
            .find(|(name, _, mark)| text.contains(mark.as_str()) || said.contains(name.as_str()))
            .map(|(name, ..)| format!("`{name}` in: {text}"))
    }

    async fn ask(&self, toolset: &Toolset, tool: &str, arguments: Value) -> String {
        words(&call(&self.host, toolset, tool, &arguments).await)
    }
}

async fn everything_allowed_is_within_reach(world: &World) {
    let toolset = world.host.toolset();
    assert_eq!(toolset.tools().len(), world.allowed.len());
    for (name, raw, mark) in &world.allowed {
        // By its name (tools of several servers may share it), and by what it says of itself.
        for query in [name, raw, mark] {
            let found = world
                .ask(
                    &toolset,
                    "search_tools",
                    json!({ "query": query, "limit": 50 }),
                )
                .await;
            assert!(
                found
                    .lines()
                    .any(|line| line.starts_with(&format!("{name}("))),
                "{query}: {found}"
            );
        }
        let described = world
            .ask(&toolset, "describe_tool", json!({ "names": [name] }))
            .await;
        assert!(described.contains(mark), "{described}");
        let through = json!({ "name": name, "arguments": { "p": "v" } });
        for (tool, arguments) in [("call_tool", through), (name, json!({ "p": "v" }))] {
            let report = call(&world.host, &toolset, tool, &arguments).await;
            assert!(
                matches!(report.outcome, CallOutcome::Completed(_)),
                "{tool}: {report:?}"
            );
        }
    }
}

async fn nothing_else_is_seen(world: &World) {
    let toolset = world.host.toolset();
    for (name, raw, mark) in &world.denied {
        let mut texts = Vec::new();
        for query in [raw.as_str(), mark, &raw[..raw.floor_char_boundary(3)]] {
            let wish = json!({ "query": query, "limit": 50 });
            texts.push(world.ask(&toolset, "search_tools", wish).await);
        }
        // What was asked for is said back; a neighbour of it that may not be used is not.
        let near = format!("{name}s");
        for wish in [
            json!({ "names": [near] }),
            json!({ "names": [format!("{raw}s")] }),
        ] {
            texts.push(world.ask(&toolset, "describe_tool", wish).await);
        }
        texts.push(
            world
                .ask(&toolset, "call_tool", json!({ "name": near }))
                .await,
        );
        texts.push(world.ask(&toolset, &near, json!({})).await);
        for text in texts {
            assert_eq!(world.betrays(&text), None);
        }
        let through = json!({ "name": name });
        for (tool, arguments) in [("call_tool", &through), (name.as_str(), &json!({}))] {
            let report = call(&world.host, &toolset, tool, arguments).await;
            assert!(
                matches!(
                    report.outcome,
                    CallOutcome::Rejected(Rejection::UnknownTool { .. })
                ),
                "{report:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn what_is_allowed_is_reached_in_two_steps_and_what_is_not_is_nowhere(
        tools in tools(), index_tokens in 1_u64..1_500, context in 0_u64..50_000,
        by_meaning in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(&tools, index_tokens, by_meaning).await;
            let exposure = world.host.toolset().exposure(context);
            if let Some(index) = &exposure.index {
                assert!(tokens::estimate(index) <= index_tokens, "{index_tokens}: {index}");
                assert_eq!(world.betrays(index), None);
            }
            Box::pin(everything_allowed_is_within_reach(&world)).await;
            Box::pin(nothing_else_is_seen(&world)).await;
            world.host.close().await;
        });
    }
}
