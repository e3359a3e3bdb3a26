//! What servers do wrong after the handshake.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outrigger_connect::{CallError, CallOptions, ListError};
use serde_json::{Value, json};

use crate::peer::{Act, Peer, call, call_within, connect, good, raw, result, until};

fn is_call(message: &Value) -> bool {
    message["method"] == "tools/call"
}

/// A server that answers a call with this text, in which `ID` stands for the id.
fn answering(text: &'static str) -> Peer {
    Peer::legacy(move |message| {
        is_call(message).then(|| Act::Say(text.replace("ID", message["id"].as_str().unwrap())))
    })
}

#[tokio::test]
async fn answers_in_odd_shapes_are_read() {
    for text in [
        "{\"id\":\"ID\",\"result\":{\"ok\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"error\":null,\"result\":{\"ok\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID.0,\"result\":{\"ok\":1}}\r\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"ok\":1}}]\n",
        "working...{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"ok\":1}}",
        "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": \"ID\",\n  \"result\": {\"ok\":1}\n}\n",
        "INFO x\n{\"level\":\"info\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"id\":\"ID\",\"result\":{\"ok\":1}}\n",
    ] {
        let connection = answering(text).connect().await;
        assert_eq!(
            call(&connection).await.unwrap().get(),
            "{\"ok\":1}",
            "{text}"
        );
    }
}

#[tokio::test]
async fn answers_that_cannot_be_read_fail_their_call_at_once() {
    let deep: &'static str = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{}}}\n",
        "[".repeat(300)
    )
    .leak();
    for (text, words) in [
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"a\":\"cut\n",
            "not valid JSON",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"a\":nope}}\n",
            "not valid JSON",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"ID\"}\n",
            "neither `result` nor `error`",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":null}\n",
            "neither `result` nor `error`",
        ),
        (deep, "nested deeper"),
    ] {
        let connection = answering(text).connect().await;
        let failed = call(&connection).await.unwrap_err();
        assert!(
            matches!(&failed, CallError::Malformed(reason) if reason.contains(words)),
            "{text}: {failed}"
        );
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call_and_nothing_else() {
    let peer = Peer::legacy(|message| {
        let huge = "x".repeat(300_000);
        (is_call(message) && message["params"]["name"] == "huge")
            .then(|| result(message, &json!({ "text": huge })))
    });
    let mut spec = peer.spec();
    spec.limits.frame_bytes = 100_000;
    let connection = connect(&spec).await.unwrap();
    let failed = connection
        .call_tool("huge", &raw("{}"), CallOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&failed, CallError::Malformed(reason) if reason.contains("limit of 100000 bytes")),
        "{failed}"
    );
    call(&connection).await.unwrap();
}

#[tokio::test]
async fn an_error_without_an_id_is_meant_for_the_only_call() {
    let connection = answering(
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":\"-32700\",\"message\":\"eh?\"}}\n",
    )
    .connect()
    .await;
    let failed = call(&connection).await.unwrap_err();
    assert!(
        matches!(failed, CallError::Rpc { code: -32700, ref message, .. } if message == "eh?"),
        "{failed}"
    );
}

