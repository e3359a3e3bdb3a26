//! Calls that become tasks, and what their clients ask of them. Both eras.
//!
//! Promises: a task's call is made as any other, and its end is the answer that the call would have
//! had; who gives a task up gives its call up. Leaves out: what is kept of a task
//! ([`tasks`](crate::tasks)).
//! Source: MCP Tasks extension (SEP-2663); MCP 2025-11-25, "Tasks" (SEP-1686).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::wire::quote;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::call::{Ended, Made, TOGETHER, next};
use super::offers::read;
use super::{Session, Task, busy};
use crate::client::Client;
use crate::message::{self, Fault};
use crate::outlet::Reply;
use crate::tasks::{Answers, End, Kept, Making, Question, Stage};
use crate::view::definition::Members;

/// The extension of the modern era.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The member of `_meta` that says which task something belongs to, in the legacy era.
const RELATED: &str = "io.modelcontextprotocol/related-task";

#[derive(Deserialize)]
struct Of {
    #[serde(rename = "taskId")]
    id: String,
    #[serde(rename = "inputResponses", default)]
    answers: Answers,
}

impl Session {
    /// Makes a task of a call that takes long, for a client of the modern era. `None`: it stays a call.
    pub(super) fn hand_over(self: &Arc<Self>, asked: &Task, made: &mut Made) -> Option<Reply> {
        let making = self.core.kept_tasks.make(None, None, made.cancel.clone())?;
        let task = Arc::clone(&making.task);
        self.follow_call(Arc::clone(&asked.client), made.taken(), making);
        let result = format!("{{\"resultType\":\"task\",{}}}", task.written(true));
        Some(message::result(&asked.id, &result))
    }

    /// Makes a task of a call from its beginning, as a client of the legacy era wants it.
    pub(super) fn begin_task(
        self: &Arc<Self>,
        asked: &Task,
        made: Made,
        lasts: Option<Duration>,
    ) -> Result<Reply, Fault> {
        let kept = &self.core.kept_tasks;
        let Some(making) = kept.make(Some(self.number), lasts, made.cancel.clone()) else {
            made.cancel.cancel();
            return Err(busy("too many tasks are under way"));
        };
        let task = Arc::clone(&making.task);
        self.follow_call(Arc::clone(&asked.client), made, making);
        let result = format!("{{\"task\":{{{}}}}}", task.written(false));
        Ok(message::result(&asked.id, &result))
    }

    /// Follows the call of a task to its end.
    fn follow_call(self: &Arc<Self>, client: Arc<Client>, mut made: Made, making: Making) {
        let Making { task, mut answers } = making;
        made.flight.becomes(&task);
        let session = Arc::clone(self);
        self.core.tasks.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    ended = &mut made.ended => {
                        let end = match ended {
                            Ok(Ended::Call(report)) => {
                                let asker = (RawValue::NULL, &*client);
                                ended_as(session.told(asker, &made, &report).await)
                            }
                            Ok(Ended::Fetch(_)) | Err(_) => End::Cancelled,
                        };
                        task.becomes(Stage::Ended(Arc::new(end)));
                        return;
                    }
                    Some(ask) = next(&mut made.asked) => {
                        tokio::time::sleep(TOGETHER).await;
                        made.ask(ask);
                    }
                    Some(answers) = answers.recv() => made.take_some(answers),
                }
                task.becomes(match &made.questions()[..] {
                    [] => Stage::Working,
                    questions => Stage::Asking(questions.to_vec()),
                });
            }
        });
    }

    /// A request about tasks.
    pub(super) async fn about_tasks(self: &Arc<Self>, asked: Task) {
        let reply = match self.about_task(&asked).await {
            Ok(reply) => reply,
            Err(fault) => Some(fault.reply(Some(&asked.id))),
        };
        if let Some(reply) = reply {
            asked.outlet.end(reply).await;
        }
    }

    async fn about_task(self: &Arc<Self>, asked: &Task) -> Result<Option<Reply>, Fault> {
        let modern = asked.client.modern;
        if modern && !asked.client.tasks {
            return Err(not_declared());
        }
        if asked.method == "tasks/list" {
            return self.list_tasks(asked).map(Some);
        }
        let Of { id, answers } = read(asked)?;
        let task = self.core.kept_tasks.get(&id);
        let task = task.ok_or_else(|| Fault::params("there is no such task, or no longer"))?;
        let done = "{\"resultType\":\"complete\"}".to_owned();
        let result = match (asked.method.as_str(), modern) {
            ("tasks/get", true) => {
                format!("{{\"resultType\":\"complete\",{}}}", task.written(true))
            }
            ("tasks/update", _) => {
                let answers = answers.into_iter().map(|(name, raw)| (name, Some(raw)));
                task.answer(answers.collect()).await;
                done
            }
            ("tasks/cancel", true) => {
                task.cancel();
                done
            }
            ("tasks/cancel", false) if !task.cancel() => {
                return Err(Fault::params("the task has ended"));
            }
            ("tasks/get" | "tasks/cancel", false) => format!("{{{}}}", task.written(false)),
            _ => return self.result_of(asked, &task).await,
        };
        Ok(Some(message::result(&asked.id, &result)))
    }

    /// The tasks of this session, on one page.
    fn list_tasks(&self, asked: &Task) -> Result<Reply, Fault> {
        #[derive(Deserialize, Default)]
        struct Params {
            #[serde(default)]
            cursor: Option<String>,
        }
        let params: Params = match &asked.params {
            Some(_) => read(asked)?,
            None => Params::default(),
        };
        if params.cursor.is_some() {
            return Err(Fault::params("there is no page behind this cursor"));
        }
        let own = self.core.kept_tasks.of(self.number);
        let own = own
            .iter()
            .map(|task| format!("{{{}}}", task.written(false)));
        let result = format!("{{\"tasks\":[{}]}}", own.collect::<Vec<_>>().join(","));
        Ok(message::result(&asked.id, &result))
    }

    /// Waits for the end of a task; meanwhile its questions are put to the client.
    async fn result_of(
        self: &Arc<Self>,
        asked: &Task,
        task: &Arc<Kept>,
    ) -> Result<Option<Reply>, Fault> {
        let mut watched = task.watch();
        loop {
            let stage = watched.borrow_and_update().stage.clone();
            let putting = async {
                match &stage {
                    Stage::Asking(questions) => self.put(asked, task, questions).await,
                    _ => std::future::pending().await,
                }
            };
            if let Stage::Ended(end) = &stage {
                return Ok(Some(ended(&asked.id, task, end)));
            }
            tokio::select! {
                changed = watched.changed() => if changed.is_err() { return Ok(None) },
                () = asked.cancel.cancelled() => return Ok(None),
                () = putting => {
                    if watched.changed().await.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Puts questions to the client, each once.
    async fn put(&self, asked: &Task, task: &Kept, questions: &[Question]) {
        for question in questions {
            let Some(_put) = task.put(&question.name) else {
                continue;
            };
            let params = related(&question.params, &task.id);
            let answer = self.ask(&asked.outlet, question.method, &params).await;
            task.answer([(question.name.clone(), answer.ok())].into())
                .await;
        }
    }
}

/// What is kept of an answer.
fn ended_as(told: Result<Option<Reply>, Fault>) -> End {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow, default)]
        result: Option<&'a RawValue>,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let reply = match told {
        Ok(Some(reply)) => reply,
        Ok(None) => return End::Cancelled,
        Err(fault) => fault.reply(None),
    };
    let text = String::from_utf8_lossy(&reply.body);
    match serde_json::from_str(&text) {
        Ok(Shape {
            result: Some(result),
            ..
        }) => End::Result(result.to_owned()),
        Ok(Shape {
            error: Some(error), ..
        }) => End::Error(error.to_owned()),
        Ok(_) | Err(_) => End::Cancelled,
    }
}

