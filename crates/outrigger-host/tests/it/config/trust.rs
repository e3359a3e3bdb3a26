//! What comes with a checkout waits for the person, whatever it is written in.

use outrigger_host::config::{Decision, EntryState, Layer, ProjectStanding, Trust};
use outrigger_host::policy::Policy;

use super::{Place, state};

const SERVERS: &str = r#"{ "mcpServers": {
  "notes": { "command": "npx", "args": ["-y", "notes-mcp"], "env": { "NOTES_TOKEN": "tok-123456" } } } }"#;

fn place() -> Place {
    let place = Place::with("project/.mcp.json", SERVERS);
    place.write(
        "project/.outrigger/outrigger.toml",
        "[[policy.rule]]\ntool = 'mcp__notes__*'\ndecision = 'allow'\n[[policy.rule]]\ntool = 'mcp__x__*'\ndecision = 'deny'",
    );
    place
}

#[test]
fn what_a_checkout_brings_waits_for_the_person() {
    let config = place().load();
    assert!(matches!(state(&config, "notes"), EntryState::NeedsTrust(_)));
    let project = config.project.as_ref().unwrap();
    assert_eq!(project.standing, ProjectStanding::Unknown);
    assert!(project.needs_trust());
    let brings: Vec<_> = project
        .brings
        .iter()
        .map(|one| {
            format!(
                "{} {}: {} ({})",
                one.kind, one.name, one.what, one.origin.line
            )
        })
        .collect();
    assert_eq!(
        brings,
        [
            "server notes: npx -y notes-mcp (with NOTES_TOKEN) (2)",
            "rule mcp__notes__*: may run without asking (1)",
        ],
        "names of variables, no values; what only forbids needs no trust"
    );
    let policy = &config.policy;
    assert_eq!(policy.rules.len(), 2);
    assert!(
        policy
            .rules
            .iter()
            .all(|rule| rule.origin.layer == Layer::Project)
    );
    Policy::new(policy, &[]).unwrap();
}

#[test]
fn trust_is_about_content() {
    let mut place = place();
    let digest = place.load().project.unwrap().digest;
    place.around.trust = Trust::Content(digest);
    let config = place.load();
    assert!(matches!(state(&config, "notes"), EntryState::Ready(_)));
    assert_eq!(
        config.project.as_ref().unwrap().standing,
        ProjectStanding::Trusted
    );
    let allow = config
        .policy
        .rules
        .iter()
        .find(|rule| rule.decision == Decision::Allow);
    assert!(allow.unwrap().origin.layer.may_loosen());

    // Any change of any of the files asks again, also one that adds a file.
    place.write(
        "project/.mcp.json",
        SERVERS.replace("notes-mcp", "notes-mcp2"),
    );
    assert_eq!(
        place.load().project.unwrap().standing,
        ProjectStanding::Changed
    );
    place.write("project/.mcp.json", SERVERS);
    assert_eq!(
        place.load().project.unwrap().standing,
        ProjectStanding::Trusted
    );
    place.write("project/mcp.json", "{}");
    assert_eq!(
        place.load().project.unwrap().standing,
        ProjectStanding::Changed
    );
    let waiting = place.load();
    assert!(matches!(
        state(&waiting, "notes"),
        EntryState::NeedsTrust(_)
    ));
}

#[test]
fn an_entry_that_waits_is_not_replaced_by_a_farther_one() {
    let place = place();
    place.write(
        "user/outrigger.toml",
        "[servers.notes]\ncommand = 'mine'\n[servers.own]\ncommand = 'own'",
    );
    let config = place.load();
    assert!(matches!(state(&config, "notes"), EntryState::NeedsTrust(_)));
    assert!(matches!(state(&config, "own"), EntryState::Ready(_)));
}

#[test]
fn a_default_or_mode_that_opens_is_shown_too() {
    let mut place = Place::toml("[policy]\ndefault = 'allow'\nmode = 'auto'");
    let shown = |place: &Place| -> Vec<String> {
        let brings = place.load().project.unwrap().brings;
        let lines = brings
            .iter()
            .map(|one| format!("{} {} {}", one.kind, one.name, one.what));
        lines.collect()
    };
    let expected = [
        "policy policy.default becomes `allow`",
        "policy policy.mode becomes `auto`",
    ];
    assert_eq!(shown(&place), expected);
    assert_eq!(place.load().policy.default.value, Decision::Ask);
    place.around.trust = Trust::ThisRun;
    assert_eq!(shown(&place), expected);
    assert_eq!(place.load().policy.default.value, Decision::Allow);
}

#[test]
fn files_that_only_forbid_need_no_trust() {
    let place = Place::toml("[[policy.rule]]\ntool = '*'\ndecision = 'deny'");
    assert!(!place.load().project.unwrap().needs_trust());
    assert!(Place::new().load().project.is_none());
}
