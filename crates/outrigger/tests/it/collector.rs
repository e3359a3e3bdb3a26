//! An OTLP receiver: HTTP over a real socket, bodies read with the official protobuf types.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Held;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

/// What it was sent.
#[derive(Default)]
pub(crate) struct Received {
    /// Of each request: first line, headers (names in small letters), body.
    pub(crate) requests: Vec<(String, BTreeMap<String, String>, Vec<u8>)>,
}

pub(crate) struct Collector {
    port: u16,
    received: Arc<Mutex<Received>>,
}

/// One span, as plain as a test wants it.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<(String, BTreeMap<String, String>)>,
    pub(crate) links: Vec<String>,
    pub(crate) failed: bool,
    pub(crate) took: u64,
    pub(crate) resource: BTreeMap<String, String>,
}

impl Collector {
    /// Answers every request with this status.
    pub(crate) fn answering(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Received::default()));
        let sink = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sink = Arc::clone(&sink);
                thread::spawn(move || serve(stream, status, &sink));
            }
        });
        Self { port, received }
    }

    pub(crate) fn new() -> Self {
        Self::answering("200 OK")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<(String, BTreeMap<String, String>, Vec<u8>)> {
        self.received.lock().unwrap().requests.clone()
    }

    /// All spans, in the order in which they began.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for (_, _, body) in self.received() {
            let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            for of_resource in request.resource_spans {
                let resource = attributes(&of_resource.resource.unwrap_or_default().attributes);
                for scope in of_resource.scope_spans {
                    assert_eq!(scope.scope.unwrap().name, "outrigger");
                    spans.extend(scope.spans.into_iter().map(|span| {
                        let begun = span.start_time_unix_nano;
                        (begun, plain(span, &resource))
                    }));
                }
            }
        }
        spans.sort_by_key(|(begun, _)| *begun);
        spans.into_iter().map(|(_, span)| span).collect()
    }
}

fn serve(stream: TcpStream, status: &str, sink: &Mutex<Received>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let request = (first.trim_end().to_owned(), headers, body);
        sink.lock().unwrap().requests.push(request);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn plain(
    span: opentelemetry_proto::tonic::trace::v1::Span,
    resource: &BTreeMap<String, String>,
) -> Span {
    let kind = span.kind();
    let events = span
        .events
        .iter()
        .map(|event| (event.name.clone(), attributes(&event.attributes)));
    Span {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name.clone(),
        kind,
        attributes: attributes(&span.attributes),
        events: events.collect(),
        links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
        failed: span
            .status
            .is_some_and(|status| status.code() == StatusCode::Error),
        took: span.end_time_unix_nano - span.start_time_unix_nano,
        resource: resource.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Held::StringValue(text)) => text.clone(),
        Some(Held::IntValue(number)) => number.to_string(),
        Some(Held::BoolValue(yes)) => yes.to_string(),
        other => panic!("{other:?}"),
    };
    attributes
        .iter()
        .map(|pair| (pair.key.clone(), text(&pair.value)))
        .collect()
}

/// The tree as text: a span a line, under its parent, with the attributes named, and its failure.
pub(crate) fn tree(spans: &[Span], shown: &[&str]) -> String {
    fn add(out: &mut String, spans: &[Span], parent: &str, depth: usize, shown: &[&str]) {
        for span in spans.iter().filter(|span| span.parent == parent) {
            let pad = "  ".repeat(depth);
            let attributes = shown.iter().filter_map(|key| {
                let value = span.attributes.get(*key)?;
                Some(format!(" {}={value}", key.rsplit('.').next().unwrap()))
            });
            let attributes: String = attributes.collect();
            let events: Vec<_> = span.events.iter().map(|(name, _)| name.as_str()).collect();
            let events = if events.is_empty() {
                String::new()
            } else {
                format!(" [{}]", events.join(", "))
            };
            let failed = if span.failed { " FAILED" } else { "" };
            let _ = writeln!(out, "{pad}{}{attributes}{events}{failed}", span.name);
            add(out, spans, &span.id, depth + 1, shown);
        }
    }
    let mut out = String::new();
    let known = |id: &str| spans.iter().any(|span| span.id == id);
    let roots = spans.iter().filter(|span| !known(&span.parent));
    let mut above: Vec<_> = roots.map(|span| span.parent.clone()).collect();
    above.dedup();
    for parent in above {
        add(&mut out, spans, &parent, 0, shown);
    }
    out
}
