//! The search of tools that two protocols have of their own: what it finds among the deferred tools of a
//! request, and what has to come back of it.

use std::collections::HashSet;

use serde_json::Value;

/// How many tools a search finds at the most, as the real ones do.
const MOST: usize = 5;

/// A tool that the model does not see before it was found.
#[derive(Debug, Clone)]
pub(super) struct Hidden {
    pub(super) name: String,
    /// The group that it stands in, where the protocol has them.
    pub(super) group: Option<Value>,
    pub(super) definition: Value,
}

/// One search of a turn.
#[derive(Debug)]
pub(super) struct Searched {
    pub(super) query: String,
    pub(super) found: Vec<Hidden>,
}

/// What each of these queries finds: tools in whose definition most of its words are.
pub(super) fn searched(queries: &[String], hidden: &[Hidden]) -> Vec<Searched> {
    let search = |query: &String| {
        let words: Vec<String> = query
            .to_lowercase()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let mut scored: Vec<(usize, &Hidden)> = hidden
            .iter()
            .map(|tool| {
                let text = tool.definition.to_string().to_lowercase();
                (
                    words.iter().filter(|word| text.contains(*word)).count(),
                    tool,
                )
            })
            .filter(|(score, _)| *score > 0)
            .collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        Searched {
            query: query.clone(),
            found: scored
                .into_iter()
                .take(MOST)
                .map(|(_, tool)| tool.clone())
                .collect(),
        }
    };
    queries.iter().map(search).collect()
}

/// What was said of searches, which must come back byte for byte with the calls that stood beside it.
#[derive(Debug, Default)]
pub(super) struct Said {
    turns: Vec<(Vec<String>, Vec<String>)>,
}

impl Said {
    /// The calls of a turn, and the blocks of its searches.
    pub(super) fn note(&mut self, calls: Vec<String>, blocks: &[Value]) {
        let blocks: Vec<String> = blocks.iter().map(Value::to_string).collect();
        if !blocks.is_empty() {
            self.turns.push((calls, blocks));
        }
    }

    /// What a request lacks of it.
    pub(super) fn objection(&self, text: &str) -> Option<String> {
        let back = |call: &String| text.contains(&format!("\"{call}\""));
        let turns = self
            .turns
            .iter()
            .filter(|(calls, _)| calls.iter().any(back));
        let lost = turns
            .flat_map(|(_, blocks)| blocks)
            .find(|block| !text.contains(*block));
        lost.map(|block| format!("this block of a search did not come back as it was: {block}"))
    }
}

/// Tools that are deferred and yet called, though no search has found them.
pub(super) fn not_found<'a>(
    deferred: &HashSet<&'a str>,
    found: &HashSet<&str>,
    mut called: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let lost = called.find(|name| deferred.contains(name) && !found.contains(name))?;
    Some(format!(
        "`{lost}` is deferred, and no search before its call has found it"
    ))
}
