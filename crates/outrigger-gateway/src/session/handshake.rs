//! Who serves, what is offered, and the listing. Both eras.
//!
//! Source: MCP 2025-11-25, "Lifecycle"; 2026-07-28, "Discovery" and "Caching".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outrigger_connect::wire::{LEGACY, MODERN, quote};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Session, Task, lock};
use crate::client::{Can, Client, Level, name_of};
use crate::message::{self, Fault};
use crate::outlet::Reply;

/// What both eras are offered, without braces.
const CAPABILITIES: &str = r#""tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}"#;
/// What the legacy era is offered besides.
const OLDER_TASKS: &str = r#""tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;

impl Session {
    pub(super) fn discover(&self) -> String {
        format!(
            "{{\"resultType\":\"complete\",\"supportedVersions\":[\"{MODERN}\"],\
             \"capabilities\":{{{CAPABILITIES},\"extensions\":{{\"io.modelcontextprotocol/tasks\":{{}}}}}},\"instructions\":{},\"ttlMs\":0,\"cacheScope\":\"private\",\
             \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{}}}}}",
            quote(&self.core.instructions()),
            self.core.info,
        )
    }

    /// Agrees on a version: the client's, where it is known here, else our newest.
    pub(super) fn initialize(&self, params: Option<&RawValue>) -> Result<String, Fault> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(rename = "protocolVersion")]
            version: String,
            #[serde(borrow, default)]
            capabilities: Option<&'a RawValue>,
            #[serde(rename = "clientInfo", borrow, default)]
            info: Option<&'a RawValue>,
        }
        let params = params.map_or("null", RawValue::get);
        let params: Params<'_> = serde_json::from_str(params)
            .map_err(|error| Fault::params(format!("`initialize` cannot be read: {error}")))?;
        let version = LEGACY
            .into_iter()
            .find(|known| *known == params.version)
            .unwrap_or(LEGACY[0]);
        let client = Client {
            modern: false,
            can: Can::read(params.capabilities),
            tasks: false,
            level: None,
            name: name_of(params.info),
        };
        *lock(&self.client) = Some(Arc::new(client));
        // The one version that knows them.
        let tasks = if version == LEGACY[0] {
            format!(",{OLDER_TASKS}")
        } else {
            String::new()
        };
        Ok(format!(
            "{{\"protocolVersion\":\"{version}\",\"capabilities\":{{{CAPABILITIES}{tasks}}},\"serverInfo\":{},\
             \"instructions\":{}}}",
            self.core.info,
            quote(&self.core.instructions()),
        ))
    }

    pub(super) fn set_level(&self, params: Option<&RawValue>) -> Result<String, Fault> {
        #[derive(Deserialize)]
        struct Params {
            level: Level,
        }
        let params = params.map_or("null", RawValue::get);
        let Params { level } = serde_json::from_str(params)
            .map_err(|error| Fault::params(format!("the level cannot be read: {error}")))?;
        *lock(&self.level) = level;
        Ok("{}".to_owned())
    }

    /// The whole listing: it has one page.
    pub(super) fn listing(&self, id: &RawValue, modern: bool, params: Option<&RawValue>) -> Reply {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            cursor: Option<&'a RawValue>,
        }
        let params = params.and_then(|raw| serde_json::from_str::<Params<'_>>(raw.get()).ok());
        if params.is_some_and(|params| params.cursor.is_some()) {
            return Fault::params("there is no page behind this cursor").reply(Some(id));
        }
        self.core.views.catch_up();
        let view = self.core.views.current();
        self.listed.store(view.number, Ordering::Relaxed);
        message::written(id, if modern { &view.modern } else { &view.legacy })
    }

    /// The listing, where servers are starting of which nothing is known yet.
    pub(super) async fn list_later(self: &Arc<Self>, task: Task) {
        let Task {
            id,
            params,
            client,
            outlet,
            cancel,
            ..
        } = task;
        tokio::select! {
            () = cancel.cancelled() => return,
            () = self.core.first_listing() => {}
        }
        let reply = self.listing(&id, client.modern, params.as_deref());
        outlet.end(reply).await;
    }
}
