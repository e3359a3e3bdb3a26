//! The one thread that writes.
//!
//! It takes all that is queued, writes it in one transaction, and answers everyone who waits: one
//! fsync for however many came meanwhile, and none where nobody waits. What cannot be written now (disk
//! full, locked) stays queued in order and is tried again with the next durable event, so that what is
//! on disk is always a beginning of each run, without gaps. What the database refuses breaks off the
//! one run that it belongs to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::approvals::ApprovalWork;
use crate::artifacts::index::{IndexDone, IndexWork};
use crate::leases::Fence;
use crate::ledger::{Change, Start};
use crate::queue::{Next, Queue};
use crate::store::{Done, Failure, Pending, Store};
use crate::{JournalError, RunId};

pub(crate) type Answer<T> = oneshot::Sender<Result<T, JournalError>>;

/// What the writer is asked for.
pub(crate) enum Command {
    Begin(Begin),
    Line(Line),
    /// A change of the index of artifacts.
    Index(IndexWork, Answer<IndexDone>),
    /// A change of what waits for a person.
    Approval(ApprovalWork, Answer<bool>),
    /// Answered when everything queued before it is on disk.
    Flush(Answer<()>),
}

impl Command {
    /// Somebody waits until it is on disk.
    pub(crate) fn is_waited_for(&self) -> bool {
        match self {
            Self::Line(line) => line.answer.is_some(),
            Self::Begin(_) | Self::Index(..) | Self::Approval(..) | Self::Flush(_) => true,
        }
    }
}

/// A run to begin; answered with its key, or `None` when the name is taken.
pub(crate) struct Begin {
    pub(crate) name: RunId,
    pub(crate) at: Timestamp,
    pub(crate) start: Start,
    pub(crate) body: String,
    pub(crate) answer: Answer<Option<i64>>,
}

/// One event of a run that has begun.
pub(crate) struct Line {
    pub(crate) recording: Arc<Recording>,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) body: String,
    pub(crate) change: Change,
    /// As reserved in the [`Meter`].
    pub(crate) size: u64,
    /// Stored only while this stands.
    pub(crate) fenced: Option<Fenced>,
    /// Told whether it was stored, and not what stands in its place.
    pub(crate) answer: Option<Answer<bool>>,
}

/// What an event depends on.
pub(crate) struct Fenced {
    pub(crate) fence: Fence,
    /// The event that is stored in its place.
    pub(crate) instead: String,
}

/// What writer and recorder share about one run.
pub(crate) struct Recording {
    pub(crate) key: i64,
    pub(crate) name: RunId,
    /// The recorder queues nothing more.
    broken: watch::Sender<bool>,
    /// The writer stores nothing more, not even what is queued.
    refused: AtomicBool,
    trouble: Mutex<Option<JournalError>>,
}

impl Recording {
    pub(crate) fn new(key: i64, name: RunId) -> Self {
        let (broken, refused) = (watch::Sender::new(false), AtomicBool::new(false));
        Self {
            key,
            name,
            broken,
            refused,
            trouble: Mutex::default(),
        }
    }

    /// Keeps the first trouble.
    pub(crate) fn note(&self, error: &JournalError) {
        tracing::warn!(%error, "not recorded");
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| error.clone());
    }

    /// Nothing after what is queued is stored of this run.
    pub(crate) fn break_off(&self, error: &JournalError) {
        self.note(error);
        self.broken.send_replace(true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        *self.broken.borrow()
    }

    /// Told once nothing more is stored.
    pub(crate) fn breaking(&self) -> watch::Receiver<bool> {
        self.broken.subscribe()
    }

    fn refuse(&self, error: &JournalError) {
        self.refused.store(true, Ordering::SeqCst);
        self.break_off(error);
    }

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }

    pub(crate) fn trouble(&self) -> Option<JournalError> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Bytes queued, and transactions made.
pub(crate) struct Meter {
    queued: AtomicU64,
    limit: u64,
    commits: AtomicU64,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            queued: AtomicU64::new(0),
            limit,
            commits: AtomicU64::new(0),
        }
    }

    /// Takes room in the queue; one event of any size fits when the queue is empty.
    pub(crate) fn reserve(&self, size: u64) -> bool {
        let room =
            |queued: u64| (queued == 0 || queued + size <= self.limit).then_some(queued + size);
        self.queued
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, room)
            .is_ok()
    }

    /// Takes room that is not there, for the few small events that may not be left out.
    pub(crate) fn insist(&self, size: u64) {
        self.queued.fetch_add(size, Ordering::SeqCst);
    }

    pub(crate) fn release(&self, size: u64) {
        self.queued.fetch_sub(size, Ordering::SeqCst);
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Ordering::SeqCst)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }
}

/// The writer's own state; lives on its thread.
pub(crate) struct Writer {
    pub(crate) store: Box<dyn Store>,
    pub(crate) meter: Arc<Meter>,
    /// Told once, when the file is closed.
    pub(crate) closed: watch::Sender<Option<Result<(), JournalError>>>,
}

