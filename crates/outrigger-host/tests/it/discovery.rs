//! Tools that are found instead of shown: everything allowed is within reach, nothing else is seen,
//! and a call through `call_tool` is the call of its target.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connector, InProcessSpec, TransportSpec};
use outrigger_host::approve::Answer;
use outrigger_host::config::EntryState;
use outrigger_host::discovery::Facility;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::policy::Policy;
use outrigger_host::toolset::Toolset;
use outrigger_host::{CallContext, CallReport, Host, Parts, ProposedCall, tokens};
use outrigger_journal::{Event, Journal, RunOptions};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::config::Place;
use crate::lab::{Lab, Plan, Server, started, words};

const ALWAYS: &str = "[discovery]\nmode = 'always'\n";

async fn call(host: &Host, toolset: &Toolset, tool: &str, arguments: &Value) -> CallReport {
    let proposed = ProposedCall {
        tool: tool.to_owned(),
        arguments: arguments.to_string(),
        turn: None,
    };
    host.call(toolset, proposed, CallContext::default()).await
}

async fn told(lab: &Lab, tool: &str, arguments: &Value) -> String {
    words(&call(&lab.host, &lab.host.toolset(), tool, arguments).await)
}

#[tokio::test]
async fn a_model_finds_describes_and_calls() {
    let lab = Lab::new(Plan {
        user: ALWAYS.to_owned(),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    })
    .await;
    let exposure = lab.host.toolset().exposure(100_000);
    let declared: Vec<_> = exposure
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(declared, Facility::TOOLS.map(Facility::name));
    let mut page = exposure.index.unwrap();
    for (tool, arguments) in [
        ("search_tools", json!({ "query": "keep" })),
        ("search_tools", json!({ "query": "nothing of the kind" })),
        (
            "search_tools",
            json!({ "query": "", "server": "lab", "limit": 2 }),
        ),
        ("search_tools", json!({ "query": "", "server": "lob" })),
        ("describe_tool", json!({ "names": ["lab/keep", "kep"] })),
        ("describe_tool", json!({ "names": ["keep"], "part": 2 })),
        (
            "call_tool",
            json!({ "name": "mcp__lab__keep", "arguments": { "n": 1 } }),
        ),
        (
            "call_tool",
            json!({ "name": "keep", "arguments": "{\"n\": 1}" }),
        ),
        ("call_tool", json!({ "name": "kep" })),
        (
            "call_tool",
            json!({ "name": "keep", "arguments": { "n": "x" } }),
        ),
        ("call_tool", json!({ "tool": "keep" })),
        (
            "call_tool",
            json!({ "name": "call_tool", "arguments": { "name": "keep" } }),
        ),
        ("mcp__lab__keep", json!({})),
    ] {
        let _ = write!(
            page,
            "\n\n> {tool} {arguments}\n{}",
            told(&lab, tool, &arguments).await
        );
    }
    insta::assert_snapshot!(page, @r#"
    More tools are there than are declared. `search_tools` finds them, one capability a query; `describe_tool` shows definitions; `call_tool` calls one by its name. What stands behind names are words of their servers: data.
    `mcp__lab__` and:
    - break
    - fail
    - garble
    - keep
    - leave
    - refuse
    - tell
    - wait

    > search_tools {"query":"keep"}
    [data from outrigger]
    mcp__lab__keep(n?: integer)
    `call_tool` calls one of them; `describe_tool` shows whole definitions.

    > search_tools {"query":"nothing of the kind"}
    [data from outrigger]
    No tool has any of these words. Other words may find one; ask for one capability at a time.

    > search_tools {"query":"","server":"lab","limit":2}
    [data from outrigger]
    mcp__lab__break()
    mcp__lab__fail(n?: integer)
    `call_tool` calls one of them; `describe_tool` shows whole definitions.

    > search_tools {"query":"","server":"lob"}
    [data from outrigger: an error]
    There is no server `lob` with tools. Did you mean `lab`?

    > describe_tool {"names":["lab/keep","kep"]}
    [data from outrigger]
    # mcp__lab__keep
    Input schema: {"type":"object","properties":{"n":{"type":"integer"}}}

    There is no tool `kep`. Did you mean `mcp__lab__keep`?

    > describe_tool {"names":["keep"],"part":2}
    [data from outrigger: an error]
    There is no part 2; there are 1.

    > call_tool {"name":"mcp__lab__keep","arguments":{"n":1}}
    [data from lab]
    kept

    > call_tool {"name":"keep","arguments":"{\"n\": 1}"}
    [data from lab]
    kept

    > call_tool {"name":"kep"}
    Not called: there is no tool `kep`. Did you mean `mcp__lab__keep`?

    > call_tool {"name":"keep","arguments":{"n":"x"}}
    Not called: the arguments do not fit the tool's schema:
    - `/n`: "x" is not of type "integer"
    `describe_tool` shows its input schema.

    > call_tool {"tool":"keep"}
    Not called: the arguments do not fit the tool's schema:
    - Additional properties are not allowed ('tool' was unexpected)
    - "name" is a required property

    > call_tool {"name":"call_tool","arguments":{"name":"keep"}}
    [data from outrigger: an error]
    `call_tool` calls tools of servers; it does not call itself.

    > mcp__lab__keep {}
    [data from lab]
    kept
    "#);
    assert_eq!(lab.server.of("tools/call").len(), 3);
}

#[tokio::test]
async fn what_is_written_and_decided_is_about_the_target() {
    let lab = Lab::new(Plan {
        user: format!(
            "{ALWAYS}[[policy.rule]]\ntool = 'mcp__lab__tell'\ndecision = 'deny'\n\
             [[policy.rule]]\ntool = '*'\ndecision = 'ask'\n"
        ),
        answers: vec![Answer::No { reason: None }, Answer::Once],
        ..Plan::default()
    })
    .await;
    let toolset = lab.host.toolset();
    let keep = json!({ "name": "mcp__lab__keep", "arguments": { "n": 7 } });
    let declined = call(&lab.host, &toolset, "call_tool", &keep).await;
    assert!(
        matches!(
            declined.outcome,
            CallOutcome::Rejected(Rejection::Declined { .. })
        ),
        "{declined:?}"
    );
    let made = call(&lab.host, &toolset, "call_tool", &keep).await;
    assert!(
        matches!(made.outcome, CallOutcome::Completed(_)),
        "{made:?}"
    );
    let denied = json!({ "name": "mcp__lab__tell" });
    let denied = call(&lab.host, &toolset, "call_tool", &denied).await;
    assert!(
        matches!(
            denied.outcome,
            CallOutcome::Rejected(Rejection::UnknownTool { .. })
        ),
        "a tool that is denied is not there: {denied:?}"
    );
    assert_eq!(*lab.person.asked.lock().unwrap(), [r#"keep {"n":7}"#; 2]);

    let found = call(
        &lab.host,
        &toolset,
        "search_tools",
        &json!({ "query": "keep" }),
    )
    .await;
    assert_eq!(found.origin, None, "definitions are no data of a call");
    let mut lines = Vec::new();
    for recorded in lab.events().await {
        match recorded.event {
            Event::CallProposed { tool, .. } => lines.push(format!("proposed {tool}")),
            Event::CallPrepared {
                server,
                raw_tool,
                arguments,
                ..
            } => {
                lines.push(format!("  prepared {server} {raw_tool} {arguments}"));
            }
            Event::CallDecided { allowed, rule, .. } => {
                lines.push(format!(
                    "  decided {allowed} {}",
                    rule.split(' ').next().unwrap()
                ));
            }
            Event::CallEnded { outcome, .. } => lines.push(format!("  ended {}", outcome.as_str())),
            _ => {}
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    proposed mcp__lab__keep
      prepared lab keep {"n":7}
      decided false `*`
      ended rejected
    proposed mcp__lab__keep
      prepared lab keep {"n":7}
      decided true `*`
      ended completed
    proposed mcp__lab__tell
      ended rejected
    proposed search_tools
      prepared outrigger search_tools {"query":"keep"}
      decided true the
      ended completed
    "#);
    let origins: Vec<_> = lab.host.origins().servers().map(str::to_owned).collect();
    assert_eq!(origins, ["lab"]);
}

#[tokio::test]
async fn few_tools_are_shown_and_many_are_not_save_those_that_always_are() {
    let many = |always: &str| {
        let project = format!("[servers.lab]\ncommand = 'x'\nalways = {always}");
        async move {
            let lab = Lab::new(Plan {
                project,
                ..Plan::default()
            })
            .await;
            let few = lab.host.toolset();
            let before = lab.host.toolset();
            lab.server.change(|tools| {
                tools.extend((0..200).map(|at| {
                    json!({
                        "name": format!("tool_{at}"),
                        "description": "Does one more of the many things that nobody needs at once.",
                        "inputSchema": { "type": "object" },
                    })
                }));
            });
            lab.changed_from(&before).await;
            (few, lab.host.toolset())
        }
    };
    let (few, all) = many("['tool_1?', 'keep']").await;
    assert!(few.exposure(100_000).index.is_none());
    let exposure = all.exposure(100_000);
    let names: Vec<_> = exposure
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names.len(), 3 + 11, "{names:?}");
    assert_eq!(names[3], "mcp__lab__keep");
    let tokens: u64 = exposure.tools.iter().map(|tool| tool.tokens).sum();
    let with_index = tokens + tokens::estimate(&exposure.index.unwrap());
    assert!(
        with_index * 2 < all.tokens(),
        "{with_index} of {}",
        all.tokens()
    );
    // A model with room is shown all of them.
    assert!(all.exposure(1_000_000).index.is_none());
    let (_, kept) = many("true").await;
    assert!(kept.exposure(1_000).index.is_none());
}

#[tokio::test]
async fn a_server_that_waits_to_be_wanted_is_listed_and_started_for_a_model() {
    let lab = |user: &str| {
        Lab::new(Plan {
            project: "[servers.lab]\ncommand = 'x'\nstart = 'lazy'\ndescription = 'for trying out'"
                .to_owned(),
            user: user.to_owned(),
            allow: vec!["*".to_owned()],
            ..Plan::default()
        })
    };
    let open = lab("").await;
    let before = open.host.toolset();
    assert!(before.tools().is_empty() && before.missing().is_empty());
    let exposure = before.exposure(100_000);
    let names = |tools: &[Arc<outrigger_host::catalog::CatalogTool>]| -> Vec<String> {
        tools.iter().map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(&exposure.tools), ["list_servers", "connect_server"]);
    let mut page = told(&open, "list_servers", &json!({})).await;
    for server in ["lob", "lab"] {
        let arguments = json!({ "server": server });
        let _ = write!(page, "\n\n> connect_server {arguments}\n");
        page += &told(&open, "connect_server", &arguments).await;
    }
    let _ = write!(
        page,
        "\n\n{}",
        told(&open, "list_servers", &json!({})).await
    );
    insta::assert_snapshot!(page, @r#"
    [data from outrigger]
    lab: not started. for trying out
    `connect_server` starts one that is not started; so does a call of one of its tools.

    > connect_server {"server":"lob"}
    [data from outrigger: an error]
    There is no server `lob`; `list_servers` says which there are.

    > connect_server {"server":"lab"}
    [data from outrigger]
    The server `lab` is ready. Its tools, from the next turn on: `mcp__lab__keep`, `mcp__lab__wait`, `mcp__lab__leave`, `mcp__lab__garble`, `mcp__lab__fail`, `mcp__lab__refuse`, `mcp__lab__tell`, `mcp__lab__break`.

    [data from outrigger]
    lab: ready, 8 tools. for trying out
    `connect_server` starts one that is not started; so does a call of one of its tools.
    "#);
    assert_eq!(open.server.of("initialize").len(), 1);
    let after = open.host.toolset();
    assert_eq!(after.tools().len(), 8);
    assert!(names(&after.exposure(100_000).tools).contains(&"mcp__lab__keep".to_owned()));

    let closed =
        lab("[[policy.rule]]\nserver = 'lab'\ntool = 'connect_server'\ndecision = 'deny'").await;
    let listed = told(&closed, "list_servers", &json!({})).await;
    assert!(!listed.contains("for trying out"), "{listed}");
    let refused = told(&closed, "connect_server", &json!({ "server": "lab" })).await;
    assert!(refused.contains("do not allow it"), "{refused}");
    assert_eq!(closed.server.of("initialize").len(), 0);
}

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

struct World {
    host: Host,
    /// Model-facing names with their marks.
    allowed: Vec<(String, String, String)>,
    denied: Vec<(String, String, String)>,
    _place: Place,
}

impl World {
    async fn new(tools: &Tools, index_tokens: u64) -> Self {
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
        config.builtin.time.value = false;
        config.builtin.workspace.value = false;
        for (name, entry) in &mut config.servers {
            let (EntryState::Ready(settings) | EntryState::NeedsTrust(settings)) = &entry.state
            else {
                panic!("{}", place.page())
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
        let journal = Journal::open(&place.path("state/journal.db")).unwrap();
        let run = journal
            .begin(started(), RunOptions::default())
            .await
            .unwrap();
        let parts = Parts {
            connector: Connector::new("0.0.0", None),
            run,
            builtins: Vec::new(),
            approver: Arc::new(outrigger_host::approve::NobodyThere),
            questions: outrigger_host::questions::Questions::default(),
            policy: Policy::new(&config.policy, &["*".to_owned()]).unwrap(),
            hooks: Arc::new(outrigger_host::hooks::Hooks::none()),
            pins: outrigger_host::pins::Pins::none(),
        };
        let host = Host::start(&config, parts);
        assert!(host.settled(Duration::from_secs(30)).await.is_empty());
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
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(&tools, index_tokens).await;
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
