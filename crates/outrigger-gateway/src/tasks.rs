//! Calls that have become tasks: their client asks about them instead of waiting for the answer.
//!
//! Promises: an id cannot be guessed; a task has one end, and a cancelled one stays cancelled; its call
//! goes on without its client, and what came of it is kept for a while; bounded in number, in time and
//! in bytes. Leaves out: what a call is, and who may ask.
//! Source: MCP Tasks extension, `io.modelcontextprotocol/tasks` (SEP-2663), for the modern era; MCP
//! 2025-11-25, "Tasks" (SEP-1686), for the legacy era.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use outrigger_connect::wire::quote;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Tasks that are kept at one time.
const MOST: usize = 1024;
/// Bytes of the ends of tasks that are kept at one time.
const BYTES: usize = 64 << 20;
/// How long a task is kept unless its client says otherwise, and the bounds of what it may say.
const LASTS: Duration = Duration::from_hours(1);
const LASTS_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));
/// How often clients should ask, in milliseconds.
const POLL_MS: u32 = 500;

/// A client's answers, by the names of the questions.
pub(crate) type Answers = HashMap<String, Box<RawValue>>;

/// The same, with those that it has refused to answer.
pub(crate) type Answered = HashMap<String, Option<Box<RawValue>>>;

/// All tasks of a gateway.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<Vec<Arc<Kept>>>);

/// A task.
pub(crate) struct Kept {
    pub(crate) id: String,
    /// The session that made it, of the legacy era.
    owner: Option<u64>,
    created: Timestamp,
    since: Instant,
    lasts: Duration,
    state: watch::Sender<State>,
    answers: mpsc::Sender<Answered>,
    /// Gives its call up.
    cancel: CancellationToken,
    /// The names of the questions that are being put to the client.
    put: Mutex<HashSet<String>>,
}

/// Where a task stands.
#[derive(Clone)]
pub(crate) struct State {
    updated: Timestamp,
    /// What the tool said last of how far it is.
    said: Option<String>,
    pub(crate) stage: Stage,
}

#[derive(Clone)]
pub(crate) enum Stage {
    Working,
    /// It waits for answers.
    Asking(Vec<Question>),
    Ended(Arc<End>),
}

/// A question of a task that is open.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) method: &'static str,
    /// JSON object.
    pub(crate) params: String,
}

/// What came of a task.
pub(crate) enum End {
    /// The result of its request.
    Result(Box<RawValue>),
    /// The error of its request.
    Error(Box<RawValue>),
    Cancelled,
}

/// What whoever follows the call of a task needs to hear.
pub(crate) struct Making {
    pub(crate) task: Arc<Kept>,
    pub(crate) answers: mpsc::Receiver<Answered>,
}

impl Tasks {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Kept>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new task, kept for `lasts` at least, whose call `cancel` gives up. `None`: there are too many,
    /// or there is no randomness.
    pub(crate) fn make(
        &self,
        owner: Option<u64>,
        lasts: Option<Duration>,
        cancel: CancellationToken,
    ) -> Option<Making> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).ok()?;
        let now = Timestamp::now();
        let (answers, answered) = mpsc::channel(16);
        let task = Arc::new(Kept {
            id: URL_SAFE_NO_PAD.encode(bytes),
            owner,
            created: now,
            since: Instant::now(),
            lasts: lasts.map_or(LASTS, |it| it.clamp(LASTS_RANGE.0, LASTS_RANGE.1)),
            state: watch::Sender::new(State {
                updated: now,
                said: None,
                stage: Stage::Working,
            }),
            answers,
            cancel,
            put: Mutex::default(),
        });
        let mut all = self.all();
        make_room(&mut all);
        if all.len() >= MOST {
            let ended = all.iter().position(|task| task.has_ended())?;
            all.remove(ended);
        }
        all.push(Arc::clone(&task));
        Some(Making {
            task,
            answers: answered,
        })
    }

    /// The task of this id, if it is known still.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Kept>> {
        let mut all = self.all();
        make_room(&mut all);
        all.iter().find(|task| task.id == id).cloned()
    }

    /// Gives up those that wait for answers: nobody will give any.
    pub(crate) fn give_up_asking(&self) {
        let asks = |task: &&Arc<Kept>| matches!(task.state.borrow().stage, Stage::Asking(_));
        let asking: Vec<_> = self.all().iter().filter(asks).cloned().collect();
        for task in asking {
            task.cancel();
        }
    }

    /// The tasks that a session has made, the earliest first.
    pub(crate) fn of(&self, owner: u64) -> Vec<Arc<Kept>> {
        let mut all = self.all();
        make_room(&mut all);
        let own = all.iter().filter(|task| task.owner == Some(owner));
        own.cloned().collect()
    }
}

