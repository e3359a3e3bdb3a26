//! What all four formats do alike, each against a real HTTP server.

use std::time::{Duration, Instant};

use futures::StreamExt;
use outrigger_agent::provider::{ProviderKind, build};
use outrigger_model::{Message, ModelErrorKind, ModelEvent, Part, StopReason, Usage};
use outrigger_testkit::provider_server::{Delivery, Stop, StreamError, Turn};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::provider_play::{
    KEY, NOWHERE, failed, finished, model, question, request, result, serve, spec, words,
};

const LONG: &str = "Grüße! Es ist Donnerstag, 20 Uhr 🕗, und die Auslieferung läuft wie geplant. ";

fn two_calls() -> Turn {
    Turn::calls([
        (
            "mcp__time__current_time",
            json!({ "zone": "Europe/Zürich" }),
        ),
        ("mcp__echo__echo", json!({ "text": "größer 🚣" })),
    ])
}

#[tokio::test]
async fn text_is_streamed_and_counted() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::text(LONG)
            .reasoning("Let me look.")
            .usage(900, 600, 40)])
        .await;
        let seen = finished(&model(&server, kind), question()).await;
        assert_eq!(seen.text, LONG, "{kind:?}");
        assert_eq!(seen.reasoning, "Let me look.", "{kind:?}");
        assert_eq!(
            (&*seen.turn.text, seen.turn.calls.len()),
            (LONG, 0),
            "{kind:?}"
        );
        assert_eq!(seen.stop, Some(StopReason::Done), "{kind:?}");
        assert_eq!(
            seen.usage,
            Usage {
                input: 900,
                cached: 600,
                output: 40
            },
            "{kind:?}"
        );
        let sent = &server.requests()[0];
        assert_eq!(
            sent.question().as_deref(),
            Some("What time is it?"),
            "{kind:?}"
        );
        assert_eq!(
            sent.tools(),
            ["mcp__time__current_time", "mcp__echo__echo"],
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn parallel_calls_and_their_results_go_together() {
    for kind in ProviderKind::ALL {
        let first = two_calls().reasoning("I need both.");
        let server = serve([first, Turn::text("${result.0} and ${result.1}")]).await;
        let model = model(&server, kind);
        let seen = finished(&model, question()).await;
        let turn = seen.turn;
        assert_eq!(turn.calls.len(), 2, "{kind:?}");
        assert_eq!(turn.calls[0].name, "mcp__time__current_time");
        assert_eq!(
            turn.calls[0].arguments, r#"{"zone":"Europe/Zürich"}"#,
            "{kind:?}"
        );
        assert_eq!(
            turn.calls[1].arguments, r#"{"text":"größer 🚣"}"#,
            "{kind:?}"
        );
        assert_ne!(turn.calls[0].id, turn.calls[1].id, "{kind:?}");

        let results = vec![
            result(&turn, 0, vec![Part::text("20:00")], false),
            result(&turn, 1, vec![Part::text("no such echo")], true),
        ];
        let mut messages = question().messages;
        messages.push(Message::Assistant(turn));
        messages.push(Message::ToolResults { results });
        // The scripted server refuses a conversation that the real ones would refuse.
        let seen = finished(&model, request(messages)).await;
        assert_eq!(seen.text, "20:00 and no such echo", "{kind:?}");
    }
}

#[tokio::test]
async fn what_a_person_adds_after_tool_results_is_accepted_everywhere() {
    for kind in ProviderKind::ALL {
        let server = serve([two_calls(), Turn::text("ok"), Turn::text("still ok")]).await;
        let model = model(&server, kind);
        let turn = finished(&model, question()).await.turn;
        let results = (0..2)
            .map(|index| result(&turn, index, Vec::new(), false))
            .collect();
        let mut messages = question().messages;
        messages.extend([
            Message::Assistant(turn),
            Message::ToolResults { results },
            Message::user("Hurry up."),
        ]);
        let turn = finished(&model, request(messages.clone())).await.turn;
        messages.extend([Message::Assistant(turn), Message::user("And now?")]);
        let seen = finished(&model, request(messages)).await;
        assert_eq!(seen.text, "still ok", "{kind:?}");
        assert_eq!(server.requests()[2].question().as_deref(), Some("And now?"));
    }
}

#[tokio::test]
async fn a_conversation_moves_from_one_provider_to_the_next() {
    for from in ProviderKind::ALL {
        for to in ProviderKind::ALL {
            let server = serve([two_calls().reasoning("Hm."), Turn::text("moved")]).await;
            let turn = finished(&model(&server, from), question()).await.turn;
            let results = (0..2)
                .map(|i| result(&turn, i, vec![Part::text("r")], false))
                .collect();
            let mut messages = question().messages;
            messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
            let seen = finished(&model(&server, to), request(messages)).await;
            assert_eq!(seen.text, "moved", "{from:?} to {to:?}");
            if from != to {
                let body = server.requests()[1].body.to_string();
                assert!(
                    !body.contains("c2lnbmF0dXJl"),
                    "{from:?} leaks a signature to {to:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn stop_reasons_are_mapped() {
    for kind in ProviderKind::ALL {
        let stops = [
            (Stop::Done, StopReason::Done),
            (Stop::Length, StopReason::Length),
            (Stop::Refused, StopReason::Refused),
        ];
        for (scripted, expected) in stops {
            let server = serve([Turn::text("so far").stop(scripted)]).await;
            let seen = finished(&model(&server, kind), question()).await;
            assert_eq!(seen.stop, Some(expected), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn rate_limits_are_waited_for_and_then_it_works() {
    for kind in ProviderKind::ALL {
        let slow = Turn::status(429, "Slow down")
            .header("retry-after", "0.05")
            .times(2);
        let server = serve([slow, Turn::text("now")]).await;
        let seen = finished(&model(&server, kind), question()).await;
        assert_eq!(seen.text, "now", "{kind:?}");
        assert_eq!(server.requests().len(), 3, "{kind:?}");
        let attempts: Vec<u32> = seen.retries.iter().map(|(attempt, ..)| *attempt).collect();
        assert_eq!(attempts, [1, 2], "{kind:?}");
        assert!(
            seen.retries
                .iter()
                .all(|(_, wait, _)| *wait >= Duration::from_millis(50))
        );
        assert!(
            seen.retries[0].2.contains("Slow down"),
            "{kind:?}: {:?}",
            seen.retries
        );
    }
}

#[tokio::test]
async fn rate_limits_that_do_not_end_are_an_error() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::status(429, "Slow down")
            .header("retry-after", "0")
            .times(9)])
        .await;
        let (seen, error) = failed(&model(&server, kind), question()).await;
        let expected = ModelErrorKind::RateLimited {
            retry_after: Some(Duration::ZERO),
        };
        assert_eq!(error.kind, expected, "{kind:?}");
        assert_eq!(
            (seen.retries.len(), server.requests().len()),
            (2, 3),
            "{kind:?}"
        );

        let server = serve([Turn::status(429, "Tomorrow").header("retry-after", "86400")]).await;
        let (seen, error) = failed(&model(&server, kind), question()).await;
        let day = ModelErrorKind::RateLimited {
            retry_after: Some(Duration::from_secs(86_400)),
        };
        assert_eq!(error.kind, day, "{kind:?}");
        assert!(seen.retries.is_empty(), "nobody waits a day");
    }
}

#[tokio::test]
async fn an_error_inside_the_stream_is_retried_only_before_anything_was_shown() {
    for kind in ProviderKind::ALL {
        for error in [StreamError::RateLimited, StreamError::Overloaded] {
            let server =
                serve([Turn::default().then_error(error, "Busy"), Turn::text("now")]).await;
            let seen = finished(&model(&server, kind), question()).await;
            assert_eq!((&*seen.text, seen.retries.len()), ("now", 1), "{kind:?}");
        }
        let shown = Turn::text("Half an ans").then_error(StreamError::Overloaded, "Busy");
        let server = serve([shown, Turn::text("never")]).await;
        let (seen, error) = failed(&model(&server, kind), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Interrupted, "{kind:?}");
        assert!(
            error.message.contains("Busy"),
            "{kind:?}: {}",
            error.message
        );
        assert_eq!(
            (&*seen.text, server.requests().len()),
            ("Half an ans", 1),
            "{kind:?}"
        );

        let shown = Turn::text("Half an ans").then_error(StreamError::RateLimited, "Slow down");
        let (_, error) = failed(&model(&serve([shown]).await, kind), question()).await;
        assert_eq!(
            error.kind,
            ModelErrorKind::RateLimited { retry_after: None },
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn server_errors_are_retried() {
    for kind in ProviderKind::ALL {
        let html = Turn::body(502, "text/html", "<html><h1>Bad Gateway</h1></html>");
        let server = serve([Turn::status(500, "Oops"), html, Turn::text("now")]).await;
        let seen = finished(&model(&server, kind), question()).await;
        assert_eq!((&*seen.text, seen.retries.len()), ("now", 2), "{kind:?}");

        let mut once = spec(&server, kind);
        once.max_retries = 0;
        let server = serve([Turn::status(503, "Down for maintenance")]).await;
        once.base_url = server.base_url().parse().unwrap();
        let (_, error) = failed(&build(once).unwrap(), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{kind:?}");
        assert!(error.message.contains("Down for maintenance"), "{kind:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_is_retried_and_then_reported() {
    for kind in ProviderKind::ALL {
        let mut spec = spec(&serve([]).await, kind);
        spec.base_url = NOWHERE.parse().unwrap();
        spec.max_retries = 1;
        let (seen, error) = failed(&build(spec).unwrap(), question()).await;
        assert_eq!(
            (error.kind, seen.retries.len()),
            (ModelErrorKind::Unavailable, 1),
            "{kind:?}"
        );
        assert!(
            error.message.contains("could not be reached"),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn a_cut_connection_is_no_turn() {
    for kind in ProviderKind::ALL {
        let cut = Delivery {
            cut_at: Some(3_000),
            ..Delivery::default()
        };
        let server = serve([
            Turn::text(LONG.repeat(9)).delivered(cut),
            Turn::text("never"),
        ])
        .await;
        let (seen, error) = failed(&model(&server, kind), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Interrupted, "{kind:?}: {error}");
        assert!(
            !seen.text.is_empty() && LONG.repeat(9).starts_with(&seen.text),
            "{kind:?}"
        );
        assert_eq!(server.requests().len(), 1, "{kind:?}");

        let early = Delivery {
            cut_at: Some(20),
            ..Delivery::default()
        };
        let server = serve([Turn::text(LONG).delivered(early), Turn::text("whole")]).await;
        let seen = finished(&model(&server, kind), question()).await;
        assert_eq!((&*seen.text, seen.retries.len()), ("whole", 1), "{kind:?}");
    }
}

#[tokio::test]
async fn a_stream_that_stands_still_is_given_up() {
    for kind in ProviderKind::ALL {
        let stall = Delivery {
            stall_at: Some(3_000),
            ..Delivery::default()
        };
        let server = serve([Turn::text(LONG.repeat(9)).delivered(stall)]).await;
        let mut spec = spec(&server, kind);
        spec.timeouts.idle = Duration::from_millis(300);
        let (seen, error) = failed(&build(spec).unwrap(), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Interrupted, "{kind:?}");
        assert!(
            error.message.contains("stood still for 0.3 s"),
            "{}",
            error.message
        );
        assert!(!seen.text.is_empty());
        server.hung_up(1).await;
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_unavailable_and_not_asked_again() {
    for kind in ProviderKind::ALL {
        let stall = Delivery {
            stall_at: Some(0),
            ..Delivery::default()
        };
        let server = serve([Turn::text("never").delivered(stall)]).await;
        let mut spec = spec(&server, kind);
        spec.timeouts.idle = Duration::from_millis(200);
        let (_, error) = failed(&build(spec).unwrap(), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{kind:?}");
        assert_eq!(
            error.message, "the server sent nothing for 0.2 s",
            "{kind:?}"
        );
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn dropping_the_stream_drops_the_connection() {
    for kind in ProviderKind::ALL {
        let stall = Delivery {
            stall_at: Some(3_000),
            ..Delivery::default()
        };
        let server = serve([Turn::text(LONG.repeat(9)).delivered(stall)]).await;
        let mut stream = model(&server, kind).stream(question()).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert!(matches!(first, ModelEvent::Text(_)), "{kind:?}: {first:?}");
        drop(stream);
        server.hung_up(1).await;
    }
}

#[tokio::test]
async fn slow_pieces_are_no_reason_to_give_up() {
    let idle = Duration::from_secs(1);
    let play = async |kind| {
        let slow = Delivery {
            every: Some(150),
            pause_ms: 80,
            ..Delivery::default()
        };
        let server = serve([Turn::text(LONG).delivered(slow)]).await;
        let mut spec = spec(&server, kind);
        spec.timeouts.idle = idle;
        let begin = Instant::now();
        assert_eq!(
            finished(&build(spec).unwrap(), question()).await.text,
            LONG,
            "{kind:?}"
        );
        assert!(
            begin.elapsed() > idle,
            "{kind:?} was too fast to prove anything"
        );
    };
    futures::future::join_all(ProviderKind::ALL.map(play)).await;
}

#[tokio::test]
async fn junk_is_named_with_status_and_content_type() {
    for kind in ProviderKind::ALL {
        let junk = [
            (
                Turn::body(200, "text/html; charset=utf-8", "<html>Log in</html>"),
                "200 OK",
                "text/html",
            ),
            (
                Turn::body(200, "application/json", r#"{"hello": "world"}"#),
                "200 OK",
                "application/json",
            ),
            (
                Turn::body(200, "text/event-stream", "data: <oops>\n\n"),
                "200 OK",
                "text/event-stream",
            ),
            (Turn::body(200, "", "Welcome!"), "200 OK", "no content type"),
            (
                Turn::body(404, "text/html", "<html>Not here</html>"),
                "404 Not Found",
                "text/html",
            ),
            (
                Turn::body(404, "text/plain", "404 page not found"),
                "404 Not Found",
                "text/plain",
            ),
            (
                Turn::body(301, "text/html", ""),
                "301 Moved Permanently",
                "text/html",
            ),
        ];
        for (turn, status, content_type) in junk {
            let (_, error) = failed(&model(&serve([turn]).await, kind), question()).await;
            assert_eq!(
                error.kind,
                ModelErrorKind::Malformed,
                "{kind:?} {status}: {error}"
            );
            assert!(error.message.contains(status), "{kind:?}: {error}");
            assert!(error.message.contains(content_type), "{kind:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_wrong_key_names_where_it_came_from_and_never_shows_it() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::status(
            401,
            format!("Incorrect API key provided: {KEY}."),
        )])
        .await;
        let spec = spec(&server, kind);
        assert!(!format!("{spec:?}").contains(KEY), "{kind:?}");
        let (_, error) = failed(&build(spec).unwrap(), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Unauthorized, "{kind:?}");
        assert!(
            !format!("{error:?} {error}").contains(KEY),
            "{kind:?}: {error:?}"
        );
        assert!(
            words(&error).contains("the key came from `TEST_API_KEY`"),
            "{}",
            words(&error)
        );
        let sent = server.requests().remove(0);
        let header = match kind {
            ProviderKind::Anthropic => sent.header("x-api-key"),
            ProviderKind::Gemini => sent.header("x-goog-api-key"),
            _ => sent
                .header("authorization")
                .and_then(|value| value.strip_prefix("Bearer ")),
        };
        assert_eq!(header, Some(KEY), "{kind:?}");
        assert!(!sent.path.contains(KEY));
    }
}

#[tokio::test]
async fn an_echoed_key_is_scrubbed_from_retries_and_snippets_too() {
    for kind in ProviderKind::ALL {
        let busy = Turn::status(429, format!("{KEY} is too fast")).header("retry-after", "0");
        let junk = Turn::body(200, "text/plain", &format!("hello {KEY}"));
        let (seen, error) = failed(&model(&serve([busy, junk]).await, kind), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{kind:?}");
        let shown = format!("{seen:?} {error:?}");
        assert!(
            !shown.contains(KEY) && shown.contains("[secret]"),
            "{kind:?}: {shown}"
        );
    }
}

#[tokio::test]
async fn too_long_a_conversation_has_its_own_kind() {
    let messages = [
        "This model's maximum context length is 8192 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1100000) exceeds the maximum number of tokens allowed.",
    ];
    for kind in ProviderKind::ALL {
        for message in messages {
            let (_, error) = failed(
                &model(&serve([Turn::status(400, message)]).await, kind),
                question(),
            )
            .await;
            assert_eq!(
                error.kind,
                ModelErrorKind::ContextTooLong,
                "{kind:?}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn an_unknown_model_gets_the_providers_words_and_a_way_out() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::status(404, "model `scripted` not found")]).await;
        let (_, error) = failed(&model(&server, kind), question()).await;
        assert_eq!(error.kind, ModelErrorKind::Rejected, "{kind:?}");
        let name = kind.name();
        assert_eq!(
            words(&error),
            format!(
                "{name}:scripted: model `scripted` not found (404 Not Found)\nhint: another model: `--model {name}:NAME`"
            ),
        );
    }
}

#[test]
fn cutting_the_stream_anywhere_changes_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for kind in ProviderKind::ALL {
        let turn = two_calls().reasoning("Erst prüfen 🧭, dann fragen.");
        let turn = Turn {
            text: Some("Ich schaue nach … ✓".to_owned()),
            ..turn
        };
        let run = |delivery: Delivery| {
            runtime.block_on(async {
                let server = serve([turn.clone().delivered(delivery)]).await;
                finished(&model(&server, kind), question()).await
            })
        };
        let whole = run(Delivery::default());
        assert_eq!(whole.text, "Ich schaue nach … ✓");
        assert_eq!(
            run(Delivery {
                every: Some(1),
                ..Delivery::default()
            }),
            whole,
            "{kind:?}"
        );
        let config = Config {
            cases: 24,
            failure_persistence: None,
            ..Config::default()
        };
        let cuts = prop::collection::vec(0_usize..6_000, 1..30);
        TestRunner::new(config)
            .run(&cuts, |split_at| {
                let seen = run(Delivery {
                    split_at,
                    ..Delivery::default()
                });
                prop_assert_eq!(&seen, &whole);
                Ok(())
            })
            .unwrap();
    }
}
