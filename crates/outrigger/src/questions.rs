//! Questions of servers at the terminal: forms, pages to visit, leave to ask the model.
//!
//! Promises: who asks is always told by its configured name, and every word of a server is made
//! visible; nothing leaves before it was shown and sent off; a page is opened only after its whole
//! address was shown, and only if it is a web page. The end of input is nobody's choice.

mod field;
mod form;

use std::sync::Arc;

use async_trait::async_trait;
use outrigger_connect::{Asker, Elicitation};
use outrigger_host::questions::{Completion, Respondent, Response, SamplingRequest};
use url::{Host, Url};

use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::visible;
use form::Form;

/// Characters of one text of a server that are shown at a time.
const SHOWN: usize = 4000;

/// The person, if one is there.
pub(crate) fn respondent(screen: Screen, keyboard: &Keyboard) -> Option<Arc<dyn Respondent>> {
    let keyboard = keyboard.clone();
    screen
        .can_ask()
        .then(|| Arc::new(Terminal { screen, keyboard }) as Arc<dyn Respondent>)
}

struct Terminal {
    screen: Screen,
    keyboard: Keyboard,
}

/// What a prompt was answered with.
enum Choice {
    Yes,
    /// Another way that the prompt offers.
    Other,
    No,
    Cancel,
}

/// Nobody types any more.
struct Gone;

#[async_trait]
impl Respondent for Terminal {
    async fn elicit(&self, asker: &Asker, question: &Elicitation) -> Response {
        let response = match question {
            Elicitation::Form { message, schema } => {
                self.heading(asker, "asks", message);
                match Form::read(schema) {
                    Ok(form) => self.fill_in(&form).await,
                    Err(why) => return self.impossible(why),
                }
            }
            Elicitation::Url { message, url, .. } => {
                self.heading(asker, "wants you to visit a page", message);
                match address(url) {
                    Ok(url) => self.visit(&url).await,
                    Err(why) => return self.impossible(why),
                }
            }
        };
        response.unwrap_or_else(|Gone| nobody())
    }

    async fn may_sample(&self, asker: &Asker, request: &SamplingRequest) -> Response {
        self.heading(asker, "wants to ask your model", "");
        if let Some(system) = &request.system {
            self.row("instructions", system);
        }
        for message in &request.messages {
            let who = if message.by_model { "model" } else { "user" };
            self.row(who, &message.text);
        }
        self.row("at most", &format!("{} tokens", request.max_tokens));
        self.decide("Ask it? [y]es, [n]o, [c]ancel: ").await
    }

    async fn may_return(&self, asker: &Asker, completion: &Completion) -> Response {
        self.heading(asker, "would get this answer of your model", "");
        self.row("answer", &completion.text);
        self.decide("Send it? [y]es, [n]o, [c]ancel: ").await
    }
}

impl Terminal {
    fn heading(&self, asker: &Asker, what: &str, message: &str) {
        let during = match &asker.tool {
            Some(tool) => format!(", during `{}`", visible::line(tool)),
            None => ", outside of any call".to_owned(),
        };
        let line = format!(
            "The server `{}` {what}{during}:",
            visible::line(asker.server.as_str())
        );
        self.screen
            .insist(format_args!("\n{}", self.screen.talk(Label::Warn, &line)));
        for line in shown(message).lines() {
            self.screen.insist(format_args!("  | {line}"));
        }
    }

    fn row(&self, key: &str, value: &str) {
        let key = format!("{key:<12}");
        let key = self.screen.talk(Label::Dim, &key);
        let value = shown(value);
        let mut lines = value.lines();
        let first = lines.next().unwrap_or_default();
        self.screen.insist(format_args!("  {key} {first}"));
        for line in lines {
            self.screen.insist(format_args!("  {:<12} {line}", ""));
        }
    }

    /// A question that cannot be put to anybody.
    fn impossible(&self, why: String) -> Response {
        let warning = self.screen.talk(Label::Warn, "not answered:");
        self.screen
            .insist(format_args!("  {warning} {}", visible::line(&why)));
        Response::Unanswered(why)
    }

    async fn decide(&self, prompt: &str) -> Response {
        match self.choose(prompt, None).await {
            Ok(Choice::Yes | Choice::Other) => Response::Yes(None),
            Ok(Choice::No) => Response::Declined,
            Ok(Choice::Cancel) => Response::Dismissed,
            Err(Gone) => nobody(),
        }
    }

    /// Asks until one of the offered answers is given. `other`: the letter and the word of a way
    /// besides yes, no and cancel.
    async fn choose(&self, prompt: &str, other: Option<[&str; 2]>) -> Result<Choice, Gone> {
        loop {
            let line = self.typed(prompt).await?.to_lowercase();
            match line.as_str() {
                "y" | "yes" => return Ok(Choice::Yes),
                "n" | "no" => return Ok(Choice::No),
                "c" | "cancel" => return Ok(Choice::Cancel),
                word if other.is_some_and(|other| other.contains(&word)) => {
                    return Ok(Choice::Other);
                }
                _ => {}
            }
        }
    }

    async fn typed(&self, prompt: &str) -> Result<String, Gone> {
        self.screen.prompt(prompt);
        let line = self.keyboard.line().await.ok_or(Gone)?;
        Ok(line.trim().to_owned())
    }

