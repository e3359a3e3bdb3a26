//! Rules tried out from outside, and rules with conditions and modes on real calls.

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran};
use crate::scripted::lab;

const RULES: &str = "[[policy.rule]]
tool = 'mcp__lab__repeat'
when = \"args.text.startsWith('hello')\"
decision = 'allow'

[[policy.rule]]
server = 'lab'
raw = 'repeat'
when = 'size(args.text) > 20'
decision = 'deny'
reason = 'that is too long'
";

/// Output, error output and exit code, as one text.
fn told(place: &Place, ran: &Ran) -> String {
    format!(
        "{}\n{}\nexit code {}",
        place.tidy(&ran.out),
        place.tidy(&ran.err),
        ran.code
    )
}

#[test]
fn a_condition_decides_about_real_calls() {
    let (place, log) = lab();
    place.user(RULES);
    let call = |text: &str| {
        let ran = place.run(&["call", "lab", "repeat", &format!("text={text}"), "--quiet"]);
        (ran.code, ran.out, place.tidy(&ran.err))
    };
    assert_eq!(call("hello"), (0, "hello\n".to_owned(), String::new()));
    let (code, _, err) = call("good morning");
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("the default of the policy asks"), "{err}");
    let (code, _, err) = call("hello, hello, hello, hello");
    assert_eq!(code, 3);
    insta::assert_snapshot!(err, @"error: denied by raw `repeat` of server `lab` at /config/outrigger/outrigger.toml:6: that is too long");
    assert_eq!(log.of("tools/call").len(), 1);
}

#[test]
fn no_flag_opens_what_is_denied() {
    let (place, log) = lab();
    place.user("[[policy.rule]]\ntool = '*repeat'\nwhen = 'args.count <= 3'\ndecision = 'allow'");
    for flags in [&["--allow", "*"][..], &["--mode", "auto", "--allow", "*"]] {
        let ran = place.run(&[&["call", "lab", "repeat", "text=x"], flags].concat());
        assert_eq!(ran.code, 3, "{ran:#?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(place.tidy(ran.err.lines().last().unwrap()), @"error: denied by `*repeat` at /config/outrigger/outrigger.toml:1: its condition cannot be judged: `count` is missing");
        }
    }
    assert_eq!(log.of("tools/call").len(), 0);
    place.write("managed/outrigger.toml", "[policy]\nmode = 'plan'");
    let ran = place.run(&["call", "lab", "keep", "--mode", "default", "--allow", "*"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.err), @"error: the mode cannot be `default`: `policy.mode` is `plan` at /managed/outrigger.toml:2, in a managed file");
}

