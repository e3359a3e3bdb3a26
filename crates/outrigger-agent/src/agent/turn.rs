//! One turn: ask the model, then make the calls it wants.

use std::time::Instant;

use futures::StreamExt as _;
use outrigger_host::discovery::{Audience, ProviderSearch};
use outrigger_host::toolset::Toolset;
use outrigger_journal::Event;
use outrigger_model::{
    AssistantTurn, Message, ModelError, ModelErrorKind, ModelEvent, ModelRequest, StopReason, Usage,
};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::declared::Count;
use super::said::Said;
use super::shown::News;
use super::{
    Agent, Conversation, Ending, Listener, Progress, TurnEnd, millis_since, shown, tokens,
};

/// A turn as the model finished it.
type Finished = (AssistantTurn, StopReason, Usage);

impl Agent {
    pub(super) async fn turn(
        &self,
        conversation: &mut Conversation,
        listener: &dyn Listener,
        progress: &mut Progress<'_>,
        cancel: &CancellationToken,
    ) -> TurnEnd {
        let toolset = self.host.toolset();
        progress.turns += 1;
        self.show(&toolset, conversation);
        self.run.record(Event::TurnStarted {
            turn: progress.number(),
            revision: toolset.revision(),
            tools: conversation.shown.declared().len() as u64 - conversation.shown.deferred(),
            deferred: conversation.shown.deferred(),
            tokens: conversation.shown.tokens(),
        });
        self.tell_late(conversation, progress.number()).await;
        let request = request(conversation);
        let declared = self.declared(&toolset, &request.tools, progress);
        let counting = self.count(&request, declared);
        let began = Instant::now();
        let finished = tokio::select! {
            biased;
            () = cancel.cancelled() => return TurnEnd::Stop(Ending::Interrupted),
            () = progress.time_over() => return TurnEnd::Stop(Ending::Limited(progress.out_of_time())),
            finished = self.stream(request, progress.number(), listener) => finished,
        };
        let (turn, stop, usage) = match finished {
            Ok(finished) => finished,
            Err(error) => return TurnEnd::Stop(Ending::Failed(error)),
        };
        let took_ms = millis_since(began);
        self.answered((&turn, usage), took_ms, progress, counting.await);
        progress.usage += usage;
        progress.text.clone_from(&turn.text);
        let said = Message::Assistant(turn.clone());
        self.add(conversation, progress.number(), said);
        if turn.calls.is_empty() {
            return ending(&stop).map_or(TurnEnd::GoOn, TurnEnd::Stop);
        }
        let mut made = self
            .make_calls(&toolset, &turn.calls, progress, cancel)
            .await;
        let stuck = progress.repeats.turn(&turn.calls, &mut made.results);
        let said = Said {
            message: Message::ToolResults {
                results: made.results,
            },
            origins: made.origins.into_iter().collect(),
            makes_known: Vec::new(),
        };
        self.add(conversation, progress.number(), said);
        match (made.end, stuck) {
            (TurnEnd::GoOn, Some(tool)) => TurnEnd::Stop(Ending::Limited(Progress::stuck(&tool))),
            (end, _) => end,
        }
    }

    /// Shows the model what of the tools it has not seen, and tells it what has changed.
    fn show(&self, toolset: &Toolset, conversation: &mut Conversation) {
        let search = self.model.tool_search().map(|search| ProviderSearch {
            most_tools: search.most_tools,
            most_entries: search.most_entries,
            shows_groups: search.shows_groups,
        });
        let audience = Audience {
            scale: self.estimates.of(self.model.id()).scale(),
            search,
            ..Audience::new(self.model.limits().context_tokens)
        };
        let News { note, not_searched } = conversation.shown.follow(toolset, audience);
        if let Some(reason) = not_searched {
            let model = self.model.id().to_owned();
            self.run
                .record(Event::ProviderSearchUnused { model, reason });
        }
        if let Some(note) = note {
            shown::tell(&mut conversation.messages, note);
        }
    }

    /// Records a turn, with what it cost.
    fn answered(
        &self,
        (turn, usage): (&AssistantTurn, Usage),
        took_ms: u64,
        progress: &Progress<'_>,
        count: Result<Count, JoinError>,
    ) {
        // A count that failed is none; it is for people to look at.
        let (counted, estimate) = match count {
            Ok((counted, estimate)) => (Some(counted), estimate),
            Err(_) => (None, None),
        };
        self.learn(estimate, usage);
        self.run.record(Event::ModelAnswered {
            turn: progress.number(),
            text: turn.text.clone(),
            calls: turn.calls.len() as u64,
            usage: tokens(usage),
            took_ms,
            counted,
            found: turn.found.clone(),
        });
    }

    /// Learns from what the provider reports of a request.
    fn learn(&self, estimate: Option<u64>, usage: Usage) {
        if let Some(estimate) = estimate {
            let model = self.model.id();
            self.estimates.learn(model, estimate, usage.input);
            self.host.read_at(self.estimates.of(model).scale());
        }
    }

    async fn stream(
        &self,
        request: ModelRequest,
        turn: u32,
        listener: &dyn Listener,
    ) -> Result<Finished, ModelError> {
        let mut events = self.model.stream(request).await?;
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(delta) => listener.text(&delta),
                ModelEvent::Reasoning(delta) => listener.reasoning(&delta),
                ModelEvent::Retrying {
                    attempt,
                    wait,
                    reason,
                } => {
                    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    self.run.record(Event::ModelRetry {
                        turn,
                        attempt,
                        wait_ms,
                        reason,
                    });
                }
                ModelEvent::Finished { turn, stop, usage } => return Ok((turn, stop, usage)),
            }
        }
        Err(ModelError {
            kind: ModelErrorKind::Interrupted,
            model: self.model.id().to_owned(),
            message: "the answer broke off without an end".to_owned(),
            hints: vec!["ask again".to_owned()],
        })
    }
}

/// How a question ends with a turn without calls; not at all where the provider only paused.
fn ending(stop: &StopReason) -> Option<Ending> {
    match stop {
        StopReason::Paused => None,
        StopReason::Length => Some(Ending::Cut),
        StopReason::Done | StopReason::Refused => Some(Ending::Answered),
    }
}

fn request(conversation: &Conversation) -> ModelRequest {
    let mut messages = vec![Message::System {
        text: conversation.shown.system(),
    }];
    messages.extend(conversation.messages.iter().cloned());
    ModelRequest {
        messages,
        tools: conversation.shown.declared(),
        max_output_tokens: None,
    }
}
