//! Commands of a chat. What they print is talk: the conversation alone is on standard output.

use outrigger_connect::Offer;
use outrigger_host::ServerState;

use super::Chat;
use super::message::{COMMANDS, QUIT, Slash};
use crate::answer;
use crate::command::prompt::{aside, lines};
use crate::command::resource::in_lines;
use crate::error::CommandError;
use crate::screen::Label;
use crate::visible;

const HELP: &str = "\
Anything else is a message. A line that ends in \\ goes on.
/SERVER:PROMPT KEY=VALUE … runs a prompt; Tab completes.
@SERVER:URI in a message attaches a resource.
ctrl-c ends a turn; ctrl-d, or ctrl-c twice, ends the chat.";

impl Chat {
    pub(super) async fn slash(&self, command: Slash) -> Result<(), CommandError> {
        match command {
            Slash::Help => self.help(),
            Slash::Tools => self.tools(),
            Slash::Servers => self.servers(),
            Slash::Prompts => self.prompts().await,
            Slash::Resources => self.resources().await,
            Slash::Stats => return self.stats().await,
        }
        Ok(())
    }

    fn help(&self) {
        for (name, about, _) in COMMANDS {
            let name = format!("{name:<11}");
            let name = self.screen.talk(Label::Name, &name);
            self.screen.insist(format_args!("{name}{about}"));
        }
        let name = format!("{QUIT:<11}");
        let name = self.screen.talk(Label::Name, &name);
        self.screen.insist(format_args!("{name}end the chat"));
        self.screen.insist(HELP);
    }

    fn tools(&self) {
        let toolset = self.session.host.toolset();
        for tool in toolset.tools() {
            self.screen
                .insist(self.screen.talk(Label::Name, tool.name.as_str()));
            let about = visible::beginning(&tool.description, 56);
            if !about.is_empty() {
                let about = format!("    {about}");
                self.screen.insist(self.screen.talk(Label::Dim, &about));
            }
        }
        self.screen.insist(format_args!(
            "{}, ~{} tokens per request",
            visible::count(toolset.tools().len() as u64, "tool"),
            toolset.tokens()
        ));
    }

    fn servers(&self) {
        for status in self.session.host.servers() {
            let name = visible::line(status.name.as_str()).into_owned();
            let tools = status
                .catalog
                .as_ref()
                .map_or(0, |catalog| catalog.tools.len());
            let mut line = match &status.state {
                ServerState::Ready(_) => visible::count(tools as u64, "tool"),
                state => state.as_str().replace('_', " "),
            };
            if let Some(failure) = status.state.failure() {
                line = format!("{line}: {}", visible::line(&failure.error));
            }
            let name = format!("{name:<12}");
            let name = self.screen.talk(Label::Name, &name);
            self.screen.insist(format_args!("{name} {line}"));
        }
    }

    async fn prompts(&self) {
        let host = &self.session.host;
        let mut none = true;
        for server in host.offering(Offer::Prompts) {
            match host.prompts(&server).await {
                Ok(list) => {
                    for prompt in &list.prompts {
                        none = false;
                        let text = lines(&server, prompt, self.screen);
                        self.screen.insist(format_args!("/{}", text.trim_end()));
                    }
                    aside(
                        self.screen,
                        &server,
                        "prompt",
                        (&list.set_aside, &list.problems),
                    );
                }
                Err(error) => self.screen.insist(visible::line(&error.to_string())),
            }
        }
        if none {
            self.screen.insist("no connected server has prompts");
        }
    }

    async fn resources(&self) {
        let host = &self.session.host;
        let mut none = true;
        for server in host.offering(Offer::Resources) {
            match host.resources(&server).await {
                Ok(list) => {
                    none = false;
                    let text = in_lines(&server, &list, self.screen);
                    self.screen.insist(text.trim_end());
                    aside(
                        self.screen,
                        &server,
                        "resource",
                        (&list.set_aside, &list.problems),
                    );
                }
                Err(error) => self.screen.insist(visible::line(&error.to_string())),
            }
        }
        if none {
            self.screen.insist("no connected server has resources");
        }
    }

    async fn stats(&self) -> Result<(), CommandError> {
        self.session.run.flush().await?;
        match &self.session.journal {
            Some(journal) => answer::print_stats(self.session.run.id(), journal, self.screen).await,
            None => Ok(()),
        }
    }
}
