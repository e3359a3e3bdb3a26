//! Notices a model that is stuck: turn after turn it asks for nothing but calls that have failed
//! before, word for word. It is told so, and after [`STUCK_TURNS`] such turns the question ends.

use std::collections::HashSet;

use outrigger_model::{Part, ToolCall, ToolResultMessage};
use serde_json::Value;

/// Turns in a row with nothing but repeated failures, after which there is nothing to wait for.
pub(super) const STUCK_TURNS: u32 = 3;

const TOLD: &str = "This very call failed before, with the same arguments. Do not repeat it: change the arguments, \
     use another tool, or answer without it.";

/// The calls that failed so far, and for how many turns there was nothing else.
#[derive(Default)]
pub(super) struct Repeats {
    failed: HashSet<(String, String)>,
    stuck: u32,
}

impl Repeats {
    /// Takes in a turn's calls and their results, in the same order; tells the model about those it
    /// repeats. Gives the tool's name when the model has been stuck for too long.
    pub(super) fn turn(
        &mut self,
        calls: &[ToolCall],
        results: &mut [ToolResultMessage],
    ) -> Option<String> {
        let mut repeated = 0;
        for (call, result) in calls.iter().zip(results.iter_mut()) {
            let key = (call.name.clone(), as_meant(&call.arguments));
            if !result.is_error {
                self.failed.remove(&key);
            } else if !self.failed.insert(key) {
                repeated += 1;
                // Before a server's words: what stands behind them would pass for one of them.
                result.content.insert(0, Part::text(TOLD));
            }
        }
        let stuck = repeated > 0 && repeated == calls.len();
        self.stuck = if stuck { self.stuck + 1 } else { 0 };
        let name = &calls.first()?.name;
        (self.stuck >= STUCK_TURNS).then(|| name.clone())
    }
}

/// Arguments that differ in nothing but blanks or the order of their keys are the same.
fn as_meant(arguments: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(arguments) else {
        return arguments.trim().to_owned();
    };
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(repeats: &mut Repeats, turn: &[(&str, bool)]) -> (Option<String>, Vec<usize>) {
        let calls: Vec<_> = turn
            .iter()
            .map(|(arguments, _)| ToolCall {
                id: String::new(),
                name: "mcp__lab__look".to_owned(),
                arguments: (*arguments).to_owned(),
            })
            .collect();
        let mut results: Vec<_> = turn
            .iter()
            .map(|(_, is_error)| ToolResultMessage {
                call_id: String::new(),
                name: String::new(),
                content: Vec::new(),
                is_error: *is_error,
            })
            .collect();
        let end = repeats.turn(&calls, &mut results);
        (
            end,
            results.iter().map(|result| result.content.len()).collect(),
        )
    }

    #[test]
    fn the_same_failure_is_told_and_then_ends_it() {
        let mut repeats = Repeats::default();
        let same = [r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#];
        assert_eq!(play(&mut repeats, &[(same[0], true)]), (None, vec![0]));
        for _ in 1..STUCK_TURNS {
            assert_eq!(play(&mut repeats, &[(same[1], true)]), (None, vec![1]));
        }
        let (end, told) = play(&mut repeats, &[(same[0], true)]);
        assert_eq!((end.as_deref(), told), (Some("mcp__lab__look"), vec![1]));
    }

    #[test]
    fn anything_else_in_a_turn_is_progress() {
        let mut repeats = Repeats::default();
        for n in 0..10 {
            let other = format!("{{\"n\":{n}}}");
            let (end, _) = play(&mut repeats, &[("{}", true), (&other, true)]);
            assert_eq!(end, None, "another failure each time");
            let (end, _) = play(&mut repeats, &[("{}", true), ("[]", false)]);
            assert_eq!(end, None, "something succeeded");
        }
    }

    #[test]
    fn a_call_that_succeeds_may_be_repeated_for_ever() {
        let mut repeats = Repeats::default();
        for _ in 0..10 {
            assert_eq!(play(&mut repeats, &[("{}", false)]), (None, vec![0]));
        }
        assert_eq!(play(&mut repeats, &[("not JSON", true)]), (None, vec![0]));
        assert_eq!(play(&mut repeats, &[("not JSON ", true)]), (None, vec![1]));
        assert_eq!(play(&mut repeats, &[("not JSON", false)]), (None, vec![0]));
        assert_eq!(play(&mut repeats, &[("not JSON", true)]), (None, vec![0]));
    }
}
