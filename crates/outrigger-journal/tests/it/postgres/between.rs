//! Stands between a journal and its database, and loses what the server answers to a commit.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;

pub(crate) struct Between {
    folder: TempDir,
    lose: Arc<AtomicBool>,
}

impl Between {
    /// In front of the server with this address.
    pub(crate) fn start(url: &str) -> Self {
        let behind = PathBuf::from(url.split_once("host=").unwrap().1).join(".s.PGSQL.5432");
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let lose = Arc::new(AtomicBool::new(false));
        let losing = Arc::clone(&lose);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&behind).unwrap();
                let losing = Arc::clone(&losing);
                thread::spawn(move || carry(client, server, &losing));
            }
        });
        Self { folder, lose }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        let folder = self.folder.path().display();
        format!("postgres://outrigger@localhost/{name}?host={folder}")
    }

    pub(crate) fn lose_next_commit(&self) {
        self.lose.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.lose.load(Ordering::SeqCst)
    }
}

/// One exchange after the other, as the protocol has it; a commit reaches the server, and its answer
/// nobody.
fn carry(mut client: UnixStream, mut server: UnixStream, lose: &AtomicBool) {
    let (mut back, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let gone = Arc::new(AtomicBool::new(false));
    let deaf = Arc::clone(&gone);
    thread::spawn(move || {
        let mut some = vec![0; 1 << 16];
        while let Ok(read @ 1..) = answers.read(&mut some) {
            if deaf.load(Ordering::SeqCst) {
                // It has answered, so it is done.
                break;
            }
            if back.write_all(&some[..read]).is_err() {
                break;
            }
        }
        back.shutdown(std::net::Shutdown::Both).ok();
        answers.shutdown(std::net::Shutdown::Both).ok();
    });
    let mut some = vec![0; 1 << 16];
    while let Ok(read @ 1..) = client.read(&mut some) {
        let said = &some[..read];
        let commit = said.windows(6).any(|words| words == b"COMMIT");
        if commit && lose.swap(false, Ordering::SeqCst) {
            gone.store(true, Ordering::SeqCst);
        }
        if server.write_all(said).is_err() {
            break;
        }
    }
    // A client that is gone: the other thread ends with the server's answer, or now.
    if !gone.load(Ordering::SeqCst) {
        server.shutdown(std::net::Shutdown::Both).ok();
    }
}
