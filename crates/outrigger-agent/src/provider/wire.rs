//! What a format must be able to do; everything else about HTTP is the same for all of them.

use std::collections::VecDeque;

use outrigger_model::{Deferred, ModelEvent, ModelRequest, ToolDeclaration};
use outrigger_schemas::Family;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;

/// One wire format: how a request is written, and who reads the answer.
pub(super) trait Wire: Send + Sync {
    /// Whose schemas it takes.
    fn family(&self) -> Family;

    /// One tool, with its schema as the family takes it.
    fn declare(&self, tool: &ToolDeclaration, schema: Option<&Value>) -> Value;

    /// The value of `tools` for all of them; there is at least one.
    fn declarations(&self, tools: Vec<Written>) -> Value {
        tools.into_iter().map(|tool| tool.value).collect()
    }

    /// The body of the request, whose tools are declared already.
    fn body(
        &self,
        request: &ModelRequest,
        tools: Option<&RawValue>,
    ) -> Result<Vec<u8>, serde_json::Error>;

    /// A reader for the answer to `request`.
    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decoder>;

    /// Drops an optional field that the server complained about in `message`; it stays dropped.
    /// `false` when there is nothing left to give up, so this ends.
    fn concede(&self, message: &str) -> bool {
        let _ = message;
        false
    }
}

/// A tool as it stands in a request.
pub(super) struct Written {
    /// What [`Wire::declare`] made of it.
    pub(super) value: Value,
    /// Where it is left to the provider's search.
    pub(super) deferred: Option<Deferred>,
}

/// Puts the events of one answer together.
pub(super) trait Decoder: Send {
    /// Takes the data of one event and queues what can be shown of it.
    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure>;

    /// The stream said `[DONE]`, which counts for servers that give no reason for stopping.
    fn end_marker(&mut self) {}

    /// The finished turn, if what arrived makes one.
    fn finish(&mut self) -> Option<ModelEvent>;
}

/// Whether the format has seen its end of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

/// Parses the data of an event.
pub(super) fn parse<T: DeserializeOwned>(data: &str) -> Result<T, Failure> {
    serde_json::from_str(data)
        .map_err(|_| Failure::malformed("one event is not what this API sends"))
}

/// `base` with `path` behind it, the query kept. `path` is not repeated where `base` has it already.
pub(super) fn endpoint(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let before = url.path().trim_end_matches('/').to_owned();
    if !before.ends_with(path) {
        url.set_path(&format!("{before}/{path}"));
    }
    url
}

/// As [`endpoint`], with `version` in between unless `base` ends with a version of its own.
pub(super) fn versioned_endpoint(base: &Url, version: &str, path: &str) -> Url {
    let last = base
        .path()
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let is_version = last
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if is_version || base.path().trim_end_matches('/').ends_with(path) {
        endpoint(base, path)
    } else {
        endpoint(base, &format!("{version}/{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        let at = |base: &str| endpoint(&base.parse().unwrap(), "chat/completions").to_string();
        assert_eq!(at("http://h/v1"), "http://h/v1/chat/completions");
        assert_eq!(at("http://h/v1/"), "http://h/v1/chat/completions");
        assert_eq!(
            at("http://h/v1/chat/completions"),
            "http://h/v1/chat/completions"
        );
        assert_eq!(
            at("http://h/x?api-version=3"),
            "http://h/x/chat/completions?api-version=3"
        );
        let at =
            |base: &str| versioned_endpoint(&base.parse().unwrap(), "v1", "messages").to_string();
        assert_eq!(at("http://h"), "http://h/v1/messages");
        assert_eq!(at("http://h/anthropic"), "http://h/anthropic/v1/messages");
        assert_eq!(at("http://h/v1"), "http://h/v1/messages");
    }
}