    async fn fill_in(&self, form: &Form) -> Result<Response, Gone> {
        if form.fields.is_empty() {
            // Nothing to fill in: it only wants a yes.
            let prompt = "Agree? [y]es, [n]o, [c]ancel: ";
            return Ok(match self.choose(prompt, None).await? {
                Choice::Yes | Choice::Other => Response::Yes(form::values(&[])),
                Choice::No => Response::Declined,
                Choice::Cancel => Response::Dismissed,
            });
        }
        let count = visible::count(form.fields.len() as u64, "field");
        let prompt = format!("Answer it ({count})? [y]es, [n]o, [c]ancel: ");
        let mut choice = self.choose(&prompt, None).await?;
        loop {
            match choice {
                Choice::No => return Ok(Response::Declined),
                Choice::Cancel => return Ok(Response::Dismissed),
                Choice::Yes | Choice::Other => {}
            }
            let Some(filled) = self.fields(form).await? else {
                let prompt = "Leave it? [a]gain, [n]o (decline), [c]ancel: ";
                choice = match self.choose(prompt, Some(["a", "again"])).await? {
                    // Leaving means no yes.
                    Choice::Yes => Choice::Cancel,
                    other => other,
                };
                continue;
            };
            self.screen.insist(
                self.screen
                    .talk(Label::Dim, "  This is sent to the server:"),
            );
            for (name, value) in &filled {
                self.row(&visible::line(name), value);
            }
            let prompt = "Send it? [y]es, [a]gain, [n]o, [c]ancel: ";
            choice = match self.choose(prompt, Some(["a", "again"])).await? {
                Choice::Yes => return Ok(Response::Yes(form::values(&filled))),
                other => other,
            };
        }
    }

    /// The values as JSON, by name; `None` when the person left the form.
    async fn fields(&self, form: &Form) -> Result<Option<Vec<(String, String)>>, Gone> {
        self.screen.insist(self.screen.talk(
            Label::Dim,
            "  An empty line takes the default, or leaves out what is not needed; `!` leaves the form.",
        ));
        let mut filled = Vec::new();
        for field in &form.fields {
            for line in field.about() {
                self.screen
                    .insist(format_args!("  {}", visible::line(&line)));
            }
            loop {
                let prompt = format!("  {}: ", visible::line(&field.prompt()));
                let line = self.typed(&prompt).await?;
                if line == "!" {
                    return Ok(None);
                }
                match field.read(&line) {
                    Ok(Some(value)) => {
                        filled.push((field.name.clone(), value));
                        break;
                    }
                    Ok(None) => break,
                    Err(why) => self
                        .screen
                        .insist(format_args!("  {}", visible::line(&why))),
                }
            }
        }
        Ok(Some(filled))
    }

    async fn visit(&self, url: &Url) -> Result<Response, Gone> {
        self.row("address", url.as_str());
        self.row("host", url.host_str().unwrap_or_default());
        if url.scheme() == "http" {
            self.row("note", "this page is not encrypted");
        }
        let prompt = "Open it in a browser? [y]es, [m]yself elsewhere, [n]o, [c]ancel: ";
        match self.choose(prompt, Some(["m", "myself"])).await? {
            Choice::No => return Ok(Response::Declined),
            Choice::Cancel => return Ok(Response::Dismissed),
            Choice::Other => {}
            Choice::Yes => {
                if let Err(error) = open::that_detached(url.as_str()) {
                    let warning = self.screen.talk(Label::Warn, "warning:");
                    self.screen.insist(format_args!(
                        "  {warning} no browser can be opened here: {error}"
                    ));
                    let prompt = "Will you open it yourself? [y]es, [n]o, [c]ancel: ";
                    match self.choose(prompt, None).await? {
                        Choice::No => return Ok(Response::Declined),
                        Choice::Cancel => return Ok(Response::Dismissed),
                        Choice::Yes | Choice::Other => {}
                    }
                }
            }
        }
        Ok(Response::Yes(None))
    }
}

fn nobody() -> Response {
    Response::Unanswered("nobody is there to answer any more".to_owned())
}

/// Made visible, and not so long that the question scrolls away.
fn shown(text: &str) -> String {
    let text = visible::lines(text);
    if text.chars().count() <= SHOWN {
        return text.into_owned();
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head}… ({} characters in all)", text.chars().count())
}

/// A web page: nothing that a browser runs, and no file of this machine.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("the address cannot be read: {error}"))?;
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => {}
        "http" if here => {}
        "http" => return Err("only `https:` pages are visited for a server".to_owned()),
        scheme => return Err(format!("`{scheme}:` is not a page to visit")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address has a user name in it, which hides where it leads".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_are_visited() {
        for good in [
            "https://a.example/x?y",
            "http://127.0.0.1:8080/",
            "http://localhost/",
        ] {
            assert!(address(good).is_ok(), "{good}");
        }
        for (bad, word) in [
            ("http://a.example/", "https"),
            ("file:///etc/passwd", "`file:`"),
            ("javascript:alert(1)", "`javascript:`"),
            ("https://bank.example@evil.example/", "user name"),
            ("x", "cannot be read"),
        ] {
            let why = address(bad).unwrap_err();
            assert!(why.contains(word), "{bad}: {why}");
        }
        assert_eq!(
            address("https://bücher.example/").unwrap().host_str(),
            Some("xn--bcher-kva.example")
        );
    }
}
