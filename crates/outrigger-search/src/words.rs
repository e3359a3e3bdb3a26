//! What counts as a word: text of any script, and names as programmers write them, taken apart into
//! the terms that are indexed and looked up.
//!
//! Compatibility forms and accents are levelled, case is folded. An identifier gives its parts and
//! itself (`getTVShow`: `get`, `tv`, `show`, `gettvshow`). Scripts that are written without spaces
//! give pairs of neighbouring characters. English endings are cut and function words left out; two
//! words of a query stand for the one that they make. There is no dictionary and no synonym.

mod stem;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::decompose_canonical;

/// Longer runs of letters and digits are keys, hashes or encoded data, and nobody's word.
const LONGEST_RUN: usize = 64;
/// What of a text is read, in characters: far more than says what a tool is for.
const LONGEST_TEXT: usize = 1 << 16;

/// Words that say nothing about what a tool does: function words of English, and what people say to
/// be polite. Sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "hello",
    "her", "here", "hers", "hey", "hi", "him", "his", "how", "i", "if", "in", "into", "is", "it",
    "its", "just", "let", "like", "ll", "may", "me", "might", "mine", "must", "my", "need", "no",
    "not", "now", "of", "on", "or", "our", "please", "s", "shall", "she", "should", "so", "some",
    "such", "t", "than", "thank", "thanks", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "too", "us", "ve", "very", "want", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "whose", "why", "will", "with", "would",
    "you", "your", "yours",
];

/// What a character is to the cutting of words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    /// Written without spaces between words.
    Dense,
    Gap,
}

/// The terms of a text, in its order, each as often as it occurs.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    each_run(text, |run| {
        if run.iter().all(|c| kind(*c) == Kind::Lower) {
            if run.len() <= LONGEST_RUN {
                push_term(folded(run), &mut found);
            }
        } else {
            push_parts(run, &mut found);
        }
    });
    found
}

/// A compound that is written as two words, as terms.
pub(crate) struct Compound {
    /// The terms of its parts.
    pub(crate) parts: [String; 2],
    /// The term of both in one word.
    pub(crate) closed: String,
}

/// Neighbouring words of a text in one: `time zone` is `timezone` elsewhere. Function words are no
/// parts of such.
pub(crate) fn compounds(text: &str) -> Vec<Compound> {
    let mut found = Vec::new();
    let mut before: Option<(String, String)> = None;
    each_run(text, |run| {
        // One word, in whatever case, of a script that has spaces.
        let word = folded(run);
        let plain = run.len() <= LONGEST_RUN && parts(run).len() == 1 && !is_dense(&word);
        let term = term(word.clone()).filter(|_| plain);
        if let (Some((first, start)), Some(second)) = (&before, &term) {
            found.extend(self::term(format!("{first}{word}")).map(|closed| Compound {
                parts: [start.clone(), second.clone()],
                closed,
            }));
        }
        before = term.map(|term| (word, term));
    });
    found
}

/// What a run gives that is not one word in lower case.
fn push_parts(run: &[char], found: &mut Vec<String>) {
    if run.len() > LONGEST_RUN && !run.iter().any(|c| kind(*c) == Kind::Dense) {
        return;
    }
    let parts = parts(run);
    if parts.len() > 1 && !parts.iter().any(|part| is_dense(part)) {
        push_term(parts.concat(), found);
    }
    for part in parts {
        if is_dense(&part) {
            push_pairs(&part, found);
        } else {
            push_term(part, found);
        }
    }
}

/// A name without separators, accents and case: `getFilm-Info` is `getfilminfo`. One that has neither
/// letters nor digits is itself.
pub(crate) fn spelling(name: &str) -> String {
    let mut spelling = String::new();
    each_run(name, |run| spelling.push_str(&folded(run)));
    if spelling.is_empty() {
        name.trim().to_owned()
    } else {
        spelling
    }
}

/// A name in words: `getFilm-Info` is `get film info`.
pub(crate) fn spaced(name: &str) -> String {
    let mut words = Vec::new();
    each_run(name, |run| words.extend(parts(run)));
    words.join(" ")
}

fn push_term(part: String, found: &mut Vec<String>) {
    found.extend(term(part));
}

