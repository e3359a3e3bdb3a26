//! One turn: ask the model, then make the calls it wants.

use std::time::Instant;

use futures::StreamExt as _;
use outrigger_host::toolset::Toolset;
use outrigger_journal::Event;
use outrigger_model::{
    AssistantTurn, Message, ModelError, ModelErrorKind, ModelEvent, ModelRequest, StopReason, Usage,
};
use tokio_util::sync::CancellationToken;

use super::{
    Agent, Conversation, Ending, Listener, Progress, TurnEnd, millis_since, prompt, tokens,
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
        self.run.record(Event::TurnStarted {
            turn: progress.number(),
            revision: toolset.revision(),
            tools: toolset.tools().len() as u64,
            tokens: toolset.tokens(),
        });
        let request = request(conversation, &toolset, progress);
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
        });
        progress.usage += usage;
        progress.text.clone_from(&turn.text);
        conversation.messages.push(Message::Assistant(turn.clone()));
        if turn.calls.is_empty() {
            return TurnEnd::Stop(ending(&stop));
        }
        let (mut results, end) = self
            .make_calls(&toolset, &turn.calls, progress, cancel)
            .await;
        let stuck = progress.repeats.turn(&turn.calls, &mut results);
        conversation.messages.push(Message::ToolResults { results });
        match (end, stuck) {
            (TurnEnd::GoOn, Some(tool)) => TurnEnd::Stop(Ending::Limited(Progress::stuck(&tool))),
            (end, _) => end,
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

fn request(
    conversation: &Conversation,
    toolset: &Toolset,
    progress: &mut Progress<'_>,
) -> ModelRequest {
    let mut messages = vec![Message::System {
        text: prompt::system(toolset),
    }];
    messages.extend(conversation.messages.iter().cloned());
    ModelRequest {
        messages,
        tools: progress.declarations(toolset),
        max_output_tokens: None,
    }
}
