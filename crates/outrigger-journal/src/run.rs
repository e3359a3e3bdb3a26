//! One run being recorded: redaction, order, observers, then the writer's queue.

mod watched;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::oneshot;

use self::watched::Watched;
use crate::journal::Shared;
use crate::leases::Fence;
use crate::ledger::{Change, Start};
use crate::order::Order;
use crate::redact::Redactor;
use crate::writer::{Begin, Command, Fenced, Line, Recording};
use crate::{Event, JournalError, Misplaced, Recorded, RunId, VERSION};

/// How often a taken name is replaced by one with other digits; there are 65,536 a second.
const NAMES_TRIED: u32 = 64;

/// Bytes of memory that a queued event takes beside its text, roughly.
const OVERHEAD: usize = 256;

/// Sees each event as it is recorded, in order, on the recording thread of control; must be quick,
/// and must not record into the run it observes.
pub trait Observer: Send + Sync {
    /// One event.
    fn observe(&self, event: &Recorded);
}

/// How a run is recorded.
#[derive(Default)]
pub struct RunOptions {
    /// Who watches.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Values that must not be recorded or observed, in any of their usual encodings; see
    /// [`Redactor`] for which, and for those too short to be searched for.
    pub secrets: Vec<String>,
}

/// A run being recorded; clones share it.
///
/// What is on disk of it is at all times a beginning of what was recorded, without gaps.
#[derive(Clone)]
pub struct Run(Kind);

#[derive(Clone)]
enum Kind {
    Recorded(Arc<Inner>),
    Watched(Arc<Watched>),
}

struct Inner {
    id: RunId,
    shared: Arc<Shared>,
    recording: Arc<Recording>,
    observers: Vec<Arc<dyn Observer>>,
    redactor: Redactor,
    state: Mutex<State>,
}

struct State {
    /// Of the last event.
    seq: u64,
    order: Order,
}

/// An event on its way to its place.
struct Prepared {
    event: Event,
    body: String,
    change: Change,
    size: u64,
}

/// What else there is to an event that is queued.
#[derive(Default)]
struct With {
    answer: Option<oneshot::Sender<Result<bool, JournalError>>>,
    /// Observed by whoever waits for the answer.
    fenced: Option<Fenced>,
}

/// The present, as exact as it is stored.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

impl Run {
    /// Begins a run on disk, then tells its observers.
    pub(crate) async fn begin(
        shared: Arc<Shared>,
        mut started: Event,
        options: RunOptions,
    ) -> Result<Self, JournalError> {
        let RunOptions { observers, secrets } = options;
        let redactor = Redactor::new(secrets);
        redactor.redact_event(&mut started);
        let Event::RunStarted {
            command,
            question,
            model,
            workspace,
            version,
            principal: _,
        } = started.clone()
        else {
            return Err(shared.refused(Misplaced::NotAStart));
        };
        let start = Start {
            command,
            question,
            model,
            workspace,
            version,
        };
        let (id, at, key) = store_start(&shared, &start, &text_of(&shared, &started)?).await?;
        let first = Recorded {
            v: VERSION,
            seq: 1,
            at,
            run: id.clone(),
            event: started,
        };
        for observer in &observers {
            observer.observe(&first);
        }
        let state = Mutex::new(State {
            seq: 1,
            order: Order::default(),
        });
        let recording = Arc::new(Recording::new(key, id.clone()));
        Ok(Self(Kind::Recorded(Arc::new(Inner {
            id,
            shared,
            recording,
            observers,
            redactor,
            state,
        }))))
    }

    /// A run that is watched and not recorded, for whoever only looks. Nothing in it can be made
    /// durable, so nothing that needs to be can happen in it.
    pub fn unrecorded(options: RunOptions) -> Self {
        Self(Kind::Watched(Arc::new(Watched::new(options))))
    }

    /// Its name.
    pub fn id(&self) -> &RunId {
        match &self.0 {
            Kind::Recorded(inner) => &inner.id,
            Kind::Watched(watched) => watched.id(),
        }
    }

    /// Records an event without waiting for the disk. A failure does not stop the run: it is kept
    /// and told by [`Run::trouble`].
    ///
    /// An event that contradicts those before it (see [`Misplaced`]) is neither recorded nor
    /// observed. Calls without an end when the run ends are given one before it: unknown where an
    /// intent was written, not sent otherwise.
    pub fn record(&self, event: Event) {
        let inner = match &self.0 {
            Kind::Recorded(inner) => inner,
            Kind::Watched(watched) => return watched.show(event),
        };
        let taken = inner.prepare(event).and_then(|prepared| {
            let room = inner.shared.meter.reserve(prepared.size);
            if !room {
                inner.shared.meter.insist(prepared.size);
                inner.recording.break_off(&JournalError::Overrun {
                    path: inner.shared.path.clone(),
                });
            }
            inner.place(prepared, With::default()).map(drop)
        });
        if let Err(error) = taken {
            inner.recording.note(&error);
        }
    }

