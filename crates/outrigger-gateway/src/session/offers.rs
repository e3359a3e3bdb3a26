//! Lists of prompts and resources, completions, and resources that are followed. Both eras.
//!
//! Promises: entries go on as their servers sent them, under names that lead back. Leaves out: fetching
//! (`fetch`), and telling of changed lists (`changes`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Offer, Reference, ServerName};
use outrigger_host::offers::Following;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::fetch::fault;
use super::{Session, Task, lock};
use crate::gateway::{FIRST_LISTING, START};
use crate::message::{self, Fault, INVALID_PARAMS};
use crate::outlet::Reply;
use crate::view::definition::{Definition, Written};

/// How long a list waits for servers that have been met before. Whoever has listed is told of what comes later.
const A_MOMENT: Duration = Duration::from_secs(1);

/// The legacy era's own code (MCP 2025-11-25, "Resources", "Error Handling").
const NOT_FOUND: i64 = -32002;

#[derive(Deserialize)]
struct Follow {
    uri: String,
}

#[derive(Deserialize)]
struct Complete {
    #[serde(rename = "ref")]
    of: Of,
    argument: Argument,
    #[serde(default)]
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Of {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

impl Session {
    pub(super) async fn offer(self: &Arc<Self>, task: Task) {
        let answering = async {
            match task.method.as_str() {
                "prompts/get" | "resources/read" => self.fetch(&task).await,
                "completion/complete" => self.complete(&task).await.map(Some),
                "resources/subscribe" => self.follow(&task).await.map(Some),
                "resources/unsubscribe" => self.unfollow(&task).map(Some),
                _ => Ok(Some(self.list(&task).await)),
            }
        };
        let reply = match answering.await {
            Ok(reply) => reply,
            Err(fault) => Some(fault.reply(Some(&task.id))),
        };
        if let Some(reply) = reply {
            task.outlet.end(reply).await;
        }
    }

    /// One page with the entries of all servers that are there. Servers that have been met before are waited for
    /// for a moment only: hosts list prompts before they ask their model anything, and are told of later ones.
    async fn list(&self, task: &Task) -> Reply {
        let host = &self.core.host();
        let unknown = self.core.views.waits_for_the_unknown();
        let patience = if unknown { FIRST_LISTING } else { A_MOMENT };
        tokio::select! {
            () = task.cancel.cancelled() => {}
            _ = host.settled(patience) => {}
        }
        let (member, offer) = match task.method.as_str() {
            "prompts/list" => ("prompts", Offer::Prompts),
            "resources/list" => ("resources", Offer::Resources),
            _ => ("resourceTemplates", Offer::Resources),
        };
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        for server in host.offering(offer) {
            let listed = self.entries(&server, member).await;
            let listed = listed
                .into_iter()
                .filter(|(key, _)| seen.insert(key.clone()));
            entries.extend(listed.map(|(_, entry)| entry));
        }
        let more = if task.client.modern {
            format!(
                ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\",\
                 \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{}}}",
                self.core.info
            )
        } else {
            String::new()
        };
        let result = format!("{{\"{member}\":[{}]{more}}}", entries.join(","));
        message::result(&task.id, &result)
    }

    /// What no two entries share, and the entry as it goes out.
    async fn entries(&self, server: &ServerName, member: &str) -> Vec<(String, String)> {
        let host = &self.core.host();
        let entry = |key: &str, name: &str, raw: &str| {
            let raw = RawValue::from_string(raw.to_owned()).ok()?;
            let mut out = String::new();
            let how = Written {
                name,
                own: None,
                modern: true,
            };
            Definition::read(&raw)?.write(how, &mut out);
            Some((key.to_owned(), out))
        };
        if member == "prompts" {
            let Ok(prompts) = host.prompts(server).await else {
                return Vec::new();
            };
            let prompts = prompts.prompts.iter().filter_map(|prompt| {
                let name = self.prompt_name(server, &prompt.name);
                entry(&name, &name, &prompt.raw)
            });
            return prompts.collect();
        }
        let Ok(resources) = host.resources(server).await else {
            return Vec::new();
        };
        if member == "resources" {
            let all = resources.resources.iter();
            return all
                .filter_map(|it| entry(&it.uri, &it.name, &it.raw))
                .collect();
        }
        let all = resources.templates.iter();
        all.filter_map(|it| entry(&it.uri, &it.name, &it.raw))
            .collect()
    }

    fn prompt_name(&self, server: &ServerName, name: &str) -> String {
        if self.core.own_names {
            name.to_owned()
        } else {
            format!("{server}__{name}")
        }
    }

    /// Whose prompt it is, and what that server calls it.
    pub(super) async fn prompt(&self, name: &str) -> Option<(ServerName, String)> {
        let host = &self.core.host();
        for server in host.offering(Offer::Prompts) {
            let Ok(prompts) = host.prompts(&server).await else {
                continue;
            };
            let is_it = |own: &&str| self.prompt_name(&server, own) == name;
            let mut own = prompts.prompts.iter().map(|prompt| prompt.name.as_str());
            if let Some(own) = own.find(is_it) {
                let own = own.to_owned();
                return Some((server, own));
            }
        }
        None
    }

    /// Whose resource it is: who lists it, else who has a template that it begins like, else the only
    /// one who has any. Servers that are starting are waited for, where none that is there lists it.
    pub(super) async fn owner(&self, uri: &str) -> Option<ServerName> {
        let (listed, _) = self.holders(uri).await;
        if listed.is_some() {
            return listed;
        }
        let host = self.core.host();
        let settled = host.settled(START);
        tokio::select! {
            () = self.over.cancelled() => return None,
            _ = settled => {}
        }
        let (listed, by_template) = self.holders(uri).await;
        let only = || match &self.core.host().offering(Offer::Resources)[..] {
            [only] => Some(only.clone()),
            _ => None,
        };
        listed.or(by_template).or_else(only)
    }

    /// Who lists a resource, and who has a template that it begins like.
    async fn holders(&self, uri: &str) -> (Option<ServerName>, Option<ServerName>) {
        let host = &self.core.host();
        let mut by_template = None;
        for server in host.offering(Offer::Resources) {
            let Ok(resources) = host.resources(&server).await else {
                continue;
            };
            if resources.resources.iter().any(|known| known.uri == uri) {
                return (Some(server), by_template);
            }
            let begins = |template: &str| {
                let fixed = template.split('{').next().unwrap_or_default();
                !fixed.is_empty() && uri.starts_with(fixed)
            };
            let mut templates = resources.templates.iter();
            if by_template.is_none() && templates.any(|template| begins(&template.uri)) {
                by_template = Some(server);
            }
        }
        (None, by_template)
    }

    async fn complete(&self, task: &Task) -> Result<Reply, Fault> {
        let Complete {
            of,
            argument,
            context,
        } = read(task)?;
        let given = context.map(|context| context.arguments).unwrap_or_default();
        let argument = (argument.name.as_str(), argument.value.as_str());
        let host = &self.core.host();
        let values = match (of.name, of.uri) {
            (Some(name), _) => {
                let found = self.prompt(&name).await;
                let (server, own) =
                    found.ok_or_else(|| Fault::params(format!("there is no prompt `{name}`")))?;
                host.complete(&server, Reference::Prompt(&own), argument, &given)
                    .await
            }
            (None, Some(uri)) => {
                let server = self.owner(&uri).await;
                let server =
                    server.ok_or_else(|| Fault::params(format!("there is no template `{uri}`")))?;
                host.complete(&server, Reference::Template(&uri), argument, &given)
                    .await
            }
            (None, None) => return Err(Fault::params("`ref` names nothing")),
        };
        let mut result = json!({ "completion": { "values": values, "hasMore": false } });
        if task.client.modern {
            result["resultType"] = "complete".into();
        }
        Ok(message::result(&task.id, &result.to_string()))
    }

    /// Tells the client of a resource's updates, until it does not want it any more.
    async fn follow(self: &Arc<Self>, task: &Task) -> Result<Reply, Fault> {
        let Follow { uri } = read(task)?;
        let server = self
            .owner(&uri)
            .await
            .ok_or_else(|| not_found(task, &uri))?;
        let followed = self.core.host().follow_resource(&server, &uri).await;
        let following = followed.map_err(|error| fault(task, &error))?;
        let over = self.over.child_token();
        if let Some(before) = lock(&self.followed).insert(uri.clone(), over.clone()) {
            before.cancel();
        }
        let session = Arc::downgrade(self);
        let stop = self.core.stop.clone();
        self.core.tasks.spawn(async move {
            let params = json!({ "uri": uri }).to_string();
            let mut followed = Followed::new(following, uri);
            loop {
                tokio::select! {
                    () = over.cancelled() => return,
                    () = stop.cancelled() => return,
                    more = followed.updated() => if !more { return },
                }
                let session = session.upgrade();
                if let Some(outlet) = session.and_then(|it| lock(&it.standing).clone()) {
                    let method = "notifications/resources/updated";
                    outlet.hint(message::notification(method, &params));
                }
            }
        });
        Ok(message::result(&task.id, "{}"))
    }

    fn unfollow(&self, task: &Task) -> Result<Reply, Fault> {
        let Follow { uri } = read(task)?;
        if let Some(over) = lock(&self.followed).remove(&uri) {
            over.cancel();
        }
        Ok(message::result(&task.id, "{}"))
    }
}

/// A resource whose updates somebody wants to hear of, until this is dropped.
pub(super) struct Followed {
    following: Following,
    uri: String,
    known: Option<u64>,
}

impl Followed {
    pub(super) fn new(mut following: Following, uri: String) -> Self {
        following.updates.mark_changed();
        let known = following.before.resources.get(&uri).copied();
        Self {
            following,
            uri,
            known,
        }
    }

    /// Waits for an update; false when there will be none any more.
    pub(super) async fn updated(&mut self) -> bool {
        let updates = &mut self.following.updates;
        while updates.changed().await.is_ok() {
            let now = updates
                .borrow_and_update()
                .resources
                .get(&self.uri)
                .copied();
            if std::mem::replace(&mut self.known, now) != now {
                return true;
            }
        }
        false
    }
}

/// The parameters of a request.
pub(super) fn read<T: for<'de> Deserialize<'de>>(task: &Task) -> Result<T, Fault> {
    let text = task.params.as_deref().map_or("null", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| Fault::params(format!("`{}` cannot be read: {error}", task.method)))
}

pub(super) fn not_found(task: &Task, uri: &str) -> Fault {
    let code = if task.client.modern {
        INVALID_PARAMS
    } else {
        NOT_FOUND
    };
    let mut fault = Fault::new(code, "no server has such a resource");
    fault.data = Some(json!({ "uri": uri }));
    fault
}
