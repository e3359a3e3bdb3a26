//! What a compiled schema must still mean, and how calls come back.

#[allow(unreachable_pub, reason = "shared")]
#[path = "../../../outrigger-testkit/src/instances.rs"]
mod instances;
mod law;
mod pictures;
mod schemas;

use std::fs;

use law::{Law, Tally};
use outrigger_schemas::Family;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_compiled_comes_back(seed: u64) {
        let mut dice = instances::Dice::new(seed);
        let schema = schemas::arguments(&mut dice);
        for family in Family::ALL {
            let mut tally = Tally::default();
            let law = Law::new(family, &schema).unwrap();
            if let Some(law) = law {
                law.hold(&mut dice, 12, &mut tally).map_err(TestCaseError::fail)?;
            }
        }
    }
}

#[test]
fn corpus() {
    let Ok(folder) = std::env::var("OUTRIGGER_CORPUS") else {
        return;
    };
    let mut failures = 0;
    for family in Family::ALL {
        let (mut tally, mut aside, mut tools, mut changed) = (Tally::default(), Vec::new(), 0, 0);
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let list: serde_json::Value =
                serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            for tool in list["tools"].as_array().unwrap() {
                tools += 1;
                let name = format!(
                    "{}/{}",
                    path.file_stem().unwrap().to_string_lossy(),
                    tool["name"].as_str().unwrap()
                );
                match outrigger_schemas::compile(family, &tool["inputSchema"]) {
                    Err(reason) => {
                        aside.push(format!("{name}: {reason}"));
                        continue;
                    }
                    Ok(compiled) => changed += usize::from(!compiled.changes.is_empty()),
                }
                let law = Law::new(family, &tool["inputSchema"]).unwrap().unwrap();
                let mut dice = instances::Dice::new(tools as u64);
                if let Err(fault) = law.hold(&mut dice, 10, &mut tally) {
                    failures += 1;
                    if failures < 12 {
                        println!("{family} {name}: {fault}\n");
                    }
                }
            }
        }
        println!("{family}: {tools} tools, {changed} changed, {tally:?}, aside: {aside:#?}");
    }
    assert_eq!(failures, 0);
}
