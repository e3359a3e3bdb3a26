//! Every descendant of a process, however it has arranged itself (Linux).
//!
//! Promises: parents are read from `/proc`, so process groups and sessions do not matter: whoever
//! was orphaned has become a child of the subreaper at the root. A process is signalled through a
//! descriptor and only while it is the one that was seen, never a later one with the same id.
//! Leaves out: waiting, and what a fork between look and signal adds. Callers look again.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::Process;

/// One process as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pid: Pid,
    parent: i32,
    /// Clock ticks since boot: with the id it names a process for good.
    started: u64,
    zombie: bool,
}

/// Sends `signals` to every descendant of `root` (not to `root`), and returns how many living ones
/// were seen.
pub(crate) fn signal_descendants(root: Pid, signals: &[Signal]) -> usize {
    let living: Vec<Seen> = descendants(root, &every_process())
        .into_iter()
        .filter(|seen| !seen.zombie)
        .collect();
    for seen in &living {
        for signal in signals {
            send(seen, *signal);
        }
    }
    living.len()
}

/// Sends `signal` to one process.
pub(crate) fn signal_one(pid: Pid, signal: Signal) {
    if let Some(seen) = look_at(pid) {
        send(&seen, signal);
    }
}

/// The process `root` and its descendants, parents before their children.
pub(crate) fn family(root: u32) -> Vec<Process> {
    let root = i32::try_from(root).ok().and_then(Pid::from_raw);
    let Some(root) = root.and_then(look_at) else {
        return Vec::new();
    };
    let mut all = descendants(root.pid, &every_process());
    all.insert(0, root);
    all.iter().map(described).collect()
}

fn described(seen: &Seen) -> Process {
    let number = |raw: i32| u32::try_from(raw).unwrap_or_default();
    let pid = seen.pid.as_raw_nonzero().get();
    let mut line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.truncate(Process::SHOWN);
    let words = String::from_utf8_lossy(&line);
    let words = words.trim_end_matches('\0').replace('\0', " ");
    let command = if words.is_empty() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("[{}]", name.trim_end())
    } else {
        words
    };
    Process {
        pid: number(pid),
        parent: number(seen.parent),
        command,
        ended: seen.zombie,
    }
}

fn send(seen: &Seen, signal: Signal) {
    let sent = match rustix::process::pidfd_open(seen.pid, PidfdFlags::empty()) {
        Ok(descriptor) => {
            if look_at(seen.pid).is_none_or(|now| now.started != seen.started) {
                return;
            }
            rustix::process::pidfd_send_signal(descriptor, signal)
        }
        Err(rustix::io::Errno::SRCH) => return,
        // Kernels before 5.3, and sandboxes that do not know the call.
        Err(_) => rustix::process::kill_process(seen.pid, signal),
    };
    if let Err(error) = sent {
        tracing::trace!(pid = ?seen.pid, ?signal, %error, "could not signal a process");
    }
}

fn every_process() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter_map(look_at)
        .collect()
}

fn look_at(pid: Pid) -> Option<Seen> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_stat(pid, &stat)
}

/// `proc_pid_stat(5)`: the second field is a name in parentheses that may itself contain spaces
/// and parentheses, so fields are counted from the last closing one. State is field 3, parent 4,
/// start time 22.
fn parse_stat(pid: Pid, stat: &[u8]) -> Option<Seen> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Seen {
        pid,
        parent,
        started,
        zombie: matches!(state, "Z" | "X"),
    })
}

fn descendants(root: Pid, all: &[Seen]) -> Vec<Seen> {
    let mut children: HashMap<i32, Vec<Seen>> = HashMap::new();
    for seen in all {
        children.entry(seen.parent).or_default().push(*seen);
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        // Removed, not read: a loop (ids reused while we looked) ends.
        for child in children
            .remove(&parent.as_raw_nonzero().get())
            .unwrap_or_default()
        {
            next.push(child.pid);
            found.push(child);
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn seen(pid: i32, parent: i32) -> Seen {
        Seen {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            started: 1,
            zombie: false,
        }
    }

    #[test]
    fn a_name_cannot_fool_the_parser() {
        let stat = b"42 (a) S 1 (b) R 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3\n";
        let found = parse_stat(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert_eq!(
            (found.parent, found.started, found.zombie),
            (7, 98765, false)
        );
        assert_eq!(parse_stat(Pid::from_raw(42).unwrap(), b"42 (a) S"), None);
    }

    #[test]
    fn children_of_children_are_found_and_strangers_are_not() {
        let all = [seen(2, 1), seen(3, 2), seen(4, 3), seen(5, 1), seen(6, 5)];
        let mut found: Vec<i32> = descendants(Pid::from_raw(2).unwrap(), &all)
            .iter()
            .map(|seen| seen.pid.as_raw_nonzero().get())
            .collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
    }

    #[test]
    fn a_loop_ends() {
        let all = [seen(2, 3), seen(3, 2)];
        assert_eq!(descendants(Pid::from_raw(2).unwrap(), &all).len(), 2);
    }

    #[test]
    fn a_family_begins_with_its_root() {
        let me = std::process::id();
        let family = family(me);
        assert_eq!((family[0].pid, family[0].ended), (me, false));
        assert!(!family[0].command.is_empty());
        assert!(family[1..].iter().all(|process| process.pid != me));
    }

    #[test]
    fn this_process_is_seen() {
        let me = rustix::process::getpid();
        let found = look_at(me).unwrap();
        assert_eq!(found.pid, me);
        assert!(every_process().contains(&found));
    }
}
