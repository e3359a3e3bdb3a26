//! What hooks answer: JSON objects with the members of their event, and no others. A member that is
//! not known here may have meant no, so the answer counts as none.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::text::shorten;

/// A hook's word on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Allow,
    Ask,
    Deny,
}

/// The answer of a `before_call` hook.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeforeAnswer {
    #[serde(default)]
    pub(crate) decision: Option<Word>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// Instead of those that were proposed.
    #[serde(default)]
    pub(crate) arguments: Option<Box<RawValue>>,
}

/// The answer of an `after_call` hook.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterAnswer {
    /// Stands in the place of all that the model would read.
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// Texts to be taken out of it.
    #[serde(default)]
    pub(crate) redact: Vec<String>,
    /// Is added to it.
    #[serde(default)]
    pub(crate) context: Option<String>,
}

/// The answer of a `session_start` hook.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, from = "Start")]
pub(crate) struct StartAnswer {
    pub(crate) deny: bool,
    pub(crate) reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    #[serde(default)]
    decision: Option<StartWord>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartWord {
    Allow,
    Deny,
}

impl From<Start> for StartAnswer {
    fn from(start: Start) -> Self {
        Self {
            deny: matches!(start.decision, Some(StartWord::Deny)),
            reason: start.reason,
        }
    }
}

/// The answer of a `session_end` hook: it has nothing to say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndAnswer {}

/// Reads an answer; nothing at all is no answer and no failure. The error completes "the hook …".
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with('{') {
        return Err(format!(
            "answered with something that is no JSON object: `{}`",
            shorten(text, 100)
        ));
    }
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| format!("gave an answer that cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_an_answer() {
        let before = |text| read::<BeforeAnswer>(text).map(|answer| answer.map(|a| a.decision));
        assert_eq!(before(" \n"), Ok(None));
        assert_eq!(before("{}"), Ok(Some(None)));
        assert_eq!(
            before(r#"{"decision":"deny","reason":"no"}"#),
            Ok(Some(Some(Word::Deny)))
        );
        let faults: Vec<String> = [
            "yes",
            "[]",
            r#"{"decision":"approve"}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#,
            r#"{"decision":"allow""#,
            r#"{"decision":"deny","decision":"allow"}"#,
        ]
        .into_iter()
        .map(|text| before(text).unwrap_err())
        .collect();
        insta::assert_snapshot!(faults.join("\n"), @r"
        answered with something that is no JSON object: `yes`
        answered with something that is no JSON object: `[]`
        gave an answer that cannot be read: unknown variant `approve`, expected one of `allow`, `ask`, `deny` at line 1 column 21
        gave an answer that cannot be read: unknown field `hookSpecificOutput`, expected one of `decision`, `reason`, `arguments` at line 1 column 21
        gave an answer that cannot be read: EOF while parsing an object at line 1 column 19
        gave an answer that cannot be read: duplicate field `decision` at line 1 column 29
        ");
        assert!(
            read::<StartAnswer>(r#"{"decision":"deny"}"#)
                .unwrap()
                .unwrap()
                .deny
        );
        assert!(read::<StartAnswer>(r#"{"decision":"ask"}"#).is_err());
        assert!(read::<EndAnswer>(r#"{"decision":"deny"}"#).is_err());
    }
}
