//! Spans of runs at a real OTLP receiver, and the trace that servers are told of.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use outrigger_testkit::provider_server::Turn;
use serde_json::{Value, json};

use crate::collector::{Collector, Span, tree};
use crate::model::Model;
use crate::place::{Place, Ran, fixture};
use crate::scripted::{Log, lab};
use crate::servers::Servers;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const SHOWN: &[&str] = &[
    "gen_ai.usage.input_tokens",
    "error.type",
    "outrigger.outcome",
    "rpc.response.status_code",
];

/// Runs with these variables as well.
fn run(place: &Place, words: &[&str], variables: &[(&str, &str)]) -> Ran {
    place.run_with(words, |command| {
        command.envs(variables.iter().copied());
    })
}

fn to<'a>(collector: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("OTEL_EXPORTER_OTLP_ENDPOINT", collector)], more].concat()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` among {spans:#?}"))
}

/// An `ask` with an answer, an error, a call without an answer, two that are rejected, and a model that is
/// asked twice.
fn asked(collector: &Collector, place: &Place) -> Ran {
    place.user("[timeouts]\ncall = '1s'\n");
    let model = Model::turns([
        Turn::status(429, "slow down"),
        Turn::calls([
            ("mcp__lab__repeat", json!({ "text": "hello" })),
            ("mcp__lab__fail", json!({})),
        ])
        .usage(100, 40, 10),
        Turn::calls([
            ("mcp__lab__wait", json!({})),
            ("mcp__lab__repeat", json!({})),
            ("no_such_tool", json!({})),
        ]),
        Turn::text("So be it."),
    ]);
    model.serves(place);
    let url = collector.url();
    let resource = (
        "OTEL_RESOURCE_ATTRIBUTES",
        "deployment.environment.name=lab",
    );
    let headers = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=Bearer%20t0ken-of-mine",
    );
    let variables = to(&url, &[("TRACEPARENT", PARENT), resource, headers]);
    run(place, &["ask", "What is said?", "--allow", "*"], &variables)
}

#[test]
fn the_spans_of_an_ask_arrive_as_a_tree() {
    let (place, log) = lab();
    let collector = Collector::new();
    let ran = asked(&collector, &place);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert!(!ran.err.contains("warning:"), "{ran:#?}");
    let spans = collector.spans();
    let (connects, rest): (Vec<_>, Vec<_>) = spans
        .iter()
        .cloned()
        .partition(|span| span.name == "connect");
    assert_eq!(connects.len(), 3);
    insta::assert_snapshot!(tree(&rest, SHOWN), @r"
    invoke_agent outrigger input_tokens=300 type=unknown FAILED
      turn
        chat one input_tokens=100 [retry]
        execute_tool repeat outcome=completed [decided, intent]
        execute_tool fail type=tool_error outcome=completed [decided, intent] FAILED
      turn
        chat one input_tokens=100
        execute_tool wait type=unknown outcome=unknown [decided, intent] FAILED
        execute_tool type=rejected outcome=rejected FAILED
        execute_tool type=rejected outcome=rejected FAILED
      turn
        chat one input_tokens=100
    ");
    let run = named(&spans, "invoke_agent outrigger");
    assert_eq!(format!("00-{}-{}-01", run.trace, run.parent), PARENT);
    assert!(spans.iter().all(|span| span.trace == run.trace));
    assert_eq!(run.attributes["gen_ai.provider.name"], "scripted");
    assert_eq!(run.resource["service.name"], "outrigger");
    assert_eq!(run.resource["deployment.environment.name"], "lab");
    let chat = named(&spans, "chat one");
    assert_eq!(chat.kind, SpanKind::Client);
    assert_eq!(chat.events[0].1["outrigger.attempt"], "1");
    let cached = &chat.attributes["gen_ai.usage.cache_read.input_tokens"];
    assert_eq!(cached, "40");
    assert!(named(&spans, "execute_tool wait").took >= 1_000_000_000);

    let call = named(&spans, "execute_tool repeat");
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "repeat"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.transport", "pipe"),
        ("outrigger.server", "lab"),
    ];
    for (key, value) in expected {
        assert_eq!(call.attributes[key], value, "{key}");
    }
    let sent = &log.of("tools/call")[0];
    assert_eq!(
        call.attributes["jsonrpc.request.id"],
        sent["id"].as_str().unwrap()
    );
    let parent = format!("00-{}-{}-01", call.trace, call.id);
    assert_eq!(sent["params"]["_meta"]["traceparent"], parent);
}

