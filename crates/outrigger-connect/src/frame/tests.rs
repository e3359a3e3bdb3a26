//! The cuts: whatever the pieces in which bytes come, the frames are the same.

use proptest::prelude::*;

use super::*;

const SMALL: FrameLimits = FrameLimits {
    bytes: 200,
    depth: 8,
};

fn read(framing: Framing, limits: FrameLimits, chunks: &[&[u8]]) -> Vec<FrameEvent> {
    let mut reader = FrameReader::new(framing, limits);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.buffer().extend_from_slice(chunk);
        events.extend(std::iter::from_fn(|| reader.next()));
    }
    events.extend(std::iter::from_fn(|| reader.finish()));
    events
}

fn auto(text: &str) -> Vec<String> {
    read(Framing::Auto, SMALL, &[text.as_bytes()])
        .iter()
        .map(show)
        .collect()
}

fn show(event: &FrameEvent) -> String {
    match event {
        FrameEvent::Message(text) => format!("message {}", String::from_utf8_lossy(text)),
        FrameEvent::Noise(line) => format!("noise {line}"),
        FrameEvent::Unusable(what) => format!("unusable {}", what.reason),
    }
}

#[test]
fn lines_in_every_state_of_repair() {
    assert_eq!(
        auto("\u{feff}{\"a\":1}\r\n\r\n\n{\"b\":2}\n"),
        ["message {\"a\":1}", "message {\"b\":2}"]
    );
    assert_eq!(
        auto("[debug] done: {not json}\n{\"a\":1}"),
        ["noise [debug] done: {not json}", "message {\"a\":1}"]
    );
    assert_eq!(
        auto("42\nnull\n\"x\"\n[]\n"),
        ["noise 42", "noise null", "noise \"x\"", "message []"]
    );
    assert_eq!(
        auto("Loading...{\"jsonrpc\":\"2.0\"}{\"jsonrpc\":\"2.0\"} bye\n"),
        [
            "noise Loading...",
            "message {\"jsonrpc\":\"2.0\"}",
            "message {\"jsonrpc\":\"2.0\"}",
            "noise bye"
        ]
    );
    let pretty = "{\n  \"jsonrpc\": \"2.0\",\n  \"result\": {\n    \"a\": \"}\"\n  }\n}\n";
    assert_eq!(auto(pretty), [format!("message {}", pretty.trim())]);
}

#[test]
fn a_broken_message_does_not_swallow_the_next() {
    let next = "{\"jsonrpc\":\"2.0\",\"id\":2}";
    for broken in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"cut",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{",
        "{ starting",
    ] {
        let events = auto(&format!("{broken}\n{next}\n"));
        assert_eq!(
            events.last().unwrap(),
            &format!("message {next}"),
            "{events:?}"
        );
        assert_eq!(events.len(), 2, "{events:?}");
    }
}

#[test]
fn a_batch_may_stand_on_several_lines() {
    let batch = "[\n{\"jsonrpc\":\"2.0\",\"id\":1},\n{\"jsonrpc\":\"2.0\",\"id\":2}\n]";
    assert_eq!(auto(batch), [format!("message {batch}")]);
}

#[test]
fn what_is_too_large_or_too_deep_is_said_and_skipped() {
    let large = format!("{{\"id\":\"1000001\",\"x\":\"{}\"}}", "y".repeat(300));
    let events = read(Framing::Auto, SMALL, &[large.as_bytes(), b"\n{\"a\":1}\n"]);
    let FrameEvent::Unusable(what) = &events[0] else {
        panic!("{events:?}")
    };
    assert!(
        what.reason.contains("larger than the limit of 200 bytes"),
        "{}",
        what.reason
    );
    assert_eq!(find_ids(&what.head).next(), Some("1000001"));
    assert!(what.tail.ends_with(b"yyy\"}"));
    assert_eq!(show(&events[1]), "message {\"a\":1}");
    let deep = format!("{{\"a\":{}\n{{\"b\":1}}\n", "[".repeat(20));
    assert_eq!(
        auto(&deep),
        [
            "unusable the message is nested deeper than the limit of 8 levels (depth)",
            "message {\"b\":1}"
        ]
    );
}

#[test]
fn content_length_is_recognised_and_counts_bytes() {
    let body = "{\"jsonrpc\":\"2.0\",\"x\":\"é\n\"}";
    let frame = format!(
        "Content-Length: {}\r\nContent-Type: x\r\n\r\n{body}",
        body.len()
    );
    let text = format!("starting up\n{frame}log line\r\n{frame}");
    let message = format!("message {body}");
    assert_eq!(
        auto(&text),
        ["noise starting up", &message, "noise log line", &message]
    );
    // Once a message has come on a line, a header is only a line.
    assert_eq!(
        auto("{\"jsonrpc\":\"2.0\"}\nContent-Length: 3\n{}\n")[1..],
        ["noise Content-Length: 3", "message {}"]
    );
}

