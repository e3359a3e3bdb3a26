//! The one vocabulary of what happens in a run. The live display, `--json`, the journal and later
//! exporters all read it. Events are facts: their names and fields are stable; a changed meaning
//! raises [`VERSION`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ArtifactRef, Digest, RunId};

mod read;
mod words;

pub use words::{DecidedBy, HookSaid, OutcomeKind, QuestionAnswer, RunStatus};

/// Version of this vocabulary, written with every event.
pub const VERSION: u32 = 1;

/// An event as recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// [`VERSION`] of the program that wrote it.
    pub v: u32,
    /// Position within its run, from 1, without gaps.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Its run.
    pub run: RunId,
    /// What happened.
    pub event: Event,
}

/// What can happen. Calls are numbered within their run, from 1; turns too.
///
/// Read with `serde_json` only: JSON values keep their exact text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum Event {
    /// A run began; always the first event.
    RunStarted {
        /// `ask`, `call`, …
        command: String,
        /// The question, for runs that have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// `provider:name`, for runs that use a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The folder that the run is bound to.
        workspace: String,
        /// Version of the program.
        version: String,
        /// The client of the gateway that all of it is done for, where it has shown who it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<String>,
    },
    /// The run goes on where an earlier one stopped.
    RunResumed {
        /// The earlier run.
        from: RunId,
    },
    /// The configuration was read again while the run went on; what follows is under the new one. Names
    /// of servers.
    ConfigurationRead {
        /// That are new.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
        /// That are gone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<String>,
        /// That begin anew.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
    },
    /// The conversation with the model grew by one message. Those that a resumed run took over come
    /// first.
    MessageAdded {
        /// The turn that it came with; 0 before the first.
        turn: u32,
        /// The message in the agent's words: `role` and what was said.
        message: Box<RawValue>,
        /// Configured names of servers whose words are in it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        origins: Vec<String>,
        /// Calls whose outcome was unknown, and of which the message tells what is known now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        makes_known: Vec<CallRef>,
    },
    /// A server is connected and listed.
    ServerReady {
        /// Configured name.
        server: String,
        /// `modern` or `legacy`.
        era: String,
        /// Protocol version agreed on.
        protocol_version: String,
        /// Tools that can be used.
        tools: u64,
        /// Estimated tokens that their declarations cost in each request.
        tokens: u64,
        /// Milliseconds from start to listed.
        took_ms: u64,
    },
    /// A server could not be connected, or was set aside.
    ServerFailed {
        /// Configured name.
        server: String,
        /// How far it came: `config`, `start`, `handshake`, `list`; `call` when it was ready before.
        stage: String,
        /// One sentence.
        error: String,
        /// What a person could do.
        hints: Vec<String>,
        /// Last lines of its standard error.
        stderr_tail: Vec<String>,
    },
    /// A connection ended while the run went on.
    ServerEnded {
        /// Configured name.
        server: String,
        /// Why.
        reason: String,
    },
    /// A server does something that it should not, and is used all the same.
    ServerWarned {
        /// Configured name.
        server: String,
        /// One sentence.
        warning: String,
    },
    /// One tool definition was set aside; its server lives.
    ToolSetAside {
        /// Configured name of the server.
        server: String,
        /// The tool's own name, or its position when it has none.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A server asked something of this side, and that has ended: answered or not.
    QuestionEnded {
        /// Configured name of the server.
        server: String,
        /// The tool whose call the question belongs to, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or what the server made up.
        method: String,
        /// What it wanted, in its own words or in ours. What a person typed is not recorded.
        question: String,
        /// How it ended.
        answer: QuestionAnswer,
        /// Who had the last word: a person, configuration, or nobody.
        by: DecidedBy,
        /// More about that, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Where in a distributed trace the server says that it stands, as a W3C `traceparent`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
        /// Milliseconds from question to end, where they were counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
    },
    /// A rule asks, and a prompt or resource waits until a person decides elsewhere; whatever becomes of it,
    /// a `prompt_fetched` or `resource_read` with the same `approval` says so.
    FetchWaits {
        /// Configured name of the server.
        server: String,
        /// `prompt` or `resource`.
        kind: String,
        /// The server's name for the prompt, or the address of the resource.
        name: String,
        /// What it is called in the queue of approvals.
        approval: String,
        /// When it ends by itself.
        until: Timestamp,
    },
    /// Somebody wanted the messages of a prompt; how that ended.
    PromptFetched {
        /// Configured name of the server.
        server: String,
        /// The server's name for the prompt.
        prompt: String,
        /// What it was told.
        arguments: BTreeMap<String, String>,
        /// `person` or `model`.
        asked_by: String,
        /// Who had the last word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<DecidedBy>,
        /// The rule that decided, as a person would find it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// What it waited for a person as, in the queue of approvals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
        /// What whoever was asked said with it, or why nobody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How it ended.
        outcome: OutcomeKind,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Bytes of its content.
        bytes: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// Somebody wanted to read a resource; how that ended.
    ResourceRead {
        /// Configured name of the server.
        server: String,
        /// Its address.
        uri: String,
        /// `person` or `model`.
        asked_by: String,
        /// Who had the last word; absent for a model, whose call was decided about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<DecidedBy>,
        /// The rule that decided, as a person would find it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// What it waited for a person as, in the queue of approvals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
        /// What whoever was asked said with it, or why nobody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How it ended.
        outcome: OutcomeKind,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Bytes of its content.
        bytes: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// The person said something, in a run that goes on from answer to answer.
    PersonSaid {
        /// What was typed.
        text: String,
    },
    /// A turn began with a frozen toolset.
    TurnStarted {
        /// Number of the turn.
        turn: u32,
        /// Revision of the catalog that the toolset was taken from.
        revision: u64,
        /// Tools put before the model.
        tools: u64,
        /// Tools that are left to its provider's search, besides.
        #[serde(default, skip_serializing_if = "is_zero")]
        deferred: u64,
        /// Estimated tokens of the declarations that are put before it.
        tokens: u64,
    },
    /// The search of tools that the model's provider has was asked for and is not used.
    ProviderSearchUnused {
        /// The model.
        model: String,
        /// Why, in words that follow its name.
        reason: String,
    },
    /// A request to the model is tried again.
    ModelRetry {
        /// Number of the turn.
        turn: u32,
        /// 1 for the first repetition.
        attempt: u32,
        /// Milliseconds until then.
        wait_ms: u64,
        /// What went wrong.
        reason: String,
    },
    /// The model finished a turn.
    ModelAnswered {
        /// Number of the turn.
        turn: u32,
        /// Its text, possibly empty.
        text: String,
        /// How many calls it asked for.
        calls: u64,
        /// Tokens, as the provider counted them.
        usage: Tokens,
        /// Milliseconds.
        took_ms: u64,
        /// Tokens of the request, as this side counted them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<Counted>,
        /// Tools that the provider's own search found, by their model-facing names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        found: Vec<String>,
    },
    /// A call was asked for. Nothing has been checked.
    CallProposed {
        /// Number of the call.
        call: u32,
        /// Turn that asked for it, for runs with a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// Model-facing name, as written.
        tool: String,
        /// Arguments as written; JSON text where they were JSON.
        arguments: String,
        /// What the client of the gateway calls itself, with its version, where one wants the call. It
        /// may call itself anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// The call was checked against toolset and schema and may be decided about.
    CallPrepared {
        /// Number of the call.
        call: u32,
        /// Configured name of the server.
        server: String,
        /// The tool's own name.
        raw_tool: String,
        /// The arguments that will be sent; of artifacts, whose contents will be, the handles.
        arguments: Box<RawValue>,
        /// What was repaired, in words.
        repairs: Vec<String>,
        /// The artifacts whose handles are in the arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<HandedArtifact>,
    },
    /// Policy, and where it asked also somebody, decided.
    CallDecided {
        /// Number of the call.
        call: u32,
        /// Whether it may run.
        allowed: bool,
        /// The rule that decided, as a person would find it.
        rule: String,
        /// Who had the last word.
        by: DecidedBy,
        /// The reason given with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A rule asks, and the call waits until a person decides elsewhere.
    CallWaits {
        /// Number of the call.
        call: u32,
        /// What it is called in the queue of approvals.
        approval: String,
        /// When it ends by itself.
        until: Timestamp,
    },
    /// A hook was run. What it changed of a call's arguments follows as another `call_prepared`.
    HookRan {
        /// Number of the call, for hooks about calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<u32>,
        /// When: `before_call`, `after_call`, `session_start`, `session_end`.
        event: String,
        /// Where it is configured, as `FILE:LINE`.
        hook: String,
        /// What it said.
        said: HookSaid,
        /// Whether it changed arguments, or what the model reads.
        changed: bool,
        /// The reason it gave, or why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Milliseconds.
        took_ms: u64,
    },
    /// Should the outcome of the call become unknown, these tools of its server could be used to look.
    CallCheckable {
        /// Number of the call.
        call: u32,
        /// Their model-facing names.
        tools: Vec<String>,
    },
    /// The call is about to be sent. Durable before its first byte leaves.
    CallIntent {
        /// Number of the call.
        call: u32,
    },
    /// The call is about to be sent once more: local configuration says that it may be.
    CallRetried {
        /// Number of the call.
        call: u32,
        /// 1 for the first repetition.
        attempt: u32,
        /// Milliseconds that were waited before.
        wait_ms: u64,
        /// What became of the attempt before.
        reason: String,
    },
    /// The one end of a call.
    CallEnded {
        /// Number of the call.
        call: u32,
        /// How it ended.
        outcome: OutcomeKind,
        /// The server's own `isError`, for completed calls.
        is_error: bool,
        /// One line for a person.
        summary: String,
        /// The answer as it came, where there was one and it is not too large to stand here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        /// Where the answer is kept instead, when it is too large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
        /// The artifacts that the model is told of, in the order of the answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<ArtifactRef>,
        /// Estimated tokens of what the model reads of it, unless a hook or the budget of its turn
        /// changes that afterwards.
        tokens: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// An answer to a call that had already ended as unknown.
    LateAnswer {
        /// Number of the call.
        call: u32,
        /// What is known now.
        outcome: OutcomeKind,
        /// One line for a person.
        summary: String,
        /// The answer as it came, where there was one and it is not too large to stand here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        /// Where the answer is kept instead, when it is too large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
    },
    /// A person found out what came of a call whose outcome is unknown; mostly one of another run. The
    /// outcome stays what it is.
    CallSettled {
        /// Run of the call.
        of: RunId,
        /// Number of the call.
        call: u32,
        /// Whether it took effect.
        happened: bool,
        /// What the person said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The run ended; always the last event.
    RunEnded {
        /// How.
        status: RunStatus,
        /// Why, where it is not plain success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The answer, for runs that have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Tokens of all turns.
        usage: Tokens,
    },
}

/// An artifact that stands among the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedArtifact {
    /// What it is.
    #[serde(flatten)]
    pub artifact: ArtifactRef,
    /// The servers that its data came from.
    pub origins: Vec<String>,
}

/// An answer that is kept as an artifact, not in the event itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Of the artifact: JSON, as the answer came.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
}

/// A call, named from outside of its run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallRef {
    /// Its run.
    pub run: RunId,
    /// Its number within the run.
    pub call: u32,
}

/// Tokens read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read, cached ones included.
    pub input: u64,
    /// Of those, out of a prompt cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

/// What this side counted of a request. Beside what the provider reports, it says where the tokens
/// are, and how good the estimate is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The vocabulary: `o200k`, `cl100k`, or `estimate`.
    pub by: String,
    /// Whether that is the model's own vocabulary.
    pub exact: bool,
    /// How many requests corrected the estimate, by what their provider reported.
    #[serde(default, skip_serializing_if = "is_none_32")]
    pub corrected_by: u32,
    /// All text of the request that the model read.
    pub input: u64,
    /// Of that, declarations of tools.
    pub declarations: u64,
    /// Declarations by server.
    pub servers: Vec<ServerTokens>,
}

/// What the declarations of a server's tools cost in each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTokens {
    /// Configured name.
    pub server: String,
    /// Tools that are declared.
    pub tools: u64,
    /// Of these, how many the model did not read: they are left to its provider's search.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deferred: u64,
    /// Tokens of the declarations that it read.
    pub tokens: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_none_32(number: &u32) -> bool {
    *number == 0
}
