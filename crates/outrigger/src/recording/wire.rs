//! What crosses the wire, into a recording: messages with their order, no headers and no addresses.

use std::sync::Arc;

use outrigger_connect::{Crossing, Direction, Tap};
use serde_json::value::RawValue;

use super::{Kind, Line, Recorder};

/// Several watchers as one.
pub(crate) struct All(pub(crate) Vec<Arc<dyn Tap>>);

impl Tap for All {
    fn see(&self, crossing: &Crossing<'_>) {
        for tap in &self.0 {
            tap.see(crossing);
        }
    }
}

impl Tap for Recorder {
    fn see(&self, crossing: &Crossing<'_>) {
        let http = crossing.http.as_ref();
        let mut line = Line::new(Kind::Sent);
        line.server = Some(crossing.server.to_string());
        line.link = Some(crossing.link);
        line.transport = Some(crossing.transport.to_owned());
        line.exchange = http.map(|http| http.exchange);
        let text = crossing.payload.map(String::from_utf8_lossy);
        let message = text
            .as_deref()
            .and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        match (crossing.direction, message, text.as_deref()) {
            (Direction::Out, Some(message), _) => line.body = Some(message.to_owned()),
            (Direction::In, Some(message), _) => {
                line.kind = Kind::Came;
                line.body = Some(message.to_owned());
            }
            (Direction::In, None, Some(text)) => {
                line.kind = Kind::Noise;
                line.text = Some(text.to_owned());
            }
            (Direction::In, None, None) => {
                line.status = http.and_then(|http| http.status);
                line.text = crossing.note.map(ToOwned::to_owned);
                line.kind = match (http, line.status) {
                    (None, _) => Kind::Ended,
                    (Some(_), Some(200..400)) => return,
                    (Some(_), _) => Kind::Refused,
                };
            }
            // The beginning of a stream of events carries no message.
            (Direction::Out, None, _) => return,
        }
        self.add(line);
    }
}
