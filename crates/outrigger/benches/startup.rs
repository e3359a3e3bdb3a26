//! How long the whole program takes, as a person feels it: from `exec` to its end.
//!
//! Each row is the median of processes that ran one after the other, the rows taking turns, beside
//! two programs that do nothing. The goals are printed; nothing is judged here.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it starts programs, reports to a person and stops at the first trouble"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 60;
const OUTRIGGER: &str = env!("CARGO_BIN_EXE_outrigger");

struct Row {
    label: &'static str,
    program: &'static str,
    words: &'static [&'static str],
    goal: &'static str,
    took: Vec<Duration>,
}

impl Row {
    fn new(
        label: &'static str,
        program: &'static str,
        words: &'static [&'static str],
        goal: &'static str,
    ) -> Self {
        Self {
            label,
            program,
            words,
            goal,
            took: Vec::with_capacity(ROUNDS),
        }
    }

    fn run(&self, home: &Path) -> Duration {
        let mut command = Command::new(self.program);
        command
            .args(self.words)
            .current_dir(home)
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let clock = Instant::now();
        let status = command.status().unwrap();
        let took = clock.elapsed();
        assert!(status.success(), "`{}` ended with {status}", self.label);
        took
    }

    /// The time that a share of the runs stayed within, in milliseconds.
    fn within(&self, share: usize) -> f64 {
        let mut sorted = self.took.clone();
        sorted.sort();
        sorted[(sorted.len() - 1) * share / 100].as_secs_f64() * 1e3
    }
}

fn main() {
    let home = tempfile::tempdir().unwrap();
    let mut rows = [
        Row::new("true", "true", &[], ""),
        Row::new("cat /dev/null", "cat", &["/dev/null"], ""),
        Row::new("outrigger --version", OUTRIGGER, &["--version"], "20 ms"),
        Row::new("outrigger tools", OUTRIGGER, &["tools"], "100 ms"),
        Row::new("outrigger config show", OUTRIGGER, &["config", "show"], ""),
    ];
    for round in 0..=ROUNDS {
        for row in &mut rows {
            let took = row.run(home.path());
            // The first run of each finds nothing in the caches.
            if round > 0 {
                row.took.push(took);
            }
        }
    }
    let nothing = rows[0].within(50);
    println!(
        "{:<24} {:>9} {:>9} {:>8}  goal",
        "", "median", "9 of 10", "× true"
    );
    for row in &rows {
        let (median, most) = (row.within(50), row.within(90));
        println!(
            "{:<24} {median:>6.2} ms {most:>6.2} ms {:>8.1}  {}",
            row.label,
            median / nothing,
            row.goal
        );
    }
}
