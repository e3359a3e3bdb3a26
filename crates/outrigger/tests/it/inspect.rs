//! `inspect`: what one server is.

use serde_json::json;

use crate::place::{Place, fixture};

fn place() -> Place {
    let place = Place::new();
    let log = place.root.join("lab.log");
    let entry = json!({ "command": "python3", "args": [fixture("asking_server.py"), log], "env": { "TOKEN": "tell-nobody-4711" } });
    place.servers(&json!({
        "lab": entry,
        "gone": { "command": "no-such-program-here" },
        "bad": { "command": "a", "framing": "x" },
    }));
    place
}

#[test]
fn a_page_for_a_person() {
    let place = place();
    let ran = place.run(&["inspect", "lab"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    place.assert_nothing_runs();
    let page = place.tidy(&ran.out);
    // Numbers of processes, times, and where this checkout is.
    let kept: Vec<String> = page
        .lines()
        .filter(|line| !line.trim_start().starts_with("took "))
        .map(|line| {
            let words = line.trim_start();
            match words.split_once(' ') {
                Some((pid, rest)) if pid.parse::<u32>().is_ok() && rest.contains('/') => {
                    let indent = &line[..line.len() - words.len()];
                    let program = rest.split(' ').next().unwrap();
                    let program = program.rsplit('/').next().unwrap();
                    format!("{indent}PID {program}")
                }
                _ => line.to_owned(),
            }
        })
        .collect();
    insta::assert_snapshot!(kept.join("\n"), @r#"
    lab legacy, protocol 2025-11-25 over stdio
      configured         /project/.mcp.json:3
      calls itself       asker 1.0
      capabilities       tools (listChanged), resources, prompts
      instructions
        | Ask first.
        | Then\u{200b} act.
      tools              7, ~154 tokens
        form
        visit
        trick
        sample
        roots
        odd
        nameless
      resources          2 in 2 pages
        first (note:1)
        second (note:2)
      resource templates 1
        note (note:{n})
      prompts            1
        greet
      processes
        PID outrigger
          PID python3
      last said
        | starting up
        | token [redacted]
        | listening
      warnings
        tool `broken` set aside: its `inputSchema` has type "nonsense"; arguments are always an object
        2 lines on standard output were no messages
        its instructions hold characters that no reader sees
        `nameless` has no description
    "#);
    assert!(!ran.out.contains("tell-nobody-4711"), "{}", ran.out);
    assert!(!ran.out.contains('\u{200b}'));
    assert!(ran.out.contains("took               start "), "{}", ran.out);
}

#[test]
fn a_document_for_programs() {
    let place = place();
    let document = place.json(&["inspect", "lab", "--json"]);
    assert_eq!(document["state"], "ready");
    assert_eq!(document["era"], "legacy");
    assert_eq!(document["transport"], "stdio");
    assert_eq!(document["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(document["instructions"], "Ask first.\nThen\u{200b} act.");
    assert_eq!(document["resources"]["count"], 2);
    assert_eq!(document["resources"]["pages"], 2);
    assert_eq!(
        document["resources"]["entries"][1],
        json!({ "name": "second", "uri": "note:2" })
    );
    assert_eq!(
        document["resource_templates"]["entries"][0]["uri"],
        "note:{n}"
    );
    assert_eq!(document["prompts"]["entries"], json!([{ "name": "greet" }]));
    for stage in [
        "start_ms",
        "handshake_ms",
        "tools_ms",
        "resources_ms",
        "prompts_ms",
    ] {
        assert!(document["timings"][stage].is_u64(), "{stage}: {document:#}");
    }
    let processes = document["processes"].as_array().unwrap();
    assert_eq!(processes[1]["parent"], processes[0]["pid"]);
    assert!(
        processes[1]["command"]
            .as_str()
            .unwrap()
            .contains("asking_server.py")
    );
    let text = document.to_string();
    assert!(!text.contains("tell-nobody-4711"), "{text}");
    assert!(text.contains("token [redacted]"), "{text}");
}

#[test]
fn one_of_ours_has_no_process() {
    let place = Place::new();
    let document = place.json(&["inspect", "time", "--json"]);
    assert_eq!(document["transport"], "in-process");
    assert_eq!(document["era"], "modern");
    assert_eq!(document["processes"], json!([]));
    assert_eq!(document["resources"], json!(null));
    assert_eq!(document["warnings"], json!([]));
}

#[test]
fn what_cannot_be_used_is_told_with_its_own_exit_code() {
    let place = place();
    let gone = place.run(&["inspect", "gone"]);
    assert_eq!(gone.code, 4, "{gone:#?}");
    assert!(
        gone.out.starts_with("gone quarantined at start over stdio"),
        "{}",
        gone.out
    );
    assert!(gone.out.contains("was not found in PATH"), "{}", gone.out);
    let bad = place.run(&["inspect", "bad", "--json"]);
    assert_eq!(bad.code, 2, "{bad:#?}");
    assert_eq!(bad.json()["stage"], "config");
    let unknown = place.run(&["inspect", "lb"]);
    assert_eq!(unknown.code, 2, "{unknown:#?}");
    let said = unknown
        .err
        .split_inclusive('\n')
        .skip_while(|line| !line.starts_with("error:"));
    insta::assert_snapshot!(place.tidy(&said.collect::<String>()), @r"
    error: there is no server `lb`
    hint: configured are `bad`, `gone`, `lab`, `time`, `workspace`
    ");
}
