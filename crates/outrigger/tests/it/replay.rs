//! Runs that are recorded and run again, with nothing of the world there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use outrigger_testkit::provider_server::Turn;
use rexpect::session::spawn_command;
use serde_json::{Value, json};

use crate::asking::{FILLING, code, says};
use crate::model::Model;
use crate::place::{Place, Ran, fixture};
use crate::scripted::{lab, scripted};
use crate::servers::Servers;

const SECRET: &str = "s3cr3t-value-of-lab";

fn folder(place: &Place) -> PathBuf {
    place.root.join("recording")
}

/// Runs and records.
fn record(place: &Place, words: &[&str]) -> Ran {
    let folder = folder(place);
    place.run(&[words, &["--record", folder.to_str().unwrap()]].concat())
}

/// Replays in a place that has nothing of the first but the recording.
fn replay(folder: &Path) -> Ran {
    let elsewhere = Place::new();
    let ran = elsewhere.run(&["replay", folder.to_str().unwrap()]);
    elsewhere.assert_nothing_runs();
    assert!(
        !elsewhere.journal().exists(),
        "a replay is no run of the person's"
    );
    ran
}

#[track_caller]
fn same(folder: &Path) -> String {
    let ran = replay(folder);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:#?}");
    ran.out
}

/// What differs; on which line depends on which server was faster.
#[track_caller]
fn differs(folder: &Path) -> String {
    let ran = replay(folder);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{ran:#?}");
    let (before, after) = ran.out.split_once("(line ").unwrap_or((&ran.out, ""));
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    match after {
        "" => ran.out.clone(),
        after => format!("{before}(line N{after}"),
    }
}

/// Changes a file of the recording.
fn change(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}: {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// A copy with one file changed.
fn changed(folder: &Path, file: &str, from: &str, to: &str) -> PathBuf {
    let copy = folder.with_file_name("changed");
    fs::remove_dir_all(&copy).ok();
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    change(&copy, file, from, to);
    copy
}

/// An `ask` over the built-in time server and a real process: an answer, an error, a refusal by policy,
/// a question that nobody answers.
fn recorded() -> (Place, PathBuf) {
    let place = Place::new();
    let (mut entry, _) = scripted(&place, "lab");
    entry["env"] = json!({ "TOKEN": SECRET });
    let asker = json!({ "command": "python3", "args": [fixture("asking_server.py"), place.root.join("asker.log")], "answers": ["roots"] });
    let gone = json!({ "command": "no-such-program" });
    place.servers(&json!({ "lab": entry, "asker": asker, "gone": gone }));
    place.user(
        "[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'deny'\nreason = 'not today'\n",
    );
    let model = Model::turns([
        Turn::status(429, "slow down"),
        Turn::calls([
            ("mcp__time__current_time", json!({ "timezone": "UTC" })),
            ("mcp__lab__repeat", json!({ "text": "hello" })),
            ("mcp__lab__fail", json!({})),
            ("mcp__lab__keep", json!({})),
        ]),
        Turn::calls([
            ("mcp__asker__roots", json!({})),
            ("mcp__lab__tell_secret", json!({})),
            ("mcp__lab__repeat", json!({ "text": SECRET })),
        ]),
        Turn::text("That is all."),
    ]);
    model.serves(&place);
    let ran = record(&place, &["ask", "What is said?", "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.err.contains("recorded in "), "{ran:#?}");
    let folder = folder(&place);
    (place, folder)
}

#[test]
fn a_run_is_the_same_without_the_world() {
    let (place, folder) = recorded();
    // What it ran with is gone.
    place.servers(&json!({}));
    let moved = tempfile::tempdir().unwrap();
    let there = moved.path().join("r");
    fs::rename(&folder, &there).unwrap();
    drop(place);
    insta::assert_snapshot!(same(&there), @"as recorded: 3 requests to the model, 12 to servers");
    let document = Place::new().json(&["replay", there.to_str().unwrap(), "--json"]);
    assert_eq!(document["same"], true);
}

#[track_caller]
fn holds_no_secret(folder: &Path) {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(SECRET), "{}", path.display());
    }
    let traffic = fs::read_to_string(folder.join("traffic.jsonl")).unwrap();
    assert!(!traffic.to_lowercase().contains("authorization"));
}

#[test]
fn no_secret_is_in_a_recording() {
    let (place, folder) = recorded();
    let names: BTreeSet<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "configuration.json",
        "configuration.toml",
        "manifest.json",
        "traffic.jsonl",
    ];
    assert_eq!(names, expected.map(String::from).into());
    holds_no_secret(&folder);
    let traffic = fs::read_to_string(folder.join("traffic.jsonl")).unwrap();
    assert!(traffic.contains("started with [redacted]"));
    // On the command line, and on a server's.
    fs::remove_dir_all(&folder).unwrap();
    let (mut entry, _) = scripted(&place, "lab");
    entry["env"] = json!({ "TOKEN": SECRET });
    let args = json!([
        "-c",
        "exec python3 \"$0\" \"$1\"",
        entry["args"][0],
        entry["args"][1],
        format!("--token={SECRET}")
    ]);
    entry["command"] = json!("sh");
    entry["args"] = args;
    place.servers(&json!({ "lab": entry }));
    let said = format!("text=it is {SECRET}");
    let ran = record(&place, &["call", "lab", "repeat", &said, "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    holds_no_secret(&folder);
    same(&folder);
}

#[test]
fn the_first_difference_is_named() {
    let (_place, folder) = recorded();
    // The model is asked something else.
    let asked = changed(&folder, "manifest.json", "What is said?", "What is done?");
    insta::assert_snapshot!(differs(&asked), @r#"
    differs: the request to the model is not as recorded (line N of traffic.jsonl)
      where:    /messages/1/content/0/text
      expected: "What is said?"
      got:      "What is done?"
    "#);
    // A server was asked something else.
    let called = changed(
        &folder,
        "traffic.jsonl",
        r#""arguments":{"text":"hello"}"#,
        r#""arguments":{"text":"hullo"}"#,
    );
    insta::assert_snapshot!(differs(&called), @r#"
    differs: `tools/call` to the server `lab` is not as recorded (line N of traffic.jsonl)
      where:    /params/arguments/text
      expected: "hullo"
      got:      "hello"
    "#);
    // A server says something else, and so the model is told something else.
    let said = changed(
        &folder,
        "traffic.jsonl",
        r#""text": "hello""#,
        r#""text": "good morning""#,
    );
    insta::assert_snapshot!(differs(&said), @r#"
    differs: the request to the model is not as recorded (line N of traffic.jsonl)
      where:    /messages/3/results/1/content/1/text
      expected: "hello"
      got:      "good morning"
    "#);
    // The rules are others.
    let ruled = changed(
        &folder,
        "configuration.json",
        "decision = 'deny'",
        "decision = 'ask'",
    );
    insta::assert_snapshot!(differs(&ruled), @r#"
    differs: the request to the model is not as recorded (line N of traffic.jsonl)
      where:    /tools/10/name
      expected: "mcp__lab__repeat"
      got:      "mcp__lab__keep"
    "#);
    // The run goes on where it had ended.
    let ended = changed(&folder, "manifest.json", "\"exit\": 0", "\"exit\": 3");
    insta::assert_snapshot!(differs(&ended), @r"
    differs: the exit code is not as recorded
      expected: 3
      got:      0
    ");
}

#[test]
fn what_cannot_be_used_is_no_difference() {
    let place = Place::new();
    let words = |folder: &str| place.tidy(&place.run(&["replay", folder]).err);
    insta::assert_snapshot!(words("nowhere"), @r"
    error: the recording `nowhere` cannot be used: `manifest.json`: No such file or directory (os error 2)
    hint: `--record DIR` makes one
    ");
    let (_other, folder) = recorded();
    let name = folder.to_str().unwrap();
    change(&folder, "manifest.json", "\"format\": 1", "\"format\": 99");
    let ran = place.run(&["replay", name]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("it is of format 99"), "{ran:#?}");
    change(&folder, "manifest.json", "\"format\": 99", "\"format\": 1");
    change(&folder, "traffic.jsonl", "{\"seq\":2,", "{\"seq\":");
    let ran = place.run(&["replay", name]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("line 2 of `traffic.jsonl` cannot be read"),
        "{ran:#?}"
    );
    // A folder that is in use is not written to.
    let ran = place.run(&["tools", "--record", name]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("it is not empty"), "{ran:#?}");
}

#[test]
fn a_call_that_fails_or_gets_no_answer_does_so_again() {
    let (place, _) = lab();
    place.user("[timeouts]\ncall = '1s'\n");
    let call = |tool: &str, code: i32| {
        let folder = folder(&place);
        fs::remove_dir_all(&folder).ok();
        let ran = record(&place, &["call", "lab", tool, "--allow", "*"]);
        assert_eq!(ran.code, code, "{ran:#?}");
        same(&folder)
    };
    for (tool, code) in [
        ("fail", 1),
        ("wait", 5),
        ("answer_late", 0),
        ("break_contract", 1),
    ] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(call(tool, code), @"as recorded: 0 requests to the model, 2 to servers");
        }
    }
    // Nobody to ask is part of the recording too.
    let folder = folder(&place);
    fs::remove_dir_all(&folder).ok();
    assert_eq!(record(&place, &["call", "lab", "keep"]).code, 3);
    same(&folder);
}

#[test]
fn hooks_and_tools_are_replayed() {
    let (place, _) = lab();
    place.user(&format!(
        "[[hooks.before_call]]\ncommand = ['python3', '{}', '{}', 'deny']\n",
        fixture("hook.py"),
        place.root.join("hooks.log").display()
    ));
    let heard = || fs::read_to_string(place.root.join("hooks.log")).unwrap();
    let folder = folder(&place);
    assert_eq!(
        record(&place, &["call", "lab", "keep", "--allow", "*"]).code,
        3
    );
    let before = heard();
    same(&folder);
    assert_eq!(heard(), before, "no hook is run again");
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(record(&place, &["tools"]).code, 0);
    same(&folder);
}

#[test]
fn a_server_that_dies_dies_again() {
    let place = Place::new();
    let script = "import json,sys\nfor line in sys.stdin:\n m=json.loads(line)\n if m['method']=='tools/call': sys.exit(3)\n \
                  r={'initialize':{'protocolVersion':'2025-06-18','capabilities':{'tools':{}},'serverInfo':{'name':'a','version':'1'}},\
                  'tools/list':{'tools':[{'name':'go','inputSchema':{'type':'object'}}]}}.get(m['method'])\n \
                  if 'id' in m: print(json.dumps({'jsonrpc':'2.0','id':m['id'],**({'result':r} if r else {'error':{'code':-32601,'message':'no'}})}),flush=True)\n";
    let script = place.write("dying.py", script);
    place.servers(&json!({ "lab": { "command": "python3", "args": [script] } }));
    let model = Model::turns([
        Turn::calls([("mcp__lab__go", json!({}))]),
        Turn::text("It is not known."),
    ]);
    model.serves(&place);
    let ran = record(&place, &["ask", "Go", "--allow", "*"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    same(&folder(&place));
}

/// The recording is for people too.
#[test]
fn a_recording_can_be_read() {
    let (place, folder) = recorded();
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["question"], "What is said?");
    assert_eq!(manifest["model"]["id"], "scripted:one");
    assert_eq!(manifest["servers"]["lab"]["era"], "legacy");
    let traffic = fs::read_to_string(folder.join("traffic.jsonl")).unwrap();
    let kinds: Vec<String> = traffic
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["server"].is_null())
        .map(|line| line["kind"].as_str().unwrap().to_owned())
        .collect();
    insta::assert_snapshot!(kinds.join(" "), @"model_asked model_said model_asked model_said model_asked model_said closing");
    let meant = fs::read_to_string(folder.join("configuration.toml")).unwrap();
    assert!(
        place.tidy(&meant).contains("reason = \"not today\""),
        "{meant}"
    );
}

#[test]
fn other_peoples_servers_over_stdio_and_http_are_replayed() {
    let servers = Servers::installed();
    let http = servers.http("http_mcp.py");
    let place = Place::new();
    let headers = json!({ "Authorization": format!("Bearer {SECRET}") });
    let entries = json!({
        "clock": servers.time(),
        "everything": servers.everything(),
        "stock": { "url": http.url, "headers": headers },
    });
    place.servers(&entries);
    let model = Model::turns([
        Turn::calls([
            ("mcp__clock__get_current_time", json!({ "timezone": "UTC" })),
            ("mcp__everything__get-sum", json!({ "a": 2, "b": 3 })),
            ("mcp__everything__get-tiny-image", json!({})),
            ("mcp__stock__count", json!({ "item": "bolts" })),
            ("mcp__stock__count", json!({ "item": "wheels" })),
        ]),
        Turn::text("Enough."),
    ]);
    model.serves(&place);
    let ran = record(&place, &["ask", "How many?", "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    drop(http);
    let out = same(&folder(&place));
    assert!(
        out.starts_with("as recorded: 2 requests to the model"),
        "{out}"
    );
    holds_no_secret(&folder(&place));
}

#[test]
fn a_person_is_asked_once_and_answers_in_every_replay() {
    for era in ["legacy", "modern"] {
        let place = Place::new();
        let mut args = vec![
            json!(fixture("asking_server.py")),
            json!(place.root.join("log")),
        ];
        args.extend((era == "modern").then(|| json!("modern")));
        place.servers(&json!({ "lab": { "command": "python3", "args": args } }));
        let folder = folder(&place);
        let mut command =
            place.command(&["call", "lab", "form", "--record", folder.to_str().unwrap()]);
        command.env("NO_COLOR", "1");
        let mut session = spawn_command(command, Some(60_000)).unwrap();
        says(&mut session, &["Run it?"]);
        session.send_line("y").unwrap();
        for (shown, typed) in FILLING {
            says(&mut session, shown);
            session.send_line(typed).unwrap();
        }
        let (code, rest) = code(session);
        assert_eq!(code, 0, "{rest}");
        assert!(same(&folder).starts_with("as recorded"), "{era}");
        change(
            &folder,
            "traffic.jsonl",
            "\"answer\":\"once\"",
            "\"answer\":\"no\"",
        );
        let told = differs(&folder);
        assert!(told.contains("got:      nothing: the run ended"), "{told}");
    }
}

/// Tools change while the run goes on, calls that only read run side by side, and a tool is held back:
/// what a turn may use is the same in every replay.
#[test]
fn catalogs_that_change_change_again() {
    let place = Place::new();
    let (mut entry, _) = scripted(&place, "lab");
    let tool = |name: &str, words: &str| json!({ "name": name, "description": words, "inputSchema": { "type": "object" } });
    let files = [
        (place.write(
            "before.json",
            json!([tool("repeat", "a"), tool("keep", "b")]).to_string(),
        )),
        (place.write(
            "after.json",
            json!([tool("repeat", "a"), tool("fail", "c")]).to_string(),
        )),
    ];
    let args = entry["args"].as_array_mut().unwrap();
    args.extend([json!(files[0]), json!("2"), json!(files[1])]);
    entry["read_only"] = json!(true);
    place.servers(&json!({ "lab": entry }));
    let say = |text: &str| ("mcp__lab__repeat", json!({ "text": text }));
    let model = Model::turns([
        Turn::calls([say("one"), say("two"), say("three")]),
        Turn::calls([say("four"), ("mcp__lab__fail", json!({}))]),
        Turn::text("Enough."),
    ]);
    model.serves(&place);
    let ran = record(&place, &["ask", "Go", "--allow", "*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    for _ in 0..3 {
        same(&folder(&place));
    }
    // What was approved is not what is offered now: held back, then and now.
    place.write(
        "before.json",
        json!([tool("repeat", "anew"), tool("keep", "b")]).to_string(),
    );
    let second = place.root.join("second");
    let model = Model::turns([
        Turn::calls([say("one"), ("mcp__lab__keep", json!({}))]),
        Turn::text("Enough."),
    ]);
    model.serves_again(&place);
    let words = [
        "ask",
        "Go",
        "--allow",
        "*",
        "--record",
        second.to_str().unwrap(),
    ];
    let ran = place.run(&words);
    assert_eq!(ran.code, 0, "{ran:#?}");
    same(&second);
    change(&second, "configuration.json", "\"user_lock\":", "\"_\":");
    assert!(
        differs(&second).contains("where:    /tools/"),
        "the pins of the recording count"
    );
}

#[test]
fn a_server_that_asks_the_model_is_answered_as_then() {
    let place = Place::new();
    let args = json!([fixture("asking_server.py"), place.root.join("log")]);
    let entry = json!({ "command": "python3", "args": args, "answers": ["sampling"] });
    place.servers(&json!({ "lab": entry }));
    let model = Model::turns([
        Turn::calls([("mcp__lab__sample", json!({}))]),
        Turn::text("Cod"),
        Turn::text("Done."),
    ]);
    model.serves(&place);
    let folder = folder(&place);
    let words = [
        "ask",
        "--allow",
        "*",
        "Do it",
        "--record",
        folder.to_str().unwrap(),
    ];
    let mut command = place.command(&words);
    command.env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    for asked in ["Ask it? [y]es", "Send it? "] {
        says(&mut session, &[asked]);
        session.send_line("y").unwrap();
    }
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert!(same(&folder).starts_with("as recorded: 3 requests to the model"));
}
