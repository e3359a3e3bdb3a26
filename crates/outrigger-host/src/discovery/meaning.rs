//! Keeps the search by meaning up with the catalog: loads its model, embeds what is new or has changed,
//! and keeps vectors between runs.
//!
//! Promises: nothing waits for it; until vectors are there, tools are found by words. What is kept is
//! replaced as a whole, and what cannot be read is made anew. Leaves out where the model comes from,
//! and telling a person that it is missing: both are the caller's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use outrigger_search::{Embedder, Meaning, Vectors};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Finder;
use crate::host::{Board, Host};
use crate::kept_file;

/// The largest file of vectors that is read, in bytes: more than are ever written.
const LARGEST: u64 = 100 << 20;

/// A model for finding tools by meaning.
pub struct Embeddings {
    /// Loads it, and may block. `None` where that cannot be, which the person has been told then.
    pub load: Box<dyn FnOnce() -> Option<Arc<dyn Embedder>> + Send>,
    /// Where vectors are kept between runs; without it they are made anew in each.
    pub folder: Option<PathBuf>,
}

impl Host {
    /// From now on tools are found by meaning besides, as soon as the model has read them. What is
    /// returned has the revision of the catalog that was read last, from 0; it is closed when the model
    /// cannot be loaded.
    pub fn find_by_meaning(&self, embeddings: Embeddings) -> watch::Receiver<u64> {
        let (read, reads) = watch::channel(0);
        let meaning = Meaning::default();
        self.finder().add(&meaning);
        let keeper = Keeper {
            meaning,
            finder: Arc::clone(self.finder()),
            board: Arc::downgrade(self.board()),
            published: self.published(),
            stop: self.stopping().clone(),
            file: None,
            read,
        };
        self.spawn(keeper.run(embeddings));
        reads
    }
}

/// The work beside the answers.
struct Keeper {
    meaning: Meaning,
    finder: Arc<Finder>,
    /// The host's: it ends with the host.
    board: Weak<Board>,
    published: watch::Receiver<u64>,
    stop: CancellationToken,
    file: Option<PathBuf>,
    /// The revision of the catalog that was read last.
    read: watch::Sender<u64>,
}

impl Keeper {
    async fn run(mut self, embeddings: Embeddings) {
        let began = tokio::task::spawn_blocking(move || {
            let ready = self.begin(embeddings);
            (self, ready)
        });
        let Ok((mut keeper, true)) = began.await else {
            return;
        };
        let stop = keeper.stop.clone();
        loop {
            keeper.published.borrow_and_update();
            let kept_up = tokio::task::spawn_blocking(move || {
                keeper.keep_up();
                keeper
            });
            // The model failed: what it has not read is found by words.
            let Ok(kept_up) = kept_up.await else { return };
            keeper = kept_up;
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = keeper.published.changed() => if changed.is_err() { return },
            }
        }
    }

    fn begin(&mut self, embeddings: Embeddings) -> bool {
        let Some(embedder) = (embeddings.load)() else {
            return false;
        };
        self.file = embeddings.folder.map(|folder| folder.join(embedder.id()));
        let known = self.file.as_deref().and_then(kept);
        let known = known.unwrap_or_else(|| Vectors::new(embedder.id()));
        self.meaning.begin(embedder, known);
        true
    }

    fn keep_up(&self) {
        let Some(catalog) = self.board.upgrade().map(|board| board.catalog()) else {
            return;
        };
        self.finder.follow(&catalog);
        let mut learned = 0;
        while !self.stop.is_cancelled() {
            match self.meaning.learn() {
                0 => break,
                count => learned += count,
            }
        }
        tracing::debug!(learned, "tools were embedded");
        if learned > 0
            && let Some(file) = &self.file
        {
            keep(file, self.meaning.vectors());
        }
        self.read.send_replace(catalog.revision);
    }
}

/// What a file holds; nothing where it is not as it was written.
fn kept(file: &Path) -> Option<Vectors> {
    let size = match fs::metadata(file) {
        Ok(found) => found.len(),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::debug!(file = %file.display(), %error, "vectors cannot be read");
            }
            return None;
        }
    };
    if size > LARGEST {
        return None;
    }
    let bytes = fs::read(file).ok()?;
    match Vectors::from_bytes(&bytes) {
        Ok(vectors) => Some(vectors),
        Err(error) => {
            tracing::debug!(file = %file.display(), %error, "vectors are made anew");
            None
        }
    }
}

/// Keeps these, and what another run has kept meanwhile.
fn keep(file: &Path, mut vectors: Vectors) {
    if let Some(others) = kept(file) {
        vectors.merge(others);
    }
    if let Err(error) = kept_file::replace(file, &vectors.to_bytes()) {
        tracing::debug!(file = %file.display(), %error, "vectors are not kept");
    }
}
