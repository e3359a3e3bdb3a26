//! Which era each server speaks, kept between runs in the cache folder.
//!
//! Promises: a file is there whole or not at all; what cannot be read or written is as good as not
//! remembered; a server that was found to be of the old era is asked anew after a while, in case it
//! has learned the new one. A file's name is a digest of how the server is reached, so that nothing
//! of its address or arguments is kept.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use outrigger_connect::{Era, EraCache};

/// How long it is believed that a server knows the old era only.
const BELIEVED: Duration = Duration::from_secs(7 * 24 * 3600);

/// No file that was written here is longer.
const LONGEST: u64 = 16;

/// Tells files apart that are written at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// One small file for each server.
pub(crate) struct EraFolder {
    folder: PathBuf,
}

impl EraFolder {
    /// `folder` is made when something is first kept in it.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn read(&self, key: &str) -> io::Result<Option<Era>> {
        let file = File::open(self.folder.join(key))?;
        let written = file.metadata()?.modified()?;
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        // A file of the future is not trusted either.
        let age = SystemTime::now().duration_since(written);
        Ok(match text.as_str() {
            "modern\n" => Some(Era::Modern),
            "legacy\n" if age.is_ok_and(|age| age < BELIEVED) => Some(Era::Legacy),
            _ => None,
        })
    }

    fn write(&self, key: &str, era: Era) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let aside = self
            .folder
            .join(format!("{key}.{}-{number}.new", std::process::id()));
        let text = match era {
            Era::Modern => "modern\n",
            Era::Legacy => "legacy\n",
        };
        let written = File::create(&aside)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&aside, self.folder.join(key)));
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }
}

impl EraCache for EraFolder {
    fn get(&self, key: &str) -> Option<Era> {
        self.read(key).ok().flatten()
    }

    fn put(&self, key: &str, era: Option<Era>) {
        let done = match era {
            Some(era) => self.write(key, era),
            None => fs::remove_file(self.folder.join(key)),
        };
        if let Err(error) = done {
            tracing::debug!(folder = %self.folder.display(), %error, "the era of a server is not remembered");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_whole_and_lately_is_believed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep/eras");
        let eras = EraFolder::new(folder.clone());
        assert_eq!(eras.get("a"), None);
        eras.put("a", None);
        eras.put("a", Some(Era::Legacy));
        eras.put("b", Some(Era::Modern));
        assert_eq!(
            (eras.get("a"), eras.get("b")),
            (Some(Era::Legacy), Some(Era::Modern))
        );
        let names = fs::read_dir(&folder).unwrap().count();
        assert_eq!(names, 2, "nothing is left aside");

        let long_ago = SystemTime::now() - BELIEVED;
        let file = File::options().write(true).open(folder.join("a")).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!(eras.get("a"), None);
        for broken in ["", "modern", "legacy\nlegacy\n", "\u{0}\u{0}", "ancient\n"] {
            fs::write(folder.join("b"), broken).unwrap();
            assert_eq!(eras.get("b"), None, "{broken:?}");
        }
        fs::remove_file(folder.join("b")).unwrap();
        fs::create_dir(folder.join("b")).unwrap();
        assert_eq!(eras.get("b"), None);
        eras.put("b", Some(Era::Modern));
        eras.put("a", None);
        assert!(!folder.join("a").exists());
    }
}
