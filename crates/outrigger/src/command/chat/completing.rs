//! What Tab offers: commands, prompts and their arguments, addresses of resources. Servers are asked
//! for it, for a short time each.

use std::collections::BTreeMap;

use outrigger_connect::{Offer, Reference, ServerName};
use outrigger_host::Host;
use outrigger_host::offers::Template;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use tokio::runtime::Handle;

use super::editor::Subject;
use super::message::{COMMANDS, QUIT};
use crate::address::{self, Address};
use crate::visible;

/// Offered at a time.
const OFFERED: usize = 100;

/// Completes what is typed at the desk of a chat.
pub(super) struct Completing {
    host: Host,
    runtime: Handle,
    /// What is being typed.
    pub(super) subject: Subject,
}

/// Where the completed part begins, and what it may become.
type Offers = (usize, Vec<String>);

impl Completing {
    pub(super) fn new(host: Host, runtime: Handle) -> Self {
        Self {
            host,
            runtime,
            subject: Subject::Message,
        }
    }

    async fn offers(&self, typed: &str) -> Offers {
        if let Subject::Argument {
            server,
            prompt,
            argument,
            given,
        } = &self.subject
        {
            let reference = Reference::Prompt(prompt);
            let values = self.values(server, reference, (argument, typed), given);
            return (0, values.await);
        }
        let word = typed.rfind(char::is_whitespace).map_or(0, |at| {
            at + typed[at..].chars().next().map_or(1, char::len_utf8)
        });
        if let Some(address) = typed[word..].strip_prefix('@') {
            let (at, offers) = self.addresses(address).await;
            return (word + 1 + at, offers);
        }
        if !typed.starts_with('/') || typed.starts_with("//") {
            return (word, Vec::new());
        }
        if word == 0 {
            return (0, self.names(typed).await);
        }
        let (at, offers) = self.arguments(typed, &typed[word..]).await;
        (word + at, offers)
    }

    /// Commands, and prompts of servers.
    async fn names(&self, typed: &str) -> Vec<String> {
        let commands = COMMANDS.iter().map(|(name, ..)| (*name).to_owned());
        let mut names: Vec<_> = commands.chain([QUIT.to_owned()]).collect();
        for server in self.host.offering(Offer::Prompts) {
            let prefix = format!("/{server}:");
            if !prefix.starts_with(typed) && !typed.starts_with(&prefix) {
                continue;
            }
            if let Ok(list) = self.host.prompts(&server).await {
                let prompts = list.prompts.iter();
                names.extend(prompts.map(|prompt| format!("{prefix}{}", prompt.name)));
            }
        }
        names.retain(|name| name.starts_with(typed));
        names
    }

    /// Arguments of the prompt that the line begins with, and their values.
    async fn arguments(&self, line: &str, word: &str) -> Offers {
        let nothing = (0, Vec::new());
        let mut words = line.split_whitespace();
        let address = words.next().map(|first| Address::of(&first[1..]));
        let Some(Address {
            server,
            name: Some(name),
        }) = address
        else {
            return nothing;
        };
        let Ok(server) = address::server(server) else {
            return nothing;
        };
        let Ok(prompts) = self.host.prompts(&server).await else {
            return nothing;
        };
        let Some(prompt) = prompts.get(name) else {
            return nothing;
        };
        let pairs = words.filter(|pair| *pair != word);
        let given: BTreeMap<String, String> = pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if let Some((key, value)) = word.split_once('=') {
            let reference = Reference::Prompt(name);
            let values = self.values(&server, reference, (key, value), &given).await;
            let values = values
                .iter()
                .filter_map(|value| shlex::try_quote(value).ok());
            return (
                key.len() + 1,
                values.map(std::borrow::Cow::into_owned).collect(),
            );
        }
        let open = prompt.arguments.iter();
        let open = open.filter(|one| !given.contains_key(&one.name) && one.name.starts_with(word));
        (0, open.map(|one| format!("{}=", one.name)).collect())
    }

    /// Servers, addresses of their resources, and variables of their templates.
    async fn addresses(&self, typed: &str) -> Offers {
        let servers = self.host.offering(Offer::Resources);
        let Some((name, uri)) = typed.split_once(':') else {
            let servers = servers.iter().map(|server| format!("{server}:"));
            return (
                0,
                servers.filter(|server| server.starts_with(typed)).collect(),
            );
        };
        let at = name.len() + 1;
        let Some(server) = servers.iter().find(|server| server.as_str() == name) else {
            return (at, Vec::new());
        };
        let Ok(list) = self.host.resources(server).await else {
            return (at, Vec::new());
        };
        let listed = list.resources.iter().map(|resource| resource.uri.clone());
        let stems = list.templates.iter().map(|one| one.stem().to_owned());
        let mut offers: Vec<_> = listed
            .chain(stems)
            .filter(|offer| offer.starts_with(uri) && offer != uri)
            .collect();
        for template in &list.templates {
            offers.extend(self.of_template(server, template, uri).await);
        }
        offers.sort();
        offers.dedup();
        (at, offers)
    }

    /// Whole addresses, as far as they go with the variable that is being typed.
    async fn of_template(
        &self,
        server: &ServerName,
        template: &Template,
        uri: &str,
    ) -> Vec<String> {
        let Some(variable) = template.variable(uri) else {
            return Vec::new();
        };
        let reference = Reference::Template(&template.uri);
        let argument = (variable.name.as_str(), variable.begun.as_str());
        let values = self.values(server, reference, argument, &variable.given);
        let values = values.await.into_iter();
        values
            .map(|value| format!("{}{value}", &uri[..variable.at]))
            .collect()
    }

    /// What a server offers. Nothing that hides a character or would end the line is taken.
    async fn values(
        &self,
        server: &ServerName,
        reference: Reference<'_>,
        argument: (&str, &str),
        given: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let values = self.host.complete(server, reference, argument, given).await;
        let mut values = values;
        values.retain(|value| visible::line(value) == *value);
        values.truncate(OFFERED);
        values
    }
}

impl Completer for Completing {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or(line);
        let (begin, offers) = self.runtime.block_on(self.offers(typed));
        let pairs = offers.into_iter().take(OFFERED).map(|offer| Pair {
            display: visible::line(&offer).into_owned(),
            replacement: offer,
        });
        Ok((begin, pairs.collect()))
    }
}

impl Validator for Completing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = self.subject == Subject::Message && context.input().ends_with('\\');
        Ok(if goes_on {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for Completing {
    type Hint = String;
}

impl Highlighter for Completing {}

impl Helper for Completing {}
