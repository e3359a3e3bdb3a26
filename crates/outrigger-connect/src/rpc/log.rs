//! What a server said beside its answers: lines that were no messages, log notifications, strays.
//!
//! Promises: bounded in lines, in bytes and in what is taken in each second; what is not kept is
//! counted.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::lock;

const LINES: usize = 500;
const LINE_CHARS: usize = 500;

#[derive(Debug)]
pub(crate) struct ServerLog {
    /// What is kept of one second (`notifications_per_second`).
    most: u32,
    /// Set once, when that is exceeded first.
    warning: watch::Sender<Option<String>>,
    lines: Mutex<VecDeque<String>>,
    window: Mutex<Option<(Instant, u32)>>,
    noise: AtomicU64,
    strays: AtomicU64,
    lost: AtomicU64,
    flooded: AtomicU64,
}

impl ServerLog {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            warning: watch::Sender::new(None),
            lines: Mutex::default(),
            window: Mutex::default(),
            noise: AtomicU64::default(),
            strays: AtomicU64::default(),
            lost: AtomicU64::default(),
            flooded: AtomicU64::default(),
        }
    }

    /// What a person should be warned of, once there is something.
    pub(crate) fn warning(&self) -> watch::Receiver<Option<String>> {
        self.warning.subscribe()
    }

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
                (since, count.saturating_add(1))
            }
            _ => (now, 1),
        };
        *window = Some((since, count));
        let admitted = count <= self.most;
        if !admitted && self.flooded.fetch_add(1, Ordering::Relaxed) == 0 {
            self.warning.send_replace(Some(format!(
                "it sends more than {} notifications a second; those beyond are dropped (notifications_per_second)",
                self.most
            )));
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
                "notifications came faster than they are kept (notifications_per_second)",
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
