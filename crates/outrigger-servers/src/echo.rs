//! The `echo` server: one tool that returns its text unchanged.
//!
//! Leaves out everything else; it is there to try a connection, a policy or a model.

use rmcp::model::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    arguments,
    tool::{Reply, declare},
    toolbox::{Call, CallError},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoArguments {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    text: String,
}

pub(crate) struct Echo {
    tools: [Tool; 1],
}

impl Echo {
    pub(crate) fn new() -> Self {
        let description = "Returns the given text unchanged.";
        Self {
            tools: [declare::<EchoArguments, Echoed>(
                "echo",
                "Echo",
                description,
            )],
        }
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    #[expect(clippy::unused_self, reason = "called like the other servers")]
    pub(crate) fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let EchoArguments { text } = arguments::parse(call.tool, call.arguments)?;
        let echoed = Echoed { text };
        Ok(Reply::new(&echoed, echoed.text.clone())?)
    }
}
