//! One loaded model at work: a conversation in, tokens out, one turn at a time.
//!
//! Everything here blocks. What was read stays in the cache; a turn reads only what differs from it.
//! Decoding is greedy, so the same conversation gives the same turn.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outrigger_model::{Message, ModelRequest, StopReason, Usage};

use crate::{
    answer_text::AnswerText,
    envelope::{self, Toolbox},
    gguf::{Gguf, LoadError},
    grammar::{GrammarCompiler, GrammarError, ToolGrammar},
    kv_cache::KvCache,
    leaning::Leaning,
    template::{ChatTemplate, TemplateError},
    tokenizer::{EncodeError, Vocabulary},
    transformer::{Dimensions, Transformer},
};

/// Tokens read at a time: enough to be fast, few enough to stop soon.
const CHUNK: usize = 512;
/// Tokens written when the caller sets no bound.
const OUTPUT: usize = 1024;
/// Room that a turn needs beside its prompt.
const ROOM: usize = 64;

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    #[error(
        "the conversation has {needed} tokens with room for an answer, and the context holds {limit}"
    )]
    TooLong { needed: usize, limit: usize },
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    #[error("the model's weights failed: {0}")]
    Weights(#[from] candle_core::Error),
}

/// A conversation in tokens, with the tools of the turn.
pub(crate) struct Prompt {
    tokens: Vec<u32>,
    toolbox: Toolbox,
    output: usize,
    /// What is added to the logit of the answer.
    lean: f32,
}

/// A finished turn.
pub(crate) struct Finished {
    pub(crate) envelope: String,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) toolbox: Toolbox,
}

pub(crate) struct Engine {
    vocabulary: Arc<Vocabulary>,
    template: ChatTemplate,
    compiler: GrammarCompiler,
    transformer: Transformer,
    leaning: Leaning,
    threads: rayon::ThreadPool,
    context: usize,
    session: Mutex<Session>,
}

/// What one turn leaves to the next.
struct Session {
    cache: KvCache,
    /// The tokens whose keys and values are in the cache.
    tokens: Vec<u32>,
    grammar: Option<(Toolbox, ToolGrammar)>,
}

