//! What a provider is told of tools, what it costs, and how calls come back from there.

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, fixture};
use crate::scripted::Log;

/// A server with a name that some providers refuse, and a tool that some cannot be told of.
fn odd() -> (Place, Log) {
    let place = Place::new();
    let tools = json!([
        {
            "name": "keep",
            "description": "Keeps what was sent before a day",
            "inputSchema": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": { "DateSent<": { "type": "string", "description": "The day" } },
                "required": ["DateSent<"],
                "additionalProperties": false,
            },
        },
        {
            "name": "any",
            "description": "Takes any names",
            "inputSchema": { "type": "object", "additionalProperties": { "type": "string" } },
        },
    ]);
    let tools = place.write("tools.json", tools.to_string());
    let log = place.root.join("odd.log");
    place.servers(&json!({
        "odd": { "command": "python3", "args": [fixture("scripted_server.py"), log, tools] },
    }));
    (place, Log(log))
}

#[test]
fn the_schema_that_a_provider_is_sent() {
    let (place, _) = odd();
    let told = |words: &[&str]| {
        let ran = place.run(&[&["tools"], words].concat());
        format!("exit {}\n{}{}", ran.code, ran.out, ran.err)
    };
    insta::assert_snapshot!(told(&["--schema", "keep", "--provider", "anthropic"]), @r#"
    exit 0
    mcp__odd__keep for anthropic
      {
        "type": "object",
        "properties": {
          "DateSent_lt": {
            "type": "string",
            "description": "The day. (`DateSent<`)"
          }
        },
        "required": [
          "DateSent_lt"
        ],
        "additionalProperties": false
      }
    same     /properties/DateSent<: `DateSent<` is called `DateSent_lt`, and renamed again in calls (the family's pattern for names refuses it)
    "#);
    insta::assert_snapshot!(told(&["--schema", "any", "--provider", "openai-strict"]), @"
    exit 0
    mcp__odd__any for openai-strict: left out: its arguments may have any name, and openai-strict takes only declared ones
    ");
    insta::assert_snapshot!(told(&["--schema", "kep", "--provider", "gemini"]), @"
    exit 2
    error: there is no tool `kep`
    hint: perhaps mcp__odd__keep
    ");
    insta::assert_snapshot!(told(&["--schema", "keep", "--provider", "nobody"]), @"
    exit 2
    error: there is no provider `nobody`
    hint: one of openai, openai-strict, anthropic, gemini, generic, openai-chat, deepseek, openrouter, ollama, vllm, llamacpp
    ");
    let document = place.json(&[
        "tools",
        "--schema",
        "mcp__odd__keep",
        "--provider",
        "gemini",
        "--json",
    ]);
    assert_eq!(document["schema"]["required"], json!(["DateSent_lt"]));
    assert_eq!(document["changes"][0]["effect"], "same");
}

#[test]
fn what_the_declarations_cost() {
    let (place, _) = odd();
    let told = |words: &[&str]| place.run(&[&["tools", "--tokens"], words].concat()).out;
    insta::assert_snapshot!(told(&["--model", "openai:gpt-5"]), @r#"
    [server "odd": 2 tools, 107 tokens per request]
            63 mcp__odd__keep
            44 mcp__odd__any
    [server "time": 3 tools, 283 tokens per request]
            67 mcp__time__current_time
            93 mcp__time__days_between
           123 mcp__time__convert_time
    [server "workspace": 3 tools, 341 tokens per request]
           106 mcp__workspace__list
           111 mcp__workspace__read
           124 mcp__workspace__search
    8 tools in all, 731 tokens per request, as `openai` is told of them; counted with o200k
    "#);
    insta::assert_snapshot!(told(&["--provider", "gemini"]), @r#"
    [server "odd": 2 tools, ~55 tokens per request]
           ~55 mcp__odd__keep
      left out mcp__odd__any: its arguments may have any name, and gemini takes only declared ones
    [server "time": 3 tools, ~255 tokens per request]
           ~55 mcp__time__current_time
           ~84 mcp__time__days_between
          ~116 mcp__time__convert_time
    [server "workspace": 3 tools, ~326 tokens per request]
          ~102 mcp__workspace__list
          ~102 mcp__workspace__read
          ~122 mcp__workspace__search
    8 tools in all, ~636 tokens per request, as `gemini` is told of them; an estimate: the vocabulary is not known
    "#);
    let document = place.json(&["tools", "--tokens", "--json", "--provider", "anthropic"]);
    assert_eq!(
        (&document["exact"], &document["counted_by"]),
        (&json!(false), &json!("estimate"))
    );
}

#[test]
fn a_call_comes_back_in_the_servers_words_and_the_ledger_has_both_counts() {
    let (place, log) = odd();
    let model = Model::turns([
        Turn::calls([("mcp__odd__keep", json!({ "DateSent_lt": "2026-11-30" }))]),
        Turn::text("kept"),
    ]);
    place.user(&format!(
        "[model.providers.one]\nkind = 'gemini'\nbase_url = '{}'",
        model.base_url()
    ));
    place.user("[model]\ndefault = 'one:gpt-5'");
    let tools = place.run(&["tools"]).out;
    let line = "  mcp__odd__any: `one:gpt-5` is not told of it: its arguments may have any name, ";
    assert!(tools.contains(line), "{tools}");
    let words = [
        "ask",
        "Keep it",
        "--model",
        "one:gpt-5",
        "--allow",
        "*",
        "--stats",
    ];
    let ran = place.run(&words);
    assert_eq!((ran.code, ran.out.as_str()), (0, "kept\n"), "{}", ran.err);
    let sent = &log.of("tools/call")[0]["params"]["arguments"];
    assert_eq!(*sent, json!({ "DateSent<": "2026-11-30" }));
    for wanted in [
        "tool `any` set aside: `one:gpt-5` is not told of it: its arguments may have any name, and gemini takes only declared ones",
        "[server \"odd\": 1 tool, ",
        "counted",
    ] {
        assert!(ran.err.contains(wanted), "no {wanted:?} in\n{}", ran.err);
    }
    let run = ran
        .err
        .lines()
        .find_map(|line| line.strip_prefix("run "))
        .unwrap();
    let shown = place.run(&["runs", "show", run]).out;
    assert!(shown.contains("; counted "), "{shown}");
    assert!(shown.contains(" (o200k), "), "{shown}");
}