#[tokio::test]
async fn digits_and_unknown_members_survive_both_ways() {
    let connection = Peer::legacy(|message| {
        is_call(message).then(|| Act::Say(format!(
            "{{\"id\":{},\"result\":{{\"n\":123456789012345678901234567890.50,\"x\":{{\"new\":[1e400]}}}}}}\n",
            message["id"]
        )))
    });
    let connection = connection.connect().await;
    let result = connection
        .call_tool("t", &raw("{}"), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(
        result.get(),
        "{\"n\":123456789012345678901234567890.50,\"x\":{\"new\":[1e400]}}"
    );
}

#[tokio::test]
async fn arguments_are_always_an_object() {
    let peer = Peer::legacy(|_| None);
    let connection = peer.connect().await;
    let result = connection
        .call_tool("t", &raw("null"), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(result.get(), "{\"content\":[],\"saw\":{}}");
}

#[tokio::test]
async fn a_late_answer_goes_to_who_asked_for_it_and_to_no_other_call() {
    let held = Mutex::new(None);
    let peer = Peer::legacy(move |message| {
        let mut held = held.lock().unwrap();
        if is_call(message) && held.is_none() {
            *held = Some(message.clone());
            return Some(Act::Nothing);
        }
        if message["method"] == "notifications/cancelled" {
            let first = held.as_ref().unwrap();
            assert_eq!(message["params"]["requestId"], first["id"]);
            let Act::Say(line) = result(first, &json!("late")) else {
                unreachable!()
            };
            // A second time, as some servers do.
            return Some(Act::Say(line.repeat(2)));
        }
        None
    });
    let connection = peer.connect().await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let options = CallOptions {
        deadline: Some(Duration::from_millis(50)),
        on_late: Some(Box::new(move |answer| drop(tell.send(answer)))),
        ..CallOptions::default()
    };
    let failed = connection
        .call_tool("echo", &raw("{}"), options)
        .await
        .unwrap_err();
    assert!(matches!(failed, CallError::Deadline { .. }), "{failed}");
    assert_eq!(told.await.unwrap().unwrap().get(), "\"late\"");
    assert_eq!(
        call(&connection).await.unwrap().get(),
        "{\"content\":[],\"saw\":{}}"
    );
    assert_eq!(connection.remarks(), ["1 answers belonged to no request"]);
}

#[tokio::test]
async fn cancelling_reaches_the_server() {
    let peer = Peer::legacy(|message| is_call(message).then_some(Act::Nothing));
    let connection = peer.connect().await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let arguments = raw("{}");
    let call = connection.call_tool("echo", &arguments, options);
    let cancelling = async {
        until(|| {
            peer.methods()
                .last()
                .is_some_and(|method| method == "tools/call")
        })
        .await;
        cancel.cancel();
    };
    let (failed, ()) = tokio::join!(call, cancelling);
    assert!(matches!(failed, Err(CallError::Cancelled)));
    until(|| {
        peer.methods()
            .last()
            .is_some_and(|method| method == "notifications/cancelled")
    })
    .await;
}

fn progressing(steps: usize) -> Peer {
    // Each progress report is answered to by a ping of the server, which keeps the script going.
    let count = AtomicUsize::new(0);
    let token = Mutex::new(Value::Null);
    Peer::legacy(move |message| {
        if is_call(message) {
            *token.lock().unwrap() = message["params"]["_meta"]["progressToken"].clone();
        } else if message.get("method").is_some() {
            return None;
        }
        let token = token.lock().unwrap().clone();
        let at = count.fetch_add(1, Ordering::SeqCst);
        if at == steps {
            return Some(result(&json!({ "id": token }), &json!("done")));
        }
        std::thread::sleep(Duration::from_millis(60));
        let params = json!({ "progressToken": token, "progress": at, "message": "on it" });
        let progress =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        let ping = json!({ "jsonrpc": "2.0", "id": at, "method": "ping" });
        Some(Act::Say(format!("{progress}\n{ping}\n")))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_moves_the_soft_deadline_and_not_the_hard_one() {
    let connection = progressing(6).connect().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let options = CallOptions {
        deadline: Some(Duration::from_millis(200)),
        on_progress: Some(Arc::new(move |progress| {
            assert_eq!(progress.message.as_deref(), Some("on it"));
            count.fetch_add(1, Ordering::SeqCst);
        })),
        ..CallOptions::default()
    };
    assert_eq!(
        connection
            .call_tool("t", &raw("{}"), options)
            .await
            .unwrap()
            .get(),
        "\"done\""
    );
    assert_eq!(seen.load(Ordering::SeqCst), 6);

    let mut spec = progressing(usize::MAX).spec();
    spec.deadlines.call_hard = Duration::from_millis(400);
    let connection = connect(&spec).await.unwrap();
    let begun = Instant::now();
    let failed = call_within(&connection, Duration::from_millis(200))
        .await
        .unwrap_err();
    assert!(matches!(failed, CallError::Deadline { .. }), "{failed}");
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn what_the_server_asks_is_answered() {
    let peer = Peer::legacy(|message| {
        let asks = ["ping", "roots/list", "vendor/x"].iter().enumerate();
        let lines = asks.map(|(at, method)| {
            format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": format!("q{at}"), "method": method })
            )
        });
        let done = format!("{}\n", json!({ "id": message["id"], "result": {} }));
        is_call(message).then(|| Act::Say(lines.collect::<String>() + &done))
    });
    let connection = peer.connect().await;
    call(&connection).await.unwrap();
    until(|| {
        peer.methods()
            .iter()
            .filter(|method| *method == "reply")
            .count()
            == 3
    })
    .await;
    let heard = peer.heard.lock().unwrap().clone();
    let replies: Vec<&Value> = heard
        .iter()
        .filter(|message| message.get("method").is_none())
        .collect();
    assert_eq!(
        replies[0],
        &json!({ "jsonrpc": "2.0", "id": "q0", "result": {} })
    );
    assert_eq!(replies[1]["error"]["code"], -32601);
    assert_eq!(
        (&replies[2]["id"], &replies[2]["error"]["message"]),
        (
            &json!("q2"),
            &json!("this client does not offer `vendor/x`")
        )
    );
}

#[tokio::test]
async fn a_flood_is_counted_and_delays_nothing() {
    let peer = Peer::legacy(|message| {
        let log = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n";
        let changed = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
        let Act::Say(done) = good(message) else {
            return None;
        };
        is_call(message).then(|| Act::Say((log.to_owned() + changed).repeat(20_000) + &done))
    });
    let connection = peer.connect().await;
    let (changes, warning) = (connection.tools_changed(), connection.warning());
    assert_eq!(*warning.borrow(), None);
    call_within(&connection, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(
        warning.borrow().as_deref(),
        Some(
            "it sends more than 500 notifications a second; those beyond are dropped (notifications_per_second)"
        )
    );
    assert_eq!(*changes.borrow(), 20_000);
    // How many seconds it took is the machine's; half of what was kept were lines of a log.
    let kept = connection.log_tail(20_000).len();
    assert!((250..10_000).contains(&kept), "{kept}");
    assert!(
        connection.remarks()[0]
            .ends_with("notifications came faster than they are kept (notifications_per_second)"),
        "{:?}",
        connection.remarks()
    );
}

#[tokio::test]
async fn how_many_notifications_are_kept_is_a_limit_like_others() {
    let peer = Peer::legacy(|message| {
        let progress = json!({
            "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1 },
        });
        let Act::Say(done) = good(message) else {
            return None;
        };
        is_call(message).then(|| Act::Say(format!("{progress}\n").repeat(100_000) + &done))
    });
    let mut spec = peer.spec();
    spec.limits.notifications_per_second = 3;
    let connection = connect(&spec).await.unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    let options = CallOptions {
        on_progress: Some(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        })),
        ..CallOptions::default()
    };
    let begun = Instant::now();
    connection
        .call_tool("echo", &raw("{}"), options)
        .await
        .unwrap();
    // Three at once, and three in each second that it took.
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let told = told.load(Ordering::SeqCst);
    assert!((3..=3 * (seconds + 2)).contains(&told), "{told}");
}

#[tokio::test]
async fn listings_end_and_say_why() {
    let pages = |pages: fn(Option<&str>) -> Value| {
        Peer::legacy(move |message| {
            let cursor = message["params"]["cursor"].as_str();
            (message["method"] == "tools/list").then(|| result(message, &pages(cursor)))
        })
    };
    let stuck = pages(
        |_| json!({ "tools": [{ "name": "a" }, { "name": "a", "x": 1 }], "nextCursor": "again" }),
    );
    let listing = stuck.connect().await.list_tools().await.unwrap();
    assert_eq!((listing.tools.len(), listing.pages), (1, 2));
    assert_eq!(
        listing.problems,
        [
            "`a` is listed more than once; the first counts",
            "stopped: the server gave the cursor `again` twice"
        ]
    );

    let empty = pages(|_| json!({ "tools": [{ "name": "a" }], "nextCursor": "" }));
    assert_eq!(empty.connect().await.list_tools().await.unwrap().pages, 1);

    let broken = pages(|cursor| {
        if cursor.is_some() {
            json!({})
        } else {
            json!({ "tools": [{ "name": "a" }, 7], "nextCursor": "b" })
        }
    });
    let listing = broken.connect().await.list_tools().await.unwrap();
    assert_eq!(
        listing
            .tools
            .iter()
            .map(|tool| tool.get())
            .collect::<Vec<_>>(),
        ["{\"name\":\"a\"}", "7"]
    );
    assert_eq!(
        listing.problems,
        ["page 2 cannot be used: it has no array `tools`: {}"]
    );

    let many = pages(
        |_| json!({ "tools": (0..20).map(|n| json!({ "name": n.to_string() })).collect::<Vec<_>>() }),
    );
    let mut spec = many.spec();
    spec.limits.tools = 5;
    let listing = connect(&spec).await.unwrap().list_tools().await.unwrap();
    assert_eq!(
        listing.problems,
        ["15 tools over the limit of 5 are left out (tools)"]
    );

    let none = pages(|_| json!({ "tools": "many" }));
    let failed = none.connect().await.list_tools().await.unwrap_err();
    assert!(matches!(failed, ListError::Malformed { .. }), "{failed}");
}

#[tokio::test]
async fn closing_tells_the_truth_about_calls_under_way() {
    let peer = Peer::legacy(|message| is_call(message).then_some(Act::StopReading));
    let mut spec = peer.spec();
    spec.limits.concurrent_calls = 2;
    let connection = connect(&spec).await.unwrap();
    // Larger than the pipe: the second is begun and never finished, the third waits for a slot.
    let big = raw(&format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20)));
    let first = connection.call_tool("a", &big, CallOptions::default());
    let second = connection.call_tool("b", &big, CallOptions::default());
    let third = connection.call_tool("c", &big, CallOptions::default());
    let closing = async {
        until(|| peer.methods().iter().any(|method| method == "tools/call")).await;
        let (one, two) = tokio::join!(connection.close(), connection.close());
        assert_eq!(one.took, two.took);
        one
    };
    let (first, second, third, report) = tokio::join!(first, second, third, closing);
    assert!(matches!(first, Err(CallError::Closed(_))), "{first:?}");
    assert!(matches!(second, Err(CallError::Closed(_))), "{second:?}");
    assert!(matches!(third, Err(CallError::NotSent(_))), "{third:?}");
    assert_eq!(report.forced, Some("stopped"));
    assert!(
        matches!(call(&connection).await, Err(CallError::NotSent(why)) if why == "the connection has ended: it was closed")
    );
    assert_eq!(peer.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_that_the_server_never_takes_was_not_sent() {
    let peer = Peer::legacy(|message| is_call(message).then_some(Act::StopReading));
    let connection = peer.connect().await;
    let big = raw(&format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20)));
    let small = raw("{}");
    let options = || CallOptions {
        deadline: Some(Duration::from_millis(300)),
        ..CallOptions::default()
    };
    let (first, second, third) = tokio::join!(
        connection.call_tool("a", &small, options()),
        connection.call_tool("b", &big, options()),
        connection.call_tool("c", &big, options()),
    );
    assert!(
        matches!(first, Err(CallError::Deadline { .. })),
        "{first:?}"
    );
    assert!(
        matches!(second, Err(CallError::Deadline { .. })),
        "{second:?}"
    );
    assert!(matches!(third, Err(CallError::NotSent(_))), "{third:?}");
}

#[tokio::test]
async fn the_death_of_a_server_ends_its_calls_at_once() {
    let peer = Peer::legacy(|message| is_call(message).then_some(Act::Leave));
    let connection = peer.connect().await;
    let failed = call(&connection).await.unwrap_err();
    assert!(matches!(failed, CallError::Closed(_)), "{failed}");
    assert_eq!(
        connection.ended().borrow().as_deref(),
        Some("the server ended")
    );
    assert!(matches!(
        call(&connection).await,
        Err(CallError::NotSent(_))
    ));
}

#[tokio::test]
async fn a_connection_that_is_dropped_leaves_nothing() {
    let peer = Peer::legacy(|message| is_call(message).then_some(Act::StopReading));
    let connection = peer.connect().await;
    assert_eq!(peer.running.load(Ordering::SeqCst), 1);
    let _ = call_within(&connection, Duration::from_millis(20)).await;
    drop(connection);
    until(|| peer.running.load(Ordering::SeqCst) == 0).await;
}
