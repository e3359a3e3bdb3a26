//! `outrigger chat`: a conversation at the terminal, or out of a pipe, a message a line. One run of the
//! journal from the first message to the last.
//!
//! Promises: an interrupt ends the turn and not the chat; a message with something attached that is not
//! to be had is not sent; what a server or a model said is made visible before it is shown.

mod completing;
mod editor;
mod message;
mod saying;
mod slash;

use std::process::ExitCode;
use std::sync::Arc;

use outrigger_agent::{Agent, Conversation};
use outrigger_host::policy::Policy;
use outrigger_journal::{Event, RunStatus, Tokens};
use tokio_util::sync::CancellationToken;

use self::editor::{Editor, Read, Subject};
use self::message::Typed;
use super::ask;
use crate::cli::{ChatArgs, Common};
use crate::display::{Display, Show};
use crate::error::{CommandError, Exit};
use crate::keyboard::Keyboard;
use crate::models::embedding::Reading;
use crate::sampler::RunModel;
use crate::screen::{Label, Screen};
use crate::session::{self, Asked, Opening, Record, Session};
use crate::{models, reports, surroundings, visible};

pub(crate) async fn run(
    common: &Common,
    args: ChatArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    let keyboard = Keyboard::default();
    let begun = begin(common, &args, (screen, &keyboard), &cancel);
    let mut chat = session::interruptible(&cancel, Box::pin(begun)).await?;
    let ended = if cancel.is_cancelled() {
        Ended::Interrupted
    } else if screen.can_ask() {
        let history = surroundings::chat_history(common);
        let editor = Editor::start(history, &chat.session, screen)?;
        Box::pin(chat.at_terminal(&editor)).await
    } else {
        Box::pin(chat.out_of_a_pipe()).await
    };
    chat.close(ended).await
}

/// A conversation that goes on.
struct Chat {
    session: Session,
    agent: Agent,
    display: Arc<Display>,
    screen: Screen,
    keyboard: Keyboard,
    conversation: Conversation,
    sum: Sum,
}

/// What all answers came to.
#[derive(Default)]
struct Sum {
    usage: Tokens,
    answer: Option<String>,
    /// The heaviest end of an answer, with its reason.
    status: Option<(RunStatus, Option<String>)>,
    /// The heaviest failure.
    exit: Option<Exit>,
}

/// How a chat ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The person has said all, or the input is at its end.
    Done,
    /// By a second interrupt, or from outside.
    Interrupted,
}

/// What is to be done after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    End(Ended),
}

async fn begin(
    common: &Common,
    args: &ChatArgs,
    (screen, keyboard): (Screen, &Keyboard),
    cancel: &CancellationToken,
) -> Result<Chat, CommandError> {
    let mut config = session::configuration_in(args.mode, common, screen)?;
    // A mistyped glob is told before a model is loaded for it.
    Policy::new(&config.policy, &args.allow)?;
    args.search.applied(&mut config);
    let wanted = args.model.as_deref();
    let model = models::of_run(common, wanted, &mut config, args.threads, screen).await?;
    let show = if screen.data_is_read_live() {
        Show::RunAndText
    } else {
        Show::Run
    };
    let display = Arc::new(Display::new(screen, show));
    let started = session::run_started(common, "chat", None, Some(model.id()))?;
    let session = Session::open(Opening {
        common,
        config: &config,
        screen,
        record: Record::Journal(started),
        observers: vec![display.clone()],
        person: Asked::PersonAt(keyboard.clone()),
        sampler: Some(Arc::new(RunModel(Arc::clone(&model)))),
        allow: &args.allow,
    })
    .await?;
    let reading = Reading::begin(&session.host, &config, screen);
    ask::wait_for_servers(&session, screen, cancel).await;
    reading.settled(&session.host, common).await;
    let agent = Agent {
        model,
        host: session.host.clone(),
        run: session.run.clone(),
        limits: ask::limits(&config.limits),
        estimates: reports::estimates(common),
    };
    Ok(Chat {
        session,
        agent,
        display,
        screen,
        keyboard: keyboard.clone(),
        conversation: Conversation::default(),
        sum: Sum::default(),
    })
}

impl Chat {
    /// A message at a time, edited, with a history.
    async fn at_terminal(&mut self, editor: &Editor) -> Ended {
        let name = visible::line(self.agent.model.id()).into_owned();
        let greeting = format!("{name} · /help · ctrl-d ends");
        self.screen.say(self.screen.talk(Label::Dim, &greeting));
        let mut interrupts = 0;
        loop {
            match self.next_line(editor).await {
                Read::Line(line) => {
                    interrupts = 0;
                    if let Next::End(ended) = self.take(&line, Some(editor)).await {
                        return ended;
                    }
                }
                Read::Interrupted if interrupts == 0 => {
                    interrupts = 1;
                    self.screen.say("ctrl-c again ends the chat");
                }
                Read::Interrupted | Read::Ended => return Ended::Done,
                Read::Killed => return Ended::Interrupted,
                Read::Broken(why) => {
                    let error = CommandError::failed(format!("nothing can be typed: {why}"));
                    self.tell(&error);
                    return Ended::Done;
                }
            }
        }
    }

