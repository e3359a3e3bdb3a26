//! The loop over a scripted model and the real `time` server: what the model is given, what becomes
//! of its calls, and how every limit ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_agent::{
    Agent, Answer, CallCounts, Conversation, Ending, Estimates, Limits, Listener,
};
use outrigger_connect::{Connector, ServePipe, ServerName};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::{self, Surroundings};
use outrigger_host::hooks::Hooks;
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::{Builtin, Host, Parts};
use outrigger_journal::{CallLine, Event, Journal, Run, RunOptions};
use outrigger_model::{
    AssistantTurn, Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits,
    ModelRequest, ModelStream, Part, StopReason, ToolCall, Usage,
};
use outrigger_servers::{BuiltIn, ServeOptions, serve};
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

/// Gives out its turns one after the other, and keeps what it was asked. Without a turn left it
/// never answers.
#[derive(Default)]
struct Scripted {
    turns: Mutex<VecDeque<Result<AssistantTurn, ModelErrorKind>>>,
    asked: Mutex<Vec<ModelRequest>>,
}

#[async_trait::async_trait]
impl Model for Scripted {
    fn id(&self) -> &'static str {
        "scripted:test"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits {
            context_tokens: 100_000,
            sees_images: false,
        }
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.lock().unwrap().push(request);
        let next = self.turns.lock().unwrap().pop_front();
        let Some(turn) = next else {
            return std::future::pending().await;
        };
        let turn = turn.map_err(|kind| ModelError {
            kind,
            model: self.id().to_owned(),
            message: "no".to_owned(),
            hints: Vec::new(),
        })?;
        let text = ModelEvent::Text(turn.text.clone());
        let usage = Usage {
            input: 100,
            cached: 40,
            output: 10,
        };
        let finished = ModelEvent::Finished {
            turn,
            stop: StopReason::Done,
            usage,
        };
        Ok(Box::pin(futures::stream::iter([Ok(text), Ok(finished)])))
    }
}

struct Time(tempfile::TempDir);

impl ServePipe for Time {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let options = ServeOptions::new(self.0.path());
        Box::pin(async move {
            let (reader, writer) = tokio::io::split(pipe);
            serve(BuiltIn::Time, options, reader, writer).await.unwrap();
        })
    }
}

struct Silent;

impl Listener for Silent {
    fn text(&self, _: &str) {}
    fn reasoning(&self, _: &str) {}
}

struct Stage {
    model: Arc<Scripted>,
    host: Host,
    run: Run,
    journal: Journal,
    cancel: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new(turns: Vec<Result<AssistantTurn, ModelErrorKind>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join("journal.db")).unwrap();
        let started = Event::RunStarted {
            command: "test".to_owned(),
            question: None,
            model: None,
            workspace: String::new(),
            version: String::new(),
            principal: None,
        };
        let run = journal.begin(started, RunOptions::default()).await.unwrap();
        let config = config::load(&Surroundings {
            workspace: folder.path().to_owned(),
            ..Surroundings::default()
        });
        let pipe = Arc::new(Time(tempfile::tempdir().unwrap()));
        let name = ServerName::new("time").unwrap();
        let parts = Parts {
            connector: Connector::new("test", None),
            run: run.clone(),
            builtins: vec![Builtin {
                name,
                description: String::new(),
                pipe,
                on_demand: false,
            }],
            approver: Arc::new(NobodyThere),
            questions: outrigger_host::questions::Questions::default(),
            policy: Policy::new(&config.policy, &[]).unwrap(),
            hooks: Arc::new(Hooks::none()),
            artifacts: None,
            pins: Arc::new(Pins::none()),
            shared: None,
            upkeep: None,
            leases: None,
            traces: None,
        };
        let host = Host::start(&config, parts);
        assert!(host.settled(Duration::from_secs(30)).await.is_empty());
        let model = Arc::new(Scripted {
            turns: Mutex::new(turns.into()),
            ..Scripted::default()
        });
        Self {
            model,
            host,
            run,
            journal,
            cancel: CancellationToken::new(),
            _folder: folder,
        }
    }

    async fn ask(&self, limits: Limits) -> (Answer, Conversation) {
        let agent = Agent {
            model: self.model.clone(),
            host: self.host.clone(),
            run: self.run.clone(),
            limits,
            estimates: Estimates::default(),
        };
        let mut conversation = Conversation::default();
        let answer = agent
            .ask(
                &mut conversation,
                "How long until 2027?",
                &Silent,
                &self.cancel,
            )
            .await;
        (answer, conversation)
    }

    async fn calls(self) -> Vec<CallLine> {
        self.host.close().await;
        let id = self.run.id().clone();
        self.journal.close().await.unwrap();
        self.journal.calls(&id).await.unwrap()
    }
}

const WIDE: Limits = Limits {
    turns: 10,
    calls: 10,
    tokens: None,
    time: Duration::from_secs(60),
};

