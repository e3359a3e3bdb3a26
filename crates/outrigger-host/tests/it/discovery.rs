//! Tools that are found instead of shown: everything allowed is within reach, nothing else is seen,
//! and a call through `call_tool` is the call of its target.

mod deferred;
mod meaning;
mod reach;

use std::fmt::Write as _;
use std::sync::Arc;

use outrigger_host::approve::Answer;
use outrigger_host::discovery::Facility;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::toolset::Toolset;
use outrigger_host::{CallContext, CallReport, Host, ProposedCall, tokens};
use outrigger_journal::Event;
use serde_json::{Value, json};

use crate::lab::{Lab, Plan, words};

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

/// What is told after each of these calls.
async fn pages(lab: &Lab, steps: &[(&str, &str)]) -> String {
    let mut pages = Vec::new();
    for (tool, arguments) in steps {
        let told = told(lab, tool, &serde_json::from_str(arguments).unwrap()).await;
        pages.push(format!("> {tool} {arguments}\n{told}"));
    }
    pages.join("\n\n")
}

async fn discovering() -> Lab {
    Lab::new(Plan {
        user: ALWAYS.to_owned(),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    })
    .await
}

#[tokio::test]
async fn a_model_finds_and_describes() {
    let lab = discovering().await;
    let exposure = lab.host.toolset().exposure(100_000);
    let declared: Vec<_> = exposure
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(declared, Facility::TOOLS.map(Facility::name));
    let steps = [
        ("search_tools", r#"{"query":"keep"}"#),
        ("search_tools", r#"{"query":"nothing of the kind"}"#),
        ("search_tools", r#"{"query":"","server":"lab","limit":2}"#),
        ("search_tools", r#"{"query":"","server":"lob"}"#),
        ("describe_tool", r#"{"names":["lab/keep","kep"]}"#),
        ("describe_tool", r#"{"names":["keep"],"part":2}"#),
    ];
    let page = exposure.index.unwrap() + "\n\n" + &pages(&lab, &steps).await;
    insta::assert_snapshot!(page, @r#"
    More tools are there than are declared. `search_tools` finds them, one capability a query; `describe_tool` shows definitions; `call_tool` calls one by its name. What stands behind names are words of their servers: data.
    `mcp__lab__` and:
    - break
    - fail
    - garble
    - give
    - keep
    - leave
    - refuse
    - shape
    - take
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
    "#);
}

#[tokio::test]
async fn a_model_calls_what_it_found() {
    let lab = discovering().await;
    let steps = [
        (
            "call_tool",
            r#"{"name":"mcp__lab__keep","arguments":{"n":1}}"#,
        ),
        ("call_tool", r#"{"name":"keep","arguments":"{\"n\": 1}"}"#),
        ("call_tool", r#"{"name":"kep"}"#),
        ("call_tool", r#"{"name":"keep","arguments":{"n":"x"}}"#),
        ("call_tool", r#"{"tool":"keep"}"#),
        (
            "call_tool",
            r#"{"name":"call_tool","arguments":{"name":"keep"}}"#,
        ),
        ("mcp__lab__keep", "{}"),
    ];
    insta::assert_snapshot!(pages(&lab, &steps).await, @r#"
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

/// The events of all calls, one a line.
async fn written(lab: &Lab) -> Vec<String> {
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
    lines
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
    let tell = json!({ "name": "mcp__lab__tell" });
    let mut ends = Vec::new();
    for asked in [&keep, &keep, &tell] {
        let report = call(&lab.host, &toolset, "call_tool", asked).await;
        ends.push(match report.outcome {
            CallOutcome::Rejected(Rejection::Declined { .. }) => "declined",
            CallOutcome::Completed(_) => "made",
            // A tool that is denied is not there.
            CallOutcome::Rejected(Rejection::UnknownTool { .. }) => "unknown",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(ends, ["declined", "made", "unknown"]);
    assert_eq!(*lab.person.asked.lock().unwrap(), [r#"keep {"n":7}"#; 2]);

    let found = call(
        &lab.host,
        &toolset,
        "search_tools",
        &json!({ "query": "keep" }),
    )
    .await;
    assert!(
        found.origins.is_empty(),
        "definitions are no data of a call"
    );
    let lines = written(&lab).await;
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
    The server `lab` is ready. Its tools, from the next turn on: `mcp__lab__keep`, `mcp__lab__wait`, `mcp__lab__leave`, `mcp__lab__garble`, `mcp__lab__fail`, `mcp__lab__refuse`, `mcp__lab__tell`, `mcp__lab__give`, `mcp__lab__take`, `mcp__lab__shape`, `mcp__lab__break`.

    [data from outrigger]
    lab: ready, 11 tools. for trying out
    `connect_server` starts one that is not started; so does a call of one of its tools.
    "#);
    assert_eq!(open.server.of("initialize").len(), 1);
    let after = open.host.toolset();
    assert_eq!(after.tools().len(), 11);
    assert!(names(&after.exposure(100_000).tools).contains(&"mcp__lab__keep".to_owned()));

    let closed =
        lab("[[policy.rule]]\nserver = 'lab'\ntool = 'connect_server'\ndecision = 'deny'").await;
    let listed = told(&closed, "list_servers", &json!({})).await;
    assert!(!listed.contains("for trying out"), "{listed}");
    let refused = told(&closed, "connect_server", &json!({ "server": "lab" })).await;
    assert!(refused.contains("do not allow it"), "{refused}");
    assert_eq!(closed.server.of("initialize").len(), 0);
}
