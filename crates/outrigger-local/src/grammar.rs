//! The grammar of one turn: one call of one of the turn's tools, or an answer, and nothing else.
//!
//! Everything the model may write is an envelope, `{"tool":…,"arguments":…}`, and answering is one
//! more tool, so a small model decides once, at the name. The arguments of each tool follow its own
//! schema. Where that schema is beyond the grammar compiler a looser one takes its place, which is
//! logged; checking the arguments is the host's work in any case.

use std::{fmt::Write as _, sync::Arc};

use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    earley::SlicedBiasComputer,
    toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv},
};
use serde_json::{Value, json};

use crate::{
    envelope::{ANSWER, Toolbox},
    schema,
    tokenizer::Vocabulary,
};

/// Characters of an answer. The bound on tokens usually comes first.
const ANSWER_LENGTH: u64 = 16_000;

/// A grammar could not be built or followed.
#[derive(Debug, thiserror::Error)]
#[error("the grammar of the tools failed: {0}")]
pub(crate) struct GrammarError(String);

impl GrammarError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(format!("{error:#}"))
    }
}

/// Builds grammars for one vocabulary.
pub(crate) struct GrammarCompiler {
    factory: ParserFactory,
}

/// The grammar of one set of tools. Each turn works on a copy.
pub(crate) struct ToolGrammar {
    matcher: Matcher,
}

impl GrammarCompiler {
    pub(crate) fn new(vocabulary: &Arc<Vocabulary>) -> Result<Self, GrammarError> {
        let tokens: TokEnv = Arc::new(Tokens::new(Arc::clone(vocabulary)));
        let abilities = InferenceCapabilities {
            ff_tokens: true,
            ..InferenceCapabilities::default()
        };
        let slices = SlicedBiasComputer::json_slices();
        let mut factory =
            ParserFactory::new(&tokens, abilities, &slices).map_err(GrammarError::new)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// The grammar for the tools of `toolbox` and the answer.
    pub(crate) fn compile(&self, toolbox: &Toolbox) -> Result<ToolGrammar, GrammarError> {
        let mut rules = String::new();
        let mut alternatives = Vec::new();
        for (index, tool) in toolbox.tools().enumerate() {
            let arguments = self.arguments(tool.name, tool.schema);
            add_rule(&mut rules, index, tool.shown, &arguments);
            alternatives.push(format!("call_{index}"));
        }
        let answer = json!({
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1, "maxLength": ANSWER_LENGTH}},
            "required": ["text"],
            "additionalProperties": false,
        });
        add_rule(&mut rules, alternatives.len(), ANSWER, &answer);
        alternatives.push(format!("call_{}", alternatives.len()));
        let grammar = format!("start: {}\n{rules}", alternatives.join(" | "));
        let parser = self
            .factory
            .create_parser(TopLevelGrammar::from_lark(grammar))
            .map_err(GrammarError::new)?;
        Ok(ToolGrammar {
            matcher: Matcher::new(Ok(parser)),
        })
    }

    /// The strictest schema for a tool's arguments that can be compiled.
    fn arguments(&self, name: &str, declared: &Value) -> Value {
        let strict = schema::narrowed(declared);
        let Err(reason) = self.try_compile(&strict) else {
            return strict;
        };
        let names = schema::names_only(declared);
        let looser = if self.try_compile(&names).is_ok() {
            names
        } else {
            json!({"type": "object"})
        };
        tracing::warn!(tool = name, %reason, %looser, "the tool's schema is too much for the grammar; a looser one is used");
        looser
    }

    fn try_compile(&self, schema: &Value) -> Result<(), GrammarError> {
        let grammar = TopLevelGrammar::from_json_schema(compact(schema));
        self.factory
            .create_parser(grammar)
            .map(|_| ())
            .map_err(GrammarError::new)
    }
}

fn add_rule(rules: &mut String, index: usize, name: &str, arguments: &Value) {
    let head = Value::String(format!("{{\"tool\":\"{name}\",\"arguments\":"));
    let written = writeln!(
        rules,
        "call_{index}: {head} arguments_{index} \"}}\"\narguments_{index}: %json {}",
        compact(arguments)
    );
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// `schema`, with the one way of writing JSON that the model may use.
fn compact(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        root.insert(
            "x-guidance".to_owned(),
            json!({"whitespace_flexible": false}),
        );
    }
    schema
}

impl ToolGrammar {
    /// A walk through the grammar, from its start.
    pub(crate) fn walk(&self) -> GrammarWalk {
        GrammarWalk {
            matcher: self.matcher.deep_clone(),
        }
    }
}

/// One walk through a grammar, token by token.
pub(crate) struct GrammarWalk {
    matcher: Matcher,
}

impl GrammarWalk {
    /// Steps over the tokens that the grammar leaves no choice about, and returns them.
    pub(crate) fn forced(&mut self) -> Result<Vec<u32>, GrammarError> {
        let tokens = self.matcher.consume_ff_tokens();
        self.matcher
            .get_error()
            .map_or(Ok(tokens), |error| Err(GrammarError(error)))
    }

    /// Whether the envelope is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }

    /// Takes the likeliest of the allowed tokens, after adding what `favour` gives to one of them.
    pub(crate) fn choose(
        &mut self,
        logits: &[f32],
        favour: Option<(u32, f32)>,
    ) -> Result<u32, GrammarError> {
        let mask = self.matcher.compute_mask().map_err(GrammarError::new)?;
        let mut best: Option<(u32, f32)> = None;
        mask.iter_set_entries(|index| {
            let id = u32::try_from(index).ok();
            let Some((&logit, id)) = logits.get(index).zip(id) else {
                return;
            };
            let extra = favour.map_or(
                0.0,
                |(favoured, extra)| if favoured == id { extra } else { 0.0 },
            );
            let logit = logit + extra;
            if best.is_none_or(|(_, highest)| logit > highest) {
                best = Some((id, logit));
            }
        });
        let (id, _) = best.ok_or_else(|| GrammarError::new("no token is allowed"))?;
        self.matcher.consume_token(id).map_err(GrammarError::new)?;
        Ok(id)
    }
}

/// The vocabulary as the grammar library wants to see it.
struct Tokens {
    vocabulary: Arc<Vocabulary>,
    trie: TokTrie,
}

impl Tokens {
    fn new(vocabulary: Arc<Vocabulary>) -> Self {
        let words: Vec<Vec<u8>> = (0u32..)
            .take(vocabulary.len())
            .map(|id| match vocabulary.special_name(id) {
                Some(name) => [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat(),
                None => vocabulary.bytes(id).to_vec(),
            })
            .collect();
        let size = u32::try_from(words.len()).unwrap_or(u32::MAX);
        let trie = TokTrie::from(&TokRxInfo::new(size, vocabulary.end_of_turn()), &words);
        Self { vocabulary, trie }
    }
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.vocabulary
                .encode(&self.vocabulary.quote(text))
                .unwrap_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }
}