/// A word without its ending; none of a function word.
fn term(mut word: String) -> Option<String> {
    if STOP_WORDS.binary_search(&word.as_str()).is_ok() {
        return None;
    }
    word.truncate(stem::stem(&word).len());
    Some(word)
}

/// Neighbouring pairs; a character that stands alone is a term itself.
fn push_pairs(part: &str, found: &mut Vec<String>) {
    let characters: Vec<char> = part.chars().collect();
    if characters.len() == 1 {
        found.push(part.to_owned());
    }
    found.extend(characters.windows(2).map(String::from_iter));
}

fn is_dense(part: &str) -> bool {
    part.chars().next().is_some_and(|c| kind(c) == Kind::Dense)
}

/// Calls `take` with each unbroken run of letters and digits.
fn each_run(text: &str, take: impl FnMut(&[char])) {
    if text.is_ascii() {
        // Nothing to level, and most texts are of this kind.
        runs_of(text.chars().take(LONGEST_TEXT), take);
    } else {
        let level = text.nfkc().take(LONGEST_TEXT).map(without_accent);
        runs_of(level, take);
    }
}

fn runs_of(text: impl Iterator<Item = char>, mut take: impl FnMut(&[char])) {
    let mut run = Vec::new();
    for character in text {
        if kind(character) != Kind::Gap {
            run.push(character);
        } else if !is_mark(character) {
            flush(&mut run, &mut take);
        }
    }
    flush(&mut run, &mut take);
}

fn flush(run: &mut Vec<char>, take: &mut impl FnMut(&[char])) {
    if !run.is_empty() {
        take(run);
    }
    run.clear();
}

/// A run cut where case, digits or script say that a new word begins.
fn parts(run: &[char]) -> Vec<String> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..run.len() {
        if begins_word(run, at) {
            parts.push(folded(&run[start..at]));
            start = at;
        }
    }
    parts.push(folded(&run[start..]));
    parts
}

fn begins_word(run: &[char], at: usize) -> bool {
    let (before, here) = (kind(run[at - 1]), kind(run[at]));
    match (before, here) {
        (Kind::Lower, Kind::Upper) => true,
        // `HTTPServer` is `http`, `server`, while `APIs` is one word.
        (Kind::Upper, Kind::Upper) => {
            let next = run.get(at + 1).map(|c| kind(*c));
            let plural = run[at + 1..] == ['s'];
            next == Some(Kind::Lower) && !plural
        }
        (Kind::Upper, Kind::Lower) => false,
        (before, here) => before != here,
    }
}

fn folded(part: &[char]) -> String {
    if part.iter().all(char::is_ascii) {
        return part.iter().map(char::to_ascii_lowercase).collect();
    }
    part.iter().flat_map(|c| c.to_lowercase()).collect()
}

fn kind(character: char) -> Kind {
    if character.is_ascii() {
        return match character {
            'a'..='z' => Kind::Lower,
            'A'..='Z' => Kind::Upper,
            '0'..='9' => Kind::Digit,
            _ => Kind::Gap,
        };
    }
    if dense(character) {
        Kind::Dense
    } else if character.is_uppercase() {
        Kind::Upper
    } else if character.is_alphabetic() {
        Kind::Lower
    } else if character.is_numeric() {
        Kind::Digit
    } else {
        Kind::Gap
    }
}

/// Thai, Lao, Tibetan, Myanmar, Khmer; Chinese, Japanese, Korean.
fn dense(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0FFF | 0x1000..=0x109F | 0x1100..=0x11FF | 0x1780..=0x17FF
        | 0x3005..=0x3007 | 0x3040..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// Combining marks stand inside words, where they were not composed with their letter.
fn is_mark(character: char) -> bool {
    !character.is_ascii() && unicode_normalization::char::is_combining_mark(character)
}

/// The letter below an accent, in the scripts whose readers leave accents out.
fn without_accent(character: char) -> char {
    if !matches!(u32::from(character), 0xC0..=0x52F | 0x1E00..=0x1FFF) {
        return character;
    }
    let mut base = None;
    decompose_canonical(character, |part| {
        base.get_or_insert(part);
    });
    match base.unwrap_or(character) {
        // Vietnamese and Scandinavian letters that Unicode does not take apart.
        'đ' => 'd',
        'Đ' => 'D',
        'ø' => 'o',
        'Ø' => 'O',
        'ł' => 'l',
        'Ł' => 'L',
        other => other,
    }
}