impl Writer {
    /// Writes until nothing more can come, then closes the file.
    pub(crate) fn run(mut self, queue: &Queue) {
        let mut pending = Vec::new();
        let mut flushes = Vec::new();
        let mut failing = false;
        let mut tending = self.tend();
        loop {
            let commands = match queue.next(tending) {
                Next::Commands(commands) => commands,
                Next::Time => {
                    tending = self.tend();
                    continue;
                }
                Next::End => break,
            };
            let mut urgent = false;
            for command in commands {
                urgent |= self.take(command, &mut pending, &mut flushes);
            }
            if failing && !urgent {
                continue;
            }
            let mut written = self.write(&mut pending, urgent);
            failing = written.is_err();
            if !flushes.is_empty() && written.is_ok() {
                written = self.store.sync();
            }
            for flush in flushes.drain(..) {
                answer(flush, written.clone());
            }
        }
        let written = self.write(&mut pending, true);
        let written = written.and_then(|()| self.store.sync());
        let Self { store, closed, .. } = self;
        let shut = store.close();
        closed.send_replace(Some(written.and(shut)));
    }

    /// Lets the store do what it has to from time to time; when it wants to again.
    fn tend(&mut self) -> Option<Instant> {
        self.store.tend().map(|after| Instant::now() + after)
    }

    /// Queues a command; true when somebody waits for it.
    fn take(
        &self,
        command: Command,
        pending: &mut Vec<Pending>,
        flushes: &mut Vec<Answer<()>>,
    ) -> bool {
        let waited_for = command.is_waited_for();
        match command {
            Command::Flush(flush) => flushes.push(flush),
            Command::Begin(begin) => pending.push(Pending::Begin(begin)),
            Command::Index(work, answer) => pending.push(Pending::Index(work, answer)),
            Command::Approval(work, answer) => pending.push(Pending::Approval(work, answer)),
            Command::Line(mut line) if line.recording.is_refused() => {
                self.drop_line(&mut line);
                return false;
            }
            Command::Line(line) => pending.push(Pending::Line(line)),
        }
        waited_for
    }

    /// Writes what is pending, to the disk itself where that matters; what is left afterwards could
    /// not be written now.
    fn write(&mut self, pending: &mut Vec<Pending>, durable: bool) -> Result<(), JournalError> {
        while !pending.is_empty() {
            match self.store.write(pending, durable) {
                Ok(all) => {
                    self.meter.commits.fetch_add(1, Ordering::SeqCst);
                    for (entry, done) in pending.drain(..).zip(all) {
                        self.finish(entry, done);
                    }
                }
                Err(Failure::Entry(index, error)) => self.give_up(pending, index, &error),
                Err(Failure::Store(error)) => {
                    postpone(pending, &error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn finish(&self, entry: Pending, done: Done) {
        match (entry, done) {
            (Pending::Begin(begin), Done::Begun(key)) => answer(begin.answer, Ok(key)),
            (Pending::Index(_, waiting), Done::Indexed(done)) => answer(waiting, Ok(done)),
            (Pending::Approval(_, waiting), Done::Approval(done)) => answer(waiting, Ok(done)),
            (Pending::Line(line), done) => {
                self.meter.release(line.size);
                if let Some(waiting) = line.answer {
                    answer(waiting, Ok(!matches!(done, Done::Fenced)));
                }
            }
            // Each entry comes to what belongs to it.
            (Pending::Begin(_) | Pending::Index(..) | Pending::Approval(..), _) => {}
        }
    }

    /// Breaks off the run of a refused entry and drops what else of it is pending.
    fn give_up(&self, pending: &mut Vec<Pending>, index: usize, error: &JournalError) {
        match pending.remove(index) {
            Pending::Begin(begin) => answer(begin.answer, Err(error.clone())),
            Pending::Index(_, waiting) => answer(waiting, Err(error.clone())),
            Pending::Approval(_, waiting) => answer(waiting, Err(error.clone())),
            Pending::Line(mut line) => {
                line.recording.refuse(error);
                self.drop_line(&mut line);
            }
        }
        pending.retain_mut(|entry| match entry {
            Pending::Line(line) if line.recording.is_refused() => {
                self.drop_line(line);
                false
            }
            _ => true,
        });
    }

    /// Leaves out a line of a run that was broken off.
    fn drop_line(&self, line: &mut Line) {
        self.meter.release(line.size);
        if let (Some(waiting), Some(error)) = (line.answer.take(), line.recording.trouble()) {
            answer(waiting, Err(error));
        }
    }
}

/// Tells everyone who waits; events stay queued, runs and artifacts that nobody has yet do not.
fn postpone(pending: &mut Vec<Pending>, error: &JournalError) {
    let mut kept = Vec::with_capacity(pending.len());
    for entry in pending.drain(..) {
        match entry {
            Pending::Begin(begin) => answer(begin.answer, Err(error.clone())),
            Pending::Index(_, waiting) => answer(waiting, Err(error.clone())),
            Pending::Approval(_, waiting) => answer(waiting, Err(error.clone())),
            Pending::Line(mut line) => {
                line.recording.note(error);
                if let Some(waiting) = line.answer.take() {
                    answer(waiting, Err(error.clone()));
                }
                kept.push(Pending::Line(line));
            }
        }
    }
    *pending = kept;
}

/// Whoever waited may have gone meanwhile; what was recorded stays.
fn answer<T>(waiting: Answer<T>, answer: Result<T, JournalError>) {
    drop(waiting.send(answer));
}
