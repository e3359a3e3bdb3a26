//! A child process, spoken to over its standard input and output.
//!
//! Promises: the end of the process ends the link even when something else holds its pipes; output
//! is read until the process is gone, so that a server that says goodbye does not die of it.
//! Leaves out: starting and ending processes, which is outrigger-sandbox's.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use outrigger_sandbox::{Child, Ending, ExitReport, Launch, Patience, Process, SpawnError};
use tokio::sync::watch;

use super::stream::{HeaderFraming, Why, not_taken, read_all, write_all};
use super::{Agreed, Ends, Link, LinkEvent, Tasks};
use crate::connection::CloseReport;
use crate::frame::FrameReader;
use crate::{Limits, StdioSpec};

/// After the process has ended: how long its output may take to end as well.
const DRAIN: Duration = Duration::from_millis(300);

/// After its output or its input has ended: how long to wait for the exit status, for the error's sake.
const STATUS: Duration = Duration::from_millis(500);

pub(crate) struct Stdio {
    child: Child,
    writer: Tasks,
    reader: Tasks,
}

impl Stdio {
    pub(crate) fn open(
        spec: &StdioSpec,
        supervisor: Option<Vec<OsString>>,
        limits: &Limits,
        ends: Ends,
    ) -> Result<Self, SpawnError> {
        let launch = Launch {
            program: spec.command.clone(),
            args: spec.args.clone(),
            env: spec.env.clone(),
            cwd: spec.cwd.clone(),
            supervisor,
            stderr_ring: Launch::STDERR_RING,
        };
        let child = launch.spawn()?;
        let framing = HeaderFraming::default();
        let frames = FrameReader::new(spec.framing, limits.into());
        framing.store(frames.uses_headers(), std::sync::atomic::Ordering::Relaxed);
        let link = Self {
            writer: Tasks::default(),
            reader: Tasks::default(),
            child,
        };
        Ok(link.run(frames, framing, ends))
    }

    fn run(mut self, frames: FrameReader, framing: HeaderFraming, ends: Ends) -> Self {
        let Ends {
            queue,
            inbox,
            watch,
        } = ends;
        if let Some(stdin) = self.child.take_stdin() {
            // A process that is about to end is often first heard of by a broken pipe.
            let exited = self.child.exited();
            let why: Why = Box::new(move |error| {
                let mut exited = exited.clone();
                Box::pin(async move {
                    let _ = tokio::time::timeout(STATUS, until_exited(&mut exited)).await;
                    match exited.borrow().as_ref() {
                        Some(exit) => process_ended(exit),
                        None => not_taken(&error),
                    }
                })
            });
            let means = (framing.clone(), watch.clone());
            self.writer
                .spawn(write_all(stdin, queue, means, (inbox.clone(), why)));
        }
        if let Some(stdout) = self.child.take_stdout() {
            let mut exited = self.child.exited();
            self.reader.spawn(async move {
                let error = {
                    let read = read_all(stdout, frames, (&framing, &watch), inbox.as_ref());
                    tokio::pin!(read);
                    tokio::select! {
                        error = &mut read => error,
                        () = until_exited(&mut exited) => tokio::time::timeout(DRAIN, read).await.unwrap_or_default(),
                    }
                };
                let _ = tokio::time::timeout(STATUS, until_exited(&mut exited)).await;
                let why = why(exited.borrow().as_ref(), error);
                watch.note(&why);
                inbox.receive(LinkEvent::Ended(why));
            });
        }
        self
    }
}

async fn until_exited(exited: &mut watch::Receiver<Option<ExitReport>>) {
    if exited.wait_for(Option::is_some).await.is_err() {
        // The child is gone without a report: there is nothing more to wait for.
        std::future::ready(()).await;
    }
}

fn process_ended(exit: &ExitReport) -> String {
    format!("the server process ended ({exit})")
}

fn why(exit: Option<&ExitReport>, error: Option<std::io::Error>) -> String {
    match (exit, error) {
        (Some(exit), _) => process_ended(exit),
        (None, None) => "the server closed its standard output".to_owned(),
        (None, Some(error)) => format!("its standard output cannot be read ({error})"),
    }
}

impl Link for Stdio {
    fn agreed(&self, _: Option<Agreed>) {}

    fn stderr_tail(&self, lines: usize) -> Vec<String> {
        self.child.stderr().tail(lines)
    }

    fn processes(&self) -> Vec<Process> {
        self.child.processes()
    }

    fn exit(&self) -> Option<String> {
        self.child
            .exited()
            .borrow()
            .as_ref()
            .map(ToString::to_string)
    }

    fn close(&self, limit: Duration) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let begun = Instant::now();
            // Dropping its standard input is how MCP asks a server to end ("Lifecycle", shutdown).
            self.writer.finish().await;
            let steps = limit.saturating_sub(Patience::LAST_RESORT);
            let patience = Patience {
                after_eof: steps.mul_f64(0.45),
                after_term: steps.mul_f64(0.35),
                after_kill: steps.mul_f64(0.2),
            };
            let outcome = self.child.close(patience).await;
            self.reader.finish().await;
            CloseReport {
                took: begun.elapsed(),
                exit: outcome.exit.map(|exit| exit.to_string()),
                forced: match outcome.ending {
                    Ending::ByItself => None,
                    Ending::Terminated => Some("terminated"),
                    Ending::Killed => Some("killed"),
                    Ending::Abandoned => Some("abandoned"),
                },
            }
        })
    }

    fn abort(&self) {
        self.writer.stop();
        self.reader.stop();
    }
}