    /// Records an event and returns when it, and all before it, are on disk.
    ///
    /// After an error it is not known to be there: it is tried again with the next durable event,
    /// unless it was refused. Dropping the future does not take the event back.
    pub async fn record_durable(&self, event: Event) -> Result<(), JournalError> {
        let inner = match &self.0 {
            Kind::Recorded(inner) => inner,
            Kind::Watched(_) => return Err(JournalError::NotRecorded),
        };
        let recorded = inner.record_durable(event).await;
        if let Err(error) = &recorded {
            inner.recording.note(error);
        }
        recorded
    }

    /// Records an event as [`Self::record_durable`] does if, in the same transaction, nobody else has taken
    /// what `fence` leases, which is held for another term then. Else `instead` is recorded in its place, and
    /// this is false: the event has not happened. Which of them it was is observed once it is known.
    pub async fn record_fenced(
        &self,
        event: Event,
        fence: &Fence,
        instead: Event,
    ) -> Result<bool, JournalError> {
        let inner = match &self.0 {
            Kind::Recorded(inner) => inner,
            Kind::Watched(_) => return Err(JournalError::NotRecorded),
        };
        let recorded = inner.record_fenced(event, fence, instead).await;
        if let Err(error) = &recorded {
            inner.recording.note(error);
        }
        recorded
    }

    /// Returns when all that was recorded so far is on disk.
    pub async fn flush(&self) -> Result<(), JournalError> {
        match &self.0 {
            Kind::Recorded(inner) => inner.shared.flush().await,
            Kind::Watched(_) => Ok(()),
        }
    }

    /// Whether what comes next can be recorded, as far as is known: what could not be written is tried
    /// again, and a run that was broken off stays so.
    pub async fn well(&self) -> Result<(), JournalError> {
        let Kind::Recorded(inner) = &self.0 else {
            return Ok(());
        };
        let trouble = inner.recording.trouble();
        match trouble.filter(|_| inner.recording.is_broken()) {
            Some(trouble) => Err(trouble),
            None => inner.shared.flush().await,
        }
    }

    /// What keeps secrets out of the record; what it learns is kept out from then on.
    pub fn redactor(&self) -> &Redactor {
        match &self.0 {
            Kind::Recorded(inner) => &inner.redactor,
            Kind::Watched(watched) => watched.redactor(),
        }
    }

