//! The life of one call: `prepare → hooks → authorize → dispatch → finish → hooks`, and exactly one end in the
//! journal whatever happens, also when the caller stops waiting. Every way in (agent, command line,
//! gateway, library) comes through [`Host::call`]; there is no other road to a server.

mod authorize;
mod dispatch;
mod finish;
mod hooked;
mod late;
mod prepare;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{Progress, ServerName};
use outrigger_journal::{Event, OutcomeKind, Run};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub use authorize::Permit;
pub(crate) use authorize::Sessions;

use self::late::LateAnswers;
use crate::catalog::CatalogTool;
use crate::host::Host;
use crate::offers::Target;
use crate::outcome::{CallOutcome, Rejection};
use crate::policy::Principal;
use crate::toolset::Toolset;
use crate::words::{self, Words};

/// A call as somebody asked for it. Nothing has been checked.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// Model-facing name, as written.
    pub tool: String,
    /// JSON text of an object, as written; empty counts as `{}`.
    pub arguments: String,
    /// The turn that asked for it, for runs with a model.
    pub turn: Option<u32>,
}

/// How a call is to be made.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Gives up on the call; the server is told.
    pub cancel: CancellationToken,
    /// Instead of the server's own deadline.
    pub deadline: Option<Duration>,
    /// Who wants it, for rules that ask.
    pub principal: Principal,
    /// Hears the server's progress.
    pub on_progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

/// A finished call.
#[derive(Debug)]
pub struct CallReport {
    /// Its number within the run.
    pub call: u32,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The server whose data may be among `words`; `None` when all of them are ours.
    pub origin: Option<ServerName>,
    /// What the model reads about it.
    pub words: Vec<Words>,
    /// One line for a person.
    pub summary: String,
    /// From sending to the end; zero when nothing was sent.
    pub took: Duration,
}

impl Host {
    /// Makes one call out of the tools of `toolset`.
    pub async fn call(
        &self,
        toolset: &Toolset,
        proposed: ProposedCall,
        context: CallContext,
    ) -> CallReport {
        let mut line = LedgerLine::open(self.run(), self.next_call(), &proposed);
        let outcome = self.stages(toolset, &proposed, context, &mut line).await;
        let speaker = self.speaker(&line);
        let mut words = words::for_model(
            &outcome,
            speaker.as_ref().map(ServerName::as_str),
            &self.checks(toolset, &proposed.tool),
        );
        let restarted = line
            .server
            .as_ref()
            .filter(|server| self.take_restarted(server));
        if let Some(server) = restarted {
            words.insert(0, words::restarted(server.as_str()));
        }
        let remarks = usize::from(restarted.is_some());
        self.clean(&mut words);
        let summary = words::for_person(&outcome);
        let summary = self.redactor().redact(&summary).into_owned();
        let took = line.close(&outcome, &words, &summary);
        let origin = speaker.filter(|_| shows_a_server(&outcome));
        // Whatever becomes of the hooks, how the call ended is written.
        let shown = hooked::Shown {
            words: &mut words,
            remarks,
            framed: matches!(outcome, CallOutcome::Completed(_)),
        };
        self.after_call(&proposed, &outcome, &line, shown).await;
        CallReport {
            call: line.call,
            outcome,
            origin,
            words,
            summary,
            took,
        }
    }

    /// Whose words the answer holds: another server's, where that is what the call was about.
    fn speaker(&self, line: &LedgerLine) -> Option<ServerName> {
        let target = match (&line.tool, &line.arguments) {
            (Some(tool), Some(arguments)) => Target::of(tool, arguments.get()),
            _ => None,
        };
        let target = target.map(|target| target.server);
        target
            .filter(|server| self.standing_of(server).is_some())
            .or_else(|| line.server.clone())
    }

    /// Takes secrets out of what the model reads.
    fn clean(&self, words: &mut [Words]) {
        for words in words {
            if let Words::Text(text) = words
                && let Cow::Owned(clean) = self.redactor().redact(text)
            {
                *text = clean;
            }
        }
    }

