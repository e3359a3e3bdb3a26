//! One client over a pair of byte streams, a message a line: standard input and output, a socket.
//!
//! Promises: a client that does not read holds up nobody but itself; when its side is closed, what is
//! under way has a moment to end, and is given up then.
//! Source: MCP, "Transports", stdio.

use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::Framing;
use outrigger_connect::wire::{self, FrameEvent, FrameLimits, FrameReader, Message};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::auth::Admitted;
use crate::changes;
use crate::gateway::{Core, Shared};
use crate::message::{self, Fault};
use crate::outlet::{Outlet, Part};
use crate::session::{Asked, Session};

const CHUNK: usize = 32 << 10;
/// Nesting of a message's JSON.
const DEPTH: usize = 128;
/// What is under way when the client has closed its side may take this long. SDKs wait for 2 s.
const GRACE: Duration = Duration::from_millis(1500);

pub(crate) async fn serve(
    shared: &Arc<Shared>,
    reader: impl AsyncRead + Unpin + Send,
    writer: impl AsyncWrite + Unpin + Send + 'static,
) {
    // Whoever reaches a pipe or the socket is whoever runs the gateway. What cannot be opened was said
    // to them.
    let local = Admitted::local();
    let Ok(core) = &shared.tenants.of(shared, &local).await else {
        return;
    };
    let (outlet, parts) = Outlet::new();
    let session = Session::new(core, &local.pass);
    session.stands(&outlet);
    let written = core.tasks.spawn(write(writer, parts));
    let known = core.views.current().number;
    tokio::select! {
        () = read(core, &session, reader, &outlet) => {}
        () = changes::tell(core, &session, &outlet, Some(known)) => {}
        () = outlet.closed() => {}
        () = core.stop.cancelled() => {}
    }
    if tokio::time::timeout(GRACE, session.idle()).await.is_err() {
        session.cancel();
        tokio::time::timeout(GRACE, session.idle()).await.ok();
    }
    session.cancel();
    drop((outlet, session));
    tokio::time::timeout(GRACE, written).await.ok();
}

async fn read(
    core: &Arc<Core>,
    session: &Arc<Session>,
    mut reader: impl AsyncRead + Unpin,
    outlet: &Outlet,
) {
    let limits = FrameLimits {
        bytes: core.access.now().settings.max_message.value,
        depth: DEPTH,
    };
    let mut frames = FrameReader::new(Framing::Newline, limits);
    loop {
        frames.buffer().reserve(CHUNK);
        let count = reader.read_buf(frames.buffer()).await.unwrap_or(0);
        loop {
            let event = match count {
                0 => frames.finish(),
                _ => frames.next(),
            };
            let Some(event) = event else { break };
            Box::pin(take(core, session, event, outlet)).await;
        }
        if count == 0 {
            return;
        }
    }
}

async fn take(core: &Arc<Core>, session: &Arc<Session>, event: FrameEvent, outlet: &Outlet) {
    let fault = match event {
        FrameEvent::Message(text) => {
            let text = String::from_utf8_lossy(&text);
            match wire::parse(&text) {
                Ok(messages) => {
                    for message in messages {
                        hear(core, session, &message, outlet).await;
                    }
                    return;
                }
                Err(error) => Fault::new(message::PARSE_ERROR, format!("Parse error: {error}")),
            }
        }
        FrameEvent::Noise(line) if line.trim().is_empty() => return,
        FrameEvent::Noise(_) => Fault::new(message::PARSE_ERROR, "Parse error: not a JSON object"),
        FrameEvent::Unusable(what) => Fault::new(message::INVALID_REQUEST, what.reason),
    };
    outlet.end(fault.reply(None)).await;
}

async fn hear(core: &Arc<Core>, session: &Arc<Session>, message: &Message<'_>, outlet: &Outlet) {
    match (&message.method, message.id) {
        (Some(method), Some(id)) => {
            let asked = Asked {
                id,
                method,
                params: message.params,
                outlet: outlet.clone(),
                cancel: core.abort.child_token(),
            };
            session.request(asked).await;
        }
        (Some(_), None) if message.names_id => {
            let fault = Fault::new(message::INVALID_REQUEST, "the id of a request is not null");
            outlet.end(fault.reply(None)).await;
        }
        (Some(method), None) => session.notification(method, message.params),
        (None, _) => session.answered(message),
    }
}

/// Writes until nobody has anything to say any more, or nobody reads.
async fn write(mut writer: impl AsyncWrite + Unpin, mut parts: mpsc::Receiver<Part>) {
    while let Some(part) = parts.recv().await {
        let body = match part {
            Part::Message(body) | Part::End(crate::outlet::Reply { body, .. }) => body,
        };
        let written = async {
            writer.write_all(&body).await?;
            writer.write_all(b"\n").await?;
            writer.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}
