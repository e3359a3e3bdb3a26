//! Text to token ids and back, built from nothing but the GGUF file's own metadata.
//!
//! Byte-level BPE only, which is what all known models here use. Control tokens (`<|im_end|>` and
//! the like) are recognised in the frame of a conversation and never in what people or tools wrote:
//! Quoting marks such text, and [`Vocabulary::encode`] takes the mark out again.

use std::collections::HashMap;

use regex::Regex;
use tokenizers::{
    PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer,
    models::bpe::BPE,
    normalizers::unicode::NFC,
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::gguf::{Gguf, LoadError};

/// A Unicode noncharacter: it cannot be part of a text that is meant for interchange.
const MARK: char = '\u{FDD0}';

/// `token_type` of GGUF: control tokens, and tokens that a user of the model defined.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// The splits of llama.cpp's `qwen2` and `llama-bpe`, which differ in how many digits stay together.
const WORDS_QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const WORDS_LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A text could not be tokenised.
#[derive(Debug, thiserror::Error)]
#[error("the text could not be tokenised: {0}")]
pub(crate) struct EncodeError(String);

/// The vocabulary of one model.
pub(crate) struct Vocabulary {
    words: Tokenizer,
    specials: Regex,
    special_ids: HashMap<String, u32>,
    /// The bytes of each token; empty for tokens that are no text.
    bytes: Vec<Vec<u8>>,
    /// The names of control tokens, to tell them apart for the grammar.
    names: HashMap<u32, String>,
    end_of_turn: u32,
    begin_of_text: Option<String>,
}

impl Vocabulary {
    pub(crate) fn read(file: &Gguf) -> Result<Self, LoadError> {
        let required = |key: &str| file.texts(key).ok_or_else(|| file.missing(key));
        let kind = file
            .text("tokenizer.ggml.model")
            .ok_or_else(|| file.missing("tokenizer.ggml.model"))?;
        if kind != "gpt2" {
            return Err(file.unsupported(format!(
                "its tokenizer is `{kind}`; only byte-level BPE (`gpt2`) is implemented"
            )));
        }
        let tokens = required("tokenizer.ggml.tokens")?;
        let merges = required("tokenizer.ggml.merges")?;
        let types = file
            .numbers("tokenizer.ggml.token_type")
            .unwrap_or_default();
        let end_of_turn = file
            .number("tokenizer.ggml.eos_token_id")
            .and_then(|id| u32::try_from(id).ok());
        let end_of_turn = end_of_turn.ok_or_else(|| file.missing("tokenizer.ggml.eos_token_id"))?;
        let first = file
            .number("tokenizer.ggml.bos_token_id")
            .and_then(|id| usize::try_from(id).ok());
        let words = byte_pairs(file, &tokens, &merges)?;

        let mut special_ids = HashMap::new();
        let mut names = HashMap::new();
        let mut bytes = Vec::with_capacity(tokens.len());
        let unprintable = byte_of_char();
        for (id, token) in (0u32..).zip(&tokens) {
            let kind = types.get(bytes.len()).copied().unwrap_or_default();
            if kind == CONTROL || kind == USER_DEFINED || id == end_of_turn {
                special_ids.insert(token.clone(), id);
                names.insert(id, token.clone());
                bytes.push(Vec::new());
            } else if kind == UNUSED {
                bytes.push(Vec::new());
            } else {
                bytes.push(
                    token
                        .chars()
                        .filter_map(|char| unprintable.get(&char).copied())
                        .collect(),
                );
            }
        }
        let specials =
            specials_pattern(&special_ids).map_err(|error| file.broken(error.to_string()))?;
        let begin_of_text = first.and_then(|id| tokens.get(id)).cloned();
        Ok(Self {
            words,
            specials,
            special_ids,
            bytes,
            names,
            end_of_turn,
            begin_of_text,
        })
    }

    /// Encodes a rendered conversation. Control tokens count unless they were marked as quoted.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut done = 0;
        for found in self.specials.find_iter(text) {
            self.encode_plain(&text[done..found.start()], &mut ids)?;
            ids.extend(self.special_ids.get(found.as_str()));
            done = found.end();
        }
        self.encode_plain(&text[done..], &mut ids)?;
        Ok(ids)
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        if text.is_empty() {
            return Ok(());
        }
        let unmarked = text.replace(MARK, "");
        let encoding = self
            .words
            .encode_fast(unmarked, false)
            .map_err(|error| EncodeError(error.to_string()))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// The bytes of one token. Several tokens may share one character.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.bytes.get(id))
            .map_or(&[], Vec::as_slice)
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The name of a control token.
    pub(crate) fn special_name(&self, id: u32) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    pub(crate) fn end_of_turn(&self) -> u32 {
        self.end_of_turn
    }

    /// What templates know as `bos_token`.
    pub(crate) fn begin_of_text(&self) -> &str {
        self.begin_of_text.as_deref().unwrap_or_default()
    }

    /// What templates know as `eos_token`.
    pub(crate) fn end_of_text(&self) -> &str {
        self.special_name(self.end_of_turn).unwrap_or_default()
    }

    /// Marks control tokens in a text that people or tools wrote, so that they stay plain text.
    pub(crate) fn quote(&self, text: &str) -> String {
        let text = text.replace(MARK, "\u{FFFD}");
        let marked = self
            .specials
            .replace_all(&text, |found: &regex::Captures<'_>| {
                let mut chars = found[0].chars();
                let first = chars.next().unwrap_or(MARK);
                format!("{first}{MARK}{}", chars.as_str())
            });
        marked.into_owned()
    }
}

