//! What a person has said about calls to come: this tool, as it is defined now, of this server, with
//! arguments like these.
//!
//! A grant answers a question of policy and never a deny. It is bound to the server's command line or
//! address and to the fingerprint of the tool's definition, so what changes is asked about again; it
//! ends by itself, and can be taken back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use globset::GlobBuilder;
use jiff::Timestamp;
use outrigger_connect::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approve::Question;
use crate::digest::Digest;
use crate::kept_file::{self, KeptFileError};
use crate::pins::ServerIdentity;
use crate::shared_texts::{Shared, SharedTexts};

/// How long a grant lasts unless said otherwise.
pub const LASTS: Duration = Duration::from_hours(30 * 24);

/// The name of what replicas share.
const NAME: &str = "grants";

const HEAD: &str = "\
# What was said about calls to come. `outrigger grants` lists it and takes it back.

";

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its name, six hexadecimal digits.
    pub id: String,
    /// The server's name and identity.
    pub server: String,
    /// The tool, as the model calls it.
    pub tool: String,
    /// Fingerprint of the tool's definition.
    pub definition: String,
    /// Whose calls it is for: a principal of the gateway; `None`: the person's own, and those of
    /// clients that are taken for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// When it was given.
    pub since: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// The arguments it is for.
    pub arguments: Pattern,
}

/// Which arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Whatever they are.
    Any,
    /// Exactly these keys, each as said.
    Keys(BTreeMap<String, Matcher>),
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// This value, as JSON text with sorted keys.
    Is(String),
    /// A text that this glob matches. `*` and `?` stop at `/`, `**` does not; a text with a `..` between
    /// slashes never matches, since it may lead anywhere.
    Glob(String),
}

/// A pattern as a person types it that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(default)]
    grant: Vec<Grant>,
}

/// The grants of a person, or what they have granted to a principal of the gateway.
#[derive(Debug)]
pub struct Grants {
    /// Whose calls are asked about.
    principal: Option<String>,
    kept_in: KeptIn,
    known: Mutex<Kept>,
}

#[derive(Debug)]
enum KeptIn {
    /// Without a home.
    Nothing,
    File(PathBuf),
    /// With the version that is known.
    Shared(Shared, Mutex<Option<i64>>),
}

impl Pattern {
    /// Exactly these arguments (JSON text of an object).
    pub fn exactly(arguments: &str) -> Self {
        let object = object(arguments);
        Self::Keys(
            object
                .into_iter()
                .map(|(key, value)| (key, Matcher::Is(text(value))))
                .collect(),
        )
    }

    /// What a person typed, for a call with these arguments: nothing for exactly these, `*` for any,
    /// or `KEY=GLOB …` where the keys not named stay as they are.
    pub fn typed(words: &str, arguments: &str) -> Result<Self, BadPattern> {
        let words = words.trim();
        if words == "*" {
            return Ok(Self::Any);
        }
        let Self::Keys(mut keys) = Self::exactly(arguments) else {
            return Ok(Self::Any);
        };
        for word in words.split_whitespace() {
            let Some((key, glob)) = word.split_once('=') else {
                return Err(BadPattern(format!("`{word}` is not `key=glob`")));
            };
            if !keys.contains_key(key) {
                let known: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
                return Err(BadPattern(format!(
                    "the call has no argument `{key}`; it has {}",
                    known.join(", ")
                )));
            }
            compiled(glob)
                .map_err(|reason| BadPattern(format!("`{glob}` is not a usable glob: {reason}")))?;
            keys.insert(key.to_owned(), Matcher::Glob(glob.to_owned()));
        }
        Ok(Self::Keys(keys))
    }

    /// Whether it is for these arguments (JSON text of an object).
    pub fn matches(&self, arguments: &str) -> bool {
        let Self::Keys(keys) = self else {
            return true;
        };
        let arguments = object(arguments);
        arguments.len() == keys.len()
            && arguments
                .into_iter()
                .all(|(key, value)| keys.get(&key).is_some_and(|matcher| matcher.matches(value)))
    }
}

impl Matcher {
    fn matches(&self, value: Value) -> bool {
        match self {
            Self::Is(wanted) => text(value) == *wanted,
            Self::Glob(glob) => value.as_str().is_some_and(|value| {
                let escapes = value.split(['/', '\\']).any(|part| part == "..");
                !escapes && compiled(glob).is_ok_and(|glob| glob.is_match(value))
            }),
        }
    }
}

