//! What waits for the writer.
//!
//! Commands that somebody waits for wake the writer; others wait a moment for more, and for the next
//! that is waited for, so that most of them cost no transaction of their own.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::writer::Command;

/// How long what nobody waits for may wait. A process that is killed loses it.
const LINGER: Duration = Duration::from_millis(5);
/// So many that wait at once are a crowd: then a moment of waiting for more saves transactions.
const CROWD: usize = 8;
/// That moment.
const MOMENT: Duration = Duration::from_micros(500);

/// Commands, in their order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    commands: Vec<Command>,
    /// When the first of them came.
    since: Option<Instant>,
    /// Since when somebody waits for one of them.
    urgent: Option<Instant>,
    /// How many are waited for.
    waited_for: usize,
    /// There was a crowd the last time.
    crowded: bool,
    /// When the writer looks without being woken.
    looks: Option<Instant>,
    /// Nothing more comes.
    closed: bool,
}

/// What the writer has to do.
pub(crate) enum Next {
    /// These, in this order.
    Commands(Vec<Command>),
    /// The time has come that it asked for.
    Time,
    /// Nothing, ever.
    End,
}

impl Queue {
    /// Adds a command; false once closed.
    pub(crate) fn push(&self, command: Command) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        let first = waiting.commands.is_empty();
        let waited_for = command.is_waited_for();
        let hurries = waited_for && waiting.urgent.is_none();
        if first {
            waiting.since = Some(Instant::now());
        }
        if hurries {
            waiting.urgent = Some(Instant::now());
        }
        waiting.waited_for += usize::from(waited_for);
        waiting.commands.push(command);
        // Waking it costs more than the rest of this, and it is in time as it is.
        let looks = waiting.looks.is_some_and(|at| Some(at) <= waiting.due());
        drop(waiting);
        if hurries || first && !looks {
            self.changed.notify_one();
        }
        true
    }

    /// Takes no more; what is there is still given out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// All that waits, once it is due, or the time has come. For a moment after each time it looks by itself.
    pub(crate) fn next(&self, until: Option<Instant>) -> Next {
        let mut waiting = self.lock();
        // What it has just written has sequels that nobody waits for.
        let soon = Instant::now() + LINGER;
        loop {
            let now = Instant::now();
            let due = waiting.due();
            if due.is_some_and(|due| due <= now || waiting.closed) {
                return Next::Commands(waiting.take());
            }
            if waiting.closed {
                return Next::End;
            }
            if until.is_some_and(|until| until <= now) {
                return Next::Time;
            }
            let soon = Some(soon).filter(|soon| *soon > now);
            waiting.looks = [due, until, soon].into_iter().flatten().min();
            waiting = match waiting.looks {
                None => self
                    .changed
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let wait = self.changed.wait_timeout(waiting, at - now);
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// When what is there is to be written.
    fn due(&self) -> Option<Instant> {
        let moment = if self.crowded { MOMENT } else { Duration::ZERO };
        let urgent = self.urgent.map(|since| since + moment);
        let linger = self.since.map(|since| since + LINGER);
        urgent.into_iter().chain(linger).min()
    }

    fn take(&mut self) -> Vec<Command> {
        self.crowded = self.waited_for >= CROWD;
        self.waited_for = 0;
        self.urgent = None;
        self.since = None;
        self.looks = None;
        std::mem::take(&mut self.commands)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;
    use crate::RunId;
    use crate::ledger::Change;
    use crate::writer::{Line, Recording};

    fn line(seq: u64) -> Command {
        let name = RunId::new(crate::run::now(), 0);
        Command::Line(Line {
            recording: Arc::new(Recording::new(1, name)),
            seq,
            at: crate::run::now(),
            body: String::new(),
            change: Change::Nothing,
            size: 0,
            fenced: None,
            answer: None,
        })
    }

    fn flush() -> Command {
        Command::Flush(oneshot::channel().0)
    }

    fn taken(next: Next) -> Vec<u64> {
        match next {
            Next::Commands(commands) => commands
                .iter()
                .map(|command| match command {
                    Command::Line(line) => line.seq,
                    _ => 0,
                })
                .collect(),
            Next::Time => panic!("it is not time"),
            Next::End => panic!("it has ended"),
        }
    }

    #[test]
    fn what_nobody_waits_for_waits_for_more() {
        let queue = Arc::<Queue>::default();
        let filled = Arc::clone(&queue);
        let begun = Instant::now();
        let filling = thread::spawn(move || {
            for seq in 1..=20 {
                assert!(filled.push(line(seq)));
            }
        });
        filling.join().unwrap();
        assert!(taken(queue.next(None)).into_iter().eq(1..=20), "in order");
        assert!(begun.elapsed() >= LINGER, "it was not hurried");
    }

    #[test]
    fn who_waits_takes_along_what_came_before() {
        let queue = Queue::default();
        queue.push(line(1));
        queue.push(flush());
        queue.push(line(2));
        assert_eq!(taken(queue.next(None)), [1, 0, 2]);
        // A crowd, and the next time a moment for more.
        for _ in 0..CROWD {
            queue.push(flush());
        }
        assert_eq!(taken(queue.next(None)).len(), CROWD);
        let begun = Instant::now();
        queue.push(flush());
        assert_eq!(taken(queue.next(None)).len(), 1);
        assert!(begun.elapsed() >= MOMENT);
    }

    #[test]
    fn what_nobody_waits_for_is_taken_whenever_it_comes() {
        // While the writer still looks by itself, mostly, and when it does not any more.
        for rests in [false, true] {
            let far = Instant::now() + Duration::from_secs(30);
            let queue = Arc::<Queue>::default();
            let read = Arc::clone(&queue);
            let reading = thread::spawn(move || read.next(Some(far)));
            let waits = |looks: Option<Instant>| looks.is_some() && (!rests || looks == Some(far));
            while !waits(queue.lock().looks) {
                thread::yield_now();
            }
            queue.push(line(1));
            assert_eq!(taken(reading.join().unwrap()), [1]);
            assert!(Instant::now() < far, "it was not woken");
        }
    }

    #[test]
    fn it_tells_the_time_and_its_end() {
        let queue = Queue::default();
        assert!(matches!(queue.next(Some(Instant::now())), Next::Time));
        queue.push(line(1));
        queue.close();
        assert!(!queue.push(line(2)));
        assert_eq!(taken(queue.next(None)), [1], "nothing is lost");
        assert!(matches!(queue.next(None), Next::End));
    }
}
