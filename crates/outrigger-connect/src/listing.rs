//! All pages of `tools/list`.
//!
//! Promises: it ends: by the last page, by a limit, by a cursor that was there before, or by the
//! deadline. Each tool stays as it came; what is wrong with the listing is data beside it.
//! Source: MCP, "Pagination".

mod offers;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ListError;
use crate::call::task;
use crate::connection::{Inner, ToolListing, left};
use crate::link::http::mirror::Mirror;
use crate::rpc::{AskError, Failure, Request};
use crate::text::{excerpt, quote};

const METHOD: &str = "tools/list";

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(rename = "nextCursor", borrow, default)]
    next_cursor: Option<&'a RawValue>,
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    tools: Vec<Box<RawValue>>,
    names: HashSet<String>,
    mirrors: HashMap<String, Mirror>,
    as_tasks: HashSet<String>,
    problems: Vec<String>,
    pages: usize,
}

impl Inner {
    pub(crate) async fn list_tools(&self) -> Result<ToolListing, ListError> {
        // Before the listing, so that no change falls between the two.
        self.listen();
        let begun = Instant::now();
        let end = begun + self.deadlines.list;
        let mut reading = Reading::default();
        let mut cursors: HashSet<String> = HashSet::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = match self.page(METHOD, cursor.as_deref(), end).await {
                Ok(page) => page,
                Err(error) if reading.pages == 0 => match self.offers_none(error) {
                    Ok(problem) => {
                        reading.problems.push(problem);
                        break;
                    }
                    Err(error) => return Err(error),
                },
                Err(error) => {
                    reading
                        .problems
                        .push(format!("page {} is missing: {error}", reading.pages + 1));
                    break;
                }
            };
            let next = self.read(&page, &mut reading)?;
            let Some(next) = next else { break };
            if reading.pages >= self.limits.pages {
                reading
                    .problems
                    .push(format!("stopped after {} pages (pages)", self.limits.pages));
                break;
            }
            if reading.tools.len() >= self.limits.tools {
                reading
                    .problems
                    .push(format!("stopped at {} tools (tools)", self.limits.tools));
                break;
            }
            if !cursors.insert(next.clone()) {
                let words = excerpt(next.as_bytes(), 40);
                reading.problems.push(format!(
                    "stopped: the server gave the cursor `{words}` twice"
                ));
                break;
            }
            cursor = Some(next);
        }
        *lock(&self.mirrors) = reading.mirrors;
        *lock(&self.as_tasks) = reading.as_tasks;
        Ok(ToolListing {
            tools: reading.tools,
            pages: reading.pages,
            problems: reading.problems,
            took: begun.elapsed(),
        })
    }

    async fn page(
        &self,
        method: &'static str,
        cursor: Option<&str>,
        end: Instant,
    ) -> Result<Box<RawValue>, ListError> {
        let cursor = cursor.map(quote);
        let request = || {
            let request = Request::new(method);
            match &cursor {
                Some(cursor) => request.member("cursor", cursor),
                None => request,
            }
        };
        self.ask(method, request, end).await
    }

    /// Asks for something that may be asked for again: once more where the session was lost.
    pub(crate) async fn ask<'a>(
        &self,
        method: &'static str,
        request: impl Fn() -> Request<'a>,
        end: Instant,
    ) -> Result<Box<RawValue>, ListError> {
        let session = self.session_number();
        let mut answer = self.rpc.ask(request(), left(end)).await;
        if let Err(AskError::Failed(Failure::SessionLost(_))) = &answer
            && tokio::time::timeout(left(end), self.renew_session(session)).await == Ok(true)
        {
            answer = self.rpc.ask(request(), left(end)).await;
        }
        answer.map_err(|error| match error {
            AskError::Failed(failure) => failure.of_listing(method),
            AskError::Timeout => ListError::Timeout {
                method,
                after: self.deadlines.list,
            },
        })
    }

    /// A server that never said it has tools may not know the method. That is no fault.
    fn offers_none(&self, error: ListError) -> Result<String, ListError> {
        match error {
            ListError::Rpc { code: -32601, .. } if !self.declares("tools") => {
                Ok("the server offers no tools".to_owned())
            }
            error => Err(error),
        }
    }

    /// Whether the server says that it has this; one that says nothing at all may have everything.
    pub(crate) fn declares(&self, capability: &str) -> bool {
        let capabilities = self.capabilities();
        capabilities.is_none_or(|capabilities| capabilities.get(capability).is_some())
    }

    /// Whether the server says in so many words that it has this.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.capabilities()
            .is_some_and(|capabilities| capabilities.get(capability).is_some())
    }

    pub(crate) fn capabilities(&self) -> Option<Value> {
        let raw = self.peer.capabilities.as_ref()?;
        serde_json::from_str(raw.get()).ok()
    }

    /// Takes a page in and returns the cursor of the next.
    fn read(&self, page: &RawValue, reading: &mut Reading) -> Result<Option<String>, ListError> {
        let bad = |reason: String| ListError::Malformed {
            method: METHOD,
            reason,
        };
        let parsed: Result<Page<'_>, _> = serde_json::from_str(page.get());
        let list = parsed
            .as_ref()
            .ok()
            .and_then(|page| page.tools)
            .map(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()));
        reading.pages += 1;
        let (Ok(page), Some(Ok(tools))) = (&parsed, &list) else {
            let reason = format!(
                "it has no array `tools`: {}",
                excerpt(page.get().as_bytes(), 120)
            );
            if reading.pages == 1 {
                return Err(bad(reason));
            }
            reading
                .problems
                .push(format!("page {} cannot be used: {reason}", reading.pages));
            return Ok(None);
        };
        let room = self.limits.tools.saturating_sub(reading.tools.len());
        for tool in tools.iter().take(room) {
            self.keep(tool, reading);
        }
        if tools.len() > room {
            let left_out = tools.len() - room;
            reading.problems.push(format!(
                "{left_out} tools over the limit of {} are left out (tools)",
                self.limits.tools
            ));
        }
        Ok(
            match page
                .next_cursor
                .map(|raw| serde_json::from_str::<String>(raw.get()))
            {
                Some(Ok(cursor)) => Some(cursor).filter(|cursor| !cursor.is_empty()),
                Some(Err(_)) => {
                    reading
                        .problems
                        .push("stopped: `nextCursor` is not a string".to_owned());
                    None
                }
                None => None,
            },
        )
    }

    fn keep(&self, tool: &RawValue, reading: &mut Reading) {
        if let Some(name) = name_of(tool) {
            if reading.names.contains(&name) {
                let words = excerpt(name.as_bytes(), 80);
                let problem = format!("`{words}` is listed more than once; the first counts");
                if !reading.problems.contains(&problem) {
                    reading.problems.push(problem);
                }
                return;
            }
            if self.link.mirrors_arguments() && !mirror(tool, &name, reading) {
                return;
            }
            if self.takes_tasks() && task::is_required(tool) {
                reading.as_tasks.insert(name.clone());
            }
            reading.names.insert(name);
        }
        reading.tools.push(tool.to_owned());
    }
}

/// Notes which arguments are mirrored. `false`: the tool must be left out
/// (MCP 2026-07-28, "Standard MCP Request Headers").
fn mirror(tool: &RawValue, name: &str, reading: &mut Reading) -> bool {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "inputSchema", default)]
        schema: Value,
    }
    let schema = serde_json::from_str::<Shape>(tool.get())
        .map(|shape| shape.schema)
        .unwrap_or_default();
    match Mirror::of_schema(&schema) {
        Ok(mirror) => {
            if !mirror.is_empty() {
                reading.mirrors.insert(name.to_owned(), mirror);
            }
            true
        }
        Err(reason) => {
            reading.problems.push(format!(
                "`{}` is left out: {reason}",
                excerpt(name.as_bytes(), 80)
            ));
            false
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(tool: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow, default)]
        name: Option<&'a RawValue>,
    }
    let shape: Shape<'_> = serde_json::from_str(tool.get()).ok()?;
    serde_json::from_str(shape.name?.get()).ok()
}
