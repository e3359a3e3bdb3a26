//! Prompts and resources by hand: listed, fetched under policy, recorded, followed; bad ones cost
//! themselves.

use serde_json::{Value, json};

use crate::place::{Place, fixture};
use crate::scripted::Log;
use crate::servers::Servers;

/// A place with one server that has prompts and resources, named `shelf`.
pub(crate) fn shelf(era: &str) -> (Place, Log) {
    let place = Place::new();
    let log = place.root.join("shelf.log");
    let entry = json!({
        "command": "python3", "args": [fixture("shelf_server.py"), log, era],
    });
    place.servers(&json!({ "shelf": entry }));
    (place, Log::at(log))
}

/// The same with a secret that the server knows.
pub(crate) fn secretive() -> Place {
    let place = Place::new();
    let log = place.root.join("shelf.log");
    let entry = json!({
        "command": "python3", "args": [fixture("shelf_server.py"), log, "legacy"],
        "env": { "TOKEN": "tok-very-secret-1" },
    });
    place.servers(&json!({ "shelf": entry }));
    place
}

#[test]
fn prompts_are_listed_and_bad_ones_set_aside() {
    for era in ["legacy", "modern"] {
        let (place, log) = shelf(era);
        let ran = place.run(&["prompt"]);
        assert_eq!(ran.code, 0, "{ran:#?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.out, @r"
            shelf:greet who=… [how=…]
                Greets somebody
            shelf:plain
                Nothing to tell
            shelf:huge
            shelf:system
            shelf:never
            shelf:secret
            ");
            insta::assert_snapshot!(ran.err, @r"
            shelf: prompt `hid\u{200b}den` set aside: its `name` hides the character U+200B (zero-width)
            shelf: prompt `odd` set aside: its `arguments` are not a list
            ");
        }
        assert_eq!(
            log.of("resources/list").len(),
            0,
            "only what is wanted is asked for"
        );
        let json = place.json(&["prompt", "shelf", "--json"]);
        assert_eq!(
            json[0]["prompts"][0]["arguments"][0],
            json!({ "name": "who", "description": "A name", "required": true })
        );
        assert_eq!(json[0]["set_aside"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_prompt_is_shown_as_its_server_fills_it_in() {
    for era in ["legacy", "modern"] {
        let (place, log) = shelf(era);
        let ran = place.run(&["prompt", "shelf:greet", "who=Ada", "how=a=b"]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "user:\nGreet Ada a=b.\n"),
            "{ran:#?}"
        );
        assert_eq!(
            log.of("prompts/get")[0]["params"]["arguments"],
            json!({ "who": "Ada", "how": "a=b" })
        );
        let shown = place.last_run();
        assert!(
            shown.contains("server shelf: prompt `greet` for a person, decided by policy (the person asked for it): 14 bytes"),
            "{shown}"
        );
        let raw = place.json(&["prompt", "shelf:plain", "--json"]);
        assert_eq!(raw["messages"][1]["role"], "assistant");
    }
}

#[test]
fn what_is_wrong_with_a_prompt_is_said_and_nothing_is_sent() {
    let (place, log) = shelf("legacy");
    let mut told = Vec::new();
    for words in [
        &["shelf:greet"][..],
        &["shelf:greet", "who=Ada", "when=now"],
        &["shelf:gret", "who=Ada"],
        &["shelf:odd"],
        &["shelf:greet", "Ada"],
        &["shelves:greet"],
        &["time:greet"],
    ] {
        let ran = place.run(&[&["prompt"], words].concat());
        told.push(format!(
            "{} {}: {}",
            words.join(" "),
            ran.code,
            ran.err.trim_end()
        ));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    shelf:greet 2: error: the prompt `greet` of `shelf` needs `who`
    hint: give who=…
    shelf:greet who=Ada when=now 2: error: the prompt `greet` of `shelf` has no argument `when`; it takes `who`, `how`
    shelf:gret who=Ada 2: error: the server `shelf` has no prompt `gret`
    hint: did you mean `greet`?
    shelf:odd 1: error: the prompt `odd` of `shelf` was set aside: its `arguments` are not a list
    shelf:greet Ada 2: error: `Ada` is not `key=value`
    shelves:greet 2: error: there is no server `shelves`
    hint: configured are `shelf`, `time`, `workspace`
    time:greet 2: error: the server `time` offers no prompts
    ");
    assert_eq!(log.of("prompts/get").len(), 0);
    let system = place.run(&["prompt", "shelf:system"]);
    insta::assert_snapshot!(format!("{} {}", system.code, system.err), @"1 error: the prompt `system` of the server `shelf`: the answer of the server cannot be used: message 2 has the role `system`; a prompt speaks as `user` or `assistant`");
    assert!(
        place.last_run().contains("violated"),
        "{}",
        place.last_run()
    );
}

#[test]
fn a_secret_of_the_server_is_not_told_by_a_prompt() {
    let place = secretive();
    let ran = place.run(&["prompt", "shelf:secret"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        !ran.out.contains("tok-very-secret-1") && ran.out.contains("started with"),
        "{ran:#?}"
    );
}

#[test]
fn resources_are_listed_and_bad_ones_set_aside() {
    for era in ["legacy", "modern"] {
        let (place, _log) = shelf(era);
        let ran = place.run(&["resource", "shelf"]);
        assert_eq!(ran.code, 0, "{ran:#?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.out, @r"
            shelf:note:///a
                (text/plain) A note
            shelf:note:///bytes
                (application/octet-stream, 4 bytes) Bytes
            shelf:note:///large
                Fifty million
            shelf:note:///liar
                (image/png) Not an image
            shelf:note:///escape
                Paints
            shelf:note:///never
                Never comes
            shelf:city:///{country}/{city}
                A city
            ");
            insta::assert_snapshot!(ran.err, @r"
            shelf: resource `/etc/passwd` set aside: it has no scheme, as `note:` in `note:///a`
            shelf: resource `note:///\u{202e}evil` set aside: its `uri` hides the character U+202E (bidi control)
            ");
        }
    }
}

#[test]
fn a_resource_is_read_byte_for_byte() {
    use std::process::Stdio;

    let (place, _log) = shelf("legacy");
    let text = place.run(&["resource", "shelf:note:///a"]);
    assert_eq!(
        (text.code, text.out.as_str()),
        (0, "Milk, bread.\n"),
        "{text:#?}"
    );
    let mut command = place.command(&["resource", "shelf:note:///bytes"]);
    let bytes = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(bytes.stdout, b"\x00\xff\n\x80");
    let painted = place.run(&["resource", "shelf:note:///escape"]);
    assert!(
        painted.out.contains('\u{1b}'),
        "into a pipe it is what it is"
    );
    let liar = place.run(&["resource", "shelf:note:///liar"]);
    assert_eq!(liar.code, 1);
    assert!(liar.err.contains("is no base64"), "{}", liar.err);
    let raw = place.json(&["resource", "shelf:note:///liar", "--json"]);
    assert_eq!(raw["contents"][0]["mimeType"], "image/png");
    let large = place.run(&["resource", "shelf:note:///large"]);
    assert_eq!((large.code, large.out.len()), (0, 50_000_000));
    assert!(
        place
            .last_run()
            .contains("resource `note:///large` for a person"),
        "{}",
        place.last_run()
    );
}

#[test]
fn what_is_wrong_with_a_resource_is_said() {
    let (place, log) = shelf("legacy");
    let mut told = Vec::new();
    for words in [
        &["shelf:note:///b"][..],
        &["shelf:/etc/passwd"],
        &["shelf:../a"],
        &["shelf:note:///never", "--timeout", "0.2"],
        &["--watch", "shelf"],
    ] {
        let ran = place.run(&[&["resource"], words].concat());
        told.push(format!(
            "{} {}: {}",
            words.join(" "),
            ran.code,
            ran.err.trim_end()
        ));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    shelf:note:///b 1: error: the resource `note:///b` of the server `shelf`: the server answered with error -32002: Not found
    hint: did you mean `note:///a` or `note:///bytes` or `note:///liar`?
    shelf:/etc/passwd 2: error: `/etc/passwd` is no address of a resource: it has no scheme, as `note:` in `note:///a`
    shelf:../a 2: error: `../a` is no address of a resource: it has no scheme, as `note:` in `note:///a`
    shelf:note:///never --timeout 0.2 4: error: the resource `note:///never` of the server `shelf`: no answer within 0.2 s
    --watch shelf 2: error: `--watch` is for one resource: `SERVER:URI`
    ");
    let asked: Vec<_> = log
        .of("resources/read")
        .iter()
        .map(|message| message["params"]["uri"].clone())
        .collect();
    assert_eq!(
        asked,
        ["note:///b", "note:///never"],
        "a path is no address"
    );
    assert_eq!(log.of("notifications/cancelled").len(), 1);
}

#[test]
fn rules_name_prompts_and_resources() {
    let (place, log) = shelf("legacy");
    place.user(
        "[[policy.rule]]\nresource = 'shelf/note:///b*'\ndecision = 'deny'\nreason = 'not these'\n\
         [[policy.rule]]\nprompt = '*/greet'\nwhen = \"args.who != 'Ada'\"\ndecision = 'deny'\n\
         [[policy.rule]]\nprompt = 'shelf/plain'\ndecision = 'ask'",
    );
    let run = |words: &[&str]| {
        let ran = place.run(words);
        format!("{} {}", ran.code, ran.err.trim_end())
    };
    let bytes = run(&["resource", "shelf:note:///bytes"]);
    insta::assert_snapshot!(place.tidy(&bytes), @"3 error: the resource `note:///bytes` of the server `shelf` is denied by resource `shelf/note:///b*` at /config/outrigger/outrigger.toml:1: not these");
    assert_eq!(run(&["resource", "shelf:note:///a"]), "0 ");
    assert_eq!(run(&["prompt", "shelf:greet", "who=Ada"]), "0 ");
    let grace = run(&["prompt", "shelf:greet", "who=Grace"]);
    insta::assert_snapshot!(place.tidy(&grace), @"3 error: the prompt `greet` of the server `shelf` is denied by prompt `*/greet` at /config/outrigger/outrigger.toml:5");
    // Somebody who types it has decided; here nobody sits there.
    let plain = run(&["prompt", "shelf:plain"]);
    insta::assert_snapshot!(place.tidy(&plain), @"3 error: the prompt `plain` of the server `shelf` was not fetched: prompt `shelf/plain` at /config/outrigger/outrigger.toml:9 asks, and nobody is there to answer");
    assert!(
        place.last_run().contains("decided by nobody"),
        "{}",
        place.last_run()
    );
    assert_eq!(log.of("resources/read").len(), 1);
    assert_eq!(log.of("prompts/get").len(), 1);
}

#[test]
fn a_rule_about_a_server_is_about_all_that_it_has() {
    let (place, log) = shelf("legacy");
    place.user("[[policy.rule]]\nserver = 'shelf'\ndecision = 'deny'");
    for words in [["resource", "shelf:note:///a"], ["prompt", "shelf:plain"]] {
        let ran = place.run(&words);
        assert_eq!(ran.code, 3, "{ran:#?}");
        assert!(
            ran.err.contains("is denied by server `shelf`"),
            "{}",
            ran.err
        );
    }
    assert_eq!(
        log.of("resources/read").len() + log.of("prompts/get").len(),
        0
    );
}

#[test]
fn a_resource_is_followed() {
    for era in ["legacy", "modern"] {
        let (place, log) = shelf(era);
        let ran = place.run(&["resource", "shelf:note:///a", "--watch", "--count", "2"]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "note:///a\nnote:///a\n"),
            "{era}: {ran:#?}"
        );
        if era == "legacy" {
            assert_eq!(log.of("resources/unsubscribe").len(), 1);
        }
        place.assert_nothing_runs();
    }
}

#[test]
fn servers_of_two_sdks_are_read_in_both_eras() {
    let servers = Servers::installed();
    let of = |script: &str, era: &str| {
        let mut entry = servers.stdio(script);
        entry["protocol"] = era.into();
        entry
    };
    for era in ["legacy", "modern"] {
        let place = Place::new();
        place.servers(&json!({
            "stock": of("http_mcp.py", era), "prices": of("http_fastmcp.py", era),
        }));
        let run = |words: &[&str]| {
            let ran = place.run(words);
            assert_eq!(ran.code, 0, "{era}: {ran:#?}");
            ran.out
        };
        assert_eq!(
            run(&["prompt", "stock:reorder", "item=bolts", "amount=5"]),
            "user:\nOrder 5 bolts.\n"
        );
        assert_eq!(
            run(&["prompt", "prices:bargain", "item=nuts", "by=7"]),
            "user:\nGet nuts for 7 percent less.\n"
        );
        assert_eq!(run(&["resource", "stock:stock://all"]), "12 bolts, 30 nuts");
        assert_eq!(run(&["resource", "prices:prices://item/nuts"]), "nuts: 0.5");
        let listed = run(&["resource"]);
        for address in ["stock:stock://item/{item}\n", "prices:prices://all\n"] {
            assert!(listed.contains(address), "{listed}");
        }
        place.assert_nothing_runs();
    }
}

#[test]
fn over_http_they_are_read_as_well() {
    let servers = Servers::installed();
    let (mcp, fastmcp) = (servers.http("http_mcp.py"), servers.http("http_fastmcp.py"));
    for era in ["legacy", "modern"] {
        let place = Place::new();
        place.servers(&json!({
            "stock": { "url": mcp.url, "protocol": era }, "prices": { "url": fastmcp.url, "protocol": era },
        }));
        let ran = place.run(&["resource", "stock:stock://item/nuts"]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "nuts: 30"),
            "{era}: {ran:#?}"
        );
        let ran = place.run(&["prompt", "prices:bargain", "item=nuts"]);
        assert_eq!(ran.code, 0, "{era}: {ran:#?}");
    }
}

#[test]
fn the_reference_server_is_read_completed_and_followed() {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({ "everything": servers.everything() }));
    let prompts = place.json(&["prompt", "--json"]);
    let names: Vec<_> = prompts[0]["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"args-prompt".to_owned()), "{names:?}");
    let weather = place.run(&["prompt", "everything:args-prompt", "city=Ulm"]);
    assert_eq!(weather.code, 0, "{weather:#?}");
    assert!(weather.out.contains("Ulm"), "{weather:#?}");
    let resources = place.json(&["resource", "everything", "--json"]);
    let list = resources[0]["resources"].as_array().unwrap();
    assert!(!list.is_empty() && !resources[0]["templates"].as_array().unwrap().is_empty());
    assert_eq!(resources[0]["set_aside"], Value::Array(Vec::new()));
    let uri = list[0]["uri"].as_str().unwrap();
    let read = place.run(&["resource", &format!("everything:{uri}")]);
    assert_eq!(read.code, 0, "{read:#?}");
    assert!(!read.out.is_empty());
    place.assert_nothing_runs();
}