/// The answer to `tasks/result`.
fn ended(id: &RawValue, task: &Kept, end: &End) -> Reply {
    match end {
        End::Result(raw) => message::result(id, &related(raw.get(), &task.id)),
        End::Error(raw) => {
            let code = serde_json::from_str::<serde_json::Value>(raw.get())
                .ok()
                .and_then(|error| error["code"].as_i64());
            message::passed_error(id, code.unwrap_or(message::FAILED), raw.get())
        }
        End::Cancelled => Fault::new(message::FAILED, "the task was cancelled").reply(Some(id)),
    }
}

/// An object with the task that it belongs to in its `_meta`; the rest stays byte for byte.
fn related(raw: &str, id: &str) -> String {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(rename = "_meta", borrow, default)]
        meta: Option<&'a RawValue>,
    }
    let member = format!("\"{RELATED}\":{{\"taskId\":\"{id}\"}}");
    let meta = serde_json::from_str::<Shape<'_>>(raw).ok();
    let meta = meta
        .and_then(|shape| shape.meta)
        .map(RawValue::get)
        .filter(|meta| meta.starts_with('{'));
    // A slice of `raw`, so that it is found where it stands.
    match meta.and_then(|meta| Some((meta, offset(raw, meta)?))) {
        Some((meta, at)) => {
            let with = format!("{{{member}{}}}", others(meta));
            format!("{}{with}{}", &raw[..at], &raw[at + meta.len()..])
        }
        None => message::with_member(raw, &format!("\"_meta\":{{{member}}}")),
    }
}

/// The members of a `_meta` besides the one that names a task, each after a comma: the server's own task
/// is none that the client knows.
fn others(meta: &str) -> String {
    let members = serde_json::from_str::<Members<'_>>(meta).map(|it| it.0);
    let members = members.unwrap_or_default().into_iter();
    let others = members.filter(|(name, _)| name != RELATED);
    others.fold(String::new(), |mut out, (name, raw)| {
        let _ = write!(out, ",{}:{}", quote(&name), raw.get());
        out
    })
}

/// Where a piece of a text begins in it.
fn offset(text: &str, piece: &str) -> Option<usize> {
    let at = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (text.get(at..at + piece.len()) == Some(piece)).then_some(at)
}

/// MCP Tasks extension, "Error Handling".
pub(super) fn not_declared() -> Fault {
    let words = format!("tasks are for clients that declare the extension `{EXTENSION}`");
    let mut fault = Fault::new(message::MISSING_CAPABILITY, words);
    fault.data = Some(json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } }));
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_named_and_the_rest_stays_as_it_was() {
        for (raw, with) in [
            (
                "{}",
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
            ),
            (
                r#"{"n":1.50,"_meta":{"k":1e400},"z":[]}"#,
                r#"{"n":1.50,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1e400},"z":[]}"#,
            ),
            (
                r#"{"_meta": {"io.modelcontextprotocol/related-task":{"taskId":"theirs"} } }"#,
                r#"{"_meta": {"io.modelcontextprotocol/related-task":{"taskId":"t"}} }"#,
            ),
        ] {
            assert_eq!(related(raw, "t"), with);
        }
    }
}
