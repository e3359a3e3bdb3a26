//! Goes on where an earlier run stopped, with its conversation out of the journal.
//!
//! No call is made again. What the model was told of one, it is told as it was; what it was not told
//! any more is made from the ledger; what has become known since of an unknown outcome is a message of
//! its own. Calls that were asked for and never proposed were not made, and the model is told so.

use std::collections::BTreeSet;

use outrigger_host::words::{self, Words};
use outrigger_host::{KeptCall, Retold};
use outrigger_journal::{
    CallLine, CallRef, Event, Finding, OutcomeKind, REDACTED, Recorded, RunId,
};
use outrigger_model::{Message, ToolCall, ToolResultMessage};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::said::{Said, part};
use super::{Agent, Answer, Conversation, Listener};

/// The command of runs that go on with another's conversation.
pub const RESUME: &str = "resume";

/// A run, as the journal has it.
#[derive(Debug)]
pub struct RunRecord {
    /// Its name.
    pub id: RunId,
    /// Its events.
    pub events: Vec<Recorded>,
    /// Its calls.
    pub calls: Vec<CallLine>,
}

/// A conversation that can be gone on with.
#[derive(Debug)]
pub struct Earlier {
    said: Vec<SaidBefore>,
    /// The calls of its last message, where the model was not told what came of them.
    untold: Vec<(ToolCall, Option<KeptCall>)>,
    /// Calls that were told of as unknown, and of which more is known now.
    known_now: Vec<KnownNow>,
    /// What the person said to runs in between that did not come to a turn.
    unheard: Vec<String>,
}

/// The conversation of a run cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum NoConversation {
    /// Nothing of one was recorded.
    #[error("nothing of a conversation was recorded in the run `{0}`")]
    Nothing(RunId),
    /// Written by another program, or damaged.
    #[error("the conversation of the run `{run}` cannot be read: {reason}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Debug)]
struct SaidBefore {
    turn: u32,
    message: Message,
    origins: Vec<String>,
    makes_known: Vec<CallRef>,
}

#[derive(Debug)]
struct KnownNow {
    of: CallRef,
    call: KeptCall,
    /// A person found it out; else the server has answered.
    found: Option<Finding>,
}

impl Earlier {
    /// Reads the conversation of the last of these runs. The others are those that it resumed, the
    /// oldest first.
    pub fn read(chain: &[RunRecord]) -> Result<Option<Self>, NoConversation> {
        let Some((last, mut unheard)) = heard(chain) else {
            return Ok(None);
        };
        let said = said_before(last)?;
        let untold = untold(last, said.last());
        let told: BTreeSet<&CallRef> = said.iter().flat_map(|said| &said.makes_known).collect();
        let known = chain.iter().flat_map(known_now);
        let known_now = known.filter(|known| !told.contains(&known.of)).collect();
        let mut earlier = Self {
            said,
            untold,
            known_now,
            unheard: Vec::new(),
        };
        // A run that was given nothing to say is called by its first question.
        unheard.retain(|said| Some(said.as_str()) != earlier.question());
        earlier.unheard = unheard;
        Ok(Some(earlier))
    }

    /// Whether the model has had its last word, so that there is nothing to go on with unless
    /// somebody says more.
    pub fn is_finished(&self) -> bool {
        let last = self.said.last().map(|said| &said.message);
        let finished = matches!(last, Some(Message::Assistant(turn)) if turn.calls.is_empty());
        finished && self.known_now.is_empty() && self.unheard.is_empty()
    }

    /// The first thing that the person said.
    pub fn question(&self) -> Option<&str> {
        self.said.iter().find_map(|said| match &said.message {
            Message::User { content } => content.iter().find_map(|part| match part {
                outrigger_model::Part::Text { text } => Some(text.as_str()),
                outrigger_model::Part::Image { .. } => None,
            }),
            _ => None,
        })
    }
}