    /// What is typed next for the chat itself. A question of a server that is open gets its answer
    /// first.
    async fn next_line(&self, editor: &Editor) -> Read {
        loop {
            self.keyboard.hold().await;
            let read = editor.read("> ", Subject::Message).await;
            let typed = match &read {
                Read::Line(line) => self.keyboard.typed(Some(line.clone())),
                Read::Ended => self.keyboard.typed(None),
                _ => Err(None),
            };
            self.keyboard.release();
            if typed.is_err() {
                return read;
            }
        }
    }

    /// A message a line; nobody is asked, and nothing is printed but answers and talk.
    async fn out_of_a_pipe(&mut self) -> Ended {
        let mut lines = message::lines_of_stdin();
        loop {
            let line = tokio::select! {
                biased;
                () = session::interrupted() => return Ended::Interrupted,
                line = lines.recv() => line,
            };
            match line {
                None => return Ended::Done,
                Some(Err(error)) => {
                    self.fail(&CommandError::usage(format!(
                        "standard input cannot be read: {error}"
                    )));
                    return Ended::Done;
                }
                Some(Ok(line)) => {
                    if let Next::End(ended) = self.take(&line, None).await {
                        return ended;
                    }
                }
            }
        }
    }

    /// Does what a line says. Without an editor nobody can be asked for what is missing.
    async fn take(&mut self, line: &str, editor: Option<&Editor>) -> Next {
        let typed = match Typed::of(line, &self.session.host) {
            Ok(typed) => typed,
            Err(error) => {
                self.fail(&error);
                return Next::GoOn;
            }
        };
        match typed {
            Typed::Nothing => Next::GoOn,
            Typed::Quit => Next::End(Ended::Done),
            Typed::Slash(command) => {
                if let Err(error) = self.slash(command).await {
                    self.fail(&error);
                }
                Next::GoOn
            }
            Typed::Message { text, attached } => self.say(line, &text, &attached).await,
            Typed::Prompt {
                server,
                name,
                words,
            } => {
                self.run_prompt(line, (&server, &name, &words), editor)
                    .await
            }
        }
    }

    /// Tells a failure, and remembers it for the exit code.
    fn fail(&mut self, error: &CommandError) {
        self.tell(error);
        self.sum.failed(error.exit);
    }

    fn tell(&self, error: &CommandError) {
        let _: ExitCode = self.screen.fail(error);
    }

    /// Closes in order. At a terminal the person has seen what went wrong; a script gets the exit code
    /// of the heaviest failure.
    async fn close(self, ended: Ended) -> Result<ExitCode, CommandError> {
        let Self {
            session,
            agent,
            screen,
            sum,
            ..
        } = self;
        drop(agent);
        let attended = screen.can_ask();
        let (status, reason) = match ended {
            Ended::Interrupted => (RunStatus::Interrupted, None),
            Ended::Done => sum.status.unwrap_or((RunStatus::Done, None)),
        };
        let run = session.run.id().clone();
        let event = Event::RunEnded {
            status,
            reason,
            answer: sum.answer,
            usage: sum.usage,
        };
        session.close(Some(event), screen).await?;
        if attended {
            let line = format!("run {run}");
            screen.say(screen.talk(Label::Dim, &line));
        }
        match ended {
            Ended::Interrupted => Err(CommandError::new(Exit::Interrupted, "interrupted")),
            Ended::Done if attended => Ok(Exit::Done.into()),
            Ended::Done => Ok(sum.exit.unwrap_or(Exit::Done).into()),
        }
    }
}

impl Sum {
    fn failed(&mut self, exit: Exit) {
        if self.exit.is_none_or(|known| weight(exit) > weight(known)) {
            self.exit = Some(exit);
        }
    }

    fn add(&mut self, ended: Event) {
        let Event::RunEnded {
            status,
            reason,
            answer,
            usage,
        } = ended
        else {
            return;
        };
        self.usage.input += usage.input;
        self.usage.cached += usage.cached;
        self.usage.output += usage.output;
        self.answer = answer.or(self.answer.take());
        // A turn that was interrupted is no failure of the chat.
        let heavier = |known: &(RunStatus, _)| gravity(status) > gravity(known.0);
        if self.status.as_ref().is_none_or(heavier) {
            let status = match status {
                RunStatus::Interrupted => RunStatus::Done,
                status => status,
            };
            self.status = Some((status, reason));
        }
    }
}

/// What is not known weighs most.
fn weight(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Usage => 1,
        Exit::Failed => 2,
        Exit::Unavailable => 3,
        Exit::Refused => 4,
        Exit::Unknown => 5,
        Exit::Interrupted => 6,
    }
}

fn gravity(status: RunStatus) -> u8 {
    match status {
        RunStatus::Done | RunStatus::Interrupted => 0,
        RunStatus::Limited => 1,
        RunStatus::Failed => 2,
        RunStatus::Refused => 3,
        RunStatus::Unknown => 4,
    }
}