impl Engine {
    pub(crate) fn load(path: &Path, threads: usize, context: usize) -> Result<Self, LoadError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("local-model-{index}"))
            .build()
            .map_err(|error| LoadError::Threads {
                threads,
                reason: error.to_string(),
            })?;
        let mut file = Gguf::open(path)?;
        let dimensions = Dimensions::read(&file)?;
        let context = context.min(dimensions.context);
        let vocabulary = Arc::new(Vocabulary::read(&file)?);
        let template = ChatTemplate::read(&file, &vocabulary)?;
        let compiler = GrammarCompiler::new(&vocabulary)
            .map_err(|error| file.unsupported(error.to_string()))?;
        let leaning = Leaning::of(&file);
        let cache = KvCache::new(&dimensions).map_err(|error| file.broken(error.to_string()))?;
        let transformer = pool.install(|| Transformer::load(&mut file, dimensions, context))?;
        let session = Mutex::new(Session {
            cache,
            tokens: Vec::new(),
            grammar: None,
        });
        Ok(Self {
            vocabulary,
            template,
            compiler,
            transformer,
            leaning,
            threads: pool,
            context,
            session,
        })
    }

    /// Tokens of prompt and answer together.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Puts a request into tokens.
    pub(crate) fn prompt(&self, request: &ModelRequest) -> Result<Prompt, TurnError> {
        let toolbox = Toolbox::new(&request.tools);
        let tokens = self.tokens(&request.messages, &toolbox)?;
        let asked = request
            .max_output_tokens
            .and_then(|asked| usize::try_from(asked).ok())
            .unwrap_or(OUTPUT);
        let needed = tokens.len() + asked.clamp(1, ROOM);
        if needed > self.context {
            return Err(TurnError::TooLong {
                needed,
                limit: self.context,
            });
        }
        let output = asked.clamp(1, self.context - tokens.len());
        Ok(Prompt {
            tokens,
            toolbox,
            output,
            lean: self.leaning.after(&request.messages),
        })
    }

    fn tokens(&self, messages: &[Message], toolbox: &Toolbox) -> Result<Vec<u32>, TurnError> {
        let chat = envelope::conversation(messages, toolbox, &self.vocabulary);
        Ok(self.vocabulary.encode(&self.template.render(&chat)?)?)
    }

    /// Runs one turn. `on_text` gets the answer's text as it is written. When `stopped` says yes the
    /// work ends within one layer of the model, and the result is `None`.
    ///
    /// Turns wait for each other: there is one cache, and all cores work on one turn anyway.
    pub(crate) fn run(
        &self,
        prompt: Prompt,
        on_text: &mut (dyn FnMut(String) + Send),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Finished>, TurnError> {
        let mut guard = self.session();
        let session: &mut Session = &mut guard;
        // The lock is taken before the pool is entered: a worker of the pool must never wait for it.
        self.threads
            .install(|| self.generate(session, prompt, on_text, stopped))
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session
            .lock()
            .unwrap_or_else(|poisoned: PoisonError<_>| {
                // A turn died half way. What it had read counts for nothing.
                let mut session = poisoned.into_inner();
                session.tokens.clear();
                session.cache.truncate(0);
                self.session.clear_poison();
                session
            })
    }

    fn generate(
        &self,
        session: &mut Session,
        prompt: Prompt,
        on_text: &mut (dyn FnMut(String) + Send),
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Finished>, TurnError> {
        let mut walk = session.grammar(&self.compiler, &prompt.toolbox)?.walk();
        let answer = self.vocabulary.encode(envelope::ANSWER)?.first().copied();
        let cached = session.reuse(&prompt.tokens);
        let mut pending = prompt.tokens[cached..].to_vec();
        let mut writing = Writing::default();
        let mut complete = false;
        while writing.tokens < prompt.output {
            let mut forced = walk.forced()?;
            let cut = forced.len() > prompt.output - writing.tokens;
            forced.truncate(prompt.output - writing.tokens);
            writing.add(&forced, &self.vocabulary, on_text);
            pending.extend(forced);
            let full = writing.tokens == prompt.output
                || session.tokens.len() + pending.len() > self.context;
            if walk.is_complete() || full {
                complete = walk.is_complete() && !cut;
                break;
            }
            let Some(logits) = self.read(session, &pending, stopped)? else {
                return Ok(None);
            };
            let favour = answer.filter(|_| writing.is_at_name());
            let token = walk.choose(&logits, favour.map(|token| (token, prompt.lean)))?;
            writing.add(&[token], &self.vocabulary, on_text);
            pending = vec![token];
            complete = walk.is_complete();
            if complete {
                break;
            }
        }
        let stop = if complete {
            StopReason::Done
        } else {
            StopReason::Length
        };
        let count = |tokens: usize| u64::try_from(tokens).unwrap_or(u64::MAX);
        let usage = Usage {
            input: count(prompt.tokens.len()),
            cached: count(cached),
            output: count(writing.tokens),
        };
        let envelope = String::from_utf8_lossy(&writing.bytes).into_owned();
        let toolbox = prompt.toolbox;
        Ok(Some(Finished {
            envelope,
            stop,
            usage,
            toolbox,
        }))
    }

    /// Reads `tokens` into the cache and returns the logits after the last.
    fn read(
        &self,
        session: &mut Session,
        tokens: &[u32],
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<f32>>, TurnError> {
        let mut logits = None;
        for chunk in tokens.chunks(CHUNK) {
            logits = self
                .transformer
                .forward(chunk, &mut session.cache, stopped)?;
            if logits.is_none() {
                break;
            }
            session.tokens.extend_from_slice(chunk);
        }
        Ok(logits)
    }
}

/// An envelope on its way.
#[derive(Default)]
struct Writing {
    tokens: usize,
    bytes: Vec<u8>,
    text: AnswerText,
}

impl Writing {
    fn add(
        &mut self,
        tokens: &[u32],
        vocabulary: &Vocabulary,
        on_text: &mut (dyn FnMut(String) + Send),
    ) {
        self.tokens += tokens.len();
        for token in tokens {
            let bytes = vocabulary.bytes(*token);
            self.bytes.extend_from_slice(bytes);
            let text = self.text.push(bytes);
            if !text.is_empty() {
                on_text(text);
            }
        }
    }

    /// Whether the name of the tool comes next.
    fn is_at_name(&self) -> bool {
        self.bytes == envelope::HEAD.as_bytes()
    }
}

impl Session {
    /// Cuts the cache back to what it shares with `prompt`, and returns how much that is. At least
    /// one token is left to read, because only reading gives logits.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let same = self
            .tokens
            .iter()
            .zip(prompt)
            .take_while(|(held, wanted)| held == wanted)
            .count();
        let same = same.min(prompt.len().saturating_sub(1));
        self.tokens.truncate(same);
        self.cache.truncate(same);
        same
    }

    /// The grammar for `toolbox`, kept as long as the tools stay the same.
    fn grammar(
        &mut self,
        compiler: &GrammarCompiler,
        toolbox: &Toolbox,
    ) -> Result<&ToolGrammar, GrammarError> {
        let known = self
            .grammar
            .take()
            .filter(|(known, _)| known.is_of(toolbox.declarations()));
        let entry = match known {
            Some(entry) => entry,
            None => (toolbox.clone(), compiler.compile(toolbox)?),
        };
        Ok(&self.grammar.insert(entry).1)
    }
}
