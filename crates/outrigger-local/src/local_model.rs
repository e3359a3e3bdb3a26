//! [`LocalModel`]: a model file behind the same trait as every provider.
//!
//! A turn runs on a blocking thread of the runtime and streams through a bounded channel; when the
//! stream is dropped the channel closes and the work stops within one layer. Turns of one model wait
//! for each other.

use std::{path::Path, sync::Arc, task::Poll};

use outrigger_model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest, ModelStream,
};
use tokio::sync::mpsc;

use crate::{
    engine::{Engine, Prompt, TurnError},
    envelope,
    gguf::LoadError,
};

/// Events that may wait for a slow reader.
const WAITING: usize = 64;
/// Context that is used unless more is asked for. Memory grows with what is really read, but a
/// prompt beyond this takes minutes on a CPU.
const CONTEXT: usize = 16_384;

/// How to load a model.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The model's name, for its id. Without one the name of the file is used.
    pub name: Option<String>,
    /// Threads for reading prompts; the physical cores by default. Writing uses candle's own
    /// threads, which follow `CANDLE_NUM_THREADS` and the physical cores.
    pub threads: Option<usize>,
    /// Tokens of prompt and answer together; at most what the model was made for, and 16384 by
    /// default.
    pub context_tokens: Option<usize>,
}

/// A language model that runs in this process.
pub struct LocalModel {
    id: String,
    engine: Arc<Engine>,
}

impl LocalModel {
    /// Loads a GGUF file: seconds of work and as much memory as the file is large, or somewhat
    /// more. It blocks.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, LoadError> {
        let stem = || {
            path.file_stem().map_or_else(
                || "model".to_owned(),
                |stem| stem.to_string_lossy().into_owned(),
            )
        };
        let name = options.name.clone().unwrap_or_else(stem);
        let threads = options
            .threads
            .unwrap_or_else(num_cpus::get_physical)
            .max(1);
        let context = options.context_tokens.unwrap_or(CONTEXT);
        let engine = Arc::new(Engine::load(path, threads, context)?);
        Ok(Self {
            id: format!("local:{name}"),
            engine,
        })
    }

    async fn prompt(&self, request: ModelRequest) -> Result<Prompt, ModelError> {
        let engine = Arc::clone(&self.engine);
        let prompt = tokio::task::spawn_blocking(move || engine.prompt(&request)).await;
        match prompt {
            Ok(prompt) => prompt.map_err(|error| worded(&self.id, &error)),
            Err(_) => Err(died(&self.id)),
        }
    }
}

#[async_trait::async_trait]
impl Model for LocalModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn limits(&self) -> ModelLimits {
        let context_tokens = u64::try_from(self.engine.context()).unwrap_or(u64::MAX);
        ModelLimits {
            context_tokens,
            sees_images: false,
        }
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let call_id = format!("call_{}", request.messages.len());
        let prompt = self.prompt(request).await?;
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        drop(tokio::task::spawn_blocking(move || {
            work(&engine, prompt, call_id, &id, &sender);
        }));
        let id = self.id.clone();
        let mut ended = false;
        Ok(Box::pin(futures::stream::poll_fn(move |context| {
            if ended {
                return Poll::Ready(None);
            }
            let event =
                std::task::ready!(receiver.poll_recv(context)).unwrap_or_else(|| Err(died(&id)));
            ended = !matches!(event, Ok(ModelEvent::Text(_)));
            Poll::Ready(Some(event))
        })))
    }
}

/// One turn, from prompt to the last event.
fn work(
    engine: &Engine,
    prompt: Prompt,
    call_id: String,
    model: &str,
    sender: &mpsc::Sender<Result<ModelEvent, ModelError>>,
) {
    let mut streamed = String::new();
    let mut on_text = |text: String| {
        streamed.push_str(&text);
        // A closed channel is noticed by the next question whether to stop.
        drop(sender.blocking_send(Ok(ModelEvent::Text(text))));
    };
    let last = match engine.run(prompt, &mut on_text, &|| sender.is_closed()) {
        Ok(Some(finished)) => {
            let turn = envelope::turn(&finished.envelope, &streamed, call_id, &finished.toolbox);
            Ok(ModelEvent::Finished {
                turn,
                stop: finished.stop,
                usage: finished.usage,
            })
        }
        Ok(None) => return,
        Err(error) => Err(worded(model, &error)),
    };
    drop(sender.blocking_send(last));
}

fn worded(model: &str, error: &TurnError) -> ModelError {
    let (kind, hints) = match error {
        TurnError::TooLong { .. } => (
            ModelErrorKind::ContextTooLong,
            vec![
                "start a new conversation, or connect fewer servers: each tool takes room"
                    .to_owned(),
                "choose a model with a larger context".to_owned(),
            ],
        ),
        TurnError::Template(_) | TurnError::Encode(_) | TurnError::Grammar(_) => (
            ModelErrorKind::Rejected,
            vec!["try another model".to_owned()],
        ),
        TurnError::Weights(_) => (
            ModelErrorKind::Malformed,
            vec!["remove the model and pull it again: its file may be damaged".to_owned()],
        ),
    };
    ModelError {
        kind,
        model: model.to_owned(),
        message: error.to_string(),
        hints,
    }
}

fn died(model: &str) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Interrupted,
        model: model.to_owned(),
        message: "the model stopped unexpectedly in the middle of a turn".to_owned(),
        hints: vec![
            "try again; if it happens again, remove the model and pull it again".to_owned(),
        ],
    }
}
