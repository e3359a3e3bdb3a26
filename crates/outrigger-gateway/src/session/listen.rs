//! `subscriptions/listen`: the modern era's way to hear of changes.
//!
//! Promises: the first message says what is told of; only that is told; what is told names the
//! subscription. Ends with the gateway (with a result), or when the client ends it.
//! Source: MCP 2026-07-28, "Subscriptions" (SEP-2575).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Session, Task};
use crate::message::{self, Fault};

#[derive(Deserialize)]
struct Params {
    notifications: Wanted,
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "toolsListChanged", default)]
    tools: Option<bool>,
}

impl Session {
    pub(super) async fn listen(self: &Arc<Self>, task: Task) {
        let Task {
            id,
            params,
            outlet,
            cancel,
            ..
        } = task;
        let params = params.as_deref().map_or("null", RawValue::get);
        let wanted = match serde_json::from_str::<Params>(params) {
            Ok(params) => params.notifications,
            Err(error) => {
                let fault = Fault::params(format!("`notifications` cannot be read: {error}"));
                return outlet.end(fault.reply(Some(&id))).await;
            }
        };
        let tools = wanted.tools == Some(true);
        let told = if tools {
            "\"toolsListChanged\":true"
        } else {
            ""
        };
        let meta = format!(
            "\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{}}}",
            id.get()
        );
        let mut views = self.core.views.watch();
        let mut known = views.borrow_and_update().number;
        let acknowledged = message::notification(
            "notifications/subscriptions/acknowledged",
            &format!("{{\"notifications\":{{{told}}},{meta}}}"),
        );
        if !outlet.put(acknowledged).await {
            return;
        }
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = outlet.closed() => return,
                () = self.core.stop.cancelled() => break,
                Ok(()) = views.changed() => {
                    let now = views.borrow_and_update().number;
                    let changed = std::mem::replace(&mut known, now) != now;
                    let message = message::notification("notifications/tools/list_changed", &format!("{{{meta}}}"));
                    if changed && tools && !outlet.put(message).await {
                        return;
                    }
                }
            }
        }
        let result = format!("{{\"resultType\":\"complete\",{meta}}}");
        outlet.end(message::result(&id, &result)).await;
    }
}
