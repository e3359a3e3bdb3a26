//! A model that reads resources: by a tool, through the one gate, where configuration wants it.

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::offers::shelf;
use crate::place::Place;
use crate::scripted::Log;
use crate::terminal::{PROMPT, at_terminal, code};

fn read(server: &str, uri: &str) -> Turn {
    Turn::calls([(
        "mcp__resources__read_resource",
        json!({ "server": server, "uri": uri }),
    )])
}

/// A model that makes these turns, in a place with the server `shelf` and these rules.
fn asked(rules: &str, turns: Vec<Turn>) -> (Place, Log, Model, crate::place::Ran) {
    let (place, log) = shelf("legacy");
    place.user("[builtin]\nresources = true\n");
    place.user(rules);
    let model = Model::turns(turns.into_iter().chain([Turn::text("Done.")]));
    model.serves(&place);
    let ran = place.run(&["ask", "Read it"]);
    (place, log, model, ran)
}

fn tools(model: &Model) -> Vec<String> {
    let names = model.requests()[0].tools().into_iter();
    names.filter(|name| name.contains("resources")).collect()
}

#[test]
fn nothing_is_declared_unless_it_is_wanted_and_somebody_has_resources() {
    let (place, log) = shelf("legacy");
    let model = Model::turns([Turn::text("Done.")]);
    model.serves(&place);
    assert_eq!(place.run(&["ask", "Hello"]).code, 0);
    assert_eq!(tools(&model), Vec::<String>::new());
    assert_eq!(
        log.of("resources/list").len() + log.of("prompts/list").len(),
        0
    );

    let place = Place::new();
    place.user("[builtin]\nresources = true\n");
    let model = Model::turns([Turn::text("Done.")]);
    model.serves(&place);
    assert_eq!(place.run(&["ask", "Hello"]).code, 0);
    assert_eq!(tools(&model), Vec::<String>::new(), "nobody has any");
}

