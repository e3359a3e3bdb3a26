//! Where clients connect: a TCP port of this machine, a Unix socket.
//!
//! Promises: a port is bound on loopback only, unless who connects has to show who they are; a socket
//! is its owner's alone, and one that a program left behind is replaced, one that is served is not; a
//! connection too many is closed at once.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outrigger_host::config::GatewaySettings;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use crate::gateway::Shared;
use crate::http;
use crate::slots::Slot;

/// After a failure to accept (too many open files, as a rule).
const PAUSE: Duration = Duration::from_millis(100);
/// It is told of connections that are closed at once no more often than this.
const TOLD: Duration = Duration::from_secs(10);

/// Why nothing is listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not an address of this machine alone, and nobody is asked who they are.
    #[error("`{0}` is reached from other machines, and nobody would have to show who they are")]
    NotLoopback(SocketAddr),
    /// It cannot be had.
    #[error("cannot listen on `{place}`: {error}")]
    Bind {
        /// The address or the path.
        place: String,
        /// Why.
        error: io::Error,
    },
    /// Another program serves there.
    #[error("`{0}` is served by another program")]
    Served(PathBuf),
}

/// Something that clients connect to.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    #[cfg(unix)]
    Socket(UnixListener, Remove),
}

/// A socket's file, which goes with its listener.
#[derive(Debug)]
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Streamable HTTP at `/mcp` of an address, which must be a loopback one unless clients can show who
    /// they are.
    pub async fn http(address: SocketAddr, access: &GatewaySettings) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() && !access.knows_anybody() {
            return Err(ListenError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| bind(&address, error))?;
        Ok(Self(Kind::Tcp(listener)))
    }

    /// Lines over a Unix socket.
    #[cfg(unix)]
    pub async fn socket(path: &Path) -> Result<Self, ListenError> {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

        let failed = |error| bind(&path.display(), error);
        if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
            if UnixStream::connect(path).await.is_ok() {
                return Err(ListenError::Served(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let remove = Remove(path.to_owned());
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, owner).map_err(failed)?;
        Ok(Self(Kind::Socket(listener, remove)))
    }

    /// Some who connect here are taken for whoever runs the gateway.
    pub fn is_local(&self, access: &GatewaySettings) -> bool {
        match &self.0 {
            Kind::Tcp(listener) => {
                let loopback = listener.local_addr().is_ok_and(|it| it.ip().is_loopback());
                loopback && (access.open_loopback.value || !access.knows_anybody())
            }
            #[cfg(unix)]
            Kind::Socket(..) => true,
        }
    }

    /// Where its pages are: for people on this machine.
    pub(crate) fn page(&self) -> Option<(String, u16)> {
        match &self.0 {
            Kind::Tcp(listener) => {
                let address = listener.local_addr().ok()?;
                let local = address.ip().is_loopback();
                local.then(|| (format!("http://{address}"), address.port()))
            }
            #[cfg(unix)]
            Kind::Socket(..) => None,
        }
    }

    /// Where clients find it.
    pub fn place(&self) -> String {
        match &self.0 {
            Kind::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}{}", http::PATH),
                Err(error) => error.to_string(),
            },
            #[cfg(unix)]
            Kind::Socket(_, Remove(path)) => path.display().to_string(),
        }
    }
}

fn bind(place: &dyn std::fmt::Display, error: io::Error) -> ListenError {
    ListenError::Bind {
        place: place.to_string(),
        error,
    }
}

/// Serves whoever connects, until the gateway is stopped.
pub(crate) async fn serve(shared: &Arc<Shared>, listener: Listener) {
    #[cfg(unix)]
    if matches!(listener.0, Kind::Socket(..)) {
        shared.access.has_private_way();
    }
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = accept(shared, &listener) => {}
    }
}

/// Connections that were closed at once, of which it is told from time to time.
#[derive(Default)]
pub(crate) struct TurnedAway(Mutex<Count>);

#[derive(Default)]
struct Count {
    /// When it was told last.
    told: Option<Instant>,
    /// How many there were since.
    since: u64,
}

impl TurnedAway {
    /// One more at this moment; how many are to be told of now, if it is time.
    fn one_more(&self, now: Instant) -> Option<u64> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.since += 1;
        let is_early = |told| now.saturating_duration_since(told) < TOLD;
        if count.told.is_some_and(is_early) {
            return None;
        }
        count.told = Some(now);
        Some(std::mem::take(&mut count.since))
    }
}

/// A place for one more connection.
fn slot(shared: &Shared) -> Option<Slot> {
    let slot = shared.slots.try_take();
    if slot.is_none()
        && let Some(connections) = shared.turned_away.one_more(Instant::now())
    {
        tracing::warn!(
            connections,
            "connections were closed at once: there are as many as `gateway.max_connections` allows"
        );
    }
    slot
}

async fn accept(shared: &Arc<Shared>, Listener(listener): &Listener) {
    loop {
        let taken = match listener {
            Kind::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Answers are small, and each is waited for.
                let _ = stream.set_nodelay(true);
                let (shared, slot) = (Arc::clone(shared), slot(shared));
                shared.tasks.clone().spawn(async move {
                    if let Some(_slot) = slot {
                        Box::pin(http::serve(shared, stream)).await;
                    }
                });
            }),
            #[cfg(unix)]
            Kind::Socket(listener, _) => listener.accept().await.map(|(stream, _)| {
                let (shared, slot) = (Arc::clone(shared), slot(shared));
                shared.tasks.clone().spawn(async move {
                    if let Some(_slot) = slot {
                        let (reader, writer) = stream.into_split();
                        Box::pin(crate::pipe::serve(&shared, reader, writer)).await;
                    }
                });
            }),
        };
        if let Err(error) = taken {
            tracing::debug!(%error, "a connection was not accepted");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_of_many_at_once() {
        let turned_away = TurnedAway::default();
        let start = Instant::now();
        assert_eq!(turned_away.one_more(start), Some(1));
        for _ in 0..7 {
            assert_eq!(turned_away.one_more(start + TOLD / 2), None);
        }
        assert_eq!(turned_away.one_more(start + TOLD), Some(8));
        assert_eq!(turned_away.one_more(start + TOLD), None);
    }
}
