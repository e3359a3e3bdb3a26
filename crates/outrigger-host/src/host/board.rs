//! What the servers of one host offer, put together. A server that several hosts hold puts what it offers
//! on the board of each; what breaks its contract towards one of them is missing on that one's alone.

use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use outrigger_connect::ServerName;
use tokio::sync::watch;

use crate::catalog::{Catalog, CatalogTool, ServerCatalog};
use crate::pipeline::Broken;

/// The catalog of one host.
#[derive(Debug, Default)]
pub(crate) struct Board {
    catalog: RwLock<Catalog>,
    /// Counts with [`Catalog::revision`].
    published: watch::Sender<u64>,
    /// Tools that break their contract.
    broken: Broken,
}

impl Board {
    pub(crate) fn catalog(&self) -> Catalog {
        self.catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(crate) fn broken(&self) -> &Broken {
        &self.broken
    }

    /// What a server offers now; `None`: nothing any more.
    pub(super) fn put(&self, server: &ServerName, offered: Option<&Arc<ServerCatalog>>) {
        let mut catalog = self.write();
        match offered {
            Some(offered) => {
                let fit = self.unbroken(offered);
                let fit = fit.unwrap_or_else(|| Arc::clone(offered));
                catalog.servers.insert(server.clone(), fit);
            }
            None if catalog.servers.remove(server).is_none() => return,
            None => {}
        }
        self.tell(&mut catalog);
    }

    /// Takes a tool out that breaks its contract.
    pub(super) fn set_aside(&self, tool: &CatalogTool) {
        let mut catalog = self.write();
        let known = catalog.servers.get(&tool.server);
        if let Some(changed) = known.and_then(|known| self.unbroken(known)) {
            catalog.servers.insert(tool.server.clone(), changed);
            self.tell(&mut catalog);
        }
    }

    /// Without the tools that break their contract; `None` when there is none to take out.
    fn unbroken(&self, offered: &ServerCatalog) -> Option<Arc<ServerCatalog>> {
        let mut tools = offered.tools.clone();
        let taken = self.broken.take_out(&mut tools);
        if taken.is_empty() {
            return None;
        }
        let mut changed = offered.clone();
        changed.tools = tools;
        changed.set_aside.extend(taken);
        Some(Arc::new(changed))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Catalog> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, catalog: &mut Catalog) {
        catalog.revision += 1;
        self.published.send_replace(catalog.revision);
    }
}
