//! No encoding of a secret survives, checked by undoing encodings in another way than the search.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::{Event, OutcomeKind};

fn redact(secrets: &[&str], text: &str) -> String {
    Redactor::new(secrets).redact(text).into_owned()
}

fn redact_json(secrets: &[&str], text: &str) -> String {
    let value = RawValue::from_string(text.to_owned()).unwrap();
    Redactor::new(secrets).redact_json(&value).get().to_owned()
}

#[test]
fn text_without_secrets_is_not_copied() {
    for redactor in [Redactor::new::<&str>([]), Redactor::new(["s3cr3t-value"])] {
        let text = "nothing \\u0073 to %73 see";
        assert!(matches!(redactor.redact(text), Cow::Borrowed(same) if std::ptr::eq(same, text)));
    }
}

#[test]
fn every_encoding_is_found() {
    let secret = "pa\"ss/wörd +1";
    for (encoded, redacted) in [
        ("<pa\"ss/wörd +1>", "<[redacted]>"),
        (r#"{"k":"pa\"ss\/wörd +1"}"#, r#"{"k":"[redacted]"}"#),
        (
            r#"{\"k\":\"pa\\\"ss\\u002fw\\u00F6rd +1\"}"#,
            r#"{\"k\":\"[redacted]\"}"#,
        ),
        ("?k=pa%22ss%2Fw%C3%B6rd%20%2B1&l=", "?k=[redacted]&l="),
        ("?k=p%61%22ss/w%c3%b6rd+%2b1&l=", "?k=[redacted]&l="),
        ("?k=pa%2522ss%252Fw%25C3%25B6rd%2520%252B1", "?k=[redacted]"),
        (r"\npa%22ss/wörd%20%2B1\n", r"\n[redacted]\n"),
    ] {
        assert_eq!(redact(&[secret], encoded), redacted);
    }
}

#[test]
fn base64_is_found_at_every_alignment() {
    for prefix in ["", "u:", "user", "usr:\u{e9}:"] {
        for suffix in ["", ".", "..", "..."] {
            let whole = format!("{prefix}~~?secret?~~>{suffix}");
            for encoded in [
                STANDARD.encode(&whole),
                STANDARD_NO_PAD.encode(&whole),
                URL_SAFE.encode(&whole),
            ] {
                let redacted = redact(&["~~?secret?~~>"], &format!("Basic {encoded};"));
                assert!(redacted.contains(REDACTED), "{encoded} became {redacted}");
                assert!(
                    redacted.len()
                        <= "Basic ;".len()
                            + REDACTED.len()
                            + prefix.len() * 2
                            + suffix.len() * 2
                            + 2
                );
            }
        }
    }
}

#[test]
fn overlapping_secrets_are_one() {
    assert_eq!(
        redact(&["abcdefgh", "efghijkl"], "-abcdefghijkl-"),
        "-[redacted]-"
    );
    assert_eq!(
        redact(&["abcdef", "abcdefgh"], "-abcdefgh-abcdef-"),
        "-[redacted]-[redacted]-"
    );
    assert_eq!(redact(&["abcabc"], "abcabcabc"), "[redacted]");
}

#[test]
fn short_values_and_the_placeholder_are_left() {
    assert_eq!(
        redact(&["short", "", "      "], "a short text"),
        "a short text"
    );
    assert_eq!(redact(&["sechsé"], "-sechsé-"), "-[redacted]-");
    assert_eq!(redact(&["redacted"], "[redacted]"), "[redacted]");
}

#[test]
fn white_space_around_a_value_does_not_count() {
    assert_eq!(
        redact(&["s3cr3t-value\n"], "Bearer s3cr3t-value"),
        "Bearer [redacted]"
    );
}

#[test]
fn what_stands_before_an_escape_cannot_hide_it() {
    assert_eq!(redact(&["nab\"cde"], r#"\nab\"cde"#), r"\[redacted]");
    assert_eq!(redact(&["41bc d"], "%41bc%20d"), "%[redacted]");
}

#[test]
fn json_keeps_everything_else_as_it_was() {
    let text = r#"{ "a" : [1.50, 1e400, "x\u0041\ud800"], "s3cr3t-value": {"b":"\n\u0073\u00333cr3t-value\t"},"c":null}"#;
    let text = text.replace(r"\u00333cr3t", r"\u0033cr3t");
    same_json(
        &redact_json(&["s3cr3t-value"], &text),
        r#"{ "a" : [1.50, 1e400, "x\u0041\ud800"], "[redacted]": {"b":"\n[redacted]\t"},"c":null}"#,
    );
}

#[test]
fn json_numbers_and_values_that_are_secret() {
    same_json(
        &redact_json(&["12345678"], r#"{"pin":-12345678.5,"n":1234567}"#),
        r#"{"pin":"[redacted]","n":1234567}"#,
    );
    same_json(
        &redact_json(&[r#"{"key":"v"}"#], r#"[{"key":"v"}]"#),
        r#""[redacted]""#,
    );
    same_json(
        &redact_json(&[r#"{"key":"v"}"#], r#"["{\"key\":\"v\"}"]"#),
        r#"["[redacted]"]"#,
    );
    same_json(
        &redact_json(&["nabcde"], r#"["\nabcde","abcdef"]"#),
        r#""[redacted]""#,
    );
}

fn same_json(found: &str, wanted: &str) {
    assert_eq!(found, wanted);
    serde_json::from_str::<&RawValue>(found).unwrap();
}

#[test]
fn what_is_learned_later_is_found_by_all_clones() {
    let redactor = Redactor::new(["first-secret"]);
    let other = redactor.clone();
    let text = "first-secret, second-secret";
    assert_eq!(other.redact(text), "[redacted], second-secret");
    redactor.learn(["second-secret", "short", "first-secret"]);
    redactor.learn::<&str>([]);
    assert_eq!(other.redact(text), "[redacted], [redacted]");
    assert_eq!(other.redact("short"), "short");
}

#[test]
fn it_never_tells_what_it_searches_for() {
    assert!(!format!("{:?}", Redactor::new(["s3cr3t-value"])).contains("s3cr3t"));
}

#[test]
fn every_string_of_every_event_is_redacted() {
    let raw = || RawValue::from_string(r#"{"k":["s3cr3t-value"]}"#.to_owned()).unwrap();
    let text = || "s3cr3t-value".to_owned();
    let usage = crate::Tokens::default();
    let outcome = OutcomeKind::Completed;
    #[rustfmt::skip]
    let events = [
        Event::RunStarted { command: text(), question: Some(text()), model: Some(text()), workspace: text(), version: text(), principal: Some(text()) },
        Event::ServerReady { server: text(), era: text(), protocol_version: text(), tools: 0, tokens: 0, took_ms: 0 },
        Event::ServerFailed { server: text(), stage: text(), error: text(), hints: vec![text()], stderr_tail: vec![text()] },
        Event::ServerEnded { server: text(), reason: text() },
        Event::ServerWarned { server: text(), warning: text() },
        Event::ToolSetAside { server: text(), tool: text(), reason: text() },
        Event::QuestionEnded {
            server: text(),
            tool: Some(text()),
            method: text(),
            question: text(),
            answer: crate::QuestionAnswer::Given,
            by: crate::DecidedBy::Person,
            reason: Some(text()),
            traceparent: Some(text()),
            took_ms: None,
        },
        Event::FetchWaits { server: text(), kind: "prompt".to_owned(), name: text(), approval: "0a1b2c3d".to_owned(), until: jiff::Timestamp::UNIX_EPOCH },
        Event::PromptFetched { server: text(), prompt: text(), arguments: [(text(), text())].into(), asked_by: text(), by: None, rule: Some(text()), approval: None, reason: Some(text()), outcome, error: Some(text()), bytes: 0, took_ms: 0 },
        Event::ResourceRead { server: text(), uri: text(), asked_by: text(), by: None, rule: Some(text()), approval: None, reason: Some(text()), outcome, error: Some(text()), bytes: 0, took_ms: 0 },
        Event::PersonSaid { text: text() },
        Event::ModelRetry { turn: 1, attempt: 1, wait_ms: 1, reason: text() },
        Event::ModelAnswered { turn: 1, text: text(), calls: 0, usage, took_ms: 0, counted: None, found: vec![text()] },
        Event::ProviderSearchUnused { model: text(), reason: text() },
        Event::CallProposed { call: 1, turn: None, tool: text(), arguments: text(), client: Some(text()) },
        Event::CallProposed { call: 1, turn: None, tool: text(), arguments: r#"{"k":"\u0073\u0033cr3t-value"}"#.to_owned(), client: None },
        Event::CallPrepared { call: 1, server: text(), raw_tool: text(), arguments: raw(), repairs: vec![text()], artifacts: Vec::new() },
        Event::CallDecided { call: 1, allowed: true, rule: text(), by: crate::DecidedBy::Policy, reason: Some(text()) },
        Event::HookRan { call: Some(1), event: text(), hook: text(), said: crate::HookSaid::Deny, changed: false, reason: Some(text()), took_ms: 0 },
        Event::CallEnded { call: 1, outcome, is_error: false, summary: text(), result: Some(raw()), kept: None, artifacts: Vec::new(), tokens: 0, took_ms: 0 },
        Event::LateAnswer { call: 1, outcome, summary: text(), result: Some(raw()), kept: None },
        Event::MessageAdded { turn: 1, message: raw(), origins: vec![text()], makes_known: vec![] },
        Event::CallCheckable { call: 1, tools: vec![text()] },
        Event::CallRetried { call: 1, attempt: 1, wait_ms: 1, reason: text() },
        Event::CallSettled { of: "20261130-103302-1a2b".parse().unwrap(), call: 1, happened: true, note: Some(text()) },
        Event::RunEnded { status: crate::RunStatus::Done, reason: Some(text()), answer: Some(text()), usage },
    ];
    let redactor = Redactor::new(["s3cr3t-value"]);
    for mut event in events {
        redactor.redact_event(&mut event);
        let text = serde_json::to_string(&event).unwrap();
        assert!(
            text.contains(REDACTED) && !text.contains("cr3t-value"),
            "{text}"
        );
    }
}

/// Letters that matter to the encodings, and some that do not.
fn secret() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 \"\\\\/%+=?&nu<é€😀~\n-]{8,24}"
        .prop_filter("trimmed", |text| text.trim().chars().count() >= 8)
}

fn filler() -> impl Strategy<Value = String> {
    "[a-z0-9 .,;:é\"\\\\%]{0,12}"
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    Plain,
    Json,
    JsonTwice,
    JsonAscii,
    Percent,
    PercentAll,
    Form,
    PercentOfJson,
    JsonOfPercent,
    Base64(usize, usize),
    Base64Url(usize, usize),
}

fn encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![
        Just(Encoding::Plain),
        Just(Encoding::Json),
        Just(Encoding::JsonTwice),
        Just(Encoding::JsonAscii),
        Just(Encoding::Percent),
        Just(Encoding::PercentAll),
        Just(Encoding::Form),
        Just(Encoding::PercentOfJson),
        Just(Encoding::JsonOfPercent),
        (0..4usize, 0..4usize).prop_map(|(before, after)| Encoding::Base64(before, after)),
        (0..4usize, 0..4usize).prop_map(|(before, after)| Encoding::Base64Url(before, after)),
    ]
}

fn json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str, safe: impl Fn(u8) -> bool) -> String {
    text.bytes()
        .map(|byte| {
            if safe(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02x}")
            }
        })
        .collect()
}

fn encode(secret: &str, encoding: Encoding) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    match encoding {
        Encoding::Plain => secret.to_owned(),
        Encoding::Json => json(secret),
        Encoding::JsonTwice => json(&json(secret)),
        Encoding::JsonAscii => {
            let units = secret.encode_utf16();
            units.fold(String::new(), |text, unit| text + &format!("\\u{unit:04X}"))
        }
        Encoding::Percent => percent(secret, plain),
        Encoding::PercentAll => percent(secret, |_| false),
        Encoding::Form => percent(secret, |byte| plain(byte) || byte == b' ').replace(' ', "+"),
        Encoding::PercentOfJson => percent(&json(secret), plain),
        Encoding::JsonOfPercent => json(&percent(secret, plain)),
        Encoding::Base64(before, after) => STANDARD.encode(surrounded(secret, before, after)),
        Encoding::Base64Url(before, after) => URL_SAFE.encode(surrounded(secret, before, after)),
    }
}

fn surrounded(secret: &str, before: usize, after: usize) -> Vec<u8> {
    [
        &b"\xFFu:"[..before.min(3)],
        secret.as_bytes(),
        &b"\n.\xFF"[..after.min(3)],
    ]
    .concat()
}

/// Whether a secret can still be read, trying every base64 alignment.
fn survives(text: &str, secret: &str) -> bool {
    let ascii = |text: &str| {
        [
            text.to_owned(),
            json(text),
            json(&json(text)),
            percent(text, |b| b.is_ascii_alphanumeric()),
        ]
    };
    if ascii(secret)
        .iter()
        .any(|encoded| text.contains(encoded.as_str()))
    {
        return true;
    }
    let standard = text.replace('-', "+").replace('_', "/");
    let runs = standard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '/'));
    runs.flat_map(|run| (0..4).filter_map(|from| run.get(from..)))
        .any(|run| {
            let whole = run.len() - usize::from(run.len() % 4 == 1);
            let engine = base64::engine::GeneralPurpose::new(
                &base64::alphabet::STANDARD,
                base64::engine::GeneralPurposeConfig::new()
                    .with_decode_allow_trailing_bits(true)
                    .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
            );
            engine.decode(&run[..whole]).is_ok_and(|bytes| {
                bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes())
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_encoding_survives(
        secrets in prop::collection::vec(secret(), 1..4),
        parts in prop::collection::vec((filler(), any::<prop::sample::Index>(), encoding()), 1..5),
        end in filler(),
    ) {
        let redactor = Redactor::new(&secrets);
        let mut text = String::new();
        for (filler, which, encoding) in &parts {
            text.push_str(filler);
            // Otherwise a stray `%` or `\` could read as part of the first character.
            text.push('=');
            text.push_str(&encode(which.get(&secrets).trim(), *encoding));
            // Encoded text has an end; what follows is not part of its last character.
            text.push(' ');
        }
        text.push_str(&end);
        let redacted = redactor.redact(&text);
        prop_assert!(redacted.contains(REDACTED), "{text:?} became {redacted:?}");
        for secret in &secrets {
            prop_assert!(!survives(&redacted, secret.trim()), "{secret:?} in {redacted:?} of {text:?}");
        }
    }

    #[test]
    fn json_stays_json_and_holds_no_secret(
        secrets in prop::collection::vec(secret(), 1..4),
        parts in prop::collection::vec((filler(), any::<prop::sample::Index>(), encoding(), any::<bool>()), 1..5),
    ) {
        let redactor = Redactor::new(&secrets);
        let members = parts.iter().map(|(filler, which, encoding, nested)| {
            let text = format!("{filler} {}", encode(which.get(&secrets).trim(), *encoding));
            let member = serde_json::json!({ filler.as_str(): text.as_str(), text.as_str(): 1.5 });
            if *nested { Value::from(member.to_string()) } else { member }
        });
        let text = members.collect::<Value>().to_string();
        let value = RawValue::from_string(text.clone()).unwrap();
        let redacted = redactor.redact_json(&value);
        prop_assert!(redacted.get().contains(REDACTED), "{text} became {redacted}");
        let parsed: Value = serde_json::from_str(redacted.get()).unwrap();
        let mut strings = vec![redacted.get().to_owned()];
        collect(&parsed, &mut strings);
        for secret in &secrets {
            for string in &strings {
                prop_assert!(!survives(string, secret.trim()), "{secret:?} in {redacted} of {text}");
            }
        }
    }

    #[test]
    fn text_without_secrets_stays(text in ".{0,80}", secret in "[A-Z]{12,20}") {
        prop_assume!(!text.contains(&secret));
        let redactor = Redactor::new([secret]);
        prop_assert_eq!(redactor.redact(&text), text.as_str());
    }
}

fn collect(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, strings)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            strings.push(key.clone());
            collect(value, strings);
        }),
        _ => {}
    }
}
