//! From prompt to answer: the model providers, and the loop that gives a model tools.
//!
//! Knows neither terminal nor transports: tools are an [`outrigger_host::Host`], models anything
//! behind [`outrigger_model::Model`].

mod agent;
mod estimates;
pub mod provider;
pub mod tokens;

pub use agent::{
    Agent, Answer, CallCounts, Conversation, Earlier, Ending, Limits, Listener, NoConversation,
    RESUME, RunRecord,
};
pub use estimates::{Estimates, Learned, Reports};
