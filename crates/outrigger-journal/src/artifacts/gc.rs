//! Making room: which contents are removed, and in which order.
//!
//! What a run that goes on was given is never removed. What is removed leaves its line in the index
//! with the date, so that whoever follows a handle is told. First the index says that a content is
//! gone, then its file goes: a crash between the two leaves a file too many, never one too few.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::contents::Old;
use super::index::{ArtifactLine, Chosen, IndexDone, IndexWork};
use super::{ArtifactError, Artifacts};
use crate::Digest;

/// How many files are removed while other writers wait.
const AT_ONCE: usize = 64;

/// What may stay. Both rules hold; without any, nothing is removed but what was left over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcRules {
    /// Removes what was not kept or read for this long.
    pub older_than: Option<std::time::Duration>,
    /// Removes what was not used for the longest time until all together have at most so many bytes.
    pub keep_bytes: Option<u64>,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GcReport {
    /// Whether it was only looked at.
    pub dry_run: bool,
    /// The contents removed.
    pub removed: Vec<ArtifactLine>,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Those that the rules would have removed, but that a run that goes on was given.
    pub in_use: Vec<ArtifactLine>,
    /// How many contents stay.
    pub stay: u64,
    /// Their bytes.
    pub stay_bytes: u64,
    /// Files that nothing refers to, left over by processes that were stopped; removed too.
    pub left_over: u64,
}

impl Artifacts {
    /// Removes contents by these rules, or says which it would.
    pub async fn gc(&self, rules: GcRules, dry_run: bool) -> Result<GcReport, ArtifactError> {
        let candidates = self.read_index(|records| records.collectable()).await?;
        let now = crate::run::now();
        let mut report = choose(candidates, rules, now);
        report.dry_run = dry_run;
        if !dry_run {
            let removed = self.collect(&report.removed, now).await?;
            let (gone, used_meanwhile) = std::mem::take(&mut report.removed)
                .into_iter()
                .partition(|line| removed.contains(&line.digest));
            report.removed = gone;
            report.in_use.extend::<Vec<_>>(used_meanwhile);
        }
        report.left_over = self.sweep(dry_run).await?;
        report.removed_bytes = report.removed.iter().map(|line| line.bytes).sum();
        report.stay_bytes -= report.removed_bytes;
        report.stay -= report.removed.len() as u64;
        Ok(report)
    }

    /// Says of these that they are gone, then removes their files; those that were used meanwhile
    /// stay.
    async fn collect(
        &self,
        chosen: &[ArtifactLine],
        at: Timestamp,
    ) -> Result<Vec<Digest>, ArtifactError> {
        let mut removed = Vec::new();
        for some in chosen.chunks(AT_ONCE) {
            let chosen = some.iter().map(|line| Chosen {
                digest: line.digest,
                used: line.used,
            });
            let chosen = chosen.collect();
            let marked = self.work(IndexWork::Collect { chosen, at }).await?;
            removed.extend(self.remove(of(marked)).await?);
        }
        Ok(removed)
    }

    async fn remove(&self, digests: Vec<Digest>) -> Result<Vec<Digest>, ArtifactError> {
        // Each in a bucket takes its time, and what is locked meanwhile is to be little.
        let at_once = match self.contents().folder() {
            Some(_) => digests.len().max(1),
            None => 1,
        };
        let mut removed = Vec::new();
        for some in digests.chunks(at_once) {
            let work = IndexWork::Remove {
                contents: Arc::clone(self.contents()),
                digests: some.to_vec(),
            };
            removed.extend(of(self.work(work).await?));
        }
        Ok(removed)
    }