#[expect(
    clippy::unnecessary_wraps,
    reason = "a step of a script, beside those that fail"
)]
fn says(text: &str) -> Result<AssistantTurn, ModelErrorKind> {
    Ok(AssistantTurn {
        text: text.to_owned(),
        ..AssistantTurn::default()
    })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a step of a script, beside those that fail"
)]
fn wants(calls: &[(&str, &str)]) -> Result<AssistantTurn, ModelErrorKind> {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| ToolCall {
            id: format!("{name}-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
    Ok(AssistantTurn {
        calls: calls.collect(),
        ..AssistantTurn::default()
    })
}

const DAYS: &str = "mcp__time__days_between";

#[tokio::test]
async fn results_go_back_together_in_the_order_of_the_calls() {
    let first = wants(&[
        (DAYS, r#"{"start":"2026-12-25","end":"2027-01-01"}"#),
        ("mcp__time__days_betwen", "{}"),
        (DAYS, r#"{"start":"2026-12-31","end":"2027-01-01"}"#),
    ]);
    let stage = Stage::new(vec![first, says("7 days, or 1.")]).await;
    let (answer, conversation) = stage.ask(WIDE).await;

    assert!(matches!(answer.ending, Ending::Answered));
    assert_eq!(answer.text, "7 days, or 1.");
    assert_eq!(
        answer.usage,
        Usage {
            input: 200,
            cached: 80,
            output: 20
        }
    );
    assert_eq!((answer.turns, answer.calls.proposed), (2, 3));
    let Message::ToolResults { results } = &conversation.messages[2] else {
        panic!("no results")
    };
    let told: Vec<_> = results
        .iter()
        .map(|result| {
            let texts = result.content.iter().map(|part| match part {
                Part::Text { text } => text.as_str(),
                Part::Image { .. } => "an image",
            });
            let text = texts.collect::<Vec<_>>().join("\n");
            (result.call_id.as_str(), result.is_error, text)
        })
        .collect();
    assert_eq!(told[0].0, "mcp__time__days_between-0");
    assert!(
        told[0].2.starts_with("[data from time]\n") && told[0].2.contains("7 days"),
        "{told:?}"
    );
    assert!(
        told[1].1 && told[1].2.contains("Did you mean `mcp__time__days_between`"),
        "{told:?}"
    );
    assert!(told[2].2.contains("1 day"), "{told:?}");

    // The same tools, byte for byte, in every request.
    {
        let asked = stage.model.asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert!(Arc::ptr_eq(&asked[0].tools, &asked[1].tools));
    }
    let outcomes: Vec<_> = stage
        .calls()
        .await
        .iter()
        .map(|line| line.outcome.unwrap().as_str())
        .collect();
    assert_eq!(outcomes, ["completed", "rejected", "completed"]);
}

#[tokio::test]
async fn every_limit_ends_with_its_own_words() {
    let call = || {
        wants(&[
            (DAYS, r#"{"end":"2027-01-01"}"#),
            (DAYS, r#"{"end":"2028-01-01"}"#),
        ])
    };
    let cases = [
        (
            Limits { turns: 2, ..WIDE },
            "no answer within 2 turns (`limits.max_turns`)",
            4,
        ),
        (
            Limits { calls: 3, ..WIDE },
            "no answer within 3 tool calls (`limits.max_calls`)",
            3,
        ),
        (
            Limits {
                tokens: Some(150),
                ..WIDE
            },
            "no answer within 150 tokens (`limits.max_tokens`)",
            4,
        ),
    ];
    for (limits, words, made) in cases {
        let stage = Stage::new(vec![call(), call(), call(), call()]).await;
        let (answer, conversation) = stage.ask(limits).await;
        let Ending::Limited(limit) = &answer.ending else {
            panic!("{:?}", answer.ending)
        };
        assert_eq!(limit, words);
        assert_eq!(answer.calls.proposed, made);
        let Some(Message::ToolResults { results }) = conversation.messages.last() else {
            panic!("no results")
        };
        assert_eq!(results.len(), 2, "every call has its result, made or not");
        assert_eq!(stage.calls().await.len(), made as usize);
    }
}

#[tokio::test]
async fn a_model_that_repeats_its_failure_is_told_and_then_ended() {
    let bad = || wants(&[(DAYS, r#"{"end":"some day"}"#)]);
    let stage = Stage::new(vec![bad(), bad(), bad(), bad(), bad()]).await;
    let (answer, conversation) = stage.ask(WIDE).await;
    let Ending::Limited(limit) = &answer.ending else {
        panic!("{:?}", answer.ending)
    };
    assert_eq!(
        limit,
        "the model was stuck: `mcp__time__days_between` failed again, with the same arguments, 3 turns in a row"
    );
    assert_eq!((answer.turns, answer.calls.proposed), (4, 4));
    let told: Vec<_> = conversation
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::ToolResults { results } => Some(results[0].content.len()),
            _ => None,
        })
        .collect();
    let first = told[0];
    assert_eq!(
        told,
        [first, first + 1, first + 1, first + 1],
        "from the second time on the model is told"
    );
}

#[tokio::test]
async fn a_silent_model_ends_at_the_time_limit() {
    let stage = Stage::new(vec![]).await;
    let (answer, _) = stage
        .ask(Limits {
            time: Duration::from_millis(50),
            ..WIDE
        })
        .await;
    assert!(matches!(answer.ending, Ending::Limited(words) if words.contains("limits.max_time")));
}

#[tokio::test]
async fn an_interrupt_ends_the_run_and_not_with_an_answer() {
    let stage = Stage::new(vec![]).await;
    stage.cancel.cancel();
    let (answer, _) = stage.ask(WIDE).await;
    assert!(matches!(answer.ending, Ending::Interrupted));
    assert_eq!(answer.calls, CallCounts::default());
}

#[tokio::test]
async fn a_model_that_fails_is_told_as_it_is() {
    let stage = Stage::new(vec![Err(ModelErrorKind::Unauthorized)]).await;
    let (answer, _) = stage.ask(WIDE).await;
    assert!(
        matches!(answer.ending, Ending::Failed(error) if error.kind == ModelErrorKind::Unauthorized)
    );
}
