//! Where hooks come into a call: before it is decided about, and after it was sent.
//!
//! What a hook makes of the arguments is checked against the schema again and then decided about like
//! any other. The journal keeps the answer as it came, whatever hooks make of it for the model.

use std::sync::Arc;

use outrigger_journal::{DecidedBy, Event, HookSaid, OutcomeKind, REDACTED};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::prepare::Prepared;
use super::{LedgerLine, ProposedCall};
use crate::catalog::CatalogTool;
use crate::config::{Decision, HookEvent};
use crate::hidden;
use crate::hooks::{AfterAnswer, Answered, BeforeAnswer, Note, Word, no_reason};
use crate::host::Host;
use crate::outcome::{CallOutcome, Rejection};
use crate::policy::Principal;
use crate::toolset::Toolset;
use crate::words::{self, Words};

/// What a call was asked for with.
pub(super) struct Asked<'a> {
    pub(super) toolset: &'a Toolset,
    pub(super) proposed: &'a ProposedCall,
    pub(super) principal: Principal,
    pub(super) cancel: &'a CancellationToken,
}

/// A call that was sent, and how it ended.
pub(super) struct About<'a> {
    /// Its number; `None` for a call of another run.
    pub(super) call: Option<u32>,
    pub(super) turn: Option<u32>,
    pub(super) tool: &'a Arc<CatalogTool>,
    pub(super) arguments: &'a RawValue,
    pub(super) outcome: OutcomeKind,
    pub(super) is_error: bool,
}

/// What the model is about to read: remarks of ours, the frame of a result, what its server returned.
pub(super) struct Shown<'a> {
    pub(super) words: &'a mut Vec<Words>,
    /// How many of them are remarks.
    pub(super) remarks: usize,
    /// Whether a frame follows.
    pub(super) framed: bool,
    /// Whether a hook has changed it, or kept it back.
    pub(super) changed: bool,
}

/// What a hook is told about a call.
#[derive(Serialize)]
struct Input<'a> {
    event: &'static str,
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    tool: &'a str,
    server: &'a str,
    raw_tool: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    /// What the model is about to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Host {
    /// Runs the `before_call` hooks, one after the other: each is told what the one before it left.
    pub(super) async fn before_call(
        &self,
        asked: &Asked<'_>,
        mut prepared: Prepared,
        line: &mut LedgerLine,
    ) -> Result<Prepared, Rejection> {
        let tool = std::sync::Arc::clone(&prepared.tool);
        for hook in self.hooks().about(HookEvent::BeforeCall, &tool) {
            let input = Input {
                event: HookEvent::BeforeCall.as_str(),
                run: line.run.id().as_str(),
                call: Some(line.call),
                turn: asked.proposed.turn,
                tool: tool.name.as_str(),
                server: tool.server.as_str(),
                raw_tool: &tool.raw_name,
                arguments: &prepared.arguments.raw,
                outcome: None,
                is_error: None,
                text: None,
            };
            let input = serde_json::to_string(&input).unwrap_or_default();
            let answered = tokio::select! {
                () = asked.cancel.cancelled() => return Err(Rejection::Cancelled),
                answered = self.hooks().ask(hook, &input) => answered,
            };
            prepared = self.take(asked, prepared, &answered, line).await?;
        }
        Ok(prepared)
    }

    /// Runs the `after_call` hooks of a call that was sent. They change what the model reads, and
    /// nothing else.
    pub(super) async fn after_call(&self, about: &About<'_>, shown: &mut Shown<'_>) {
        let sent = !matches!(about.outcome, OutcomeKind::Rejected | OutcomeKind::NotSent);
        if !sent || !self.hooks().has(HookEvent::AfterCall) {
            return;
        }
        let tool = about.tool;
        for hook in self.hooks().about(HookEvent::AfterCall, tool) {
            let input = Input {
                event: HookEvent::AfterCall.as_str(),
                run: self.run().id().as_str(),
                call: about.call,
                turn: about.turn,
                tool: tool.name.as_str(),
                server: tool.server.as_str(),
                raw_tool: &tool.raw_name,
                arguments: about.arguments,
                outcome: Some(about.outcome.as_str()),
                is_error: Some(about.is_error),
                text: Some(&shown.text()),
            };
            let input = serde_json::to_string(&input).unwrap_or_default();
            let answered: Answered<AfterAnswer> = self.hooks().ask(hook, &input).await;
            let mut note = Note::default();
            let said = match &answered.answer {
                Ok(None) => HookSaid::Nothing,
                Ok(Some(answer)) => {
                    note.changed = shown.change(answer);
                    HookSaid::Nothing
                }
                Err(fault) => {
                    let (said, reason) = fault.told();
                    shown.withhold(&reason);
                    note = Note {
                        changed: true,
                        reason: Some(reason),
                    };
                    said
                }
            };
            shown.changed |= note.changed;
            answered.record(self.run(), about.call, said, note);
        }
        self.clean(shown.words);
    }

    /// What one answer makes of the call.
    async fn take(
        &self,
        asked: &Asked<'_>,
        mut prepared: Prepared,
        answered: &Answered<BeforeAnswer>,
        line: &mut LedgerLine,
    ) -> Result<Prepared, Rejection> {
        let hook = answered.hook.clone();
        let (answer, said, reason) = match &answered.answer {
            Ok(None) => (None, HookSaid::Nothing, None),
            Ok(Some(answer)) => {
                let said = match answer.decision {
                    None => HookSaid::Nothing,
                    Some(Word::Allow) => HookSaid::Allow,
                    Some(Word::Ask) => HookSaid::Ask,
                    Some(Word::Deny) => HookSaid::Deny,
                };
                (Some(answer), said, answer.reason.clone())
            }
            Err(fault) => {
                let (said, reason) = fault.told();
                (None, said, Some(reason))
            }
        };
        let arguments = answer.and_then(|answer| answer.arguments.as_deref());
        let note = Note {
            changed: arguments.is_some(),
            reason: reason.clone(),
        };
        answered.record(&line.run, Some(line.call), said, note);
        match said {
            HookSaid::Deny | HookSaid::Failed => {
                return Err(denied(line, hook, reason.unwrap_or_else(no_reason)));
            }
            HookSaid::Allow => prepared.say.add(Decision::Allow, &hook, reason),
            HookSaid::Ask => prepared.say.add(Decision::Ask, &hook, reason),
            HookSaid::Nothing => {}
        }
        let Some(arguments) = arguments else {
            return Ok(prepared);
        };
        let changed = ProposedCall {
            tool: asked.proposed.tool.clone(),
            arguments: arguments.get().to_owned(),
            turn: asked.proposed.turn,
        };
        let again = self.prepare(asked.toolset, &changed, asked.principal).await;
        let mut again = again.map_err(|rejection| {
            let unfit = words::for_person(&CallOutcome::Rejected(rejection));
            denied(
                line,
                hook,
                format!("it changed the arguments to what the tool does not take: {unfit}"),
            )
        })?;
        again.say = prepared.say;
        line.prepared(&again);
        Ok(again)
    }
}

