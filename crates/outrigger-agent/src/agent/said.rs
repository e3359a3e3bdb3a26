//! What is said goes into the conversation and, as it was given to the model, into the journal; a run
//! that resumes this one reads it there.

use outrigger_host::LateNote;
use outrigger_host::words::Words;
use outrigger_journal::{CallRef, Event};
use outrigger_model::{Message, Part};

use super::{Agent, Conversation};

/// A message, and what is to be known of it besides.
pub(super) struct Said {
    pub(super) message: Message,
    /// Servers whose words are in it.
    pub(super) origins: Vec<String>,
    /// Calls whose outcome was unknown, and of which it tells what is known now.
    pub(super) makes_known: Vec<CallRef>,
}

impl From<Message> for Said {
    fn from(message: Message) -> Self {
        Self {
            message,
            origins: Vec::new(),
            makes_known: Vec::new(),
        }
    }
}

impl From<LateNote> for Said {
    fn from(note: LateNote) -> Self {
        Self {
            message: Message::User {
                content: note.words.into_iter().map(part).collect(),
            },
            origins: vec![note.origin.to_string()],
            makes_known: vec![note.of],
        }
    }
}

impl Agent {
    /// Adds to the conversation, and records it.
    pub(super) fn add(&self, conversation: &mut Conversation, turn: u32, said: impl Into<Said>) {
        let said = said.into();
        match serde_json::value::to_raw_value(&said.message) {
            Ok(message) => self.run.record(Event::MessageAdded {
                turn,
                message,
                origins: said.origins,
                makes_known: said.makes_known,
            }),
            Err(error) => tracing::warn!(%error, "a message cannot be recorded"),
        }
        conversation.messages.push(said.message);
    }

    /// Tells the model what has become known of calls whose outcome was unknown.
    pub(super) async fn tell_late(&self, conversation: &mut Conversation, turn: u32) {
        for note in self.host.late_notes().await {
            self.add(conversation, turn, note);
        }
    }
}

/// A piece of what the host says, as it is.
pub(super) fn part(words: Words) -> Part {
    match words {
        Words::Text(text) => Part::text(text),
        Words::Image { media_type, data } => Part::Image { media_type, data },
    }
}