#[test]
fn a_plan_only_reads() {
    let (place, log) = lab();
    place.user("[policy.tools]\n'mcp__lab__*' = 'allow'\n");
    place.user("[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'allow'\nread_only = true");
    let model = Model::turns([
        Turn::calls([
            ("mcp__lab__keep", json!({})),
            ("mcp__lab__repeat", json!({ "text": "x" })),
        ]),
        Turn::text("Planned."),
    ]);
    model.serves(&place);
    let ran = place.run(&["ask", "Plan it", "--mode", "plan", "--json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let shown = model.requests()[0].tools();
    assert!(!shown.contains(&"mcp__lab__repeat".to_owned()), "{shown:?}");
    assert!(shown.contains(&"mcp__lab__keep".to_owned()), "{shown:?}");
    let called: Vec<_> = log
        .of("tools/call")
        .iter()
        .map(|call| call["params"]["name"].clone())
        .collect();
    assert_eq!(called, ["keep"]);
}

#[test]
fn data_does_not_flow_where_a_rule_forbids_it() {
    let (place, log) = lab();
    place.user("[[policy.rule]]\ntool = '*'\ndecision = 'allow'\n\n[[policy.rule]]\nserver = 'lab'\nwhen = \"'workspace' in origins\"\ndecision = 'deny'\nreason = 'files stay here'\n");
    place.write("project/secret.txt", "the plan\n");
    let send = || Turn::calls([("mcp__lab__repeat", json!({ "text": "the plan" }))]);
    let model = Model::turns([
        send(),
        Turn::calls([("mcp__workspace__read", json!({ "path": "secret.txt" }))]),
        send(),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    let ran = place.run(&["ask", "Send it", "--json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let outcomes: Vec<_> = ran.json()["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["outcome"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(outcomes, ["completed", "completed", "rejected"]);
    assert_eq!(log.of("tools/call").len(), 1);
    insta::assert_snapshot!(model.last_results().join("\n"), @"Not called: the rules of this host do not allow it: files stay here");
}

#[test]
fn why_names_the_rules_and_the_one_that_decides() {
    let (place, log) = lab();
    place.user(RULES);
    let why = |words: &[&str]| {
        let ran = place.run(&[&["policy", "why", "mcp__lab__repeat"], words].concat());
        told(&place, &ran)
    };
    insta::assert_snapshot!(why(&["text=hello there"]), @r#"
    mcp__lab__repeat {"text":"hello there"}
    allow: `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1

    * allow `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1
            when args.text.startsWith('hello')
            applies

      deny  raw `repeat` of server `lab` at /config/outrigger/outrigger.toml:6
            when size(args.text) > 20
            its condition is false

    without a rule: ask (the default of the policy)

    exit code 0
    "#);
    insta::assert_snapshot!(why(&["{}"]), @"
    mcp__lab__repeat {}
    deny: `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1
    reason: its condition cannot be judged: `text` is missing

    * allow `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1
            when args.text.startsWith('hello')
            denies: its condition cannot be judged: `text` is missing

      deny  raw `repeat` of server `lab` at /config/outrigger/outrigger.toml:6
            when size(args.text) > 20
            denies: its condition cannot be judged: `text` is missing

    without a rule: ask (the default of the policy)

    exit code 0
    ");
    insta::assert_snapshot!(why(&[]), @"
    mcp__lab__repeat (any call)
    allow or ask or deny, by the call: `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1

      allow `mcp__lab__repeat` at /config/outrigger/outrigger.toml:1
            when args.text.startsWith('hello')
            depends on the call

      deny  raw `repeat` of server `lab` at /config/outrigger/outrigger.toml:6
            when size(args.text) > 20
            depends on the call

    without a rule: ask (the default of the policy)

    exit code 0
    ");
    let json = place.json(&["policy", "why", "mcp__lab__repeat", "text=hello", "--json"]);
    assert_eq!(json["decision"], "allow");
    assert_eq!(json["rules"][0]["won"], true);
    assert_eq!(
        (&json["rules"][0]["line"], &json["rules"][0]["column"]),
        (&json!(1), &json!(1))
    );
    let near = place.run(&["policy", "why", "mcp__lab__repaet"]);
    assert_eq!(near.code, 2);
    insta::assert_snapshot!(place.tidy(&near.err), @"
    error: there is no tool `mcp__lab__repaet`
    hint: did you mean `mcp__lab__repeat`?
    ");
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn why_says_how_far_a_tool_comes() {
    let (place, _log) = lab();
    place.write(
        "project/.outrigger/outrigger.toml",
        "[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'deny'\n",
    );
    let why = |tool: &str| told(&place, &place.run(&["why", tool]));
    insta::assert_snapshot!(why("keep"), @"
    mcp__lab__keep
      discovered   yes: `keep` of the server `lab`
      set aside    no
      let through  yes
      policy       deny: `mcp__lab__keep` at /project/.outrigger/outrigger.toml:1
      active       no

    exit code 0
    ");
    insta::assert_snapshot!(why("mcp__lab__repeat"), @"
    mcp__lab__repeat
      discovered   yes: `repeat` of the server `lab`
      set aside    no
      let through  yes
      policy       ask: the default of the policy
      active       yes: models are shown it

    exit code 0
    ");
    insta::assert_snapshot!(why("mcp__lab__repaet"), @"

    error: no connected server has a tool `mcp__lab__repaet`
    hint: did you mean `mcp__lab__repeat` or `mcp__workspace__read`?
    exit code 2
    ");
    let (entry, _) = crate::scripted::scripted(&place, "lab");
    let entry =
        json!({ "command": entry["command"], "args": entry["args"], "disabled_tools": ["rep*"] });
    place.servers(&json!({ "lab": entry, "gone": { "command": "/no/such/program" } }));
    insta::assert_snapshot!(why("repeat"), @"
    mcp__lab__repeat
      discovered   yes: `repeat` of the server `lab`
      set aside    no
      let through  no: `disabled_tools` at /project/.mcp.json:9 names it
      active       no

    exit code 0
    ");
    let by_name = place.run(&["policy", "why", "mcp__gone__x"]);
    insta::assert_snapshot!(told(&place, &by_name), @"
    mcp__gone__x (any call)
    ask: the default of the policy

    without a rule: ask (the default of the policy)
    note: the server `gone` is not connected; what is said here goes by the name alone
    exit code 0
    ");
    insta::assert_snapshot!(why("mcp__gone__x"), @"

    error: nothing is known of `mcp__gone__x`: the server `gone` is not connected: `/no/such/program` does not exist
    hint: `outrigger tools gone` has the particulars
    exit code 4
    ");
}

#[test]
fn a_table_of_cases_is_compared() {
    let (place, log) = lab();
    place.user(RULES);
    place.write(
        "project/cases.toml",
        "[[case]]\ntool = 'mcp__lab__repeat'\nargs = { text = 'hello' }\nexpect = 'allow'\n\n[[case]]\ntool = 'mcp__lab__repeat'\nargs = { text = 'hello, hello, hello, hello' }\nexpect = 'deny'\n\n[[case]]\ntool = 'mcp__time__current_time'\nmode = 'plan'\nexpect = 'allow'\n",
    );
    let good = place.run(&["policy", "test", "cases.toml"]);
    insta::assert_snapshot!(told(&place, &good), @"
    3 cases, all as expected

    exit code 0
    ");
    place.write(
        "project/cases.json",
        "[\n  {\"tool\": \"mcp__lab__repeat\", \"args\": {\"text\": \"good\"}, \"expect\": \"allow\", \"about\": \"any text\"},\n  {\"tool\": \"mcp__lab__repeat\", \"expect\": \"ask\"}\n]\n",
    );
    let bad = place.run(&["policy", "test", "cases.json"]);
    insta::assert_snapshot!(told(&place, &bad), @r#"
    mcp__lab__repeat {"text":"good"}  # any text
      at /project/cases.json:2
      - expected allow
      + decided  ask (the default of the policy)
    mcp__lab__repeat {}
      at /project/cases.json:3
      - expected ask
      + decided  deny (`mcp__lab__repeat` at /config/outrigger/outrigger.toml:1): its condition cannot be judged: `text` is missing
    2 cases, 2 differ

    exit code 1
    "#);
    let json = place.run(&["policy", "test", "cases.json", "--json"]);
    assert_eq!((json.code, &json.json()[0]["differs"]), (1, &json!(true)));
    place.write(
        "project/broken.toml",
        "[[case]]\ntool = 'x'\nexpet = 'ask'\n",
    );
    let broken = place.run(&["policy", "test", "broken.toml"]);
    assert_eq!(broken.code, 2, "{broken:#?}");
    assert!(
        broken.err.contains("did you mean `expect`?"),
        "{}",
        broken.err
    );
    place.write(
        "project/stray.toml",
        "[[case]]\ntool = 'mcp__time__nothing'\nexpect = 'ask'\n",
    );
    let stray = place.run(&["policy", "test", "stray.toml"]);
    assert_eq!(stray.code, 2, "{stray:#?}");
    assert!(
        stray.err.contains("has no tool `mcp__time__nothing` (/"),
        "{}",
        stray.err
    );
    assert_eq!(log.heard().len(), 0, "no server is started");
}

#[test]
fn a_run_is_decided_about_again() {
    let (place, log) = lab();
    let model = Model::turns([
        Turn::calls([
            ("mcp__lab__repeat", json!({ "text": "one" })),
            ("mcp__lab__keep", json!({})),
            ("mcp__lab__nothing", json!({})),
        ]),
        Turn::calls([("mcp__lab__repeat", json!({ "text": "two" }))]),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    let ran = place.run(&["ask", "Do it", "--allow", "mcp__lab__repeat"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    let calls = log.of("tools/call").len();
    place.write(
        "project/new.toml",
        "[[policy.rule]]\nserver = 'lab'\nwhen = \"'lab' in origins\"\ndecision = 'deny'\nreason = 'once is enough'\n",
    );
    let run = place.json(&["runs", "list", "--json"])[0]["id"].clone();
    let replayed = place.run(&[
        "policy",
        "replay",
        run.as_str().unwrap(),
        "--policy",
        "new.toml",
    ]);
    insta::assert_snapshot!(told(&place, &replayed), @r#"
    #2 mcp__lab__keep {}
      - then ask (the default of the policy)
      + now  deny (server `lab` at /project/new.toml:1): once is enough
    #4 mcp__lab__repeat {"text":"two"}
      - then ask (--allow mcp__lab__repeat)
      + now  deny (server `lab` at /project/new.toml:1): once is enough
    3 decisions, 2 would be different
    1 call never came to a decision

    exit code 0
    "#);
    let none = place.run(&["policy", "replay", "nope", "--policy", "new.toml"]);
    assert_eq!(none.code, 2, "{none:#?}");
    let missing = place.run(&[
        "policy",
        "replay",
        run.as_str().unwrap(),
        "--policy",
        "gone.toml",
    ]);
    assert_eq!(missing.code, 2, "{missing:#?}");
    assert_eq!(log.of("tools/call").len(), calls, "nothing is called");
}

#[test]
fn a_managed_file_can_be_named() {
    let (place, _log) = lab();
    let file = place.write(
        "policy/machine.toml",
        "[policy.tools]\n'mcp__lab__*' = 'deny'",
    );
    let ran = place.run_with(&["call", "lab", "keep", "--allow", "*"], |command| {
        command.env("OUTRIGGER_MANAGED_CONFIG", &file);
    });
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(
        place.tidy(&ran.err).contains("/policy/machine.toml:2"),
        "{}",
        ran.err
    );
}
