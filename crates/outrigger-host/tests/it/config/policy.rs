//! The policy table as configured.

use outrigger_host::config::{Decision, Layer, Mode, show};

use super::Place;

fn rules(place: &Place) -> String {
    let config = place.load();
    let line = |rule: &outrigger_host::config::PolicyRule| {
        let broken = if rule.broken { " (broken)" } else { "" };
        format!(
            "{} {}{broken} {}:{}",
            rule.tools,
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
    `mcp__e__*` ask managed:1
    `mcp__a__*` ask user:3
    `mcp__b__*` deny user:8
    `mcp__c__*` deny project:3
    `mcp__d__x` allow project:5
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
        "[policy]\n[[policy.rule]]\ntool = 'mcp__a__*'\ndecision = 'maybe'\n[[policy.rule]]\ntool = 'mcp__[b'\ndecision = 'allow'\n[[policy.rule]]\ntool = 'mcp__c__*'\ndecision = 'allow'\nwhen = 'arg.x'\n[policy.tools]\n'd' = 1\n'[' = 'allow'",
    );
    insta::assert_snapshot!(rules(&place), @r"
    `mcp__a__*` deny (broken) user:2
    `*` deny (broken) user:5
    `mcp__c__*` deny (broken) user:8
    `d` deny (broken) user:13
    `*` deny (broken) user:14
    ");
    assert_eq!(place.load().fatal().count(), 5);
    let place = Place::with(
        "user/outrigger.toml",
        "[policy]\ndefault = 'open'\nrule = 5",
    );
    assert_eq!(place.load().policy.default.value, Decision::Deny);
    assert_eq!(rules(&place), "`*` deny (broken) user:3");
}

#[test]
fn a_file_of_another_host_has_no_policy() {
    let place = Place::with(
        "project/mcp.json",
        r#"{"mcpServers": {}, "model": {"default": "evil:model"}}"#,
    );
    assert!(place.load().model.default.is_none());
}

#[test]
fn rules_name_servers_and_raw_names() {
    let place = Place::with(
        "user/outrigger.toml",
        "[[policy.rule]]\nserver = 'pay'\nraw = 'refund*'\nwhen = 'args.amount <= 50'\ndecision = 'allow'\n[[policy.rule]]\nserver = 'mail'\ndecision = 'deny'\n",
    );
    insta::assert_snapshot!(rules(&place), @"
    raw `refund*` of server `pay` allow user:1
    server `mail` deny user:6
    ");
    let rule = &place.load().policy.rules[0];
    assert_eq!(rule.when.as_ref().unwrap().source(), "args.amount <= 50");
    assert_eq!(place.load().problems, []);
}

#[test]
fn what_is_wrong_with_a_rule_is_told_at_its_place() {
    let place = Place::with(
        "user/outrigger.toml",
        "[[policy.rule]]\ntool = 'x'\nwhen = 'arg.n <= 50'\ndecision = 'allow'\n[[policy.rule]]\nwhen = 'args.n <='\ndecision = 'allow'\n[[policy.rule]]\nserver = 'x'\nwhen = 'true'\nread_only = true\ndecision = 'allow'\n",
    );
    insta::assert_snapshot!(place.page(), @r"
    error: `policy.rule[0].when` cannot be used: there is no `arg`
      user/outrigger.toml:3:8
         |
       3 | when = 'arg.n <= 50'
         |        ^
      hint: did you mean `args`?

    error: `policy.rule[1]` has no `tool`
      user/outrigger.toml:5:1
         |
       5 | [[policy.rule]]
         | ^
      hint: `tool`, `server` or `raw` say which tools it is about, `prompt` and `resource` what else

    error: `policy.rule[1].when` cannot be used: column 10: it ends too early
      user/outrigger.toml:6:8
         |
       6 | when = 'args.n <='
         |        ^

    error: `policy.rule[2]` has `read_only`, which is about a tool, and `when`, about one call
      user/outrigger.toml:8:1
         |
       8 | [[policy.rule]]
         | ^
      hint: make two rules of it
    ");
    insta::assert_snapshot!(rules(&place), @"
    `x` deny (broken) user:1
    `*` deny (broken) user:5
    server `x` deny (broken) user:8
    ");
}

#[test]
fn a_mode_is_chosen_within_what_a_managed_file_lets() {
    let mut place = Place::with("user/outrigger.toml", "[policy]\nmode = 'auto'");
    assert_eq!(place.load().policy.mode.value, Mode::Auto);
    place.write(
        "project/.outrigger/outrigger.toml",
        "[policy]\nmode = 'plan'",
    );
    assert_eq!(place.load().policy.mode.value, Mode::Plan);
    let mut config = place.load();
    config.policy.choose_mode(Mode::Auto).unwrap();
    assert_eq!(config.policy.mode.value, Mode::Auto);
    place.around.managed_file = Some(place.write("policy.toml", "[policy]\nmode = 'default'"));
    let mut config = place.load();
    assert_eq!(config.policy.mode.value, Mode::Plan);
    config.policy.choose_mode(Mode::Default).unwrap();
    let error = config.policy.choose_mode(Mode::Auto).unwrap_err();
    insta::assert_snapshot!(place.tidy(&error.to_string()), @"the mode cannot be `auto`: `policy.mode` is `default` at policy.toml:2, in a managed file");
}

#[test]
fn a_managed_file_that_is_named_has_to_be_there() {
    let mut place = Place::new();
    place.around.managed_file = Some(place.path("gone.toml"));
    insta::assert_snapshot!(place.lines(), @"gone.toml: the file named by `OUTRIGGER_MANAGED_CONFIG` does not exist");
    assert_eq!(place.load().fatal().count(), 1);
}

#[test]
fn what_a_project_allows_is_shown_not_to_count() {
    let place = Place::toml(
        "[[policy.rule]]\ntool = 'x'\ndecision = 'allow'\n[[policy.rule]]\ntool = 'y'\nwhen = \"mode == 'plan'\"\ndecision = 'deny'\n",
    );
    let config = place.load();
    let shown = show::render(&config, true);
    let policy = shown.split("\n\n[limits]").next().unwrap();
    insta::assert_snapshot!(place.tidy(policy), @r#"
    [policy]
    default = "ask"  # default
    mode = "default"  # default

    [[policy.rule]]  # project/.outrigger/outrigger.toml:1
    # does not count: an `allow` in a file of a project that is not trusted
    tool = "x"
    decision = "allow"

    [[policy.rule]]  # project/.outrigger/outrigger.toml:4
    tool = "y"
    decision = "deny"
    when = "mode == 'plan'"
    "#);
    let json = show::to_json(&config);
    assert_eq!(json["policy"]["rules"][0]["counts"], false);
    assert_eq!(json["policy"]["rules"][1]["counts"], true);
    assert_eq!(json["policy"]["rules"][1]["when"], "mode == 'plan'");
}
