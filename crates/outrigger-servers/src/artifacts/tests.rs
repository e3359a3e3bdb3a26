//! Slices and matches over contents in memory.

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

#[derive(Debug)]
struct Memory(Vec<u8>);

impl ArtifactReader for Memory {
    fn find<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Artifact, String>> {
        let found = if handle == "artifact://0123456789abcdef" {
            Ok(Artifact {
                handle: handle.to_owned(),
                size: self.0.len() as u64,
                media_type: "text/plain".to_owned(),
            })
        } else {
            Err("it was never given".to_owned())
        };
        ready(found).boxed()
    }

    fn read<'a>(
        &'a self,
        artifact: &'a Artifact,
        start: u64,
        end: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        assert!(start <= end && end <= artifact.size, "{start}..{end}");
        let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
        ready(Ok(self.0[range].to_vec())).boxed()
    }
}

/// What a tool answers: its texts, or its error.
fn ask(content: &[u8], name: &str, mut arguments: Value) -> String {
    let tools = ArtifactTools::new(Some(Arc::new(Memory(content.to_vec()))));
    let tool = tools.tools().iter().find(|tool| tool.name == name).unwrap();
    arguments
        .as_object_mut()
        .unwrap()
        .entry("artifact")
        .or_insert(json!("artifact://0123456789abcdef"));
    let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
    let call = Call {
        tool,
        arguments: Some(arguments),
        cancelled: CancellationToken::new(),
    };
    let answered = tools.call(call).now_or_never().unwrap();
    match answered {
        Ok(reply) => {
            let result = serde_json::to_value(CallToolResult::from(reply)).unwrap();
            let texts = result["content"].as_array().unwrap().iter();
            let texts: Vec<_> = texts.map(|block| block["text"].as_str().unwrap()).collect();
            texts.join("\n-- ")
        }
        Err(error) => format!("error: {error}"),
    }
}

fn lines(count: usize) -> String {
    let lines: Vec<_> = (1..=count).map(|n| format!("line {n}\n")).collect();
    lines.concat()
}

/// Contents, and what is asked for of them.
fn slices() -> Vec<(&'static [u8], Value)> {
    let json = br#"{"rows":[{"id":1,"name":"a"},{"id":2.50}],"a/b":{"~":null}}"#.as_slice();
    let small = b"one\ntwo\nthree".as_slice();
    vec![
        (small, json!({})),
        (small, json!({"line": 2, "limit": 1})),
        (small, json!({"line": 3})),
        (small, json!({"line": 4})),
        (small, json!({"byte": 4, "limit": 3})),
        (small, json!({"byte": 13})),
        (small, json!({"byte": 1, "line": 1})),
        (small, json!({"pointer": "/a"})),
        (json, json!({"pointer": "/rows/1"})),
        (json, json!({"pointer": "/a~1b/~0"})),
        (json, json!({"pointer": "/rows", "byte": 1, "limit": 9})),
        (json, json!({"pointer": "/rows/7"})),
        (json, json!({"pointer": "/row"})),
        (json, json!({"pointer": "rows"})),
        (b"", json!({})),
        (b"\xff\xfe\n", json!({})),
        (small, json!({"artifact": "artifact://fedcba9876543210"})),
    ]
}