fn compiled(glob: &str) -> Result<globset::GlobMatcher, String> {
    let glob = GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(false)
        .build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| error.kind().to_string())
}

fn object(arguments: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(arguments).unwrap_or_default()
}

fn text(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

impl Grants {
    /// Reads what was said. A file that cannot be read is an error, and there is none without a home.
    pub fn open(file: Option<PathBuf>) -> Result<Self, KeptFileError> {
        let known = file.as_deref().map_or(Ok(Kept::default()), read)?;
        Ok(Self {
            principal: None,
            kept_in: file.map_or(KeptIn::Nothing, KeptIn::File),
            known: Mutex::new(known),
        })
    }

    /// What was said on any replica. Blocks.
    pub fn open_shared(texts: Arc<dyn SharedTexts>) -> Result<Self, KeptFileError> {
        let shared = Shared::new(texts, NAME);
        let (known, version) = match shared.read(None, parse)? {
            Some((known, version)) => (known, Some(version)),
            None => (Kept::default(), None),
        };
        Ok(Self {
            principal: None,
            kept_in: KeptIn::Shared(shared, Mutex::new(version)),
            known: Mutex::new(known),
        })
    }

    /// Looks whether another replica has changed what was said. When that cannot be known, nothing was
    /// said.
    pub async fn refresh(self: &Arc<Self>) -> Result<(), KeptFileError> {
        if !matches!(self.kept_in, KeptIn::Shared(..)) {
            return Ok(());
        }
        let own = Arc::clone(self);
        // A runtime that is ending has no more questions.
        let looked = tokio::task::spawn_blocking(move || own.look()).await;
        looked.unwrap_or(Ok(()))
    }

    fn look(&self) -> Result<(), KeptFileError> {
        let KeptIn::Shared(shared, version) = &self.kept_in else {
            return Ok(());
        };
        let mut version = version.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.read(*version, parse) {
            Ok(None) => {}
            Ok(Some((kept, found))) => {
                *self.known() = kept;
                *version = Some(found);
            }
            Err(error) => {
                *self.known() = Kept::default();
                *version = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The same for the calls of a principal: no grant of anybody else counts for them.
    #[must_use]
    pub fn of_principal(self, name: Option<&str>) -> Self {
        Self {
            principal: name.map(ToOwned::to_owned),
            ..self
        }
    }

    /// The grant that answers a question at this time, if there is one.
    pub fn find(&self, question: Question<'_>, now: Timestamp) -> Option<Grant> {
        let server = server(question.server, &question.tool.server);
        let definition = question.tool.digest.to_string();
        let known = self.known();
        let found = known.grant.iter().find(|grant| {
            grant.principal == self.principal
                && grant.server == server
                && grant.tool == question.tool.name.as_str()
                && grant.definition == definition
                && now < grant.until
                && grant.arguments.matches(question.exact)
        });
        found.cloned()
    }

    /// Says so from now on for `lasts`. Grants that have ended are forgotten with it.
    pub fn give(
        &self,
        question: Question<'_>,
        arguments: Pattern,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Grant, KeptFileError> {
        let mut grant = Grant {
            id: String::new(),
            server: server(question.server, &question.tool.server),
            tool: question.tool.name.to_string(),
            definition: question.tool.digest.to_string(),
            principal: self.principal.clone(),
            since: now,
            until: now
                .saturating_add(
                    jiff::SignedDuration::try_from(lasts).unwrap_or(jiff::SignedDuration::MAX),
                )
                .unwrap_or(Timestamp::MAX),
            arguments,
        };
        let described = serde_json::to_value(&grant).unwrap_or_default();
        Digest::of(&described).to_string()[..6].clone_into(&mut grant.id);
        self.change(|kept| {
            kept.grant
                .retain(|old| now < old.until && old.id != grant.id);
            kept.grant.push(grant.clone());
        })?;
        Ok(grant)
    }

    /// Takes back those for which `which` is true; gives them.
    pub fn revoke(
        &self,
        which: impl Fn(&Grant) -> bool + Send + Sync,
    ) -> Result<Vec<Grant>, KeptFileError> {
        let mut gone = Vec::new();
        self.change(|kept| {
            let (taken, left) = kept.grant.drain(..).partition(|grant| which(grant));
            (gone, kept.grant) = (taken, left);
        })?;
        Ok(gone)
    }

    /// All of them, those that have ended too.
    pub fn all(&self) -> Vec<Grant> {
        self.known().grant.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Kept) + Send) -> Result<(), KeptFileError> {
        match &self.kept_in {
            KeptIn::Nothing => change(&mut self.known()),
            KeptIn::File(path) => {
                let mut known = self.known();
                *known = kept_file::update(path, read, change, |kept| written(path, kept))?;
            }
            KeptIn::Shared(shared, version) => {
                let path = shared.path();
                let mut version = version.lock().unwrap_or_else(PoisonError::into_inner);
                let write = |kept: &Kept| written(&path, kept);
                let (kept, reached) = shared.update(parse, change, write)?;
                *self.known() = kept;
                *version = Some(reached);
            }
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Kept> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<Kept, KeptFileError> {
    let Some(text) = kept_file::read(path)? else {
        return Ok(Kept::default());
    };
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Kept, KeptFileError> {
    toml::from_str(text)
        .map_err(|error| KeptFileError::new(path, "is not a file of grants", &error))
}

fn written(path: &Path, kept: &Kept) -> Result<String, KeptFileError> {
    let text = toml::to_string_pretty(kept)
        .map_err(|error| KeptFileError::new(path, "cannot be written", &error))?;
    Ok(format!("{HEAD}{text}"))
}

/// A server, as grants name it; without an identity it is one of ours.
pub(crate) fn server(identity: Option<&ServerIdentity>, name: &ServerName) -> String {
    match identity {
        Some(identity) => identity.key(),
        None => format!("{name}@builtin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = r#"{"path":"docs/a.md","mode":{"b":1,"a":2}}"#;

    #[test]
    fn a_pattern_is_for_what_was_said_and_no_more() {
        let exact = Pattern::typed("", CALL).unwrap();
        let glob = Pattern::typed("path=docs/*", CALL).unwrap();
        let any = Pattern::typed(" * ", CALL).unwrap();
        for (arguments, expected) in [
            (CALL, [true, true, true]),
            (
                r#"{"mode":{"a":2,"b":1},"path":"docs/a.md"}"#,
                [true, true, true],
            ),
            (
                r#"{"path":"docs/b.md","mode":{"b":1,"a":2}}"#,
                [false, true, true],
            ),
            (
                r#"{"path":"docs/x/b.md","mode":{"b":1,"a":2}}"#,
                [false, false, true],
            ),
            (
                r#"{"path":"docs/..","mode":{"b":1,"a":2}}"#,
                [false, false, true],
            ),
            (
                r#"{"path":"docs/b.md","mode":{"b":1,"a":3}}"#,
                [false, false, true],
            ),
            (r#"{"path":"docs/b.md"}"#, [false, false, true]),
            (
                r#"{"path":"docs/b.md","mode":{"b":1,"a":2},"force":true}"#,
                [false, false, true],
            ),
            (r#"{"path":7,"mode":{"b":1,"a":2}}"#, [false, false, true]),
        ] {
            let matched = [&exact, &glob, &any].map(|pattern| pattern.matches(arguments));
            assert_eq!(matched, expected, "{arguments}");
        }
        let deep = Pattern::typed("path=docs/**", CALL).unwrap();
        assert!(deep.matches(r#"{"path":"docs/x/b.md","mode":{"b":1,"a":2}}"#));
        assert!(!deep.matches(r#"{"path":"docs/../../etc/passwd","mode":{"b":1,"a":2}}"#));
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for (words, said) in [
            ("docs/*", "`docs/*` is not `key=glob`"),
            (
                "file=x",
                "the call has no argument `file`; it has `mode`, `path`",
            ),
            ("path=[", "`path=[`"),
        ] {
            let error = Pattern::typed(words, CALL).unwrap_err().to_string();
            assert!(
                error.contains(said) || error.contains("is not a usable glob"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_pattern_is_kept_as_it_is() {
        for pattern in [
            Pattern::Any,
            Pattern::exactly(CALL),
            Pattern::typed("path=docs/*", CALL).unwrap(),
        ] {
            let kept = toml::to_string(&BTreeMap::from([("arguments", &pattern)])).unwrap();
            let read: BTreeMap<String, Pattern> = toml::from_str(&kept).unwrap();
            assert_eq!(read["arguments"], pattern, "{kept}");
        }
    }
}