#[test]
fn what_anybody_wrote_is_not_sent_and_the_token_is_known_to_nobody_else() {
    let (place, _) = lab();
    let collector = Collector::new();
    asked(&collector, &place);
    assert!(!collector.received().is_empty());
    for (line, headers, body) in collector.received() {
        assert_eq!(line, "POST /v1/traces HTTP/1.1");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["authorization"], "Bearer t0ken-of-mine");
        let body = String::from_utf8_lossy(&body);
        for word in ["What is said", "hello", "on fire", "So be it", "t0ken"] {
            assert!(!body.contains(word), "{word}");
        }
    }
}

#[test]
fn content_is_sent_where_it_is_asked_for_without_secrets() {
    let (place, _) = lab();
    let servers = json!({ "lab": {
        "command": "python3",
        "args": [fixture("scripted_server.py"), place.root.join("lab.log")],
        "env": { "TOKEN": "s3cr3t-value-of-lab" },
    } });
    place.servers(&servers);
    let model = Model::turns([
        Turn::calls([("mcp__lab__tell_secret", json!({ "of": "whom" }))]),
        Turn::text("Nothing to tell."),
    ]);
    model.serves(&place);
    let collector = Collector::new();
    let url = collector.url();
    let asked = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let ran = run(
        &place,
        &["ask", "Well?", "--allow", "*"],
        &to(&url, &[asked]),
    );
    assert_eq!(ran.code, 0, "{ran:#?}");
    let spans = collector.spans();
    let call = named(&spans, "execute_tool tell_secret");
    assert_eq!(
        call.attributes["gen_ai.tool.call.arguments"],
        r#"{"of":"whom"}"#
    );
    assert!(call.attributes["gen_ai.tool.call.result"].contains("started with [redacted]"));
    let run = named(&spans, "invoke_agent outrigger");
    assert!(run.attributes["gen_ai.input.messages"].contains("Well?"));
    assert!(run.attributes["gen_ai.output.messages"].contains("Nothing to tell."));
    for (_, _, body) in collector.received() {
        assert!(!String::from_utf8_lossy(&body).contains("s3cr3t-value"));
    }
}

#[test]
fn a_collector_that_is_no_good_costs_a_warning() {
    let (place, _) = lab();
    let words = ["call", "lab", "repeat", "text=hello", "--allow", "*"];
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = Collector::answering("403 Forbidden");
    let gone = {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        there.local_addr().unwrap()
    };
    for (url, told) in [
        (
            format!("http://ada:pa55word@{gone}"),
            "cannot be reached: Connection refused",
        ),
        (
            format!("http://{}", silent.local_addr().unwrap()),
            "the collector has not taken all of it within 3 s",
        ),
        (refusing.url(), "answered with the HTTP status 403"),
        (
            "nonsense-pa55word".to_owned(),
            "OTEL_EXPORTER_OTLP_ENDPOINT: invalid endpoint …",
        ),
    ] {
        let begun = Instant::now();
        let ran = run(&place, &words, &to(&url, &[]));
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "hello\n"),
            "{url}: {ran:#?}"
        );
        let warnings: Vec<_> = ran
            .err
            .lines()
            .filter(|line| line.starts_with("warning:"))
            .collect();
        assert_eq!(warnings.len(), 1, "{url}: {ran:#?}");
        assert!(warnings[0].contains(told), "{ran:#?}");
        assert!(!ran.err.contains("pa55word"), "{ran:#?}");
        // The bound at the end, with room for a machine under load.
        assert!(begun.elapsed() < Duration::from_secs(30), "{url}");
    }
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let ran = run(&place, &words, &to("http://127.0.0.1:9", &[grpc]));
    assert!(
        ran.err.contains("only `http/protobuf` and `http/json`"),
        "{ran:#?}"
    );
    let off = ("OTEL_SDK_DISABLED", "true");
    let ran = run(&place, &words, &to("http://127.0.0.1:9", &[off]));
    assert!(!ran.err.contains("warning"), "{ran:#?}");
}

#[test]
fn a_trace_goes_through_a_run_that_exports_nothing() {
    let (place, log) = lab();
    let words = ["call", "lab", "repeat", "text=a", "--allow", "*"];
    let meta = |log: &Log| log.of("tools/call").pop().unwrap()["params"]["_meta"].clone();
    run(&place, &words, &[]);
    assert_eq!(meta(&log)["traceparent"], Value::Null);
    run(
        &place,
        &words,
        &[("TRACEPARENT", PARENT), ("TRACESTATE", "a=1")],
    );
    assert_eq!(meta(&log)["traceparent"], PARENT);
    assert_eq!(meta(&log)["tracestate"], "a=1");
    run(&place, &words, &[("TRACEPARENT", "00-nonsense")]);
    assert_eq!(meta(&log)["traceparent"], Value::Null);
}