#[test]
fn a_model_reads_what_a_rule_lets_it_read() {
    let list = Turn::calls([(
        "mcp__resources__list_resources",
        json!({ "server": "shelf" }),
    )]);
    let rules = "[[policy.rule]]\nresource = 'shelf/note:///a'\ndecision = 'allow'\n\
                 [[policy.rule]]\nresource = 'shelf/*bytes'\ndecision = 'deny'";
    let servers = Turn::calls([("mcp__resources__list_resources", json!({}))]);
    let turns = vec![
        servers,
        list,
        read("shelf", "note:///a"),
        read("shelf", "note:///bytes"),
        read("shelf", "note:///liar"),
        read("nobody", "note:///a"),
    ];
    let (place, log, model, ran) = asked(rules, turns);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert_eq!(
        tools(&model),
        [
            "mcp__resources__list_resources",
            "mcp__resources__read_resource"
        ]
    );
    let requests = model.requests();
    let results: Vec<_> = requests[1..]
        .iter()
        .map(|request| request.results().last().unwrap().clone())
        .collect();
    insta::assert_snapshot!(results.join("\n---\n"), @r"
    [data from resources]
    shelf: resources 6, templates 1

    ---
    [data from shelf]
    note:///a (text/plain) A note
    note:///large Fifty million
    note:///liar (image/png) Not an image
    note:///escape Paints
    note:///never Never comes
    city:///{country}/{city} A city

    ---
    [data from shelf]
    [resource note:///a]
    Milk, bread.

    ---
    Not called: the rules of this host do not allow it.
    ---
    Not called: it needs approval, and nobody is there to give it. This is not a decision of the user.
    ---
    [data from resources: an error]
    there is no server `nobody`
    ");
    let asked = log.of("resources/read");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["params"]["uri"], "note:///a");
    let run = place.last_run();
    assert!(
        run.contains("server shelf: resource `note:///a` for a model: 13 bytes"),
        "{run}"
    );
    assert!(
        run.contains("call 3: allowed by policy (resource `shelf/note:///a`"),
        "{run}"
    );
    assert!(
        run.contains("call 4: not allowed by policy (resource `shelf/*bytes`"),
        "{run}"
    );
}

#[test]
fn what_was_read_is_known_to_have_come_from_its_server() {
    let rules = "[[policy.rule]]\nresource = 'shelf/*'\ndecision = 'allow'\n\
                 [[policy.rule]]\nserver = 'time'\nwhen = \"'shelf' in origins\"\ndecision = 'deny'\nreason = 'it has read the shelf'";
    let time = || Turn::calls([("mcp__time__current_time", json!({}))]);
    let turns = vec![time(), read("shelf", "note:///a"), time()];
    let (_place, _log, model, ran) = asked(rules, turns);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let last = model.last_results();
    assert!(
        last.last().unwrap().contains("it has read the shelf"),
        "{last:?}"
    );
}

#[test]
fn statements_about_a_server_hold_for_what_is_read_of_it() {
    let turns = || vec![read("shelf", "note:///a")];
    let rules = "[[policy.rule]]\nresource = 'shelf/*'\nread_only = true\ndecision = 'allow'\n[policy]\nmode = 'plan'";
    let (_place, log, _model, ran) = asked(rules, turns());
    assert_eq!(
        (ran.code, log.of("resources/read").len()),
        (0, 1),
        "{ran:#?}"
    );
    let (_place, log, model, ran) = asked("[policy]\nmode = 'plan'", turns());
    assert_eq!(
        (ran.code, log.of("resources/read").len()),
        (0, 0),
        "{ran:#?}"
    );
    assert!(
        model.last_results()[0].contains("do not allow it"),
        "{:?}",
        model.last_results()
    );
    // A glob for the reading tool does not open what stays shut for its server.
    let (_place, log, _model, ran) = asked(
        "[[policy.rule]]\nserver = 'shelf'\ndecision = 'deny'\n[[policy.rule]]\ntool = 'mcp__resources__*'\ndecision = 'allow'",
        turns(),
    );
    assert_eq!(
        (ran.code, log.of("resources/read").len()),
        (0, 0),
        "{ran:#?}"
    );
}

#[test]
fn why_tells_of_the_resource_that_a_call_would_read() {
    let (place, _log) = shelf("legacy");
    place.user(
        "[builtin]\nresources = true\n[[policy.rule]]\nresource = 'shelf/note:///*'\ndecision = 'deny'\nreason = 'not these'",
    );
    let why = |uri: &str| {
        let uri = format!("uri={uri}");
        let ran = place.run(&[
            "policy",
            "why",
            "mcp__resources__read_resource",
            "server=shelf",
            &uri,
        ]);
        assert_eq!(ran.code, 0, "{ran:#?}");
        place.tidy(&ran.out)
    };
    insta::assert_snapshot!(why("note:///a"), @r#"
    mcp__resources__read_resource {"server":"shelf","uri":"note:///a"}
    deny: resource `shelf/note:///*` at /config/outrigger/outrigger.toml:3
    reason: not these

    * deny  resource `shelf/note:///*` at /config/outrigger/outrigger.toml:3
            applies

    without a rule: ask (the default of the policy)
    "#);
    insta::assert_snapshot!(why("city:///fr/pau"), @r#"
    mcp__resources__read_resource {"server":"shelf","uri":"city:///fr/pau"}
    ask: the default of the policy

    without a rule: ask (the default of the policy)
    "#);
}

#[test]
fn a_person_is_asked_about_the_resource_and_its_server() {
    let (place, log) = shelf("legacy");
    place.user("[builtin]\nresources = true\n");
    let turns = ["note:///a", "note:///bytes"].map(|uri| read("shelf", uri));
    let model = Model::turns(turns.into_iter().chain([Turn::text("Done.")]));
    model.serves(&place);
    let mut session = at_terminal(&place, &["ask", "Read them"]);
    session.exp_string("uri: \"note:///a\"").unwrap();
    session.exp_string("the default of the policy").unwrap();
    session.exp_string(PROMPT).unwrap();
    session.send_line("s").unwrap();
    let (code, rest) = code(session);
    assert_eq!(code, 0, "{rest}");
    assert!(
        !rest.contains(PROMPT),
        "for the session, of this server: {rest}"
    );
    assert_eq!(log.of("resources/read").len(), 2);
    let run = place.last_run();
    assert!(run.contains("call 1: allowed by a person"), "{run}");
    assert!(
        model.last_results()[0].contains("[data from shelf]"),
        "{:?}",
        model.last_results()
    );
}