/// Lets go of what was kept for long enough, and of the earliest ends where there are too many bytes.
fn make_room(all: &mut Vec<Arc<Kept>>) {
    all.retain(|task| !task.has_ended() || task.since.elapsed() < task.lasts);
    let mut bytes: usize = all.iter().map(|task| task.bytes()).sum();
    // The last one may be asked about in a moment, however large it is.
    let last = all.last().map(|task| task.id.clone());
    all.retain(|task| {
        let own = task.bytes();
        let goes = bytes > BYTES && own > 0 && Some(&task.id) != last.as_ref();
        bytes -= if goes { own } else { 0 };
        !goes
    });
}

impl Kept {
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.borrow().stage, Stage::Ended(_))
    }

    fn bytes(&self) -> usize {
        match &self.state.borrow().stage {
            Stage::Ended(end) => match &**end {
                End::Result(raw) | End::Error(raw) => raw.get().len(),
                End::Cancelled => 0,
            },
            Stage::Working | Stage::Asking(_) => 0,
        }
    }

    /// It goes on to another stage; false when it has ended before.
    pub(crate) fn becomes(&self, stage: Stage) -> bool {
        self.state.send_if_modified(|state| {
            if matches!(state.stage, Stage::Ended(_)) {
                return false;
            }
            state.stage = stage;
            state.updated = Timestamp::now();
            true
        })
    }

    /// The tool says how far it is.
    pub(crate) fn said(&self, words: &str) {
        self.state.send_if_modified(|state| {
            if matches!(state.stage, Stage::Ended(_)) || state.said.as_deref() == Some(words) {
                return false;
            }
            state.said = Some(words.to_owned());
            state.updated = Timestamp::now();
            true
        });
    }

    /// Hands answers on; those that nobody waits for are nobody's.
    pub(crate) async fn answer(&self, answers: Answered) {
        self.answers.send(answers).await.ok();
    }

    /// A question is put to the client, until what is returned is dropped. `None`: it is already.
    pub(crate) fn put(&self, name: &str) -> Option<Put<'_>> {
        let name = name.to_owned();
        let first = self.being_put().insert(name.clone());
        first.then_some(Put { task: self, name })
    }

    fn being_put(&self) -> MutexGuard<'_, HashSet<String>> {
        self.put.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives its call up; false when it has ended before.
    pub(crate) fn cancel(&self) -> bool {
        let first = self.becomes(Stage::Ended(Arc::new(End::Cancelled)));
        self.cancel.cancel();
        first
    }

    /// The members of the task as it is now, without braces. In the modern era with what it asks for,
    /// or what came of it.
    pub(crate) fn written(&self, modern: bool) -> String {
        let state = self.state();
        let status = match &state.stage {
            Stage::Working => "working",
            Stage::Asking(_) => "input_required",
            Stage::Ended(end) => match **end {
                End::Result(_) => "completed",
                End::Error(_) => "failed",
                End::Cancelled => "cancelled",
            },
        };
        let (ttl, poll) = if modern {
            ("ttlMs", "pollIntervalMs")
        } else {
            ("ttl", "pollInterval")
        };
        let mut out = format!(
            "\"taskId\":\"{}\",\"status\":\"{status}\",\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\
             \"{ttl}\":{},\"{poll}\":{POLL_MS}",
            self.id,
            self.created,
            state.updated,
            self.lasts.as_millis(),
        );
        if let Some(said) = &state.said {
            let _ = write!(out, ",\"statusMessage\":{}", quote(said));
        }
        if modern {
            detail(&state.stage, &mut out);
        }
        out
    }
}

/// A question that is being put to a client.
pub(crate) struct Put<'a> {
    task: &'a Kept,
    name: String,
}

impl Drop for Put<'_> {
    fn drop(&mut self) {
        self.task.being_put().remove(&self.name);
    }
}

