//! Who may decide on the page: whoever can read a file of the person who runs the gateway.
//!
//! Promises: reaching the port is not enough, since any program and any page can. The file (mode 0600)
//! holds a random key that is good for one visit; that gets a cookie for this browser, and each form a
//! token that belongs to the cookie. Both end with the gateway, or after half a day.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::COOKIE;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// How long a browser may decide.
const LASTS: Duration = Duration::from_hours(12);
/// Browsers that may decide at one time.
const MOST: usize = 16;

/// The way in.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Where keys are kept; without one there is no way in.
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    key: Option<Key>,
    /// By the cookie.
    visits: HashMap<String, Visit>,
}

#[derive(Debug)]
struct Key {
    secret: String,
    file: PathBuf,
    url: String,
}

/// What became of something, for the top of a page.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) good: bool,
    pub(crate) words: String,
}

/// A browser that has come in.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    /// What its forms have to say.
    pub(crate) token: String,
    /// What is to be told on the next page.
    notice: Option<Notice>,
    since: Instant,
}

impl Door {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page is served at this address from now on.
    pub(crate) fn opens(&self, url: &str, port: u16) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        make_private(folder)?;
        let key = Key {
            secret: random()?,
            file: folder.join(format!("page-{port}.json")),
            url: url.to_owned(),
        };
        key.write()?;
        self.state().key = Some(key);
        Ok(())
    }

    /// A browser comes with a key; its cookie. The key is another one from then on.
    pub(crate) fn enter(&self, key: &str) -> Option<String> {
        let mut state = self.state();
        let known = state.key.as_mut()?;
        if !same(key, &known.secret) {
            return None;
        }
        known.secret = random().ok()?;
        known.write().ok()?;
        let (cookie, token) = (random().ok()?, random().ok()?);
        let visits = &mut state.visits;
        visits.retain(|_, visit| visit.since.elapsed() < LASTS);
        if visits.len() >= MOST {
            let oldest = visits.iter().min_by_key(|(_, visit)| visit.since);
            let oldest = oldest.map(|(cookie, _)| cookie.clone());
            oldest.and_then(|cookie| visits.remove(&cookie));
        }
        let since = Instant::now();
        let visit = Visit {
            token,
            notice: None,
            since,
        };
        visits.insert(cookie.clone(), visit);
        Some(cookie)
    }

    /// Who comes with this head.
    pub(crate) fn visit(&self, headers: &HeaderMap, name: &str) -> Option<Visit> {
        let state = self.state();
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let visit = cookies.flat_map(|line| line.split(';')).find_map(|pair| {
            let (found, value) = pair.trim().split_once('=')?;
            // 192 bits that nobody can guess are looked up, not compared.
            state.visits.get(value).filter(|_| found == name)
        });
        visit.filter(|visit| visit.since.elapsed() < LASTS).cloned()
    }
}

impl Door {
    /// Tells a browser something with the next page.
    pub(crate) fn notice(&self, visit: &Visit, notice: Notice) {
        let mut state = self.state();
        let mut visits = state.visits.values_mut();
        if let Some(visit) = visits.find(|known| known.token == visit.token) {
            visit.notice = Some(notice);
        }
    }

    /// What is to be told, once.
    pub(crate) fn take_notice(&self, visit: &Visit) -> Option<Notice> {
        let mut state = self.state();
        let mut visits = state.visits.values_mut();
        visits
            .find(|known| known.token == visit.token)
            .and_then(|visit| visit.notice.take())
    }
}

impl Visit {
    /// Whether a form is one that this browser was given.
    pub(crate) fn gave(&self, token: &str) -> bool {
        same(token, &self.token)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(key) = &self.state().key {
            // It opens nothing any more.
            std::fs::remove_file(&key.file).ok();
        }
    }
}

impl Key {
    /// All at once, for this user alone.
    fn write(&self) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let text = json!({ "url": self.url, "key": self.secret }).to_string();
        file.write_all(text.as_bytes())?;
        file.persist(&self.file)?;
        Ok(())
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Compares hashes, so that how long it takes says nothing.
fn same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn key(folder: &Path) -> String {
        let text = std::fs::read_to_string(folder.join("page-1.json")).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        read["key"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_key_is_good_once_and_for_whoever_can_read_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let door = Door::new(Some(folder.path().to_owned()));
        assert_eq!(door.enter(""), None);
        door.opens("http://127.0.0.1:1", 1).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let file = std::fs::metadata(folder.path().join("page-1.json")).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
        let first = key(folder.path());
        assert_eq!(door.enter(&format!("{first}x")), None);
        let cookie = door.enter(&first).unwrap();
        assert_eq!(door.enter(&first), None, "once");
        assert_ne!(key(folder.path()), first);
        let headers =
            |value: &str| HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(value).unwrap())]);
        let visit = door
            .visit(&headers(&format!("a=b; x={cookie}")), "x")
            .unwrap();
        assert!(visit.gave(&visit.token) && !visit.gave(""));
        assert!(door.visit(&headers(&format!("y={cookie}")), "x").is_none());
        assert!(door.visit(&headers("x=z"), "x").is_none());
        drop(door);
        assert!(!folder.path().join("page-1.json").exists());
    }

    #[test]
    fn so_many_browsers_are_let_in() {
        let folder = tempfile::tempdir().unwrap();
        let door = Door::new(Some(folder.path().to_owned()));
        door.opens("http://127.0.0.1:1", 1).unwrap();
        for _ in 0..MOST * 2 {
            assert!(door.enter(&key(folder.path())).is_some());
        }
        assert_eq!(door.state().visits.len(), MOST);
    }
}
