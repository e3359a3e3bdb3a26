//! A scripted model behind real HTTP, for the program to talk to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_testkit::provider_server::{ProviderServer, RecordedRequest, Script, Turn};
use tokio::runtime::Runtime;

use crate::place::Place;

/// The server, and the runtime that it lives in.
pub(crate) struct Model {
    server: ProviderServer,
    _runtime: Runtime,
}

impl Model {
    /// Says these turns, one for each request.
    pub(crate) fn turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        let script = Script::new(turns);
        Self::start(|runtime| runtime.block_on(ProviderServer::start(script)))
    }

    /// Says what `answer` makes of the number of the request, from 0, and the request.
    pub(crate) fn answering(
        answer: impl Fn(usize, &RecordedRequest) -> Turn + Send + Sync + 'static,
    ) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let respond =
            move |request: &RecordedRequest| answer(count.fetch_add(1, Ordering::SeqCst), request);
        Self::start(|runtime| runtime.block_on(ProviderServer::answering(respond)))
    }

    fn start(start: impl FnOnce(&Runtime) -> std::io::Result<ProviderServer>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = start(&runtime).unwrap();
        Self {
            server,
            _runtime: runtime,
        }
    }

    /// Makes it the model of a place.
    pub(crate) fn serves(&self, place: &Place) {
        place.user(&format!(
            "[model]\ndefault = 'scripted:one'\n[model.providers.scripted]\nkind = 'openai-chat'\nbase_url = '{}'",
            self.base_url()
        ));
    }

    /// Makes it the model of a place that had another one.
    pub(crate) fn serves_again(&self, place: &Place) {
        place.write("config/outrigger/outrigger.toml", "");
        self.serves(place);
    }

    pub(crate) fn base_url(&self) -> String {
        self.server.base_url()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// What the last request brought back from tools.
    pub(crate) fn last_results(&self) -> Vec<String> {
        self.requests().last().unwrap().results()
    }
}
