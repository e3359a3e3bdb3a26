//! What a compiled schema must still mean, how calls come back, and pictures of what is sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod pictures;
mod schemas;

use outrigger_schemas::Family;
use outrigger_testkit::instances::Dice;
use outrigger_testkit::schema_law::{Law, Tally};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_compiled_comes_back(seed: u64) {
        let mut dice = Dice::new(seed);
        let schema = schemas::arguments(&mut dice);
        let mut tally = Tally::default();
        for family in Family::ALL {
            if let Some(law) = Law::new(family, &schema).map_err(TestCaseError::fail)? {
                law.hold(&mut dice, 12, &mut tally).map_err(TestCaseError::fail)?;
            }
        }
    }
}

/// The law is of no use where hardly any value is tried.
#[test]
fn many_values_are_tried_both_ways() {
    let mut tally = Tally::default();
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let schema = schemas::arguments(&mut dice);
        for family in Family::ALL {
            if let Some(law) = Law::new(family, &schema).unwrap() {
                law.hold(&mut dice, 10, &mut tally).unwrap();
            }
        }
    }
    assert!(tally.back > 300 && tally.forth > 300, "{tally:?}");
    assert!(
        tally.back_fits * 2 > tally.back && tally.forth_fits * 2 > tally.forth,
        "{tally:?}"
    );
}