#[test]
fn a_sampler_that_drops_everything_is_passed_on() {
    let (place, log) = lab();
    let collector = Collector::new();
    let url = collector.url();
    let variables = to(&url, &[("OTEL_TRACES_SAMPLER", "always_off")]);
    let words = ["call", "lab", "repeat", "text=a", "--allow", "*"];
    assert_eq!(run(&place, &words, &variables).code, 0);
    assert_eq!(collector.received().len(), 0);
    let parent = log.of("tools/call")[0]["params"]["_meta"]["traceparent"].clone();
    assert!(parent.as_str().unwrap().ends_with("-00"), "{parent}");
}

#[test]
fn bodies_are_compressed_where_that_is_asked_for() {
    let (place, _) = lab();
    let collector = Collector::new();
    let url = collector.url();
    let variables = to(&url, &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
    let words = ["call", "lab", "fail", "--allow", "*"];
    run(&place, &words, &variables);
    let (_, headers, body) = collector.received().remove(0);
    assert_eq!(headers["content-encoding"], "gzip");
    assert!(body.starts_with(&[0x1f, 0x8b]), "{body:?}");
}

#[test]
fn json_is_spoken_too() {
    let (place, _) = lab();
    let collector = Collector::new();
    let url = collector.url();
    let variables = to(&url, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]);
    let words = ["call", "lab", "fail", "--allow", "*"];
    run(&place, &words, &variables);
    let (_, headers, body) = collector.received().remove(0);
    assert_eq!(headers["content-type"], "application/json");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    let names: Vec<_> = spans
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"outrigger call"), "{names:?}");
}

#[test]
fn questions_of_servers_are_spans_too() {
    for era in ["legacy", "modern"] {
        let place = Place::new();
        let log = place.root.join("lab.log");
        let mut args = vec![json!(fixture("asking_server.py")), json!(log)];
        args.extend((era == "modern").then(|| json!("modern")));
        place.servers(
            &json!({ "lab": { "command": "python3", "args": args, "answers": ["roots"] } }),
        );
        let collector = Collector::new();
        let url = collector.url();
        let words = ["call", "lab", "roots", "--allow", "*"];
        let ran = run(&place, &words, &to(&url, &[]));
        assert_eq!(ran.code, 0, "{ran:#?}");
        let spans = collector.spans();
        let call = named(&spans, "execute_tool roots");
        let question = named(&spans, "roots/list");
        assert_eq!(question.parent, call.id, "{era}");
        assert_eq!(question.kind, SpanKind::Server);
        let mut parents: Vec<_> = Log::at(log)
            .of("tools/call")
            .iter()
            .map(|sent| sent["params"]["_meta"]["traceparent"].clone())
            .collect();
        assert_eq!(parents.len(), if era == "modern" { 2 } else { 1 });
        parents.dedup();
        assert_eq!(
            parents,
            [json!(format!("00-{}-{}-01", call.trace, call.id))]
        );
    }
}

#[test]
fn a_server_says_where_its_question_stands() {
    const SPAN: &str = "00f067aa0ba902b7";
    const ELSEWHERE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    for elsewhere in [false, true] {
        let place = Place::new();
        let args = json!([fixture("asking_server.py"), place.root.join("lab.log")]);
        let mut env = json!({ "SPAN": SPAN });
        if elsewhere {
            env["TRACE"] = json!(ELSEWHERE);
        }
        let entry = json!({ "command": "python3", "args": args, "answers": ["roots"], "env": env });
        place.servers(&json!({ "lab": entry }));
        let collector = Collector::new();
        let url = collector.url();
        let words = ["call", "lab", "roots", "--allow", "*"];
        let ran = run(&place, &words, &to(&url, &[]));
        assert_eq!(ran.code, 0, "{ran:#?}");
        let spans = collector.spans();
        let question = named(&spans, "roots/list");
        let call = named(&spans, "execute_tool roots");
        assert_eq!(question.trace, call.trace);
        if elsewhere {
            // Another trace is pointed at, and not gone over to.
            assert_eq!(
                (&question.parent, &question.links[..]),
                (&call.id, &[SPAN.to_owned()][..])
            );
        } else {
            assert_eq!((question.parent.as_str(), question.links.len()), (SPAN, 0));
        }
    }
}

#[test]
fn over_http_the_trace_is_a_header_too() {
    let place = Place::new();
    let server = Servers::installed().http("http_mcp.py");
    place.servers(&json!({ "stock": { "url": server.url } }));
    let words = [
        "call",
        "stock",
        "count",
        "item=bolts",
        "--allow",
        "*",
        "--wire",
        "-",
        "--quiet",
    ];
    let ran = run(&place, &words, &[("TRACEPARENT", PARENT)]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let lines = ran
        .err
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let sent = lines.filter(|line| line["message"]["method"] == "tools/call");
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["http"]["headers"]["traceparent"], PARENT);
    assert_eq!(sent[0]["message"]["params"]["_meta"]["traceparent"], PARENT);
}
