//! What may run: the strictest rule wins, and nothing that a project or a server says opens anything.

use outrigger_host::CallContext;
use outrigger_host::config::{Decision, Trust};
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::policy::{NamedTool, Policy};
use outrigger_journal::{Event, OutcomeKind};
use serde_json::json;

use crate::config::Place;
use crate::lab::{Lab, Plan, words};

const LAB: &str = "[servers.lab]\ncommand = 'x'\n";

fn plan(project: &str, user: &str, allow: &[&str]) -> Plan {
    let allow = allow.iter().map(|glob| (*glob).to_owned()).collect();
    Plan {
        project: format!("{LAB}{project}"),
        user: user.to_owned(),
        allow,
        ..Plan::default()
    }
}

/// How a call of `keep` ends, and by which rule.
async fn keep(plan: Plan) -> (OutcomeKind, String) {
    let lab = Lab::new(plan).await;
    let report = lab.call("keep", "{}").await;
    let rule = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::CallDecided { rule, .. } => Some(lab.place.tidy(&rule)),
            _ => None,
        });
    assert_eq!(
        lab.server.of("tools/call").len(),
        usize::from(report.outcome.kind() == OutcomeKind::Completed)
    );
    (
        report.outcome.kind(),
        rule.unwrap_or_else(|| words(&report)),
    )
}

const ALLOW: &str = "[[policy.rule]]\ntool = 'mcp__lab__*'\ndecision = 'allow'\n";
const DENY: &str =
    "[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'deny'\nreason = 'it keeps too much'\n";
const ASK: &str = "[[policy.rule]]\ntool = '*keep'\ndecision = 'ask'\n";

#[tokio::test]
async fn who_says_what_counts() {
    let mut told = Vec::new();
    for (name, plan) in [
        ("nothing said", plan("", "", &[])),
        ("user allows", plan("", ALLOW, &[])),
        ("project allows", plan(ALLOW, "", &[])),
        (
            "project says that it only reads",
            plan("read_only = true", "", &[]),
        ),
        (
            "project rule says that it only reads",
            plan(
                "[[policy.rule]]\ntool = '*'\ndecision = 'ask'\nread_only = true",
                "",
                &[],
            ),
        ),
        ("project asks, user allows", plan(ASK, ALLOW, &[])),
        ("project asks, --allow", plan(ASK, "", &["*"])),
        ("--allow of another", plan("", "", &["mcp__other__*"])),
        (
            "user denies by default, --allow",
            plan("", "[policy]\ndefault = 'deny'", &["*"]),
        ),
        ("user denies, --allow", plan("", DENY, &["*"])),
        (
            "project denies, user allows, --allow",
            plan(DENY, ALLOW, &["*"]),
        ),
    ] {
        let (kind, rule) = keep(plan).await;
        told.push(format!("{name}: {}: {rule}", kind.as_str()));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    nothing said: rejected: the default of the policy
    user allows: completed: `mcp__lab__*` at user/outrigger.toml:1
    project allows: rejected: the default of the policy
    project says that it only reads: rejected: the default of the policy
    project rule says that it only reads: rejected: `*` at project/.outrigger/outrigger.toml:3
    project asks, user allows: rejected: `*keep` at project/.outrigger/outrigger.toml:3
    project asks, --allow: completed: --allow *
    --allow of another: rejected: the default of the policy
    user denies by default, --allow: rejected: Not called: there is no tool `mcp__lab__keep`.
    user denies, --allow: rejected: Not called: there is no tool `mcp__lab__keep`.
    project denies, user allows, --allow: rejected: Not called: there is no tool `mcp__lab__keep`.
    ");
}

#[tokio::test]
async fn what_is_denied_is_not_shown() {
    let lab = Lab::new(plan("", DENY, &["*"])).await;
    let toolset = lab.host.toolset();
    assert!(toolset.get("mcp__lab__keep").is_none());
    assert!(toolset.get("mcp__lab__fail").is_some());
    let report = lab.call("keep", "{}").await;
    assert!(
        matches!(
            report.outcome,
            CallOutcome::Rejected(Rejection::UnknownTool { .. })
        ),
        "{report:?}"
    );
}

#[tokio::test]
async fn what_was_shown_elsewhere_is_still_denied() {
    let (lenient, strict) = (Lab::open().await, Lab::new(plan("", DENY, &["*"])).await);
    let shown = lenient.host.toolset();
    let report = strict
        .call_with(&shown, "keep", "{}", CallContext::default())
        .await;
    assert!(
        matches!(
            report.outcome,
            CallOutcome::Rejected(Rejection::Denied { .. })
        ),
        "{report:?}"
    );
    insta::assert_snapshot!(words(&report), @"Not called: the rules of this host do not allow it: it keeps too much");
    assert_eq!(strict.server.of("tools/call").len(), 0);
    assert_eq!(strict.ends(report.call).await, [OutcomeKind::Rejected]);
}

#[tokio::test]
async fn hints_of_a_server_open_nothing() {
    let lab = Lab::asking([]).await;
    let shown = lab.host.toolset();
    lab.server.change(|tools| {
        tools[0]["annotations"] =
            json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true });
        tools[0]["_meta"] = json!({ "policy": "allow" });
    });
    lab.changed_from(&shown).await;
    let report = lab.call("keep", "{}").await;
    assert!(
        matches!(
            report.outcome,
            CallOutcome::Rejected(Rejection::NobodyToAsk { .. })
        ),
        "{report:?}"
    );
    let toolset = lab.host.toolset();
    let tool = toolset.get("mcp__lab__keep").unwrap();
    assert_eq!(tool.annotations.read_only, Some(true));
    assert!(!lab.host.policy().only_reads(tool));
}

