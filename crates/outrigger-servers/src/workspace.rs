//! The `workspace` server: lists, reads and searches the files of one folder.
//!
//! Promises: nothing outside the folder is reached, by absolute paths, `..` or symbolic links
//! (`cap-std` resolves every path); only regular files are opened, so that no pipe or device can
//! hang or be touched; answers are bounded and say what was left out; work on files runs on at most
//! four blocking threads and stops when its request is cancelled. Leaves out writing.

mod binary;
mod error;
mod list;
mod path;
mod read;
mod root;
mod search;
mod stop;
mod walk;

use std::{path::PathBuf, sync::Arc, time::Duration};

use rmcp::model::Tool;
use serde::Serialize;
use tokio::{sync::Semaphore, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

pub(crate) use self::error::WorkspaceError;
use self::{root::Root, stop::Stop};
use crate::{
    arguments,
    tool::{Reply, declare},
    toolbox::{Call, CallError},
};

/// The largest file that is read or searched, in bytes (2 MB).
const LARGEST_FILE: u64 = 2_000_000;
/// How long one call may work before it answers with what it has.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const THREADS: usize = 4;

pub(crate) struct WorkspaceTools {
    root: Arc<Root>,
    threads: Arc<Semaphore>,
    tools: [Tool; 3],
}

impl WorkspaceTools {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root: Arc::new(Root::new(root)),
            threads: Arc::new(Semaphore::new(THREADS)),
            tools: [
                declare::<list::Arguments, list::Listing>(
                    "list",
                    "List files",
                    "Lists files and folders of the workspace.",
                ),
                declare::<read::Arguments, read::Excerpt>(
                    "read",
                    "Read file",
                    "Reads a text file of the workspace, whole or a window of lines.",
                ),
                declare::<search::Arguments, search::Found>(
                    "search",
                    "Search files",
                    "Finds lines that match a regular expression in the files of the workspace.",
                ),
            ],
        }
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let Call {
            tool,
            arguments,
            cancelled,
        } = call;
        match tool.name.as_ref() {
            "read" => {
                let arguments: read::Arguments = arguments::parse(tool, arguments)?;
                self.work(cancelled, move |root, _| read::read(root, &arguments))
                    .await
            }
            "search" => {
                let arguments: search::Arguments = arguments::parse(tool, arguments)?;
                self.work(cancelled, move |root, stop| {
                    search::search(root, &arguments, stop)
                })
                .await
            }
            _ => {
                let arguments: list::Arguments = arguments::parse(tool, arguments)?;
                self.work(cancelled, move |root, stop| {
                    list::list(root, &arguments, stop)
                })
                .await
            }
        }
    }

    async fn work<T, F>(&self, cancelled: CancellationToken, work: F) -> Result<Reply, CallError>
    where
        T: Answer + Send + 'static,
        F: FnOnce(&Root, &Stop) -> Result<T, WorkspaceError> + Send + 'static,
    {
        let stop = Stop::new(cancelled.clone(), TIME_LIMIT);
        let root = Arc::clone(&self.root);
        let threads = Arc::clone(&self.threads);
        let done = async move {
            let thread = threads.acquire_owned().await;
            let task = spawn_blocking(move || {
                let _held_until_done = thread;
                work(&root, &stop)
            });
            task.await.map_err(WorkspaceError::Died)?
        };
        // A file system that does not answer must not hold up whoever has given up on it.
        let answer = tokio::select! {
            biased;
            answer = done => answer?,
            () = cancelled.cancelled() => return Err(WorkspaceError::Cancelled.into()),
        };
        Ok(answer.reply()?)
    }
}

/// A result that can be told as JSON, as text, and with a note about what is missing.
trait Answer: Serialize + Sized {
    fn text(&self) -> String;

    fn note(&self) -> Option<String>;

    fn reply(self) -> Result<Reply, serde_json::Error> {
        let (text, note) = (self.text(), self.note());
        Ok(Reply::new(&self, text)?.with_note(note))
    }
}

#[cfg(test)]
mod tests;
