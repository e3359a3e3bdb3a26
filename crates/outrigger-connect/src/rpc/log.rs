//! What a server said beside its answers: lines that were no messages, log notifications, strays.
//!
//! Promises: bounded in lines and in bytes; what is not kept is counted.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lock;

const LINES: usize = 500;
const LINE_CHARS: usize = 500;

/// Log and progress notifications kept in one second; more are counted only.
const PER_SECOND: u32 = 500;

#[derive(Debug, Default)]
pub(crate) struct ServerLog {
    lines: Mutex<VecDeque<String>>,
    window: Mutex<Option<(Instant, u32)>>,
    noise: AtomicU64,
    strays: AtomicU64,
    lost: AtomicU64,
    flooded: AtomicU64,
}

impl ServerLog {
    /// A line on standard output that was no message.
    pub(super) fn noise(&self, line: &str) {
        self.noise.fetch_add(1, Ordering::Relaxed);
        if !line.is_empty() && self.admits() {
            self.push(crate::text::excerpt(line.as_bytes(), LINE_CHARS));
        }
    }

    pub(super) fn push(&self, line: String) {
        let mut lines = lock(&self.lines);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Whether one more is within the rate.
    pub(super) fn admits(&self) -> bool {
        let mut window = lock(&self.window);
        let now = Instant::now();
        let (since, count) = match *window {
            Some((since, count)) if now.duration_since(since) < Duration::from_secs(1) => {
                (since, count + 1)
            }
            _ => (now, 1),
        };
        *window = Some((since, count));
        let admitted = count <= PER_SECOND;
        if !admitted {
            self.flooded.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// An answer that nobody waits for.
    pub(super) fn count_stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// A message of ours that the server left no room for.
    pub(super) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tail(&self, count: usize) -> Vec<String> {
        let lines = lock(&self.lines);
        lines
            .iter()
            .skip(lines.len().saturating_sub(count))
            .cloned()
            .collect()
    }

    /// Lines on standard output that were no messages, so far.
    pub(crate) fn noise_count(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }

    /// What was not kept or not matched, in words; empty when there is nothing to say.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let counts = [
            (&self.noise, "lines on standard output were no messages"),
            (&self.strays, "answers belonged to no request"),
            (
                &self.lost,
                "messages to the server were dropped because it did not read",
            ),
            (
                &self.flooded,
                "notifications came faster than they are kept",
            ),
        ];
        let counts = counts
            .iter()
            .map(|(count, words)| (count.load(Ordering::Relaxed), words));
        counts
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect()
    }
}
