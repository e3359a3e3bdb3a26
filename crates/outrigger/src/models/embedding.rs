//! The model that finds tools by meaning, where configuration asks for one. When it cannot be had, that
//! is said once, with what to do, and tools are found by words.

use outrigger_host::Host;
use outrigger_host::config::Config;
use tokio::sync::watch;

use crate::cli::Common;
use crate::screen::{Label, Screen};

/// A model that reads the tools, if one is wanted and can be had.
pub(crate) struct Reading(Option<watch::Receiver<u64>>);

impl Reading {
    /// Has the host find tools by meaning.
    pub(crate) fn begin(host: &Host, config: &Config, screen: Screen) -> Self {
        let wanted = &config.discovery.embeddings;
        let Some(name) = &wanted.value else {
            return Self(None);
        };
        match of(name, screen) {
            Ok(embeddings) => Self(Some(host.find_by_meaning(embeddings))),
            Err((reason, hint)) => {
                let asked = format!("`discovery.embeddings` ({})", wanted.origin);
                warn(screen, &format!("{asked}: {reason}"), &hint);
                Self(None)
            }
        }
    }

    /// Waits for it in a run that is recorded, or run again: both are to find the same. Any other run
    /// finds tools by words until then.
    pub(crate) async fn settled(self, host: &Host, common: &Common) {
        let compared = common.recorder.is_some() || common.playback.is_some();
        if let Some(mut reads) = self.0.filter(|_| compared) {
            let now = *host.published().borrow();
            // It is closed where there is nothing to wait for.
            reads.wait_for(|read| *read >= now).await.ok();
        }
    }
}

/// Says that tools are found by words alone, why, and what to do.
fn warn(screen: Screen, reason: &str, hint: &str) {
    let (warning, word) = (
        screen.talk(Label::Warn, "warning:"),
        screen.talk(Label::Dim, "hint:"),
    );
    let reason = crate::visible::line(reason);
    screen.insist(format_args!(
        "{warning} {reason}; tools are found by words alone"
    ));
    screen.insist(format_args!("{word} {}", crate::visible::line(hint)));
}

#[cfg(not(feature = "local"))]
fn of(_: &str, _: Screen) -> Result<outrigger_host::discovery::Embeddings, (String, String)> {
    let reason = "this build has no local models".to_owned();
    let hint = "build it with `--features local`, or set `embeddings = \"none\"`".to_owned();
    Err((reason, hint))
}

#[cfg(feature = "local")]
use of_store::of;

#[cfg(feature = "local")]
mod of_store {
    use std::sync::Arc;

    use outrigger_host::discovery::{Embedder, Embeddings};
    use outrigger_local::{EmbeddingModel, ModelKind, Store, StoreError};

    use super::warn;
    use crate::screen::Screen;
    use crate::surroundings;

    /// The model in the process, behind the trait of the search.
    struct Local(EmbeddingModel);

    impl Embedder for Local {
        fn id(&self) -> &str {
            self.0.id()
        }

        fn embed(&self, text: &str) -> Option<Vec<f32>> {
            self.0.embed(text)
        }

        fn unrelated(&self) -> f32 {
            self.0.unrelated()
        }
    }

    /// Why it cannot be had, and what to do.
    pub(super) fn of(name: &str, screen: Screen) -> Result<Embeddings, (String, String)> {
        let root = surroundings::weights().map_err(|error| (error.to_string(), String::new()))?;
        let store = Store::new(root);
        let known = store.manifest().models.iter();
        let known: Vec<_> = known
            .filter(|model| model.kind == ModelKind::Embedding)
            .map(|model| format!("`{}`", model.name))
            .collect();
        let one_of = format!("known for this are {}", known.join(", "));
        let kind = store.manifest().find(name).map(|model| model.kind);
        if kind == Some(ModelKind::Language) {
            return Err((format!("`{name}` is no model of embeddings"), one_of));
        }
        let stored = store.stored(name).map_err(|error| match error {
            StoreError::NotHere { .. } => (
                format!("the model `{name}` is not here"),
                format!("`outrigger model pull {name}` fetches it"),
            ),
            error => (error.to_string(), one_of),
        })?;
        let name = name.to_owned();
        let load = move || match EmbeddingModel::load(&stored.path) {
            Ok(model) => Some(Arc::new(Local(model)) as Arc<dyn Embedder>),
            Err(error) => {
                let hint = format!("`outrigger model rm {name}` and fetch it again");
                warn(screen, &error.to_string(), &hint);
                None
            }
        };
        Ok(Embeddings {
            load: Box::new(load),
            folder: surroundings::vectors(),
        })
    }
}