fn detail(stage: &Stage, out: &mut String) {
    match stage {
        Stage::Working => {}
        Stage::Asking(questions) => {
            let _ = write!(out, ",\"inputRequests\":{}", asked(questions));
        }
        Stage::Ended(end) => {
            let (member, raw) = match &**end {
                End::Result(raw) => ("result", raw),
                End::Error(raw) => ("error", raw),
                End::Cancelled => return,
            };
            let _ = write!(out, ",\"{member}\":{}", raw.get());
        }
    }
}

/// `inputRequests` as JSON.
pub(crate) fn asked(questions: &[Question]) -> String {
    let questions = questions.iter().map(|question| {
        format!(
            "{}:{{\"method\":\"{}\",\"params\":{}}}",
            quote(&question.name),
            question.method,
            crate::message::one_line(&question.params)
        )
    });
    format!("{{{}}}", questions.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn make(tasks: &Tasks, owner: u64) -> Arc<Kept> {
        let making = tasks.make(Some(owner), None, CancellationToken::new());
        making.unwrap().task
    }

    #[test]
    fn a_task_ends_once() {
        let tasks = Tasks::default();
        let task = make(&tasks, 1);
        assert!(task.becomes(Stage::Asking(Vec::new())));
        assert!(task.cancel());
        assert!(!task.becomes(Stage::Ended(Arc::new(End::Result(raw("{}"))))));
        assert!(!task.cancel());
        assert!(task.written(true).contains("\"status\":\"cancelled\""));
        assert!(!task.written(true).contains("result"));
    }

    #[test]
    fn a_task_is_written_as_each_era_wants_it() {
        let tasks = Tasks::default();
        let task = make(&tasks, 1);
        task.said("half way");
        let question = Question {
            name: "q".to_owned(),
            method: "elicitation/create",
            params: "{\n}".to_owned(),
        };
        task.becomes(Stage::Asking(vec![question]));
        let read = |text: String| {
            serde_json::from_str::<serde_json::Value>(&format!("{{{text}}}")).unwrap()
        };
        let (modern, legacy) = (read(task.written(true)), read(task.written(false)));
        assert_eq!(modern["status"], "input_required");
        assert_eq!(modern["inputRequests"]["q"]["method"], "elicitation/create");
        assert_eq!(modern["ttlMs"], 3_600_000);
        assert_eq!(legacy["ttl"], 3_600_000);
        assert_eq!(legacy["statusMessage"], "half way");
        assert!(legacy.get("inputRequests").is_none());
        task.becomes(Stage::Ended(Arc::new(End::Error(raw("{\"code\":-1}")))));
        assert_eq!(read(task.written(true))["error"]["code"], -1);
    }

    #[test]
    fn tasks_are_found_by_their_id_and_listed_for_who_made_them() {
        let tasks = Tasks::default();
        let (one, two) = (make(&tasks, 1), make(&tasks, 2));
        assert_ne!(one.id, two.id);
        assert!(tasks.get(&one.id).is_some());
        assert!(tasks.get("").is_none());
        let own: Vec<_> = tasks.of(2).iter().map(|task| task.id.clone()).collect();
        assert_eq!(own, std::slice::from_ref(&two.id));
    }

    #[test]
    fn tasks_under_way_are_bounded_and_ended_ones_give_way() {
        let tasks = Tasks::default();
        for _ in 0..MOST {
            make(&tasks, 1);
        }
        let more = || tasks.make(None, None, CancellationToken::new());
        assert!(more().is_none());
        let all = tasks.of(1);
        all[7].cancel();
        assert!(more().is_some());
        assert!(tasks.get(&all[7].id).is_none());
        assert!(more().is_none());
    }

    #[test]
    fn the_earliest_ends_make_room() {
        let tasks = Tasks::default();
        let large = raw(&format!("\"{}\"", "x".repeat(BYTES / 3)));
        let made: Vec<_> = (0..5)
            .map(|_| {
                let task = make(&tasks, 1);
                task.becomes(Stage::Ended(Arc::new(End::Result(large.clone()))));
                task.id.clone()
            })
            .collect();
        let there: Vec<_> = made.iter().map(|id| tasks.get(id).is_some()).collect();
        assert_eq!(there, [false, false, false, true, true]);
    }
}
