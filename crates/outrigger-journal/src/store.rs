//! What keeps a journal, as the writer and the readers use it: one trait to write, one to read. One
//! implementation is a file (`sqlite.rs`), the other a database that replicas share (`postgres.rs`).
//!
//! Both are blocking: one thread writes, and reading is done away from the runtime. What is asked of a
//! store beside them: whoever opens it brings its tables up, ends the calls of hosts that are gone
//! (`recovery.rs`), and keeps the rules of its tables (`schema/`), one transaction at a time.

use std::time::Duration;

use crate::JournalError;
use crate::approvals::{Approval, ApprovalWork};
use crate::artifacts::index::{ArtifactLine, IndexDone, IndexWork, KnownOrigin};
use crate::audit::StoredLine;
use crate::read::{CallLine, RunSummary, UnknownCall};
use crate::writer::{Answer, Begin, Line};
use crate::{Digest, Recorded, RunId};

/// Something to write, and who waits for it.
pub(crate) enum Pending {
    /// A run, with its first event.
    Begin(Begin),
    /// An event, with what it changes in the ledger.
    Line(Line),
    /// A change of the index of artifacts.
    Index(IndexWork, Answer<IndexDone>),
    /// A change of what waits for a person.
    Approval(ApprovalWork, Answer<bool>),
}

/// What it came to.
pub(crate) enum Done {
    /// The run has this key; `None` when its name is taken.
    Begun(Option<i64>),
    Added,
    /// What stands in its place was: its fence did not stand any more.
    Fenced,
    Indexed(IndexDone),
    /// Whether it changed anything.
    Approval(bool),
}

/// Why nothing was written.
pub(crate) enum Failure {
    /// Nothing can be written now.
    Store(JournalError),
    /// This one cannot be written, ever.
    Entry(usize, JournalError),
}

/// Writes; lives on the writer's thread.
pub(crate) trait Store: Send {
    /// Writes all in one transaction, or nothing. What is written survives this process; where it is to
    /// be `durable`, it and all before it survive the machine too. Lines go into the chain in this order;
    /// transactions of other processes come before it or after it.
    fn write(&mut self, batch: &[Pending], durable: bool) -> Result<Vec<Done>, Failure>;

    /// Makes all that was written durable.
    fn sync(&mut self) -> Result<(), JournalError>;

    /// Does what is to be done from time to time; how long from now until the next time. `None` where
    /// there is nothing to do, ever.
    fn tend(&mut self) -> Option<Duration> {
        None
    }

    /// Lets go of it. Until then this process counts as alive.
    fn close(self: Box<Self>) -> Result<(), JournalError>;
}

/// Opens what reads.
pub(crate) trait Source: Send + Sync {
    /// One reading, by whoever asks, on its own thread.
    fn open(&self) -> Result<Box<dyn Records>, JournalError>;

    /// Changes the index of artifacts beside whoever writes, in a transaction of its own: for contents
    /// that are far away, so that nothing else waits for them. `None` where there is but one writer.
    fn index(&self, _work: &IndexWork) -> Option<Result<IndexDone, JournalError>> {
        None
    }
}

/// Reads a state that was committed.
pub(crate) trait Records {
    /// The latest runs, newest first.
    fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, JournalError>;

    /// See [`crate::Journal::find`].
    fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError>;

    /// Gives the events of a run to `take`, in order, until it says false.
    fn events(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(Recorded) -> bool,
    ) -> Result<(), JournalError>;

    /// The ledger lines of a run, in order.
    fn calls(&self, run: &RunId) -> Result<Vec<CallLine>, JournalError>;

    /// See [`crate::Journal::unknown`].
    fn unknown(&self) -> Result<Vec<UnknownCall>, JournalError>;

    /// Calls that were asked about: those that wait, the earliest first, then so many others, the latest
    /// first.
    fn approvals(&self, others: u32) -> Result<Vec<Approval>, JournalError>;

    /// What was asked under ids that begin so, at most so many.
    fn approvals_named(&self, begins: &str, limit: u32) -> Result<Vec<Approval>, JournalError>;

    /// What has been decided of this run, and whoever waits has not taken note of.
    fn approvals_decided(&self, run: &RunId) -> Result<Vec<Approval>, JournalError>;

    /// Artifacts, those used last first.
    fn artifacts(&self, limit: u32) -> Result<Vec<ArtifactLine>, JournalError>;

    /// The artifact with this handle, else at most so many that begin with it.
    fn artifacts_named(&self, digits: &str, limit: u32) -> Result<Vec<ArtifactLine>, JournalError>;

    /// Where an artifact came from, the earliest first.
    fn origins(&self, artifact: &Digest) -> Result<Vec<KnownOrigin>, JournalError>;

    /// Artifacts that are here, the longest unused first, each with whether a run that goes on was
    /// given it.
    fn collectable(&self) -> Result<Vec<(ArtifactLine, bool)>, JournalError>;

    /// The hash of the first line, which tells this journal from all others; `None` where it is empty,
    /// or where nobody else can have to do with its artifacts.
    fn beginning(&self) -> Result<Option<Digest>, JournalError> {
        Ok(None)
    }

    /// Those of these that are not here.
    fn strangers(&self, contents: &[Digest]) -> Result<Vec<Digest>, JournalError>;

    /// From now on one state, whatever others write meanwhile; or no longer.
    fn one_state(&self, begin: bool) -> Result<(), JournalError>;

    /// Gives the lines, or those of the run with this name, to `take`, in order, until it says false.
    fn lines(
        &self,
        run: Option<&str>,
        take: &mut dyn FnMut(StoredLine) -> bool,
    ) -> Result<(), JournalError>;

    /// The end of the chain, as it is kept beside the lines: the last line and its hash.
    fn chain_end(&self) -> Result<(i64, Digest), JournalError>;

    /// Gives each call of the ledger to `take`, with how it ended, until that says false: the key of
    /// its run, its number, the word.
    fn ends(
        &self,
        take: &mut dyn FnMut(i64, u32, Option<&str>) -> bool,
    ) -> Result<(), JournalError>;
}
