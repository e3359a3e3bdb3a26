//! Saying something to the model: what is attached is fetched first, then the turns run, and whatever
//! becomes of them the chat goes on.

use std::collections::BTreeMap;

use outrigger_host::offers::{ByHand, OfferError, PromptText};
use outrigger_host::words::Words;
use outrigger_journal::Event;
use outrigger_model::Part;
use tokio_util::sync::CancellationToken;

use super::editor::{Editor, Read, Subject};
use super::{Chat, Ended, Next};
use crate::address;
use crate::command::ask;
use crate::command::prompt::in_words;
use crate::command::resource::with_nearest;
use crate::error::{CommandError, Exit};
use crate::screen::Label;
use crate::session;
use crate::visible;

/// Lines and characters of a prompt that are shown before it is sent.
const SHOWN_LINES: usize = 20;
const SHOWN: usize = 2000;

/// Work that an interrupt may end.
enum Guarded<T> {
    Done(T),
    /// It did not end after one interrupt, and there was a second.
    Abandoned,
}

impl Chat {
    /// A message, with the resources that go with it. One that is not to be had keeps it from being
    /// sent.
    pub(super) async fn say(
        &mut self,
        line: &str,
        text: &str,
        attached: &[(String, String)],
    ) -> Next {
        let mut content = vec![Part::text(text)];
        for (server, uri) in attached {
            let cancel = CancellationToken::new();
            match guarded(self.attach(server, uri, &cancel), &cancel).await {
                Guarded::Done(Ok(words)) => content.extend(words.into_iter().map(part)),
                Guarded::Done(Err(error)) => {
                    self.fail(&error);
                    return Next::GoOn;
                }
                Guarded::Abandoned => return Next::End(Ended::Interrupted),
            }
        }
        self.ask(line, content).await
    }

    async fn attach(
        &self,
        server: &str,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Words>, CommandError> {
        let name = address::server(server)?;
        let by = self.by_hand(cancel);
        match self.session.host.read_resource(&name, uri, &by).await {
            Ok(read) => Ok(read.words()),
            Err(error) => {
                let mut error = with_nearest(error.into(), &self.session.host, &name, uri).await;
                error.error = format!("{}; nothing was sent", error.error);
                Err(error)
            }
        }
    }

    fn by_hand(&self, cancel: &CancellationToken) -> ByHand {
        ByHand {
            attended: self.screen.can_ask(),
            cancel: cancel.clone(),
            ..ByHand::default()
        }
    }

    /// A prompt of a server, in the person's name.
    pub(super) async fn run_prompt(
        &mut self,
        line: &str,
        (server, name, words): (&str, &str, &[String]),
        editor: Option<&Editor>,
    ) -> Next {
        let mut arguments = match address::arguments(words) {
            Ok(arguments) => arguments,
            Err(error) => {
                self.fail(&error);
                return Next::GoOn;
            }
        };
        if let Some(editor) = editor {
            match self.complete(editor, (server, name), &mut arguments).await {
                Ok(true) => {}
                Ok(false) => return Next::GoOn,
                Err(error) => {
                    self.fail(&error.into());
                    return Next::GoOn;
                }
            }
        }
        let cancel = CancellationToken::new();
        let got = guarded(self.prompt(server, name, &arguments, &cancel), &cancel).await;
        let prompt = match got {
            Guarded::Done(Ok(prompt)) => prompt,
            Guarded::Done(Err(error)) => {
                self.fail(&error.into());
                return Next::GoOn;
            }
            Guarded::Abandoned => return Next::End(Ended::Interrupted),
        };
        self.show(&prompt);
        let content = prompt.words().into_iter().map(part).collect();
        self.ask(line, content).await
    }

    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: &BTreeMap<String, String>,
        cancel: &CancellationToken,
    ) -> Result<PromptText, OfferError> {
        let server = address::server(server)?;
        let by = self.by_hand(cancel);
        let host = &self.session.host;
        host.get_prompt(&server, name, arguments, &by).await
    }

