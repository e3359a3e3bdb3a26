//! The policy table as configured.

use outrigger_host::config::{Decision, Layer};

use super::Place;

fn rules(place: &Place) -> String {
    let config = place.load();
    let line = |rule: &outrigger_host::config::PolicyRule| {
        let broken = if rule.broken { " (broken)" } else { "" };
        format!(
            "{} {}{broken} {}:{}",
            rule.tool,
            rule.decision,
            rule.origin.layer.as_str(),
            rule.origin.line
        )
    };
    let lines: Vec<_> = config.policy.rules.iter().map(line).collect();
    lines.join("\n")
}

#[test]
fn rules_keep_their_place_and_stand_managed_first() {
    let place = Place::new();
    place.write("user/outrigger.toml", "[policy]\ndefault = 'allow'\n[[policy.rule]]\ntool = 'mcp__a__*'\ndecision = 'ask'\nreason = 'r'\n[policy.tools]\n'mcp__b__*' = 'deny'");
    place.write("project/.outrigger/outrigger.yaml", "policy:\n  tools:\n    mcp__c__*: deny\n  rule:\n    - {tool: mcp__d__x, decision: allow, read_only: true}\n");
    place.write(
        "managed/outrigger.json",
        r#"{"policy": {"tools": {"mcp__e__*": "ask"}}}"#,
    );
    insta::assert_snapshot!(rules(&place), @r"
    mcp__e__* ask managed:1
    mcp__a__* ask user:3
    mcp__b__* deny user:8
    mcp__c__* deny project:3
    mcp__d__x allow project:5
    ");
    let policy = place.load().policy;
    assert_eq!(policy.default.value, Decision::Allow);
    assert_eq!(policy.rules[1].reason.as_deref(), Some("r"));
    assert_eq!(policy.rules[4].read_only, Some(true));
}

#[test]
fn words_of_older_systems_mean_what_they_meant() {
    for (word, meaning) in [
        ("allow", Decision::Allow),
        ("auto", Decision::Allow),
        ("ask", Decision::Ask),
        ("suggest", Decision::Ask),
        ("approve", Decision::Ask),
        ("confirm", Decision::Ask),
        ("deny", Decision::Deny),
    ] {
        let place = Place::with(
            "user/outrigger.toml",
            &format!("[policy.tools]\n'x' = '{word}'"),
        );
        assert_eq!(place.load().policy.rules[0].decision, meaning, "{word}");
    }
}

#[test]
fn a_project_tightens_and_does_not_loosen() {
    let default = |user: &str, project: &str| {
        let place = Place::new();
        place.write("user/outrigger.toml", user);
        place.write("project/.outrigger/outrigger.toml", project);
        let config = place.load();
        (
            config.policy.default.value,
            config.policy.default.origin.layer,
            config.problems.len(),
        )
    };
    let policy = |word: &str| format!("[policy]\ndefault = '{word}'");
    assert_eq!(
        default("", &policy("allow")),
        (Decision::Ask, Layer::Builtin, 1)
    );
    assert_eq!(
        default("", &policy("deny")),
        (Decision::Deny, Layer::Project, 0)
    );
    assert_eq!(
        default(&policy("allow"), &policy("ask")),
        (Decision::Ask, Layer::Project, 0)
    );
    assert_eq!(
        default(&policy("deny"), &policy("ask")),
        (Decision::Deny, Layer::User, 1)
    );
    assert_eq!(
        default(&policy("allow"), ""),
        (Decision::Allow, Layer::User, 0)
    );
}

#[test]
fn the_nearer_default_counts_among_those_who_may_say_so() {
    let mut place = Place::new();
    place.write("user/outrigger.yaml", "policy: {default: deny}");
    place.write("user/outrigger.toml", "[policy]\ndefault = 'allow'");
    assert_eq!(place.load().policy.default.value, Decision::Allow);
    place.around.explicit = vec![place.write("mine.toml", "[policy]\ndefault = 'ask'")];
    assert_eq!(place.load().policy.default.value, Decision::Ask);
    place.write("managed/outrigger.toml", "[policy]\ndefault = 'deny'");
    assert_eq!(place.load().policy.default.value, Decision::Deny);
}

#[test]
fn what_cannot_be_read_denies() {
    let place = Place::with(
        "user/outrigger.toml",
        "[policy]\n[[policy.rule]]\ntool = 'mcp__a__*'\ndecision = 'maybe'\n[[policy.rule]]\ntool = 'mcp__[b'\ndecision = 'allow'\n[[policy.rule]]\ntool = 'mcp__c__*'\ndecision = 'allow'\nwhen = 'true'\n[policy.tools]\n'd' = 1\n'[' = 'allow'",
    );
    insta::assert_snapshot!(rules(&place), @r"
    mcp__a__* deny (broken) user:2
    * deny (broken) user:5
    mcp__c__* deny (broken) user:8
    d deny (broken) user:13
    * deny (broken) user:14
    ");
    assert_eq!(place.load().fatal().count(), 5);
    let place = Place::with(
        "user/outrigger.toml",
        "[policy]\ndefault = 'open'\nrule = 5",
    );
    assert_eq!(place.load().policy.default.value, Decision::Deny);
    assert_eq!(rules(&place), "* deny (broken) user:3");
}

#[test]
fn a_file_of_another_host_has_no_policy() {
    let place = Place::with(
        "project/mcp.json",
        r#"{"mcpServers": {}, "model": {"default": "evil:model"}}"#,
    );
    assert!(place.load().model.default.is_none());
}
