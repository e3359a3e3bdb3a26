//! A server in this process, over a pipe.
//!
//! Promises: the server's future runs as a task of this link and ends with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use super::stream::{HeaderFraming, Why, not_taken, read_all, write_all};
use super::{Agreed, Ends, Link, LinkEvent, Tasks};
use crate::connection::CloseReport;
use crate::frame::FrameReader;
use crate::{Framing, InProcessSpec, Limits};

/// Bytes that may be under way in one direction before the sender waits.
const PIPE: usize = 256 * 1024;

pub(crate) struct Pipe {
    server: Tasks,
    ours: Tasks,
}

impl Pipe {
    pub(crate) fn open(spec: &InProcessSpec, limits: &Limits, ends: Ends) -> Self {
        let Ends {
            queue,
            inbox,
            watch,
        } = ends;
        let (our_end, their_end) = tokio::io::duplex(PIPE);
        let link = Self {
            server: Tasks::default(),
            ours: Tasks::default(),
        };
        link.server.spawn(spec.0.serve(their_end));
        let served = Arc::clone(&spec.0);
        let (read, write) = tokio::io::split(our_end);
        let framing = HeaderFraming::default();
        let frames = FrameReader::new(Framing::Newline, limits.into());
        let why: Why = Box::new(|error| Box::pin(std::future::ready(not_taken(&error))));
        let means = (framing.clone(), watch.clone());
        link.ours
            .spawn(write_all(write, queue, means, (inbox.clone(), why)));
        link.ours.spawn(async move {
            let error = read_all(read, frames, (&framing, &watch), inbox.as_ref()).await;
            let why = error.map_or_else(
                || {
                    let said = served.farewell();
                    said.unwrap_or_else(|| "the server ended".to_owned())
                },
                |error| format!("its pipe broke ({error})"),
            );
            watch.note(&why);
            inbox.receive(LinkEvent::Ended(why));
        });
        link
    }
}

impl Link for Pipe {
    fn agreed(&self, _: Option<Agreed>) {}

    fn close(&self, limit: Duration) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let begun = Instant::now();
            self.ours.finish().await;
            let forced = if self.server.finished(limit).await {
                None
            } else {
                Some("stopped")
            };
            self.server.finish().await;
            CloseReport {
                took: begun.elapsed(),
                exit: None,
                forced,
            }
        })
    }

    fn abort(&self) {
        self.ours.stop();
        self.server.stop();
    }
}
