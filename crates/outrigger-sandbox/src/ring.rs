//! What a child said on stderr, as far as it fits.
//!
//! Promises: the pipe is always drained, so a child that talks is never stopped by it; the ring
//! keeps the *last* bytes, because the last words before a failure are the best message there is.
//! Leaves out: showing it. The bytes are the child's own: whoever prints them to a terminal
//! removes control sequences first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Characters of one line that [`StderrRing::tail`] gives at most.
pub const MAX_LINE_CHARS: usize = 2_000;

/// A cheap handle to the last bytes that a child wrote to stderr. Clones share the same ring,
/// and it stays readable after the child is gone.
#[derive(Debug, Clone)]
pub struct StderrRing {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    bytes: VecDeque<u8>,
    capacity: usize,
    total: u64,
}

impl StderrRing {
    /// An empty ring of `capacity` bytes. Memory is taken as it fills.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                bytes: VecDeque::new(),
                capacity,
                total: 0,
            })),
        }
    }

    /// The last `lines` lines, oldest first, without their line ends. Bytes that are not UTF-8
    /// become U+FFFD; a line longer than [`MAX_LINE_CHARS`] is cut there and ends with `…`; a line
    /// whose beginning has left the ring starts with `…`.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let mut state = self.lock();
        let beginning_lost = state.total > state.bytes.len() as u64;
        let bytes = state.bytes.make_contiguous();
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if text.is_empty() || lines == 0 {
            return Vec::new();
        }
        let start = nth_line_from_the_end(text, lines);
        let mut shown: Vec<String> = text[start..]
            .split(|byte| *byte == b'\n')
            .map(shown_line)
            .collect();
        if start == 0
            && beginning_lost
            && let Some(first) = shown.first_mut()
        {
            first.insert(0, '…');
        }
        shown
    }

    /// How many bytes the child has written in all, kept or not.
    pub fn total_bytes(&self) -> u64 {
        self.lock().total
    }

    /// Takes in the next bytes and forgets the oldest.
    pub(crate) fn push(&self, chunk: &[u8]) {
        let mut state = self.lock();
        state.total += chunk.len() as u64;
        let kept = &chunk[chunk.len().saturating_sub(state.capacity)..];
        let overflow = (state.bytes.len() + kept.len()).saturating_sub(state.capacity);
        state.bytes.drain(..overflow);
        state.bytes.extend(kept);
    }

    /// Reads `pipe` to its end, or to its first error, which for a pipe is the same.
    pub(crate) async fn drain(self, mut pipe: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 16 * 1024];
        loop {
            match pipe.read(&mut chunk).await {
                Ok(0) => return,
                Ok(read) => self.push(&chunk[..read]),
                Err(error) => {
                    tracing::debug!(%error, "reading stderr of a child failed");
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and half a line would do no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the last `lines` lines of `text` begin.
fn nth_line_from_the_end(text: &[u8], lines: usize) -> usize {
    text.iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(lines - 1)
        .map_or(0, |(at, _)| at + 1)
}

fn shown_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Four bytes a character at most: no more than this is ever looked at.
    let looked_at = &line[..line.len().min(4 * (MAX_LINE_CHARS + 1))];
    let text = String::from_utf8_lossy(looked_at);
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(capacity: usize, chunks: &[&[u8]]) -> StderrRing {
        let ring = StderrRing::new(capacity);
        for chunk in chunks {
            ring.push(chunk);
        }
        ring
    }

    #[test]
    fn keeps_the_last_bytes_and_counts_all() {
        let ring = ring(8, &[b"one\ntwo\n", b"three\n"]);
        assert_eq!(ring.tail(10), ["…o", "three"]);
        assert_eq!(ring.total_bytes(), 14);
    }

    #[test]
    fn one_chunk_larger_than_the_ring_keeps_its_end() {
        assert_eq!(ring(4, &[b"abcdefgh"]).tail(1), ["…efgh"]);
    }

    #[test]
    fn a_ring_without_room_only_counts() {
        let ring = ring(0, &[b"abc"]);
        assert!(ring.tail(3).is_empty());
        assert_eq!(ring.total_bytes(), 3);
    }

    #[test]
    fn tail_gives_the_last_lines_in_order() {
        let ring = ring(100, &[b"a\nb\r\nc\n"]);
        assert_eq!(ring.tail(2), ["b", "c"]);
        assert_eq!(ring.tail(9), ["a", "b", "c"]);
        assert!(ring.tail(0).is_empty());
    }

    #[test]
    fn an_unfinished_line_is_shown_too() {
        assert_eq!(ring(100, &[b"done\npani"]).tail(2), ["done", "pani"]);
    }

    #[test]
    fn not_utf8_is_replaced_and_long_lines_are_cut() {
        assert_eq!(ring(100, &[b"caf\xe9!"]).tail(1), ["caf\u{fffd}!"]);
        let long = ring(20_000, &["ü".repeat(MAX_LINE_CHARS + 5).as_bytes()]).tail(1);
        assert_eq!(long[0].chars().count(), MAX_LINE_CHARS + 1);
        assert!(long[0].ends_with("ü…"));
    }

    proptest::proptest! {
        /// However the bytes arrive, the ring holds exactly the last ones.
        #[test]
        fn chunks_do_not_matter(
            chunks in proptest::collection::vec(proptest::collection::vec(0_u8.., 0..40), 0..12),
            capacity in 0_usize..100,
        ) {
            let ring = ring(capacity, &chunks.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let all = chunks.concat();
            let kept: Vec<u8> = ring.lock().bytes.iter().copied().collect();
            proptest::prop_assert_eq!(&kept[..], &all[all.len().saturating_sub(capacity)..]);
            proptest::prop_assert_eq!(ring.total_bytes(), all.len() as u64);
            // Whatever the bytes are, looking at them does no harm and keeps to its limit.
            proptest::prop_assert!(ring.tail(3).len() <= 3);
        }
    }
}
