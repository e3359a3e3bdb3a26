//! Tables of cases for `outrigger policy test`.

use outrigger_host::config::{ConfigProblem, Mode, PolicyCase, policy_cases};
use outrigger_host::policy::Principal;

use super::Place;

fn read(name: &str, text: &str) -> Result<Vec<PolicyCase>, String> {
    let place = Place::new();
    let file = place.write(name, text);
    policy_cases(&file).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ConfigProblem::to_string).collect();
        place.tidy(&lines.join("\n"))
    })
}

#[test]
fn the_same_cases_in_toml_json_and_yaml() {
    let toml = "[[case]]\ntool = 'mcp__pay__refund'\nargs = { amount = 40, to = ['a'], big = 9007199254740993 }\nmode = 'auto'\norigins = ['crm']\nprincipal = 'person'\nannotations = { readOnlyHint = false }\nexpect = 'allow'\nabout = 'small'\n";
    let json = r#"[{"tool": "mcp__pay__refund", "args": {"amount": 40, "to": ["a"], "big": 9007199254740993},
        "mode": "auto", "origins": ["crm"], "principal": "person", "annotations": {"readOnlyHint": false},
        "expect": "allow", "about": "small"}]"#;
    let yaml = "case:\n- {tool: mcp__pay__refund, args: '{\"amount\":40,\"to\":[\"a\"],\"big\":9007199254740993}', mode: auto, origins: [crm], principal: person, annotations: {readOnlyHint: false}, expect: allow, about: small}\n";
    let mut read: Vec<PolicyCase> = [("c.toml", toml), ("c.json", json), ("c.yaml", yaml)]
        .into_iter()
        .map(|(name, text)| read(name, text).unwrap().remove(0))
        .collect();
    let first = read[0].clone();
    assert_eq!(first.origin.line, 1);
    assert_eq!(
        first.arguments,
        r#"{"amount":40,"to":["a"],"big":9007199254740993}"#
    );
    assert_eq!(
        (first.mode, first.principal),
        (Some(Mode::Auto), Principal::Person)
    );
    for case in &mut read {
        case.origin = first.origin.clone();
        assert_eq!(*case, first);
    }
}

#[test]
fn what_is_wrong_with_a_table_is_told() {
    let told: Vec<String> = [
        ("c.toml", "[[case]]\ntool = 'x'\n"),
        (
            "c.toml",
            "[[case]]\ntool = 'x'\nexpected = 'allow'\nexpect = 'alow'\n",
        ),
        (
            "c.toml",
            "[[case]]\ntool = 'x'\nexpect = 'ask'\nargs = { n = inf }\n",
        ),
        (
            "c.toml",
            "[[case]]\ntool = 'x'\nexpect = 'ask'\nargs = '[1]'\n",
        ),
        ("c.toml", "[[cas]]\n"),
        ("c.json", "{\"case\": {}}"),
        ("c.json", "{\"case\": []}"),
        ("c.json", "{"),
    ]
    .into_iter()
    .map(|(name, text)| read(name, text).unwrap_err())
    .collect();
    insta::assert_snapshot!(told.join("\n"), @"
    c.toml:1:1: `case[0]` has no `expect`
    c.toml:3:1: unknown key `expected` in `case[0]`; did you mean `expect`?
    c.toml:4:10: `case[0].expect` cannot be `alow`; it can be `allow`, `ask`, `deny`
    c.toml:4:1: `case[0].args` must be a table of JSON values, or text with a JSON object, found a table
    c.toml:4:8: `case[0].args` must be a table of JSON values, or text with a JSON object, found text
    c.toml:1:3: unknown key `cas`; did you mean `case`?
    c.json:1:10: `case` must be a list of cases (`[[case]]`), found a table
    c.json: there are no cases in it; a case is `[[case]]` with `tool` and `expect`
    c.json:1:1: broken JSON: this table is never closed
    ");
}