/// How a call of a tool ends, with the reason where it is denied.
async fn ends(lab: &Lab, tool: &str, arguments: &str) -> String {
    let report = lab.call(tool, arguments).await;
    match report.outcome {
        CallOutcome::Completed(_) => "completed".to_owned(),
        CallOutcome::Rejected(Rejection::Denied { rule, reason }) => {
            let reason = reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            format!("denied by {}{reason}", lab.place.tidy(&rule))
        }
        CallOutcome::Rejected(Rejection::NobodyToAsk { rule }) => {
            format!("{} asks", lab.place.tidy(&rule))
        }
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_condition_decides_by_the_arguments() {
    let rules = "[[policy.rule]]\ntool = 'mcp__lab__keep'\nwhen = 'args.n <= 50'\ndecision = 'allow'\n[[policy.rule]]\nserver = 'lab'\nraw = 'ke*'\nwhen = \"has(args.n) && args.n > 1000\"\ndecision = 'deny'\nreason = 'that is too much'\n";
    let lab = Lab::new(plan("", rules, &[])).await;
    let mut told = Vec::new();
    for arguments in [r#"{"n": 50}"#, r#"{"n": 51}"#, r#"{"n": 1001}"#, "{}"] {
        told.push(format!(
            "{arguments}: {}",
            ends(&lab, "keep", arguments).await
        ));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    {"n": 50}: completed
    {"n": 51}: the default of the policy asks
    {"n": 1001}: denied by raw `ke*` of server `lab` at user/outrigger.toml:5: that is too much
    {}: denied by `mcp__lab__keep` at user/outrigger.toml:1: its condition cannot be judged: `n` is missing
    "#);
    assert_eq!(lab.server.of("tools/call").len(), 1);
    let tool = lab.host.toolset();
    let outlook = lab
        .host
        .policy()
        .outlook(&**tool.get("mcp__lab__keep").unwrap());
    assert_eq!(outlook.to_string(), "allow or ask or deny, by the call");
}

#[tokio::test]
async fn data_of_one_server_does_not_go_to_another() {
    let rule = "[[policy.rule]]\nserver = 'lab'\nraw = 'keep'\nwhen = \"'lab' in origins\"\ndecision = 'deny'\nreason = 'what was read there stays there'\n";
    let lab = Lab::new(plan("", &format!("{ALLOW}{rule}"), &[])).await;
    assert_eq!(ends(&lab, "keep", "{}").await, "completed");
    let fresh = Lab::new(plan("", &format!("{ALLOW}{rule}"), &[])).await;
    assert_eq!(ends(&fresh, "tell", "{}").await, "completed");
    insta::assert_snapshot!(ends(&fresh, "keep", "{}").await, @"denied by raw `keep` of server `lab` at user/outrigger.toml:4: what was read there stays there");
    let origins = fresh.host.origins();
    assert_eq!(origins.servers().collect::<Vec<_>>(), ["lab"]);
}

#[tokio::test]
async fn a_refused_call_tells_nothing_of_a_server() {
    let lab = Lab::new(plan("", "", &[])).await;
    assert!(ends(&lab, "keep", "{}").await.ends_with("asks"));
    assert!(lab.host.origins().is_empty());
}

#[tokio::test]
async fn planning_only_reads() {
    let user = "[policy]\nmode = 'plan'\n[[policy.rule]]\ntool = 'mcp__lab__tell'\ndecision = 'allow'\nread_only = true\n[[policy.rule]]\ntool = 'mcp__lab__k*'\ndecision = 'allow'";
    let lab = Lab::new(plan("", user, &["*"])).await;
    let shown: Vec<_> = lab
        .host
        .toolset()
        .tools()
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(shown, ["mcp__lab__tell"]);
    assert_eq!(ends(&lab, "tell", "{}").await, "completed");
    let lenient = Lab::open().await;
    let report = lab
        .call_with(
            &lenient.host.toolset(),
            "keep",
            "{}",
            CallContext::default(),
        )
        .await;
    insta::assert_snapshot!(words(&report), @"Not called: the rules of this host do not allow it: only tools that local configuration says only read may run while planning");
}

#[tokio::test]
async fn auto_does_not_ask_about_what_a_rule_allows() {
    let auto = |user: &str| format!("[policy]\nmode = 'auto'\n{user}");
    let mut told = Vec::new();
    for (name, plan) in [
        (
            "allow and ask",
            plan("", &auto(&format!("{ALLOW}{ASK}")), &[]),
        ),
        ("a project asks", plan(ASK, &auto(ALLOW), &[])),
        ("only asked", plan("", &auto(ASK), &[])),
        ("nothing said", plan("", &auto(""), &[])),
        (
            "a project wants it",
            plan("[policy]\nmode = 'auto'\n", &format!("{ALLOW}{ASK}"), &[]),
        ),
    ] {
        let (kind, rule) = keep(plan).await;
        told.push(format!("{name}: {}: {rule}", kind.as_str()));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    allow and ask: completed: `mcp__lab__*` at user/outrigger.toml:3
    a project asks: completed: `mcp__lab__*` at user/outrigger.toml:3
    only asked: rejected: `*keep` at user/outrigger.toml:3
    nothing said: rejected: the default of the policy
    a project wants it: rejected: `*keep` at user/outrigger.toml:4
    ");
}

#[tokio::test]
async fn a_project_does_not_open_what_is_shut_by_asking() {
    let (kind, _) = keep(plan(ASK, "[policy]\ndefault = 'deny'", &["*"])).await;
    assert_eq!(kind, OutcomeKind::Rejected);
}

#[test]
fn the_same_call_is_judged_the_same_from_a_trusted_project() {
    let mut place = Place::toml(&format!("{LAB}{ALLOW}"));
    let config = place.load();
    let tool = NamedTool::new("mcp__lab__keep", None, None, &config);
    let decision = |config: &outrigger_host::config::Config| {
        let policy = Policy::new(&config.policy, &[]).unwrap();
        policy.outlook(tool.subject()).verdict.decision
    };
    assert_eq!(decision(&config), Decision::Ask);
    place.around.trust = Trust::ThisRun;
    assert_eq!(decision(&place.load()), Decision::Allow);
}
