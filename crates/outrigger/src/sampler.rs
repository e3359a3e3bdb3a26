//! The model of a run, asked on behalf of a server. Whether it may be is decided elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use outrigger_host::questions::{Completion, Sampler, SamplingRequest};
use outrigger_model::{
    AssistantTurn, Message, Model, ModelError, ModelEvent, ModelRequest, StopReason,
};

pub(crate) struct RunModel(pub(crate) Arc<dyn Model>);

#[async_trait]
impl Sampler for RunModel {
    async fn complete(&self, request: &SamplingRequest) -> Result<Completion, String> {
        let words = |error: ModelError| format!("the model could not be asked: {error}");
        let mut stream = self.0.stream(of(request)).await.map_err(words)?;
        while let Some(event) = stream.next().await {
            if let ModelEvent::Finished { turn, stop, usage } = event.map_err(words)? {
                if stop == StopReason::Refused {
                    return Err("the model refused to answer".to_owned());
                }
                return Ok(Completion {
                    model: self.0.id().to_owned(),
                    text: turn.text,
                    cut: stop == StopReason::Length,
                    tokens: (usage.input, usage.output),
                });
            }
        }
        Err("the model gave no answer".to_owned())
    }
}

fn of(request: &SamplingRequest) -> ModelRequest {
    let system = request
        .system
        .iter()
        .map(|text| Message::System { text: text.clone() });
    let said = request.messages.iter().map(|message| {
        if message.by_model {
            Message::Assistant(AssistantTurn {
                text: message.text.clone(),
                ..AssistantTurn::default()
            })
        } else {
            Message::user(message.text.as_str())
        }
    });
    ModelRequest {
        messages: system.chain(said).collect(),
        tools: Arc::new([]),
        max_output_tokens: Some(request.max_tokens),
    }
}
