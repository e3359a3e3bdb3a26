//! Going over to another host when the configuration has changed.
//!
//! Promises: a call has one host from its beginning to its end; whoever asks after that of another has the
//! later one; nobody is opened under a configuration that is not the one that all others go over to;
//! clients stay, unless nothing lets them in any more, and hear of lists that are others now. Leaves
//! out: reading the configuration, and what hosts are made of, which is the keeper's.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use outrigger_host::Host;
use outrigger_host::config::GatewaySettings;
use tokio::sync::watch;

use crate::gateway::{Core, Gateway};

/// What belongs to a principal under a configuration that was read again.
pub struct Renewed {
    /// Its servers; it took the place of the host before.
    pub host: Host,
    /// The file where it is kept what was last known of the tools.
    pub kept: Option<PathBuf>,
}

/// The host that a principal has now.
pub(crate) struct Present(watch::Sender<Numbered>);

/// How many were before it, and the host.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) host: Host,
}

impl Present {
    pub(crate) fn new(host: Host) -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Numbered { number: 0, host })))
    }

    pub(crate) fn host(&self) -> Host {
        self.0.borrow().host.clone()
    }

    pub(crate) fn numbered(&self) -> Numbered {
        self.0.borrow().clone()
    }

    /// Changes when another one takes its place.
    pub(crate) fn watch(&self) -> watch::Receiver<Numbered> {
        self.0.subscribe()
    }

    fn replace(&self, host: Host) {
        self.0.send_modify(|now| {
            now.number += 1;
            now.host = host;
        });
    }
}

impl Core {
    /// The host for what begins now.
    pub(crate) fn host(&self) -> Host {
        self.present.host()
    }

    /// Goes over to another host. Calls that are under way keep theirs.
    pub(crate) fn renew(&self, renewed: Renewed) {
        self.present.replace(renewed.host);
        self.views.renewed(renewed.kept);
    }
}

impl Gateway {
    /// Lets in whom `access` knows, and nobody else, from when this is called on: sessions and streams of
    /// others end, and their servers once their calls have. Then has everybody who is left go over to what
    /// [`End::renew`](crate::End::renew) returns. How many there were.
    pub async fn renew(&self, access: GatewaySettings) -> usize {
        let (shared, tenants) = (&self.shared, &self.shared.tenants);
        shared.access.change(access);
        // Whoever is not known any more does not wait for others to be opened, which may take long.
        self.part();
        let _nobody_is_opened = tenants.opening.write().await;
        // Those who were being opened meanwhile.
        self.part();
        let places = tenants.places();
        let renewed = join_all(places.iter().map(|place| place.renew())).await;
        renewed.into_iter().filter(|opened| *opened).count()
    }

    /// Has everybody keep to what the settings say now, and lets those go whom they do not know.
    fn part(&self) {
        let (shared, tenants) = (&self.shared, &self.shared.tenants);
        shared.allow(&shared.access.now().settings);
        for core in tenants.cores() {
            core.sessions.end_those_over();
        }
        tenants.dismiss(shared);
    }
}
