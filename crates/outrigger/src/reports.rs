//! What providers have reported of requests, against what was estimated of them, kept between runs in
//! the cache folder: one small file for each model.
//!
//! Promises: a file is there whole or not at all; what cannot be read or written is as good as not
//! remembered, and so is what could not have been learned; there are never many files. A file's name is
//! a digest of the model's. Two runs that write at once may lose a report, never more.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outrigger_agent::{Estimates, Learned, Reports};
use outrigger_host::Digest;

use crate::cli::Common;
use crate::surroundings;

/// No file that was written here is longer.
const LONGEST: u64 = 80;
/// Files that are kept; the one that was written longest ago goes first.
const MOST: usize = 100;
/// How a file begins. Another meaning of the numbers needs another one.
const FORMAT: &str = "1";

/// Tells files apart that are written at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// What is known of how models count. A recording knows what its run knew.
pub(crate) fn estimates(common: &Common) -> Estimates {
    if let Some(playback) = &common.playback {
        return playback.estimates();
    }
    let folder = surroundings::reports().map(ReportFolder::new);
    let estimates = folder.map_or_else(Estimates::default, |folder| {
        Estimates::kept(Arc::new(folder))
    });
    if let Some(recorder) = &common.recorder {
        recorder.estimates(&estimates);
    }
    estimates
}

/// A folder of such files.
pub(crate) struct ReportFolder {
    folder: PathBuf,
}

impl ReportFolder {
    /// `folder` is made when something is first kept in it.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self, model: &str) -> PathBuf {
        self.folder.join(Digest::of_text(model).to_string())
    }

    fn read(&self, model: &str) -> io::Result<Option<Learned>> {
        let mut text = String::new();
        let file = File::open(self.file(model))?;
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(read(&text))
    }

    fn write(&self, model: &str, learned: Learned) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let file = self.file(model);
        let aside = file.with_extension(format!("{}-{number}.new", std::process::id()));
        let written = File::create(&aside)
            .and_then(|mut aside| aside.write_all(text(learned).as_bytes()))
            .and_then(|()| fs::rename(&aside, &file));
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written?;
        self.make_room()
    }

    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
        files.sort();
        let beyond = files.len().saturating_sub(MOST);
        for (_, file) in files.into_iter().take(beyond) {
            fs::remove_file(file)?;
        }
        Ok(())
    }
}

impl Reports for ReportFolder {
    fn get(&self, model: &str) -> Option<Learned> {
        self.read(model).ok().flatten()
    }

    fn put(&self, model: &str, learned: Learned) {
        if let Err(error) = self.write(model, learned) {
            tracing::debug!(folder = %self.folder.display(), %error, "what was reported is not remembered");
        }
    }
}

fn text(learned: Learned) -> String {
    let Learned {
        reported,
        estimated,
        requests,
    } = learned;
    format!("{FORMAT} {reported} {estimated} {requests}\n")
}

fn read(text: &str) -> Option<Learned> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    let mut next = || words.next();
    if next()? != FORMAT {
        return None;
    }
    let (reported, estimated, requests) = (next()?, next()?, next()?);
    if next().is_some() {
        return None;
    }
    Learned::of(
        reported.parse().ok()?,
        estimated.parse().ok()?,
        requests.parse().ok()?,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_remembered_and_nothing_else_is_believed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep/reports");
        let reports = ReportFolder::new(folder.clone());
        let learned = Learned::of(13_000, 10_000, 3).unwrap();
        assert_eq!(reports.get("a:one"), None);
        reports.put("a:one", learned);
        assert_eq!(reports.get("a:one"), Some(learned));
        assert_eq!(reports.get("a:two"), None);
        let file = reports.file("a:one");
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 13000 10000 3\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        for broken in [
            "",
            "1 13000 10000 3",
            "2 13000 10000 3\n",
            "1 13000 10000\n",
            "1 13000 10000 3 4\n",
            "1 0 10000 3\n",
            "1 13000 0 3\n",
            "1 13000 10000 0\n",
            "1 999999 10000 3\n",
            "1 99999999999999999999 10000 3\n",
            "1 -13000 10000 3\n",
            "\u{0}\u{0}\u{0}",
        ] {
            fs::write(&file, broken).unwrap();
            assert_eq!(reports.get("a:one"), None, "{broken:?}");
        }
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(reports.get("a:one"), None);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        reports.put("a:one", learned);
        assert_eq!(reports.get("a:one"), None, "a folder stands in the way");
    }

    #[test]
    fn there_are_never_many_files() {
        let place = tempfile::tempdir().unwrap();
        let reports = ReportFolder::new(place.path().to_owned());
        let learned = Learned::of(13_000, 10_000, 3).unwrap();
        for number in 0..MOST + 5 {
            reports.put(&format!("a:{number}"), learned);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), MOST);
        let last = format!("a:{}", MOST + 4);
        assert_eq!(reports.get(&last), Some(learned));
    }
}
