//! How well tools are found by words: floors that only ever rise, on sets with known answers.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::steps::built;

/// A set of tools and queries, what else is searched with it, and what must be reached: a member of
/// the printed line and the share.
struct Set {
    name: &'static str,
    haystack: &'static [&'static str],
    floors: &'static [(&'static str, f64)],
}

const SETS: [Set; 5] = [
    Set {
        name: "livemcpbench",
        haystack: &[],
        floors: &[("r_at_5", 0.70)],
    },
    Set {
        name: "bfcl",
        haystack: &[],
        floors: &[("r_at_5", 0.80), ("r_at_10", 0.87)],
    },
    Set {
        name: "sealtools",
        haystack: &[],
        floors: &[("r_at_10", 0.92)],
    },
    Set {
        name: "livemcpbench",
        haystack: &[
            "retrieval/bfcl/tools.jsonl",
            "retrieval/sealtools/tools.jsonl",
        ],
        floors: &[("r_at_5", 0.62)],
    },
    Set {
        name: "livemcpbench",
        haystack: &[
            "retrieval/bfcl/tools.jsonl",
            "retrieval/sealtools/tools.jsonl",
            "tools-list",
        ],
        floors: &[("r_at_5", 0.62)],
    },
];

/// Measures each set; the first that stays below a floor is a failure.
pub(crate) fn all(corpus: &Path) -> Result<(), String> {
    SETS.iter().try_for_each(|set| one(corpus, set))
}

fn one(corpus: &Path, set: &Set) -> Result<(), String> {
    let folder = corpus.join("retrieval").join(set.name);
    let mut words: Vec<OsString> = vec![
        folder.join("tools.jsonl").into(),
        folder.join("queries.jsonl").into(),
    ];
    if !set.haystack.is_empty() {
        words.push("--haystack".into());
        words.extend(set.haystack.iter().map(|path| corpus.join(path).into()));
    }
    let output = Command::new(built("retrieval-eval"))
        .args(&words)
        .output()
        .map_err(|error| format!("`retrieval-eval` cannot be run: {error}"))?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`retrieval-eval` on {} failed: {said}", set.name));
    }
    eprintln!("{} + {} more: {line}", set.name, set.haystack.len());
    for (measure, floor) in set.floors {
        let reached = member(&line, measure)
            .ok_or_else(|| format!("`retrieval-eval` printed no `{measure}`: {line}"))?;
        if reached < *floor {
            return Err(format!(
                "{} + {} more: `{measure}` is {reached}, and {floor} has to be reached",
                set.name,
                set.haystack.len()
            ));
        }
    }
    Ok(())
}

/// A number of a flat JSON object.
fn member(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}