#[test]
fn slices_say_where_they_stand() {
    let mut told = Vec::new();
    for (content, arguments) in slices() {
        let answer = ask(content, "read_artifact", arguments.clone());
        told.push(format!("{arguments}\n  {}\n", answer.replace('\n', "\n  ")));
    }
    let told = told.concat();
    insta::assert_snapshot!(told, @r#"
    {}
      one
      two
      three
      -- Lines 1 to 3, bytes 0 to 13 of 13.
    {"line":2,"limit":1}
      two
      
      -- Line 2, bytes 4 to 8 of 13. For more: line 3.
    {"line":3}
      three
      -- Line 3, bytes 8 to 13 of 13.
    {"line":4}
      error: there is no line 4: the artifact has 3
    {"byte":4,"limit":3}
      two
      -- bytes 4 to 7 of 13. For more: byte 7.
    {"byte":13}
      error: there is no byte 13: the artifact has 13
    {"byte":1,"line":1}
      error: give either `line`, `byte` or `pointer`, not several of them
    {"pointer":"/a"}
      error: the artifact is no JSON (expected value at line 1 column 1), so `pointer` cannot be used
    {"pointer":"/rows/1"}
      {"id":2.50}
      -- bytes 0 to 11 of 11.
    {"pointer":"/a~1b/~0"}
      null
      -- bytes 0 to 4 of 4.
    {"pointer":"/rows","byte":1,"limit":9}
      {"id":1,"
      -- bytes 1 to 10 of 33. For more: byte 10.
    {"pointer":"/rows/7"}
      error: there is nothing at `/rows/7`: `/rows` is a list of 2, counted from 0
    {"pointer":"/row"}
      error: there is nothing at `/row`: the whole is an object with `rows`, `a/b`
    {"pointer":"rows"}
      error: `pointer` must be empty or begin with `/` (RFC 6901), as in `/rows/0/name`
    {}
      bytes 0 to 0 of 0.
    {}
      ��
      
      -- Line 1, bytes 0 to 3 of 3. Bytes that are no text are shown as U+FFFD.
    {"artifact":"artifact://fedcba9876543210"}
      error: `artifact://fedcba9876543210` cannot be read: it was never given
    "#);
}

#[test]
fn a_long_content_is_read_to_its_end() {
    let content = lines(40_000);
    let mut read = String::new();
    let mut line = 1;
    loop {
        let answer = ask(content.as_bytes(), "read_artifact", json!({"line": line}));
        let (text, note) = answer.rsplit_once("\n-- ").unwrap();
        assert!(text.len() <= ANSWER);
        read.push_str(text);
        match note.split_once("For more: line ") {
            Some((_, next)) => line = next.trim_end_matches('.').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(read, content);
    let last = ask(content.as_bytes(), "read_artifact", json!({"line": 40_000}));
    assert!(last.starts_with("line 40000\n"), "{last}");
}

#[test]
fn a_giant_line_is_read_by_bytes_and_no_character_is_lost() {
    let content = "aé漢😀".repeat(10_000);
    let (mut read, mut byte) = (String::new(), 0);
    loop {
        let answer = ask(content.as_bytes(), "read_artifact", json!({"byte": byte}));
        let (text, note) = answer.rsplit_once("\n-- ").unwrap();
        read.push_str(text);
        match note.split_once("For more: byte ") {
            Some((_, next)) => byte = next.trim_end_matches('.').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(read, content);
}

#[test]
fn matches_name_their_line() {
    let content = format!("{}needle in 1\r\n{}a needle\n", lines(3000), lines(200_000));
    insta::assert_snapshot!(ask(content.as_bytes(), "search_artifact", json!({"pattern": "needle"})), @r"
    3001: needle in 1
    203002: a needle
    ");
    insta::assert_snapshot!(ask(content.as_bytes(), "search_artifact", json!({"pattern": "NEEDLE"})), @"No match in 203002 lines.");
    insta::assert_snapshot!(ask(content.as_bytes(), "search_artifact", json!({"pattern": "(?i)NEEDLE$", "line": 3002})), @"203002: a needle");
    let many = ask(
        content.as_bytes(),
        "search_artifact",
        json!({"pattern": "line"}),
    );
    assert!(
        many.ends_with("-- There are more matches. For these: line 41, or another pattern."),
        "{many}"
    );
    let bad = ask(b"", "search_artifact", json!({"pattern": "("}));
    assert!(
        bad.starts_with("error: `pattern` is no regular expression"),
        "{bad}"
    );
}

#[test]
fn a_giant_line_is_shown_around_its_matches() {
    let content = format!("{}needle{}", "x".repeat(3_000_000), "y".repeat(1000));
    let found = ask(
        content.as_bytes(),
        "search_artifact",
        json!({"pattern": "needle"}),
    );
    let around = format!(
        "1 (byte 3000000): …{}needle{}…",
        "x".repeat(AROUND_SHOWN),
        "y".repeat(AROUND_SHOWN - 6)
    );
    assert_eq!(found, around);
}

const AROUND_SHOWN: usize = 100;
