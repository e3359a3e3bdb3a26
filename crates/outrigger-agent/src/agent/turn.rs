//! One turn: ask the model, then make the calls it wants.

use std::time::Instant;

use futures::StreamExt as _;
use outrigger_host::toolset::Toolset;
use outrigger_journal::Event;
use outrigger_model::{
    AssistantTurn, Message, ModelError, ModelErrorKind, ModelEvent, ModelRequest, StopReason, Usage,
};
use tokio_util::sync::CancellationToken;

use super::said::Said;
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
            tools: conversation.shown.declared().len() as u64,
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
        self.run.record(Event::ModelAnswered {
            turn: progress.number(),
            text: turn.text.clone(),
            calls: turn.calls.len() as u64,
            usage: tokens(usage),
            took_ms: millis_since(began),
            // A count that failed is none; it is for people to look at.
            counted: counting.await.ok(),
        });
        progress.usage += usage;
        progress.text.clone_from(&turn.text);
        let said = Message::Assistant(turn.clone());
        self.add(conversation, progress.number(), said);
        if turn.calls.is_empty() {
            return TurnEnd::Stop(ending(&stop));
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
        let context = self.model.limits().context_tokens;
        if let Some(note) = conversation.shown.follow(toolset, context) {
            shown::tell(&mut conversation.messages, note);
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

fn ending(stop: &StopReason) -> Ending {
    match stop {
        StopReason::Length => Ending::Cut,
        StopReason::Done | StopReason::Refused => Ending::Answered,
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