    /// Asks for arguments that must be given. False: the person thought better of it.
    async fn complete(
        &self,
        editor: &Editor,
        (server, name): (&str, &str),
        arguments: &mut BTreeMap<String, String>,
    ) -> Result<bool, OfferError> {
        let server = address::server(server)?;
        let prompts = self.session.host.prompts(&server).await?;
        let Some(prompt) = prompts.get(name) else {
            // The request itself says so.
            return Ok(true);
        };
        let missing: Vec<_> = prompt.missing(arguments).into_iter().cloned().collect();
        for argument in missing {
            let about = visible::beginning(&argument.description, 60);
            let about = if about.is_empty() {
                about
            } else {
                format!(" ({about})")
            };
            let question = format!("{}{about}: ", visible::line(&argument.name));
            let subject = Subject::Argument {
                server: server.clone(),
                prompt: name.to_owned(),
                argument: argument.name.clone(),
                given: arguments.clone(),
            };
            self.keyboard.hold().await;
            let read = editor.read(&question, subject).await;
            self.keyboard.release();
            let Read::Line(value) = read else {
                self.screen.say("not sent");
                return Ok(false);
            };
            arguments.insert(argument.name, value.trim().to_owned());
        }
        Ok(true)
    }

    /// What is about to be said in the person's name.
    fn show(&self, prompt: &PromptText) {
        let whole = in_words(prompt);
        let words: String = whole.chars().take(SHOWN).collect();
        let mut lines = words.lines();
        for line in lines.by_ref().take(SHOWN_LINES) {
            let line = format!("  | {}", visible::line(line));
            self.screen.say(self.screen.talk(Label::Dim, &line));
        }
        if lines.next().is_some() || words.len() < whole.len() {
            let line = format!("  | … ({} characters in all)", whole.chars().count());
            self.screen.say(self.screen.talk(Label::Dim, &line));
        }
    }

    /// Turns of the model until it has an answer.
    async fn ask(&mut self, line: &str, content: Vec<Part>) -> Next {
        self.session.run.record(Event::PersonSaid {
            text: line.trim().to_owned(),
        });
        self.session.host.name_artifacts(line).await;
        let cancel = CancellationToken::new();
        let work = self
            .agent
            .ask_with(&mut self.conversation, content, &*self.display, &cancel);
        let answer = match guarded(Box::pin(work), &cancel).await {
            Guarded::Done(answer) => answer,
            Guarded::Abandoned => return Next::End(Ended::Interrupted),
        };
        if !answer.text.is_empty() && !self.display.has_printed(&answer.text) {
            let text = format!("{}\n", answer.text.trim_end());
            if let Err(error) = self.screen.foreign(&text) {
                self.fail(&error.into());
            }
        }
        self.sum.add(answer.run_ended());
        match ask::verdict(&answer, self.session.run.id(), self.screen) {
            Ok(_) => Next::GoOn,
            Err(error) if error.exit == Exit::Interrupted => {
                self.screen
                    .say(self.screen.talk(Label::Warn, "interrupted"));
                if self.screen.can_ask() {
                    return Next::GoOn;
                }
                Next::End(Ended::Interrupted)
            }
            Err(error) => {
                self.fail(&error);
                Next::GoOn
            }
        }
    }
}

fn part(words: Words) -> Part {
    match words {
        Words::Text(text) => Part::text(text),
        Words::Image { media_type, data } => Part::Image { media_type, data },
    }
}

/// The first interrupt cancels; the second does not wait any longer.
async fn guarded<T>(work: impl Future<Output = T>, cancel: &CancellationToken) -> Guarded<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Guarded::Done(done),
            () = session::interrupted() => {
                if cancel.is_cancelled() {
                    return Guarded::Abandoned;
                }
                cancel.cancel();
            }
        }
    }
}
