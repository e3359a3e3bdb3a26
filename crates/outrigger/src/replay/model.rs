//! The model of a recording: it says what it said, to whoever asks what was asked.

use std::sync::Arc;

use futures::stream;
use outrigger_agent::{Estimates, Learned};
use outrigger_model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest, ModelStream,
    ToolSearch,
};

use super::tape::asked_body;
use super::{Difference, Playback};
use crate::recording::{Kind, ModelSaid, UsedModel};

pub(crate) struct RecordedModel {
    playback: Arc<Playback>,
    used: UsedModel,
}

impl Playback {
    /// The model; `None` for a run without one.
    pub(crate) fn model(self: &Arc<Self>) -> Option<Arc<dyn Model>> {
        let used = self.tape.manifest.model.clone()?;
        let playback = Arc::clone(self);
        Some(Arc::new(RecordedModel { playback, used }))
    }
}

impl Playback {
    /// What was known of how the model counts when the run began.
    pub(crate) fn estimates(&self) -> Estimates {
        let used = self.tape.manifest.model.as_ref();
        let learned = used.and_then(|used| {
            let (reported, estimated, requests) = used.reported?;
            Some((&used.id, Learned::of(reported, estimated, requests)?))
        });
        learned.map_or_else(Estimates::default, |(model, learned)| {
            Estimates::knowing(model, learned)
        })
    }
}

impl RecordedModel {
    fn refused(&self, message: &str) -> ModelError {
        ModelError {
            kind: ModelErrorKind::Rejected,
            model: self.used.id.clone(),
            message: message.to_owned(),
            hints: Vec::new(),
        }
    }

    /// What was said to the request of this line, and where that stands.
    fn answer(&self, asked: usize) -> Option<(usize, ModelSaid)> {
        let tape = &self.playback.tape;
        let number = tape.lines.get(asked)?.number;
        let (at, _) = self
            .playback
            .next(Kind::ModelSaid, |line| line.number == number)?;
        Some((at, serde_json::from_str(tape.raw(at)).ok()?))
    }
}

#[async_trait::async_trait]
impl Model for RecordedModel {
    fn id(&self) -> &str {
        &self.used.id
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits {
            context_tokens: self.used.context_tokens,
            sees_images: self.used.sees_images,
        }
    }

    fn tool_search(&self) -> Result<ToolSearch, String> {
        let search = self.used.tool_search.map(|search| ToolSearch {
            most_tools: search.most_tools,
            most_entries: search.most_entries,
            shows_groups: search.shows_groups,
        });
        search.ok_or_else(|| "it had no search of tools when it was recorded".to_owned())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let playback = &self.playback;
        if playback.has_differed() {
            return Err(self.refused("the run differs from the recording"));
        }
        let got = asked_body(&request.messages, &request.tools, request.max_output_tokens);
        let bodies = &playback.tape.bodies;
        let same = |at: usize| bodies.get(at) == Some(&got);
        let lines = &playback.tape.lines;
        let mut open = (0..lines.len())
            .filter(|at| {
                lines
                    .get(*at)
                    .is_some_and(|line| line.kind == Kind::ModelAsked)
            })
            .filter(|at| !playback.is_done(*at));
        let next = open.clone().next();
        let Some(at) = open.find(|at| same(*at)) else {
            let what = "the request to the model".to_owned();
            playback.differs(Difference::between(what, &playback.tape, next, &got));
            return Err(self.refused("the recording has no such request"));
        };
        playback.mark(at);
        let Some((said_at, said)) = self.answer(at) else {
            return Err(self.refused("the recording has no answer"));
        };
        // What servers had told by then is known before the model goes on.
        playback
            .until_done_before(said_at, |line| line.kind == Kind::Came)
            .await;
        playback.mark(said_at);
        let ModelSaid { events, error } = said;
        let failed = error.map(|failed| failed.of(&self.used.id));
        if events.is_empty()
            && let Some(error) = failed
        {
            return Err(error);
        }
        let events = events.into_iter().map(|said| Ok(ModelEvent::from(said)));
        Ok(Box::pin(stream::iter(events.chain(failed.map(Err)))))
    }
}