    async fn stages(
        &self,
        toolset: &Toolset,
        proposed: &ProposedCall,
        context: CallContext,
        line: &mut LedgerLine,
    ) -> CallOutcome {
        if context.cancel.is_cancelled() {
            return CallOutcome::Rejected(Rejection::Cancelled);
        }
        let prepared = match prepare::prepare(toolset, proposed) {
            Ok(prepared) => prepared,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        line.prepared(&prepared);
        let asked = hooked::Asked {
            toolset,
            proposed,
            cancel: &context.cancel,
        };
        let prepared = match self.before_call(&asked, prepared, line).await {
            Ok(prepared) => prepared,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        let permit = match self.authorize(prepared, &context, line).await {
            Ok(permit) => permit,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        let outcome = self.dispatch(permit, context, line).await;
        if let (Some(server), true) = (self.speaker(line), shows_a_server(&outcome)) {
            self.came_from(server.as_str());
        }
        outcome
    }
}

/// Whether what is told of it can hold words of the server.
fn shows_a_server(outcome: &CallOutcome) -> bool {
    !matches!(outcome, CallOutcome::Rejected(_))
}

/// The call's line in the ledger. Dropped without [`LedgerLine::close`] (the caller stopped
/// waiting), it still writes its one end.
pub(crate) struct LedgerLine {
    run: Run,
    call: u32,
    server: Option<ServerName>,
    tool: Option<Arc<CatalogTool>>,
    arguments: Option<Box<RawValue>>,
    sent: Option<Instant>,
    answered: Option<Box<RawValue>>,
    late: Arc<LateAnswers>,
    closed: bool,
}

impl LedgerLine {
    fn open(run: &Run, call: u32, proposed: &ProposedCall) -> Self {
        run.record(Event::CallProposed {
            call,
            turn: proposed.turn,
            tool: proposed.tool.clone(),
            arguments: proposed.arguments.clone(),
        });
        Self {
            run: run.clone(),
            call,
            server: None,
            tool: None,
            arguments: None,
            sent: None,
            answered: None,
            late: Arc::default(),
            closed: false,
        }
    }

    fn prepared(&mut self, prepared: &prepare::Prepared) {
        self.server = Some(prepared.tool.server.clone());
        self.tool = Some(Arc::clone(&prepared.tool));
        self.arguments = Some(prepared.arguments.raw.clone());
        self.run.record(Event::CallPrepared {
            call: self.call,
            server: prepared.tool.server.to_string(),
            raw_tool: prepared.tool.raw_name.clone(),
            arguments: prepared.arguments.raw.clone(),
            repairs: prepared.arguments.repairs.clone(),
        });
    }

    fn close(&mut self, outcome: &CallOutcome, words: &[Words], summary: &str) -> Duration {
        let tokens = words.iter().map(|words| match words {
            Words::Text(text) => crate::tokens::estimate(text),
            Words::Image { .. } => IMAGE_TOKENS,
        });
        self.end(
            outcome.kind(),
            outcome.is_error(),
            summary.to_owned(),
            tokens.sum(),
        )
    }

    fn end(
        &mut self,
        outcome: OutcomeKind,
        is_error: bool,
        summary: String,
        tokens: u64,
    ) -> Duration {
        let took = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
        self.closed = true;
        self.run.record(Event::CallEnded {
            call: self.call,
            outcome,
            is_error,
            summary,
            result: self.answered.take(),
            tokens,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        self.late.ended(&self.run);
        took
    }
}

/// What an image costs a model to read, about; providers count by size.
const IMAGE_TOKENS: u64 = 1000;

impl Drop for LedgerLine {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let (kind, summary) = match self.sent {
            Some(_) => (
                OutcomeKind::Unknown,
                "outcome unknown: the host stopped waiting for the answer",
            ),
            None => (
                OutcomeKind::Rejected,
                "the host stopped before anything was sent",
            ),
        };
        self.end(kind, true, summary.to_owned(), 0);
    }
}