/// The last run that came to a turn, with which its conversation is whole in the journal, or else the
/// first; and what the person said since.
fn heard(chain: &[RunRecord]) -> Option<(&RunRecord, Vec<String>)> {
    let began = |run: &&RunRecord| {
        let mut events = run.events.iter();
        events.any(|recorded| matches!(recorded.event, Event::TurnStarted { .. }))
    };
    let last = chain.iter().rposition(|run| began(&run)).unwrap_or(0);
    let (heard, unheard) = chain.get(last..)?.split_first()?;
    Some((heard, unheard.iter().filter_map(asked).collect()))
}

/// What the person said when the run began.
fn asked(run: &RunRecord) -> Option<String> {
    run.events
        .iter()
        .find_map(|recorded| match &recorded.event {
            Event::RunStarted { question, .. } => question.clone(),
            _ => None,
        })
}

/// Whether a run began with another's conversation, also where it was killed before it said which.
fn goes_on(run: &RunRecord) -> bool {
    run.events.iter().any(|recorded| match &recorded.event {
        Event::RunStarted { command, .. } => command == RESUME,
        event => matches!(event, Event::RunResumed { .. }),
    })
}

fn said_before(run: &RunRecord) -> Result<Vec<SaidBefore>, NoConversation> {
    let mut said = Vec::new();
    for recorded in &run.events {
        let Event::MessageAdded {
            turn,
            message,
            origins,
            makes_known,
        } = &recorded.event
        else {
            continue;
        };
        let message =
            serde_json::from_str(message.get()).map_err(|error| NoConversation::Unreadable {
                run: run.id.clone(),
                reason: error.to_string(),
            })?;
        said.push(SaidBefore {
            turn: *turn,
            message,
            origins: origins.clone(),
            makes_known: makes_known.clone(),
        });
    }
    if said.is_empty() {
        let question = asked(run).filter(|_| !goes_on(run));
        let question = question.ok_or_else(|| NoConversation::Nothing(run.id.clone()))?;
        said.push(SaidBefore {
            turn: 0,
            message: Message::user(question),
            origins: Vec::new(),
            makes_known: Vec::new(),
        });
    }
    Ok(said)
}

/// The calls that a last message asks for, each with what the ledger has of it. They were proposed in
/// the order in which they were asked for.
fn untold(run: &RunRecord, last: Option<&SaidBefore>) -> Vec<(ToolCall, Option<KeptCall>)> {
    let Some(SaidBefore {
        turn,
        message: Message::Assistant(asked),
        ..
    }) = last
    else {
        return Vec::new();
    };
    let of_turn = run
        .events
        .iter()
        .filter_map(|recorded| match recorded.event {
            Event::CallProposed {
                call,
                turn: Some(of),
                ..
            } if of == *turn => Some(call),
            _ => None,
        });
    let mut proposed = of_turn;
    let asked = asked.calls.iter();
    asked
        .map(|call| {
            let number = proposed.next();
            (call.clone(), number.and_then(|number| kept(run, number)))
        })
        .collect()
}

/// Calls that ended as unknown, and of which it is known now what came.
fn known_now(run: &RunRecord) -> Vec<KnownNow> {
    let unknown = run
        .events
        .iter()
        .filter_map(|recorded| match recorded.event {
            Event::CallEnded {
                call,
                outcome: OutcomeKind::Unknown,
                ..
            } => Some(call),
            _ => None,
        });
    let known = unknown.filter_map(|number| {
        let line = run.calls.iter().find(|line| line.call == number)?;
        let answered = line.outcome != Some(OutcomeKind::Unknown);
        if !answered && line.settled.is_none() {
            return None;
        }
        Some(KnownNow {
            of: CallRef {
                run: run.id.clone(),
                call: number,
            },
            call: kept(run, number)?,
            found: line.settled.clone().filter(|_| !answered),
        })
    });
    known.collect()
}

