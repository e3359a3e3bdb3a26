//! All pages of what a server offers besides tools: prompts, resources, templates of resources.
//!
//! Promises: it ends as a listing of tools does, under the same limits.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use serde_json::value::RawValue;

use crate::ListError;
use crate::connection::{Inner, Listing, Offer};
use crate::text::excerpt;

impl Offer {
    fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of a result that is the list.
    fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Resources | Self::ResourceTemplates => "resources",
            Self::Prompts => "prompts",
        }
    }
}

impl Inner {
    pub(crate) async fn list(&self, offer: Offer) -> Result<Listing, ListError> {
        // Before the listing, so that no change falls between the two.
        self.listen();
        let begun = Instant::now();
        let end = begun + self.deadlines.list;
        let mut listing = Listing::default();
        let mut cursors = HashSet::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = match self.page(offer.method(), cursor.as_deref(), end).await {
                Ok(page) => page,
                Err(error) if listing.pages == 0 => return Err(error),
                Err(error) => {
                    let page = listing.pages + 1;
                    listing
                        .problems
                        .push(format!("page {page} is missing: {error}"));
                    break;
                }
            };
            listing.pages += 1;
            let Some(next) = self.take_page(offer, &page, &mut listing)? else {
                break;
            };
            if let Some(problem) = self.enough(&listing, &next, &mut cursors) {
                listing.problems.push(problem);
                break;
            }
            cursor = Some(next);
        }
        listing.took = begun.elapsed();
        Ok(listing)
    }

    /// Why no further page is asked for.
    fn enough(
        &self,
        listing: &Listing,
        next: &str,
        cursors: &mut HashSet<String>,
    ) -> Option<String> {
        if listing.pages >= self.limits.pages {
            return Some(format!("stopped after {} pages (pages)", self.limits.pages));
        }
        if listing.entries.len() >= self.limits.tools {
            return Some(format!("stopped at {} entries (tools)", self.limits.tools));
        }
        if !cursors.insert(next.to_owned()) {
            let words = excerpt(next.as_bytes(), 40);
            return Some(format!(
                "stopped: the server gave the cursor `{words}` twice"
            ));
        }
        None
    }

    /// Takes a page in and returns the cursor of the next.
    fn take_page(
        &self,
        offer: Offer,
        page: &RawValue,
        listing: &mut Listing,
    ) -> Result<Option<String>, ListError> {
        let members: HashMap<String, &RawValue> =
            serde_json::from_str(page.get()).unwrap_or_default();
        let list = members
            .get(offer.member())
            .and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        let Some(list) = list else {
            let (member, words) = (offer.member(), excerpt(page.get().as_bytes(), 120));
            let reason = format!("it has no array `{member}`: {words}");
            if listing.pages == 1 {
                return Err(ListError::Malformed {
                    method: offer.method(),
                    reason,
                });
            }
            let problem = format!("page {} cannot be used: {reason}", listing.pages);
            listing.problems.push(problem);
            return Ok(None);
        };
        let room = self.limits.tools.saturating_sub(listing.entries.len());
        if list.len() > room {
            let (over, limit) = (list.len() - room, self.limits.tools);
            listing.problems.push(format!(
                "{over} entries over the limit of {limit} are left out (tools)"
            ));
        }
        let kept = list.into_iter().take(room).map(ToOwned::to_owned);
        listing.entries.extend(kept);
        let next = members.get("nextCursor");
        let next = next.map(|raw| serde_json::from_str::<Option<String>>(raw.get()));
        Ok(match next {
            None => None,
            Some(Ok(cursor)) => cursor.filter(|cursor| !cursor.is_empty()),
            Some(Err(_)) => {
                let problem = "stopped: `nextCursor` is not a string";
                listing.problems.push(problem.to_owned());
                None
            }
        })
    }
}
