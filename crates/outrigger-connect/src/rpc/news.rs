//! What a server tells of its own accord about what it offers: that a list has changed, that a
//! resource has.
//!
//! Promises: any number of announcements takes a bounded room, and none of a resource that somebody
//! follows is lost among others: they are counted, not queued.
//! Source: MCP, "List Changed Notification" and "Subscriptions" of resources.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// Resources whose updates are told apart.
const RESOURCES: usize = 1024;
/// Bytes of an address that is kept.
const URI_BYTES: usize = 4096;

/// How often each resource was updated; beyond 1,024 of them, only that some were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Updates {
    /// By address, as the server names it: that of a subscription, or of a part of it.
    pub resources: BTreeMap<String, u64>,
    /// Updates of resources that are not among these.
    pub others: u64,
}

/// Announcements, counted.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) tools: watch::Sender<u64>,
    pub(crate) prompts: watch::Sender<u64>,
    pub(crate) resources: watch::Sender<u64>,
    pub(crate) updates: watch::Sender<Updates>,
    /// The resources of the latest confirmation of a subscription.
    pub(crate) confirmed: watch::Sender<BTreeSet<String>>,
}

impl News {
    /// All that is listed may have changed.
    pub(crate) fn count_all(&self) {
        for list in [&self.tools, &self.prompts, &self.resources] {
            count(list);
        }
    }

    /// `notifications/resources/updated`.
    pub(super) fn updated(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Shape {
            uri: String,
        }
        let Some(Ok(Shape { uri })) = params.map(|raw| serde_json::from_str(raw.get())) else {
            return;
        };
        self.updates.send_modify(|updates| {
            let room = updates.resources.len() < RESOURCES && uri.len() <= URI_BYTES;
            match updates.resources.get_mut(&uri) {
                Some(count) => *count += 1,
                None if room => drop(updates.resources.insert(uri, 1)),
                None => updates.others += 1,
            }
        });
    }

    /// `notifications/subscriptions/acknowledged`, with what the server took of what was wanted.
    pub(super) fn confirmed(&self, params: Option<&RawValue>) {
        #[derive(Deserialize, Default)]
        struct Shape {
            #[serde(default)]
            notifications: Filter,
        }
        #[derive(Deserialize, Default)]
        struct Filter {
            #[serde(rename = "resourceSubscriptions", default)]
            resources: BTreeSet<String>,
        }
        let shape: Shape = params
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        self.confirmed.send_replace(shape.notifications.resources);
    }
}

pub(super) fn count(list: &watch::Sender<u64>) {
    list.send_modify(|count| *count += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(news: &News, uri: &str) {
        let params = serde_json::json!({ "uri": uri }).to_string();
        news.updated(Some(&RawValue::from_string(params).unwrap()));
    }

    #[test]
    fn a_flood_of_updates_takes_a_bounded_room_and_hides_none_that_is_known() {
        let news = News::default();
        updated(&news, "a:followed");
        for number in 0..5_000 {
            updated(&news, &format!("a:{number}"));
        }
        updated(&news, &"x".repeat(URI_BYTES + 1));
        updated(&news, "a:followed");
        let updates = news.updates.borrow().clone();
        assert_eq!(updates.resources["a:followed"], 2);
        assert_eq!(updates.resources.len(), RESOURCES);
        assert_eq!(updates.others, 5_000 + 1 - (RESOURCES as u64 - 1));
    }
}
