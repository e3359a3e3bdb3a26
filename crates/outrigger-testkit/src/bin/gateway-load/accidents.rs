//! What happens meanwhile: servers are killed, and the gateway's memory is looked at.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::Failure;
use crate::server::{ALL, Kind};

/// Between two kills, at most.
const CALM: u64 = 4000;
/// Megabytes that memory may grow by from the second quarter to the last, besides a tenth.
const GROWTH: u64 = 24;
/// Shorter runs say nothing about growth.
const SAMPLES: usize = 120;

/// Numbers without a pattern, the same for the same seed (xorshift64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Kills one of the counting servers now and then; how many were.
pub(crate) async fn kill(
    folder: PathBuf,
    seed: u64,
    over: CancellationToken,
) -> Result<u64, Failure> {
    let mut dice = Dice::new(seed);
    let names: Vec<_> = ALL
        .iter()
        .filter(|(_, kind)| *kind == Kind::Counts)
        .collect();
    let mut kills = 0;
    loop {
        let calm = Duration::from_millis(500 + dice.below(CALM - 500));
        tokio::select! {
            () = over.cancelled() => return Ok(kills),
            () = tokio::time::sleep(calm) => {}
        }
        let at = usize::try_from(dice.below(names.len() as u64))?;
        let Ok(pid) = fs::read_to_string(folder.join(names[at].0).with_extension("pid")) else {
            continue;
        };
        // It may have been killed before, and not be back yet.
        let status = Command::new("kill")
            .args(["-KILL", &pid])
            .stderr(std::process::Stdio::null())
            .status()
            .await?;
        kills += u64::from(status.success());
    }
}

/// Resident memory of a process, in megabytes, once a second.
pub(crate) struct Memory(Vec<u64>);

pub(crate) async fn watch_memory(pid: u32, over: CancellationToken) -> Memory {
    let mut samples = Vec::new();
    loop {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        samples.extend(kib.map(|kib| kib >> 10));
        tokio::select! {
            () = over.cancelled() => return Memory(samples),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

impl Memory {
    /// The most of one quarter of the time.
    fn most(&self, quarter: usize) -> u64 {
        let (begin, end) = (self.0.len() * (quarter - 1) / 4, self.0.len() * quarter / 4);
        self.0[begin..end].iter().copied().max().unwrap_or(0)
    }

    /// Whether it grew, in words.
    pub(crate) fn grew(&self) -> Option<String> {
        let (before, after) = (self.most(2), self.most(4));
        let grew = self.0.len() >= SAMPLES && after > before + before / 10 + GROWTH;
        grew.then(|| format!("memory grew from {before} MB to {after} MB"))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.0.first().copied().unwrap_or(0);
        let quarters = [1, 2, 3, 4].map(|quarter| self.most(quarter).to_string());
        write!(
            f,
            "{first} MB at the start, at most {} MB by quarters",
            quarters.join(", ")
        )
    }
}
