//! `subscriptions/listen`: the modern era's way to hear of changes.
//!
//! Promises: the first message says what is told of; only that is told; what is told names the
//! subscription. Ends with the gateway (with a result), or when the client ends it.
//! Source: MCP 2026-07-28, "Subscriptions" (SEP-2575); of tasks, MCP Tasks extension (SEP-2663).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use outrigger_host::offers::Following;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::offers::Followed;
use super::{Session, Task};
use crate::changes::{PROMPTS, RESOURCES, TOOLS};
use crate::message::{self, Fault};
use crate::outlet::Outlet;
use crate::tasks::Kept;

/// Resources, and tasks, that one subscription tells of.
const MOST: usize = 256;

#[derive(Deserialize)]
struct Params {
    notifications: Wanted,
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "toolsListChanged", default)]
    tools: Option<bool>,
    #[serde(rename = "promptsListChanged", default)]
    prompts: Option<bool>,
    #[serde(rename = "resourcesListChanged", default)]
    resources: Option<bool>,
    #[serde(rename = "resourceSubscriptions", default)]
    followed: BTreeSet<String>,
    #[serde(rename = "taskIds", default)]
    tasks: BTreeSet<String>,
}

/// Something that is told of: what was agreed on, and the telling.
struct Source<'a> {
    agreed: (&'static str, serde_json::Value),
    telling: BoxFuture<'a, ()>,
}

impl Session {
    pub(super) async fn listen(self: &Arc<Self>, task: Task) {
        let (id, outlet) = (&task.id, &task.outlet);
        let subscription = Subscription {
            outlet,
            meta: format!(
                "\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{}}}",
                id.get()
            ),
        };
        let sources = match self.sources(&task, &subscription).await {
            Ok(sources) => sources,
            Err(fault) => return outlet.end(fault.reply(Some(id))).await,
        };
        let mut agreed = serde_json::Map::new();
        let mut telling = FuturesUnordered::new();
        for Source {
            agreed: (name, what),
            telling: source,
        } in sources
        {
            match (agreed.get_mut(name), what) {
                (Some(serde_json::Value::Array(known)), serde_json::Value::Array(more)) => {
                    known.extend(more);
                }
                (_, what) => drop(agreed.insert(name.to_owned(), what)),
            }
            telling.push(source);
        }
        let acknowledged = message::notification(
            "notifications/subscriptions/acknowledged",
            &format!(
                "{{\"notifications\":{},{}}}",
                serde_json::Value::Object(agreed),
                subscription.meta
            ),
        );
        if !outlet.put(acknowledged).await {
            return;
        }
        loop {
            tokio::select! {
                biased;
                () = task.cancel.cancelled() => return,
                () = outlet.closed() => return,
                () = self.core.stop.cancelled() => break,
                () = self.pass.over() => break,
                Some(()) = telling.next() => {}
            }
        }
        let result = format!("{{\"resultType\":\"complete\",{}}}", subscription.meta);
        outlet.end(message::result(id, &result)).await;
    }

    /// What is wanted and can be told of.
    async fn sources<'a>(
        self: &'a Arc<Self>,
        task: &Task,
        to: &'a Subscription<'a>,
    ) -> Result<Vec<Source<'a>>, Fault> {
        let params = task.params.as_deref().map_or("null", RawValue::get);
        let wanted = match serde_json::from_str::<Params>(params) {
            Ok(params) => params.notifications,
            Err(error) => {
                return Err(Fault::params(format!(
                    "`notifications` cannot be read: {error}"
                )));
            }
        };
        if !wanted.tasks.is_empty() && !task.client.tasks {
            return Err(super::tasks::not_declared());
        }
        if wanted.followed.len().max(wanted.tasks.len()) > MOST {
            return Err(Fault::params(format!(
                "a subscription tells of at most {MOST} resources and {MOST} tasks"
            )));
        }
        let mut sources = Vec::new();
        let news = &self.core.news;
        let lists = [
            (wanted.tools, "toolsListChanged"),
            (wanted.prompts, "promptsListChanged"),
            (wanted.resources, "resourcesListChanged"),
        ];
        for (at, (wanted, name)) in lists.into_iter().enumerate() {
            if wanted != Some(true) {
                continue;
            }
            let telling: BoxFuture<'_, ()> = match at {
                0 => Box::pin(to.tell_of_tools(self)),
                1 => Box::pin(to.tell_of(news.prompts.subscribe(), PROMPTS)),
                _ => Box::pin(to.tell_of(news.resources.subscribe(), RESOURCES)),
            };
            let agreed = (name, true.into());
            sources.push(Source { agreed, telling });
        }
        for uri in wanted.followed {
            let Some(server) = self.owner(&uri).await else {
                continue;
            };
            // What cannot be followed is not among what was agreed on.
            if let Ok(following) = self.core.host().follow_resource(&server, &uri).await {
                sources.push(Source {
                    agreed: ("resourceSubscriptions", json!([uri])),
                    telling: Box::pin(to.tell_of_updates(following, uri)),
                });
            }
        }
        for id in wanted.tasks {
            if let Some(kept) = self.core.kept_tasks.get(&id) {
                sources.push(Source {
                    agreed: ("taskIds", json!([id])),
                    telling: Box::pin(to.tell_of_task(kept)),
                });
            }
        }
        Ok(sources)
    }
}

/// One subscription, and where it is told.
struct Subscription<'a> {
    outlet: &'a Outlet,
    /// The member that names it.
    meta: String,
}

impl Subscription<'_> {
    /// `members`: those besides `_meta`, each with a comma after it.
    async fn put(&self, method: &str, members: &str) {
        let params = format!("{{{members}{}}}", self.meta);
        // Where nobody reads any more, the subscription ends by that.
        self.outlet
            .put(message::notification(method, &params))
            .await;
    }

    async fn tell_of_tools(&self, session: &Session) {
        let mut views = session.core.views.watch();
        let mut known = views.borrow_and_update().number;
        while views.changed().await.is_ok() {
            let now = views.borrow_and_update().number;
            if std::mem::replace(&mut known, now) != now {
                self.put(TOOLS, "").await;
            }
        }
    }

    async fn tell_of(&self, mut list: watch::Receiver<u64>, method: &str) {
        while list.changed().await.is_ok() {
            self.put(method, "").await;
        }
    }

    async fn tell_of_updates(&self, following: Following, uri: String) {
        let member = format!(
            "{},",
            json!({ "uri": uri }).to_string().trim_matches(['{', '}'])
        );
        let mut followed = Followed::new(following, uri);
        while followed.updated().await {
            self.put("notifications/resources/updated", &member).await;
        }
    }

    async fn tell_of_task(&self, task: Arc<Kept>) {
        let mut state = task.watch();
        loop {
            state.mark_unchanged();
            let members = format!("{},", task.written(true));
            self.put("notifications/tasks", &members).await;
            if task.has_ended() || state.changed().await.is_err() {
                return;
            }
        }
    }
}