impl Shown<'_> {
    /// Where what the server returned begins.
    fn data(&self) -> usize {
        self.remarks + usize::from(self.framed)
    }

    fn text(&self) -> String {
        let data = self.words.iter().skip(self.data());
        let texts = data.filter_map(|words| match words {
            Words::Text(text) => Some(text.as_str()),
            Words::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Applies an answer; whether it changed anything. What a hook makes of data is still data, and
    /// stays behind its frame; what it has to say itself stands before it.
    fn change(&mut self, answer: &AfterAnswer) -> bool {
        let mut changed = false;
        let data = self.data();
        if let Some(text) = &answer.text {
            self.words.truncate(data);
            self.words.push(plain(text));
            changed = true;
        }
        for hidden in answer.redact.iter().filter(|hidden| !hidden.is_empty()) {
            for words in self.words.iter_mut().skip(data) {
                if let Words::Text(text) = words
                    && text.contains(hidden.as_str())
                {
                    *text = text.replace(hidden.as_str(), REDACTED);
                    changed = true;
                }
            }
        }
        let context = answer.context.as_deref();
        if let Some(context) = context.filter(|context| !context.trim().is_empty()) {
            self.words.insert(self.remarks, plain(context));
            self.remarks += 1;
            changed = true;
        }
        changed
    }

    /// Keeps everything back.
    pub(super) fn withhold(&mut self, reason: &str) {
        self.words.truncate(self.remarks);
        self.words.push(words::withheld(reason));
        self.framed = false;
    }
}

fn plain(text: &str) -> Words {
    Words::Text(hidden::escape(text).into_owned())
}

fn denied(line: &LedgerLine, hook: String, reason: String) -> Rejection {
    line.run.record(Event::CallDecided {
        call: line.call,
        allowed: false,
        rule: hook.clone(),
        by: DecidedBy::Hook,
        reason: Some(reason.clone()),
    });
    Rejection::Hook { hook, reason }
}
