//! What is learned of how models count, from what their providers report of requests that were estimated
//! before: a factor for the estimates to come.
//!
//! Promises: nothing that is reported once, however absurd, moves an estimate far; old reports fade; the
//! factor stays between a quarter and four. Leaves out: where it is kept between runs, which is whoever
//! builds an agent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_host::tokens::Scale;

/// Below so many estimated tokens a request is mostly what its provider puts around it.
const LEAST: u64 = 200;
/// How many tokens are taken to be as estimated before anything is reported: one report of a small
/// request should not say much.
const PRIOR: u64 = 2_000;
/// Estimated tokens of which reports are remembered in full; beyond, all count half.
const MOST: u64 = 2_000_000;
/// Reports that are further off than so many times are not about the same text.
const FURTHEST: u64 = 4;

/// What the provider of a model has reported so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Learned {
    /// Tokens, as the provider counted them.
    pub reported: u64,
    /// What was estimated of the same requests.
    pub estimated: u64,
    /// How many requests it was. Old ones weigh less, and are still counted.
    pub requests: u32,
}

impl Learned {
    /// What was kept, unless it is nothing that could have been learned.
    pub fn of(reported: u64, estimated: u64, requests: u32) -> Option<Self> {
        let sound =
            requests > 0 && (LEAST..=MOST).contains(&estimated) && is_near(estimated, reported);
        sound.then_some(Self {
            reported,
            estimated,
            requests,
        })
    }

    /// Takes a report of one request. `false` when it says nothing: no count, a request too small to
    /// tell, or one that has nothing to do with the estimate.
    pub fn learn(&mut self, estimated: u64, reported: u64) -> bool {
        if !(LEAST..=MOST).contains(&estimated) || !is_near(estimated, reported) {
            return false;
        }
        self.reported += reported;
        self.estimated += estimated;
        self.requests = self.requests.saturating_add(1);
        while self.estimated > MOST {
            self.reported /= 2;
            self.estimated /= 2;
        }
        true
    }

    /// How the model counts.
    pub fn scale(&self) -> Scale {
        if self.requests == 0 {
            return Scale::NONE;
        }
        let thousandths = (self.reported + PRIOR) * 1000 / (self.estimated + PRIOR);
        Scale::thousandths(u32::try_from(thousandths).unwrap_or(u32::MAX))
    }
}

fn is_near(estimated: u64, reported: u64) -> bool {
    reported <= estimated.saturating_mul(FURTHEST) && reported.saturating_mul(FURTHEST) >= estimated
}

/// Where it is kept between runs what was learned. What cannot be read or written is not known.
pub trait Reports: Send + Sync {
    /// What is known of a model, by its `provider:name`.
    fn get(&self, model: &str) -> Option<Learned>;
    /// Keeps it.
    fn put(&self, model: &str, learned: Learned);
}

/// What is known of how models count, shared by all who estimate in a run.
#[derive(Clone, Default)]
pub struct Estimates {
    kept: Option<Arc<dyn Reports>>,
    known: Arc<Mutex<HashMap<String, Learned>>>,
}

impl std::fmt::Debug for Estimates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Estimates").finish_non_exhaustive()
    }
}

impl Estimates {
    /// Knows what was kept, and keeps what is learned.
    pub fn kept(reports: Arc<dyn Reports>) -> Self {
        Self {
            kept: Some(reports),
            known: Arc::default(),
        }
    }

    /// Knows this of one model, and keeps nothing.
    pub fn knowing(model: &str, learned: Learned) -> Self {
        Self {
            kept: None,
            known: Arc::new(Mutex::new(HashMap::from([(model.to_owned(), learned)]))),
        }
    }

    /// What is known of a model, by its `provider:name`.
    pub fn of(&self, model: &str) -> Learned {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(learned) = known.get(model) {
            return *learned;
        }
        let learned = self.read(model).unwrap_or_default();
        known.insert(model.to_owned(), learned);
        learned
    }

    /// Takes a report of one request. What other runs have learned meanwhile is not lost.
    pub fn learn(&self, model: &str, estimated: u64, reported: u64) {
        let before = self.read(model).unwrap_or_else(|| self.of(model));
        let mut learned = before;
        if !learned.learn(estimated, reported) {
            tracing::debug!(model, estimated, reported, "a report that says nothing");
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(model.to_owned(), learned);
        drop(known);
        if let Some(kept) = &self.kept {
            kept.put(model, learned);
        }
    }

    fn read(&self, model: &str) -> Option<Learned> {
        self.kept.as_ref()?.get(model)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn estimates_come_close_to_what_is_reported() {
        let mut learned = Learned::default();
        assert_eq!(learned.scale(), Scale::NONE);
        assert!(learned.learn(10_000, 13_000));
        assert_eq!(learned.scale().in_thousandths(), 1250);
        for _ in 0..20 {
            assert!(learned.learn(10_000, 13_000));
        }
        let off = 13_000_u64.abs_diff(learned.scale().tokens(10_000));
        assert!(off < 130, "{off}");
        assert_eq!(learned.requests, 21);
    }

    #[test]
    fn nonsense_says_nothing() {
        let mut learned = Learned::default();
        for (estimated, reported) in [
            (0, 0),
            (1_000, 0),
            (0, 1_000),
            (199, 199),
            (1_000, 4_001),
            (1_000, 249),
            (u64::MAX, u64::MAX),
            (1_000, u64::MAX),
        ] {
            assert!(
                !learned.learn(estimated, reported),
                "{estimated} {reported}"
            );
        }
        assert_eq!(learned, Learned::default());
        // The smallest that is believed says little.
        assert!(learned.learn(200, 800));
        assert_eq!(learned.scale().in_thousandths(), 1272);
        assert_eq!(Learned::of(0, 1_000, 1), None);
        assert_eq!(Learned::of(1_000, 1_000, 0), None);
        assert_eq!(Learned::of(u64::MAX, u64::MAX, 1), None);
        assert!(Learned::of(1_300, 1_000, 1).is_some());
    }

    #[test]
    fn old_reports_fade() {
        let mut learned = Learned::default();
        for _ in 0..1_000 {
            learned.learn(50_000, 75_000);
        }
        let before = learned.scale().in_thousandths();
        assert!((1_490..=1_500).contains(&before), "{before}");
        for _ in 0..200 {
            learned.learn(50_000, 50_000);
        }
        let after = learned.scale().in_thousandths();
        assert!(after < 1_020, "{after}");
        assert!(Learned::of(learned.reported, learned.estimated, learned.requests).is_some());
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_factor_stays_within_bounds(
            reports in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..50),
            near in proptest::collection::vec((0_u64..100_000, 0_u64..500_000), 0..50),
        ) {
            let mut learned = Learned::default();
            for (estimated, reported) in reports.into_iter().chain(near) {
                learned.learn(estimated, reported);
                let factor = learned.scale().in_thousandths();
                prop_assert!((250..=4_000).contains(&factor), "{factor}");
            }
        }
    }
}