/// A call with its answer, as far as there is one.
fn kept(run: &RunRecord, number: u32) -> Option<KeptCall> {
    let line = run.calls.iter().find(|line| line.call == number)?;
    let mut answers = run.events.iter().rev();
    let answer = answers.find_map(|recorded| match &recorded.event {
        Event::CallEnded {
            call, result, kept, ..
        }
        | Event::LateAnswer {
            call, result, kept, ..
        } if *call == number && (result.is_some() || kept.is_some()) => {
            Some((result.clone(), *kept))
        }
        _ => None,
    });
    let (result, at): (Option<Box<RawValue>>, _) = answer.unwrap_or_default();
    Some(KeptCall {
        of: CallRef {
            run: run.id.clone(),
            call: number,
        },
        tool: line.tool.clone(),
        server: line.server.clone(),
        arguments: line.arguments.clone(),
        outcome: line.outcome?,
        summary: line.summary.clone(),
        result,
        kept: at,
    })
}

impl Agent {
    /// Goes on with an earlier conversation; `more` is what the person says now. Whoever began the run
    /// has recorded which one it goes on with.
    pub async fn resume(
        &self,
        conversation: &mut Conversation,
        (earlier, more): (Earlier, Option<&str>),
        listener: &dyn Listener,
        cancel: &CancellationToken,
    ) -> Answer {
        let Earlier {
            said,
            untold,
            known_now,
            unheard,
        } = earlier;
        for said in said {
            self.host.carry_over(&said.origins);
            let said = Said {
                message: taken(said.message, self.model.id()),
                origins: said.origins,
                makes_known: said.makes_known,
            };
            self.add(conversation, 0, said);
        }
        if !untold.is_empty() {
            let said = self.results(untold).await;
            self.add(conversation, 0, said);
        }
        for known in known_now {
            let said = self.known(known).await;
            self.add(conversation, 0, said);
        }
        for more in unheard.iter().map(String::as_str).chain(more) {
            self.add(conversation, 0, Message::user(more));
        }
        self.go_on(conversation, listener, cancel).await
    }

    async fn results(&self, untold: Vec<(ToolCall, Option<KeptCall>)>) -> Said {
        let toolset = self.host.toolset();
        let (mut results, mut origins) = (Vec::new(), BTreeSet::new());
        for (asked, kept) in untold {
            let retold = match kept {
                Some(kept) => self.host.retell(&toolset, &kept).await,
                None => never_made(),
            };
            origins.extend(retold.origin.map(|origin| origin.to_string()));
            results.push(ToolResultMessage {
                call_id: asked.id,
                name: asked.name,
                content: retold
                    .words
                    .into_iter()
                    .filter_map(|words| self.fit(words))
                    .collect(),
                is_error: retold.is_error,
            });
        }
        Said {
            message: Message::ToolResults { results },
            origins: origins.into_iter().collect(),
            makes_known: Vec::new(),
        }
    }

    async fn known(&self, known: KnownNow) -> Said {
        let KnownNow { of, call, found } = known;
        let (words, origin) = if let Some(found) = found {
            let words = words::found(&of, &call.tool, found.happened, found.note.as_deref());
            (vec![words], None)
        } else {
            let toolset = self.host.toolset();
            let retold = self.host.retell(&toolset, &call).await;
            let remark = words::known_now(&of, false, &call.tool);
            let words = [remark].into_iter().chain(retold.words).collect();
            (words, retold.origin)
        };
        Said {
            message: Message::User {
                content: words.into_iter().map(part).collect(),
            },
            origins: origin
                .map(|origin| origin.to_string())
                .into_iter()
                .collect(),
            makes_known: vec![of],
        }
    }
}

/// Without what only the model that made it can read, where this is another one, or where a secret was
/// taken out of it.
fn taken(mut message: Message, model: &str) -> Message {
    if let Message::Assistant(turn) = &mut message {
        turn.carry = turn.carry.take().filter(|carry| {
            carry.get("model").and_then(|of| of.as_str()) == Some(model)
                && !carry.to_string().contains(REDACTED)
        });
    }
    message
}

/// What is told of a call that was asked for when the host stopped.
fn never_made() -> Retold {
    Retold {
        words: vec![Words::Text(
            "Not called: the host stopped before it was made.".to_owned(),
        )],
        is_error: true,
        origin: None,
    }
}

#[cfg(test)]
mod tests;