    /// Returns when nothing more of it is recorded, and so nothing can be sent any more: events came
    /// too fast, the store refused one, or another host has ended its calls. Else never.
    pub async fn broken_off(&self) {
        if let Kind::Recorded(inner) = &self.0
            && inner
                .recording
                .breaking()
                .wait_for(|broken| *broken)
                .await
                .is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// The first failure to record, if there was one.
    pub fn trouble(&self) -> Option<String> {
        match &self.0 {
            Kind::Recorded(inner) => inner.recording.trouble().map(|error| error.to_string()),
            Kind::Watched(_) => None,
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("id", self.id())
            .finish_non_exhaustive()
    }
}

impl Inner {
    async fn record_durable(&self, event: Event) -> Result<(), JournalError> {
        let prepared = self.prepare(event)?;
        while !self.shared.meter.reserve(prepared.size) {
            self.shared.flush().await?;
        }
        let (answer, answered) = oneshot::channel();
        let with = With {
            answer: Some(answer),
            fenced: None,
        };
        self.place(prepared, with)?;
        self.answered(answered).await.map(drop)
    }

    async fn record_fenced(
        &self,
        event: Event,
        fence: &Fence,
        instead: Event,
    ) -> Result<bool, JournalError> {
        let (prepared, other) = (self.prepare(event)?, self.prepare(instead)?);
        let prepared = Prepared {
            size: prepared.size + other.size,
            ..prepared
        };
        while !self.shared.meter.reserve(prepared.size) {
            self.shared.flush().await?;
        }
        let (answer, answered) = oneshot::channel();
        let with = With {
            answer: Some(answer),
            fenced: Some(Fenced {
                fence: fence.clone(),
                instead: other.body,
            }),
        };
        let (seq, at, event) = self.place(prepared, with)?;
        let stands = self.answered(answered).await?;
        let event = if stands {
            event
        } else {
            if let Some(Event::CallIntent { call }) = event {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.order.withdraw(call);
            }
            Some(other.event)
        };
        if let Some(event) = event {
            self.observe((seq, at), event);
        }
        Ok(stands)
    }

    /// What became of an event that is queued.
    async fn answered(
        &self,
        answered: oneshot::Receiver<Result<bool, JournalError>>,
    ) -> Result<bool, JournalError> {
        // The writer answers everything it takes; only a closed journal drops the question.
        answered.await.unwrap_or_else(|_| {
            Err(self
                .recording
                .trouble()
                .unwrap_or_else(|| self.shared.closed()))
        })
    }

    fn prepare(&self, mut event: Event) -> Result<Prepared, JournalError> {
        self.redactor.redact_event(&mut event);
        let body = text_of(&self.shared, &event)?;
        let change = Change::of(&event);
        let size = body.len() + change.weight() + OVERHEAD;
        Ok(Prepared {
            event,
            body,
            change,
            size: u64::try_from(size).unwrap_or(u64::MAX),
        })
    }

    /// Gives an event, for which room was reserved, its place in the run: its number, its time, and the
    /// event again where that was not observed.
    fn place(
        &self,
        prepared: Prepared,
        with: With,
    ) -> Result<(u64, Timestamp, Option<Event>), JournalError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = match prepared.event {
            Event::RunEnded { .. } => state.order.missing_ends("the run ended"),
            _ => Vec::new(),
        };
        if let Err(reason) = state.order.admit(&prepared.event) {
            self.shared.meter.release(prepared.size);
            return Err(self.shared.refused(reason));
        }
        for end in missing {
            match self.prepare(end) {
                Ok(end) => {
                    self.shared.meter.insist(end.size);
                    self.send(&mut state, end, With::default());
                }
                Err(error) => self.recording.note(&error),
            }
        }
        Ok(self.send(&mut state, prepared, with))
    }

    /// Numbers an event, shows it, and queues it.
    fn send(
        &self,
        state: &mut State,
        prepared: Prepared,
        With { answer, fenced }: With,
    ) -> (u64, Timestamp, Option<Event>) {
        let Prepared {
            event,
            body,
            change,
            size,
        } = prepared;
        state.seq += 1;
        let (seq, at) = (state.seq, now());
        let event = if fenced.is_some() {
            Some(event)
        } else {
            self.observe((seq, at), event);
            None
        };
        let recording = Arc::clone(&self.recording);
        if recording.is_broken() {
            self.shared.meter.release(size);
            return (seq, at, event);
        }
        let line = Line {
            recording,
            seq,
            at,
            body,
            change,
            size,
            fenced,
            answer,
        };
        if !self.shared.send(Command::Line(line)) {
            self.shared.meter.release(size);
            self.recording.break_off(&self.shared.closed());
        }
        (seq, at, event)
    }

    fn observe(&self, (seq, at): (u64, Timestamp), event: Event) {
        if self.observers.is_empty() {
            return;
        }
        let recorded = Recorded {
            v: VERSION,
            seq,
            at,
            run: self.id.clone(),
            event,
        };
        for observer in &self.observers {
            observer.observe(&recorded);
        }
    }
}

fn text_of(shared: &Shared, event: &Event) -> Result<String, JournalError> {
    serde_json::to_string(event).map_err(|error| JournalError::Unusable {
        path: shared.path.clone(),
        reason: error.to_string(),
    })
}

/// Stores the start of a run under a name that is free.
async fn store_start(
    shared: &Shared,
    start: &Start,
    body: &str,
) -> Result<(RunId, Timestamp, i64), JournalError> {
    for _ in 0..NAMES_TRIED {
        let at = now();
        let mut digits = [0; 2];
        getrandom::fill(&mut digits)
            .map_err(|error| JournalError::io(&shared.path, &std::io::Error::other(error)))?;
        let name = RunId::new(at, u16::from_ne_bytes(digits));
        let (answer, answered) = oneshot::channel();
        let begin = Begin {
            name: name.clone(),
            at,
            start: start.clone(),
            body: body.to_owned(),
            answer,
        };
        if !shared.send(Command::Begin(begin)) {
            return Err(shared.closed());
        }
        if let Some(key) = answered.await.unwrap_or_else(|_| Err(shared.closed()))? {
            return Ok((name, at, key));
        }
    }
    let reason = "no name is free for another run in this second".to_owned();
    Err(JournalError::Unusable {
        path: shared.path.clone(),
        reason,
    })
}
