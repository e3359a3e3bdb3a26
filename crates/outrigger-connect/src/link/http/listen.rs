//! The GET stream on which a server of the legacy era may say that its tools have changed, or ask.
//!
//! Promises: it holds nothing up, asks at a decreasing rate, and gives up on a server that does not
//! offer it (405, 404, anything that is no event stream).

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderValue;

use super::answer::Facts;
use super::exchange::message_of;
use super::wire::{LAST_EVENT, Wire, exchange_of};
use crate::frame::{SseItem, SseReader};
use crate::link::LinkEvent;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Streams in a row that end without a message.
const FRUITLESS: u32 = 5;

pub(super) async fn run(wire: Arc<Wire>) {
    let mut last_event = None;
    let mut pause = FIRST_PAUSE;
    let mut fruitless = 0;
    while fruitless < FRUITLESS {
        match once(&wire, &mut last_event).await {
            Heard::NotOffered => return,
            Heard::Messages => (pause, fruitless) = (FIRST_PAUSE, 0),
            Heard::Nothing => {
                fruitless += 1;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

enum Heard {
    NotOffered,
    Nothing,
    Messages,
}

async fn once(wire: &Wire, last_event: &mut Option<String>) -> Heard {
    let mut headers = wire.get_headers();
    if let Some(id) = last_event
        .as_deref()
        .and_then(|id| HeaderValue::from_str(id).ok())
    {
        headers.insert(LAST_EVENT, id);
    }
    let answer = wire.send(Method::GET, headers, None).await;
    wire.set_opening(false);
    let Ok(mut answer) = answer else {
        return Heard::Nothing;
    };
    if !Facts::of(&answer, false).is_event_stream() {
        return Heard::NotOffered;
    }
    let exchange = exchange_of(&answer);
    let mut reader = SseReader::new(wire.limits);
    let mut heard = Heard::Nothing;
    while let Ok(Some(chunk)) = answer.chunk().await {
        reader.push(&chunk);
        while let Some(item) = reader.next() {
            match item {
                SseItem::Event(event) => {
                    if event.id.is_some() {
                        last_event.clone_from(&event.id);
                    }
                    if let Some(message) = message_of(event, wire, (None, exchange)) {
                        heard = Heard::Messages;
                        wire.inbox.receive(message);
                    }
                }
                SseItem::Unusable(what) => {
                    wire.watch.carried_unusable(exchange, &what);
                    wire.inbox.receive(LinkEvent::Unusable { what, of: None });
                }
            }
        }
    }
    heard
}
