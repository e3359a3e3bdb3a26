//! Asking the person at the terminal.

use std::sync::Arc;

use async_trait::async_trait;
use outrigger_host::approve::{Answer, Approver, NobodyThere, Question};
use tokio::sync::oneshot;

use crate::screen::{Label, Screen};
use crate::visible;

/// The person, if one is there.
pub(crate) fn approver(screen: Screen) -> Arc<dyn Approver> {
    if screen.can_ask() {
        Arc::new(Terminal { screen })
    } else {
        Arc::new(NobodyThere)
    }
}

struct Terminal {
    screen: Screen,
}

#[async_trait]
impl Approver for Terminal {
    async fn ask(&self, question: Question<'_>) -> Answer {
        self.show(question);
        loop {
            self.screen
                .prompt("Run it? [y]es, yes for this [s]ession, [n]o (or say why not): ");
            let Some(line) = line_from_stdin().await else {
                return Answer::Nobody;
            };
            if let Some(answer) = understand(&line) {
                return answer;
            }
        }
    }
}

impl Terminal {
    fn show(&self, question: Question<'_>) {
        let Question {
            tool,
            arguments,
            rule,
        } = question;
        let title = |text| self.screen.talk(Label::Dim, text);
        self.screen.insist(format_args!(
            "\n{}",
            self.screen.talk(Label::Warn, "A call needs your approval:")
        ));
        let raw = visible::line(&tool.raw_name);
        self.screen.insist(format_args!(
            "  {} {} (`{raw}` of the server `{}`)",
            title("tool     "),
            tool.name,
            tool.server
        ));
        self.screen.insist(format_args!(
            "  {} {}",
            title("arguments"),
            visible::line(arguments)
        ));
        self.screen.insist(format_args!(
            "  {} {}",
            title("asked by "),
            visible::line(rule)
        ));
    }
}

/// `None` when nothing was answered. Anything but yes is a no, and longer words are its reason.
fn understand(line: &str) -> Option<Answer> {
    let line = line.trim();
    match line.to_lowercase().as_str() {
        "" => None,
        "y" | "yes" => Some(Answer::Once),
        "s" | "session" => Some(Answer::Session),
        "n" | "no" => Some(Answer::No { reason: None }),
        _ => Some(Answer::No {
            reason: Some(line.to_owned()),
        }),
    }
}

/// A thread of its own, since nothing can take back a read from a terminal: an interrupt must not
/// wait for it. `None` at end of file.
async fn line_from_stdin() -> Option<String> {
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        send.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line))
            .ok();
    });
    receive.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        assert_eq!(understand("Y\n"), Some(Answer::Once));
        assert_eq!(understand("session"), Some(Answer::Session));
        assert_eq!(understand(" \n"), None);
        assert_eq!(understand("no"), Some(Answer::No { reason: None }));
        assert_eq!(
            understand("yes but later"),
            Some(Answer::No {
                reason: Some("yes but later".to_owned())
            })
        );
    }
}
