//! What may run: the strictest rule wins, and nothing that a project or a server says opens anything.

use outrigger_host::CallContext;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_journal::{Event, OutcomeKind};
use serde_json::json;

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
