//! Lines that are edited: a thread of its own, since reading blocks, and asks servers in between for
//! completions.
//!
//! Promises: the terminal is as it was before when the chat ends while somebody types; what holds a
//! secret that is known, or begins with a blank, is not kept in the history, nor are answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use outrigger_connect::ServerName;
use outrigger_journal::Redactor;
use rustyline::config::{Behavior, BellStyle};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::completing::Completing;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::visible;

/// Lines that are kept.
const KEPT: usize = 1000;

/// Reads lines, one at a time.
pub(super) struct Editor {
    requests: mpsc::Sender<Request>,
    /// Somebody is typing.
    reading: Arc<AtomicBool>,
    before: Before,
}

/// What is being typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Subject {
    /// A message.
    #[default]
    Message,
    /// An argument of a prompt.
    Argument {
        server: ServerName,
        prompt: String,
        argument: String,
        given: BTreeMap<String, String>,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    Ended,
    /// The program was told from outside to end.
    Killed,
    /// Nothing can be read; says why.
    Broken(String),
}

struct Request {
    prompt: String,
    subject: Subject,
    reply: oneshot::Sender<Read>,
}

/// The thread's part.
struct Desk {
    lines: rustyline::Editor<Completing, FileHistory>,
    history: Option<PathBuf>,
    redactor: Redactor,
}

impl Editor {
    pub(super) fn start(
        history: Option<PathBuf>,
        session: &Session,
        screen: Screen,
    ) -> Result<Self, CommandError> {
        let completing = Completing::new(session.host.clone(), Handle::current());
        let mut desk =
            Desk::new(completing, session.run.redactor().clone(), screen).map_err(|error| {
                CommandError::failed(format!("the terminal cannot be used: {error}"))
            })?;
        if let Some(path) = history {
            match desk.remember(&path) {
                Ok(()) => desk.history = Some(path),
                Err(error) => {
                    let line = format!(
                        "what is typed is not kept: `{}`: {}",
                        visible::line(&path.display().to_string()),
                        visible::line(&error)
                    );
                    screen.say(screen.talk(Label::Warn, &line));
                }
            }
        }
        let (requests, asked) = mpsc::channel::<Request>();
        let reading = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&reading);
        std::thread::spawn(move || {
            for request in asked {
                busy.store(true, Ordering::Release);
                let read = desk.read(&request.prompt, request.subject);
                busy.store(false, Ordering::Release);
                request.reply.send(read).ok();
            }
        });
        Ok(Self {
            requests,
            reading,
            before: Before::now(),
        })
    }

    /// The next line. Only one is read at a time.
    pub(super) async fn read(&self, prompt: &str, subject: Subject) -> Read {
        let (reply, read) = oneshot::channel();
        let request = Request {
            prompt: prompt.to_owned(),
            subject,
            reply,
        };
        let gone = || Read::Broken("the editor has ended".to_owned());
        if self.requests.send(request).is_err() {
            return gone();
        }
        tokio::select! {
            biased;
            read = read => read.unwrap_or_else(|_| gone()),
            // At the terminal itself ctrl-c is a key.
            () = session::interrupted() => Read::Killed,
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if self.reading.load(Ordering::Acquire) {
            self.before.restore();
        }
    }
}

impl Desk {
    fn new(
        completing: Completing,
        redactor: Redactor,
        screen: Screen,
    ) -> Result<Self, ReadlineError> {
        let color = if screen.colors_talk() {
            ColorMode::Enabled
        } else {
            ColorMode::Disabled
        };
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .bell_style(BellStyle::None)
            .color_mode(color)
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(KEPT)?
            .build();
        let mut lines = rustyline::Editor::with_config(config)?;
        lines.set_helper(Some(completing));
        Ok(Self {
            lines,
            history: None,
            redactor,
        })
    }

    /// Takes up what was typed in earlier chats, and sees to it that the file is the person's alone.
    fn remember(&mut self, path: &Path) -> Result<(), String> {
        if !path.exists() {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
            }
            // Made by the editor, which lets nobody else read it.
            return self
                .lines
                .save_history(path)
                .map_err(|error| error.to_string());
        }
        self.lines
            .load_history(path)
            .map_err(|error| error.to_string())
    }

    fn read(&mut self, prompt: &str, subject: Subject) -> Read {
        let keeps = subject == Subject::Message;
        if let Some(completing) = self.lines.helper_mut() {
            completing.subject = subject;
        }
        match self.lines.readline(prompt) {
            Ok(line) => {
                let line = line.replace("\\\n", "\n");
                if keeps {
                    self.keep(&line);
                }
                Read::Line(line)
            }
            Err(ReadlineError::Interrupted) => Read::Interrupted,
            Err(ReadlineError::Eof) => Read::Ended,
            Err(error) => Read::Broken(error.to_string()),
        }
    }

    fn keep(&mut self, line: &str) {
        let secret = self.redactor.redact(line) != line;
        if secret || line.trim().is_empty() {
            return;
        }
        if let Ok(true) = self.lines.add_history_entry(line)
            && let Some(path) = &self.history
            && let Err(error) = self.lines.append_history(path)
        {
            tracing::warn!(%error, "what was typed is not kept");
        }
    }
}

/// How the terminal was.
struct Before(#[cfg(unix)] Option<rustix::termios::Termios>);

#[cfg(unix)]
impl Before {
    fn now() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin()).ok())
    }

    fn restore(&self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.0 {
            tcsetattr(std::io::stdin(), OptionalActions::Now, before).ok();
        }
    }
}

#[cfg(not(unix))]
impl Before {
    fn now() -> Self {
        Self()
    }

    #[expect(clippy::unused_self, reason = "as where there is something to restore")]
    fn restore(&self) {}
}