fn byte_pairs(file: &Gguf, tokens: &[String], merges: &[String]) -> Result<Tokenizer, LoadError> {
    let broken = |reason: String| file.broken(reason);
    let pairs = merges
        .iter()
        .map(|merge| {
            merge
                .split_once(' ')
                .map(|(left, right)| (left.to_owned(), right.to_owned()))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| file.broken("an entry of `tokenizer.ggml.merges` is not a pair"))?;
    let ids = (0u32..)
        .zip(tokens)
        .map(|(id, token)| (token.clone(), id))
        .collect::<tokenizers::models::bpe::Vocab>();
    let kind = file.text("tokenizer.ggml.pre").unwrap_or("gpt-2");
    let model = BPE::builder()
        .vocab_and_merges(ids, pairs)
        .ignore_merges(kind == "llama-bpe")
        .build()
        .map_err(|error| broken(error.to_string()))?;
    let mut tokenizer = Tokenizer::new(model);
    let split = |pattern: &str| -> Result<PreTokenizerWrapper, LoadError> {
        let split = Split::new(
            SplitPattern::Regex(pattern.to_owned()),
            SplitDelimiterBehavior::Isolated,
            false,
        )
        .map_err(|error| broken(error.to_string()))?;
        Ok(Sequence::new(vec![
            split.into(),
            ByteLevel::new(false, false, false).into(),
        ])
        .into())
    };
    let words = match kind {
        "qwen2" => {
            tokenizer
                .with_normalizer(Some(NFC))
                .map_err(|error| broken(error.to_string()))?;
            split(WORDS_QWEN2)?
        }
        "llama-bpe" => split(WORDS_LLAMA3)?,
        "smollm" => Sequence::new(vec![
            Digits::new(true).into(),
            ByteLevel::new(false, true, true).into(),
        ])
        .into(),
        "gpt-2" => ByteLevel::new(false, true, true).into(),
        other => {
            return Err(file.unsupported(format!(
                "it splits words as `{other}`; `qwen2`, `llama-bpe`, `smollm` and `gpt-2` are implemented"
            )));
        }
    };
    tokenizer.with_pre_tokenizer(Some(words));
    Ok(tokenizer)
}

/// All special tokens, the longest first, because alternatives are tried in order.
fn specials_pattern(ids: &HashMap<String, u32>) -> Result<Regex, regex::Error> {
    let mut texts: Vec<&str> = ids.keys().map(String::as_str).collect();
    texts.sort_by_key(|text| (std::cmp::Reverse(text.len()), *text));
    Regex::new(
        &texts
            .iter()
            .map(|text| regex::escape(text))
            .collect::<Vec<_>>()
            .join("|"),
    )
}

/// The alphabet of byte-level BPE: printable bytes stand for themselves, the others are moved to
/// U+0100 and on, in order (GPT-2's `bytes_to_unicode`).
fn byte_of_char() -> HashMap<char, u8> {
    let mut moved = 0x100u32;
    let mut alphabet = HashMap::with_capacity(256);
    for byte in 0..=u8::MAX {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let char = if printable {
            char::from(byte)
        } else {
            moved += 1;
            char::from_u32(moved - 1).unwrap_or_default()
        };
        alphabet.insert(char, byte);
    }
    alphabet
}
