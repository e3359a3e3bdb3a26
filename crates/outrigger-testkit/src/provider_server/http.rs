//! As much of HTTP/1.1 as the scripted provider needs, by hand, because its purpose is to break it:
//! pieces of any size, a connection that is cut in the middle, a stream that stands still.
//!
//! One request for each connection. Only bodies with a length are read.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::script::Delivery;

/// The largest request that is read, in bytes.
const LARGEST_REQUEST: usize = 64 * 1024 * 1024;

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An answer, ready to be sent.
pub(super) struct Answer {
    status: u16,
    content_type: String,
    pub(super) headers: Vec<(String, String)>,
    /// The body in the pieces in which it is sent unless the delivery says otherwise.
    pieces: Vec<String>,
    delivery: Delivery,
}

/// How sending ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// The answer stood still until the client went away.
    HungUp,
}

impl Answer {
    pub(super) fn new(
        status: u16,
        content_type: &str,
        pieces: Vec<String>,
        delivery: Delivery,
    ) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            pieces,
            delivery,
        }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(
            status,
            "application/json",
            vec![body.to_string()],
            Delivery::default(),
        )
    }

    pub(super) fn plain(status: u16, body: &str) -> Self {
        Self::new(
            status,
            "text/plain",
            vec![body.to_owned()],
            Delivery::default(),
        )
    }

    fn head(&self) -> String {
        let kind = Some(("content-type", &*self.content_type)).filter(|(_, kind)| !kind.is_empty());
        let named = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let fixed = [("connection", "close"), ("transfer-encoding", "chunked")];
        let all = kind.into_iter().chain(named).chain(fixed);
        let lines: Vec<String> = all
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "HTTP/1.1 {} Scripted\r\n{}\r\n",
            self.status,
            lines.concat()
        )
    }

    /// The body, and where it is cut into pieces.
    fn body(&self) -> (Vec<u8>, Vec<usize>) {
        let body = self.pieces.concat().into_bytes();
        let delivery = &self.delivery;
        let mut cuts = delivery.split_at.clone();
        if let Some(every) = delivery.every.filter(|every| *every > 0) {
            cuts.extend((0..body.len()).step_by(every));
        }
        if cuts.is_empty() {
            let ends = self.pieces.iter().scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            });
            cuts.extend(ends);
        }
        cuts.extend(delivery.cut_at);
        cuts.extend(delivery.stall_at);
        cuts.extend([0, body.len()]);
        cuts.retain(|cut| *cut <= body.len());
        cuts.sort_unstable();
        cuts.dedup();
        (body, cuts)
    }
}

/// Reads one request. `None`: the client said nothing sensible.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > 64 * 1024 || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (first.next(), first.next()) else {
        return Ok(None);
    };
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse::<usize>().ok())
        .unwrap_or(0);
    if length > LARGEST_REQUEST {
        return Ok(None);
    }
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body,
    }))
}

/// Sends the answer as its delivery says.
pub(super) async fn write(stream: &mut TcpStream, answer: &Answer) -> io::Result<Outcome> {
    stream.write_all(answer.head().as_bytes()).await?;
    stream.flush().await?;
    let (body, cuts) = answer.body();
    let delivery = &answer.delivery;
    for pair in cuts.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if delivery.cut_at.is_some_and(|cut| from >= cut) {
            return Ok(Outcome::Sent);
        }
        if delivery.stall_at.is_some_and(|stall| from >= stall) {
            return stand_still(stream).await;
        }
        if from > 0 && delivery.pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delivery.pause_ms)).await;
        }
        let mut frame = format!("{:x}\r\n", to - from).into_bytes();
        frame.extend_from_slice(&body[from..to]);
        frame.extend_from_slice(b"\r\n");
        stream.write_all(&frame).await?;
        stream.flush().await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await?;
    Ok(Outcome::Sent)
}

async fn stand_still(stream: &mut TcpStream) -> io::Result<Outcome> {
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
    Ok(Outcome::HungUp)
}