    /// Removes files that nothing refers to.
    async fn sweep(&self, dry_run: bool) -> Result<u64, ArtifactError> {
        let failed = |error: std::io::Error| ArtifactError::io(self.place(), &error);
        if !self.owns().await? {
            return Ok(0);
        }
        let Old {
            contents,
            unfinished,
        } = self.contents().old().await?;
        let strangers = self
            .read_index(move |records| records.strangers(&contents))
            .await?;
        let count = strangers.len() + unfinished.len();
        if !dry_run {
            for some in strangers.chunks(AT_ONCE) {
                self.remove(some.to_vec()).await?;
            }
            for file in unfinished {
                std::fs::remove_file(file).map_err(failed)?;
            }
        }
        Ok(count as u64)
    }
}

fn of(done: IndexDone) -> Vec<Digest> {
    match done {
        IndexDone::Digests(digests) => digests,
        IndexDone::Kept(_) | IndexDone::NotThere | IndexDone::Failed(_) => Vec::new(),
    }
}

/// Goes from the longest unused on; each comes with whether a run that goes on was given it.
fn choose(candidates: Vec<(ArtifactLine, bool)>, rules: GcRules, now: Timestamp) -> GcReport {
    let mut left: u64 = candidates.iter().map(|(line, _)| line.bytes).sum();
    let mut report = GcReport {
        stay: candidates.len() as u64,
        stay_bytes: left,
        ..GcReport::default()
    };
    let oldest = rules.older_than.and_then(|age| {
        let age = SignedDuration::try_from(age).ok()?;
        now.checked_sub(age).ok()
    });
    for (line, in_use) in candidates {
        let old = oldest.is_some_and(|oldest| line.used <= oldest);
        let too_many = rules.keep_bytes.is_some_and(|most| left > most);
        match (old || too_many, in_use) {
            (false, _) => {}
            (true, true) => report.in_use.push(line),
            (true, false) => {
                left -= line.bytes;
                report.removed.push(line);
            }
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 1_000 * DAY;

    /// The longest unused first, as the index gives them: bytes, days since use, in use.
    fn candidates(of: &[(u64, i64, bool)]) -> Vec<(ArtifactLine, bool)> {
        let mut of = of.to_vec();
        of.sort_by_key(|(_, days, _)| -days);
        let line = |(at, (bytes, days, in_use)): (usize, &(u64, i64, bool))| {
            let used = Timestamp::from_second(NOW - days * DAY).unwrap();
            let digest = Digest::of(at.to_string().as_bytes());
            let line = ArtifactLine {
                handle: digest.to_string(),
                digest,
                bytes: *bytes,
                media_type: String::new(),
                created: used,
                used,
                collected: None,
                origins: 0,
                origin: None,
            };
            (line, *in_use)
        };
        of.iter().enumerate().map(line).collect()
    }

    proptest! {
        #[test]
        fn what_goes_is_what_the_rules_say_and_the_longest_unused_first(
            of in proptest::collection::vec((0_u64..100, 0_i64..60, any::<bool>()), 0..30),
            days in proptest::option::of(0_u64..60),
            keep_bytes in proptest::option::of(0_u64..1_500),
        ) {
            let candidates = candidates(&of);
            let rules = GcRules {
                older_than: days.map(|days| Duration::from_hours(24 * days)),
                keep_bytes,
            };
            let now = Timestamp::from_second(NOW).unwrap();
            let report = choose(candidates.clone(), rules, now);
            let removed = |line: &ArtifactLine| report.removed.iter().any(|gone| gone.digest == line.digest);
            let old = |line: &ArtifactLine| days.is_some_and(|days| {
                now.duration_since(line.used).as_secs() >= i64::try_from(days).unwrap() * DAY
            });
            let mut left: u64 = of.iter().map(|(bytes, ..)| bytes).sum();
            for (line, in_use) in &candidates {
                let goes = !in_use && (old(line) || keep_bytes.is_some_and(|most| left > most));
                prop_assert_eq!(removed(line), goes);
                left -= if goes { line.bytes } else { 0 };
            }
            let rest_in_use = candidates.iter().all(|(line, in_use)| *in_use || removed(line));
            prop_assert!(keep_bytes.is_none_or(|most| left <= most) || rest_in_use);
        }
    }
}
