//! Which of several matching rules decides. Deny stands before ask and ask before allow; among equals
//! the stronger layer is named, and within a layer the rule that stands first. What a project's
//! files say is taken on top of what the others came to, and can only make it stricter.

use crate::config::{Decision, Layer, Mode};

/// What one matching rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) decision: Decision,
    pub(super) layer: Layer,
    /// It stands in a file that may open what is shut.
    pub(super) may_loosen: bool,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winner {
    /// The vote at this index.
    Vote(usize),
    /// No rule; what holds for tools that none names.
    Fallback,
}

/// How strong a layer is; less is stronger.
pub(super) fn rank(layer: Layer) -> u8 {
    match layer {
        Layer::Managed => 0,
        Layer::Explicit => 1,
        Layer::User => 2,
        Layer::Project | Layer::TrustedProject => 3,
        Layer::Builtin => 4,
    }
}

/// Settles votes, which stand in the order of the rules; `fallback` is what holds without any.
pub(super) fn settle(votes: &[Vote], fallback: Decision, mode: Mode) -> (Decision, Winner) {
    let (base, winner) = among(votes, mode, |vote| vote.may_loosen)
        .map_or((fallback, Winner::Fallback), |(decision, index)| {
            (decision, Winner::Vote(index))
        });
    match among(votes, mode, |vote| !vote.may_loosen) {
        Some((stricter, index)) if stricter > base => (stricter, Winner::Vote(index)),
        // A rule says more to a person than that there was none.
        Some((same, index)) if same == base && winner == Winner::Fallback => {
            (same, Winner::Vote(index))
        }
        _ => (base, winner),
    }
}

/// The strictest of the votes that count here, and the first such by rank and place.
fn among(votes: &[Vote], mode: Mode, counts: impl Fn(&Vote) -> bool) -> Option<(Decision, usize)> {
    let counting = votes
        .iter()
        .enumerate()
        .filter(|(_, vote)| counts(vote) && !(mode == Mode::Auto && yields(**vote, votes)));
    let best = counting
        .min_by_key(|(index, vote)| (std::cmp::Reverse(vote.decision), rank(vote.layer), *index));
    best.map(|(index, vote)| (vote.decision, index))
}

/// In the mode `auto`, an ask gives way to an allow of the same layer or a stronger one.
fn yields(vote: Vote, votes: &[Vote]) -> bool {
    vote.decision == Decision::Ask
        && votes.iter().any(|other| {
            other.decision == Decision::Allow
                && other.may_loosen
                && rank(other.layer) <= rank(vote.layer)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vote() -> impl Strategy<Value = Vote> {
        let decision = prop::sample::select(vec![Decision::Allow, Decision::Ask, Decision::Deny]);
        let layer = prop::sample::select(vec![
            Layer::Managed,
            Layer::Explicit,
            Layer::User,
            Layer::Project,
            Layer::TrustedProject,
        ]);
        (decision, layer).prop_map(|(decision, layer)| Vote {
            decision,
            layer,
            may_loosen: layer.may_loosen(),
        })
    }

    fn votes() -> impl Strategy<Value = Vec<Vote>> {
        prop::collection::vec(vote(), 0..8)
    }

    fn mode() -> impl Strategy<Value = Mode> {
        prop::sample::select(Mode::ALL.to_vec())
    }

    fn fallback() -> impl Strategy<Value = Decision> {
        prop::sample::select(vec![Decision::Allow, Decision::Ask, Decision::Deny])
    }

    proptest! {
        #[test]
        fn the_order_of_rules_does_not_matter(
            (votes, shuffled) in votes().prop_flat_map(|votes| (Just(votes.clone()), Just(votes).prop_shuffle())),
            fallback in fallback(),
            mode in mode(),
        ) {
            prop_assert_eq!(settle(&votes, fallback, mode).0, settle(&shuffled, fallback, mode).0);
        }

        #[test]
        fn a_deny_anywhere_denies(votes in votes(), fallback in fallback(), mode in mode()) {
            let denied = votes.iter().any(|vote| vote.decision == Decision::Deny);
            let (decision, winner) = settle(&votes, fallback, mode);
            if denied {
                prop_assert_eq!(decision, Decision::Deny);
            }
            if let Winner::Vote(index) = winner {
                prop_assert_eq!(votes[index].decision, decision);
            }
        }

        #[test]
        fn a_project_only_tightens(votes in votes(), fallback in fallback(), mode in mode()) {
            let others: Vec<Vote> = votes.iter().copied().filter(|vote| vote.may_loosen).collect();
            let without = settle(&others, fallback, mode).0;
            prop_assert!(settle(&votes, fallback, mode).0 >= without);
        }

        #[test]
        fn the_strictest_wins_in_the_usual_mode(votes in votes(), fallback in fallback()) {
            let trusted = votes.iter().filter(|vote| vote.may_loosen).map(|vote| vote.decision).max();
            let project = votes.iter().filter(|vote| !vote.may_loosen).map(|vote| vote.decision).max();
            let expected = trusted.unwrap_or(fallback).max(project.unwrap_or(Decision::Allow));
            prop_assert_eq!(settle(&votes, fallback, Mode::Default).0, expected);
        }

        #[test]
        fn auto_opens_no_deny_and_asks_nothing_that_a_rule_of_that_strength_allows(
            votes in votes(),
            fallback in fallback(),
        ) {
            let (usual, auto) = (
                settle(&votes, fallback, Mode::Default).0,
                settle(&votes, fallback, Mode::Auto).0,
            );
            prop_assert!(auto <= usual);
            prop_assert_eq!(auto == Decision::Deny, usual == Decision::Deny);
            let allow = votes.iter().filter(|vote| vote.decision == Decision::Allow && vote.may_loosen);
            let strongest = allow.map(|vote| rank(vote.layer)).min();
            let opened = auto < usual;
            prop_assert!(!opened || strongest.is_some());
            let stronger_ask = votes.iter().any(|vote| {
                vote.decision == Decision::Ask && strongest.is_some_and(|rank_| rank(vote.layer) < rank_)
            });
            if stronger_ask && usual == Decision::Ask {
                prop_assert_eq!(auto, Decision::Ask);
            }
        }

        #[test]
        fn among_equals_the_stronger_layer_is_named(votes in votes(), fallback in fallback()) {
            if let (decision, Winner::Vote(index)) = settle(&votes, fallback, Mode::Default) {
                let strongest = votes
                    .iter()
                    .filter(|vote| vote.decision == decision)
                    .map(|vote| rank(vote.layer))
                    .min();
                prop_assert_eq!(Some(rank(votes[index].layer)), strongest);
            }
        }
    }
}