#[test]
fn a_body_over_the_limit_is_skipped_by_its_length() {
    let text = format!(
        "Content-Length: 300\n\n{}Content-Length: 2\n\n{{}}",
        "x".repeat(300)
    );
    let events = read(Framing::ContentLength, SMALL, &[text.as_bytes()]);
    assert!(
        matches!(
            &events[..],
            [FrameEvent::Unusable(_), FrameEvent::Message(_)]
        ),
        "{events:?}"
    );
}

#[test]
fn text_becomes_unicode() {
    let events = read(
        Framing::Auto,
        SMALL,
        &[b"{\"a\":\"\xff\\ud83d b \\ud83d\\ude00 \\\\ud83d \\ude00\"}\n"],
    );
    assert_eq!(
        show(&events[0]),
        "message {\"a\":\"\u{fffd}\\ufffd b \\ud83d\\ude00 \\\\ud83d \\ufffd\"}"
    );
}

fn sse(limits: FrameLimits, chunks: &[&[u8]]) -> Vec<SseItem> {
    let mut reader = SseReader::new(limits);
    let mut items = Vec::new();
    for chunk in chunks {
        reader.push(chunk);
        items.extend(std::iter::from_fn(|| reader.next()));
    }
    items
}

#[test]
fn events_as_the_standard_has_them() {
    let text = "\u{feff}: hi\n\nid: 1\nretry: 400\ndata:\n\nevent: x\rdata: a\r\ndata:b\r\n\r\nfoo\ndata: last\n";
    let items = sse(SMALL, &[text.as_bytes()]);
    let event = |kind: &str, data: &str, id: Option<&str>, retry| {
        SseItem::Event(SseEvent {
            kind: kind.into(),
            data: data.to_owned().into(),
            id: id.map(Into::into),
            retry,
        })
    };
    assert_eq!(
        items,
        [
            event("", "", Some("1"), Some(400)),
            event("x", "a\nb", None, None)
        ]
    );
}

#[test]
fn an_event_over_the_limit_is_reported_in_bounded_memory() {
    let mut reader = SseReader::new(SMALL);
    reader.push(b"data: {\"id\":\"1000001\",");
    for _ in 0..100 {
        reader.push(&[b'x'; 100]);
        assert_eq!(reader.next(), None);
    }
    reader.push(b"\n\ndata: {}\n\n");
    let items: Vec<_> = std::iter::from_fn(|| reader.next()).collect();
    let [SseItem::Unusable(what), SseItem::Event(next)] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(find_ids(&what.head).next(), Some("1000001"));
    assert_eq!(&next.data[..], b"{}");
}

/// Pieces that streams are made of, so that chance meets the interesting places.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            &b"\n"[..],
            b"\r\n",
            b"\r",
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"",
            b"\\",
            b",",
            b": ",
            b"\xef\xbb\xbf",
            b"\xff",
            b" ",
            b"{\"jsonrpc\":\"2.0\",\"id\":1}",
            b"{\"jsonrpc\"",
            b"{\n",
            b"Content-Length: 5\r\n\r\n",
            b"content-length: 300\n\n",
            b"data: ",
            b"id: 7\n",
            b"event: x\n",
            b"retry: 5\n",
            b"\\ud83d",
            b"noise",
            b"\n\n",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..40),
        (150..260_usize).prop_map(|count| vec![b'x'; count]),
    ]
}

fn stream_and_cuts() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    prop::collection::vec(piece(), 0..40)
        .prop_map(|pieces| pieces.concat())
        .prop_flat_map(|text| {
            let cuts = prop::collection::vec(0..=text.len(), 0..30);
            (Just(text), cuts)
        })
}

fn cut<'a>(text: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.to_vec();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_cuts_do_not_matter((text, cuts) in stream_and_cuts()) {
        for framing in [Framing::Auto, Framing::Newline, Framing::ContentLength] {
            let whole = read(framing, SMALL, &[&text]);
            prop_assert_eq!(&whole, &read(framing, SMALL, &cut(&text, &cuts)));
            let bytewise: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(&whole, &read(framing, SMALL, &bytewise));
        }
    }

    #[test]
    fn the_cuts_of_an_event_stream_do_not_matter((text, cuts) in stream_and_cuts()) {
        let kinds = |items: Vec<SseItem>| -> Vec<Option<SseEvent>> {
            items.into_iter().map(|item| if let SseItem::Event(event) = item { Some(event) } else { None }).collect()
        };
        prop_assert_eq!(kinds(sse(SMALL, &[&text])), kinds(sse(SMALL, &cut(&text, &cuts))));
    }

    #[test]
    fn messages_are_within_the_limits((text, _) in stream_and_cuts()) {
        for event in read(Framing::Auto, SMALL, &[&text]) {
            match event {
                // A byte that is no UTF-8 becomes three.
                FrameEvent::Message(text) => prop_assert!(text.len() <= SMALL.bytes * 3),
                FrameEvent::Unusable(what) => prop_assert!(what.head.len() <= KEEP && what.tail.len() <= KEEP),
                FrameEvent::Noise(_) => {}
            }
        }
    }
}
