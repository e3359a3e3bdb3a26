//! A model whose requests and answers are recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use outrigger_model::{
    DeclaredTool, Message, Model, ModelError, ModelEvent, ModelLimits, ModelRequest, ModelStream,
    ToolDeclaration, ToolSearch,
};

use super::{Kind, Line, ModelAsked, ModelSaid, Recorder, Said};

struct RecordedModel {
    model: Arc<dyn Model>,
    recorder: Arc<Recorder>,
    count: AtomicU64,
    before: Mutex<Option<Before>>,
}

/// The request before.
struct Before {
    messages: Vec<Message>,
    tools: Arc<[ToolDeclaration]>,
}

pub(super) fn recorded(recorder: Arc<Recorder>, model: Arc<dyn Model>) -> Arc<dyn Model> {
    Arc::new(RecordedModel {
        model,
        recorder,
        count: AtomicU64::new(0),
        before: Mutex::new(None),
    })
}

impl RecordedModel {
    /// Records a request; its number.
    fn asked(&self, request: &ModelRequest) -> u64 {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let same_messages = before.as_ref().map_or(0, |before| {
            let pairs = before.messages.iter().zip(&request.messages);
            pairs.take_while(|(before, now)| before == now).count()
        });
        let same_tools = before
            .as_ref()
            .is_some_and(|before| before.tools == request.tools);
        let asked = ModelAsked {
            same_messages,
            messages: request
                .messages
                .iter()
                .skip(same_messages)
                .cloned()
                .collect(),
            tools: (!same_tools).then(|| request.tools.to_vec()),
            max_output_tokens: request.max_output_tokens,
        };
        *before = Some(Before {
            messages: request.messages.clone(),
            tools: Arc::clone(&request.tools),
        });
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut line = Line::with(Kind::ModelAsked, &asked);
        line.number = Some(number);
        // Still locked: the next request builds on this one.
        self.recorder.add(line);
        number
    }
}

#[async_trait::async_trait]
impl Model for RecordedModel {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn tool_search(&self) -> Result<ToolSearch, String> {
        self.model.tool_search()
    }

    fn declared(&self, tools: &Arc<[ToolDeclaration]>) -> Vec<DeclaredTool> {
        self.model.declared(tools)
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut answer = Answer {
            recorder: Arc::clone(&self.recorder),
            number: self.asked(&request),
            said: ModelSaid::default(),
        };
        match self.model.stream(request).await {
            Ok(stream) => Ok(Box::pin(stream.inspect(move |event| answer.heard(event)))),
            Err(error) => {
                answer.said.error = Some((&error).into());
                Err(error)
            }
        }
    }
}

/// What was said so far; written when the stream is dropped, whatever has come of it.
struct Answer {
    recorder: Arc<Recorder>,
    number: u64,
    said: ModelSaid,
}

impl Answer {
    fn heard(&mut self, event: &Result<ModelEvent, ModelError>) {
        match event {
            Ok(event) => self.said.events.push(Said::from(event)),
            Err(error) => self.said.error = Some(error.into()),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut line = Line::with(Kind::ModelSaid, &self.said);
        line.number = Some(self.number);
        self.recorder.add(line);
    }
}
