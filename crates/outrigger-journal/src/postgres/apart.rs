//! A runtime for one connection, which can be used on any thread, a runtime's own too.

use std::future::Future;
use std::thread;

use tokio::runtime::{Builder, Runtime};

use super::connect::patiently;
use super::error::PgError;

pub(super) struct Apart {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Apart {
    pub(super) fn new() -> Result<Self, PgError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PgError::Settings(format!("no runtime can be made: {error}")))?;
        Ok(Self {
            runtime: Some(runtime),
        })
    }

    /// Runs work to its end on a thread of its own, patiently.
    pub(super) fn run<T: Send>(
        &self,
        work: impl Future<Output = Result<T, PgError>> + Send,
    ) -> Result<T, PgError> {
        let work = || self.run_here(work);
        thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs work to its end on this thread, which is not a runtime's.
    pub(super) fn run_here<T, E: From<PgError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let gone = || PgError::Settings("its runtime has ended".to_owned());
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        runtime.block_on(patiently(work))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Whoever drops it may be in a runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
