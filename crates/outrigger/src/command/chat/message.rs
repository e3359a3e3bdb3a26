//! What was typed: a command, a prompt of a server, or a message with what it attaches.

use std::io::BufRead as _;

use outrigger_host::Host;
use tokio::sync::mpsc;

use crate::address::Address;
use crate::error::CommandError;
use crate::visible;

/// Words that begin with `/`, with one line about each.
pub(super) const COMMANDS: [(&str, &str, Slash); 6] = [
    ("/help", "what can be typed", Slash::Help),
    ("/tools", "the tools that the model has", Slash::Tools),
    (
        "/servers",
        "the servers, and where they stand",
        Slash::Servers,
    ),
    (
        "/prompts",
        "prompts of servers: /SERVER:PROMPT KEY=VALUE",
        Slash::Prompts,
    ),
    (
        "/resources",
        "resources of servers: @SERVER:URI",
        Slash::Resources,
    ),
    ("/stats", "what servers and turns have cost", Slash::Stats),
];
pub(super) const QUIT: &str = "/quit";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Tools,
    Servers,
    Prompts,
    Resources,
    Stats,
}

/// A line, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Nothing,
    Quit,
    Slash(Slash),
    /// A prompt of a server, and what it is told.
    Prompt {
        server: String,
        name: String,
        words: Vec<String>,
    },
    /// Words for the model, and resources that go with them: server and address.
    Message {
        text: String,
        attached: Vec<(String, String)>,
    },
}

impl Typed {
    pub(super) fn of(line: &str, host: &Host) -> Result<Self, CommandError> {
        let known: Vec<_> = host
            .servers()
            .into_iter()
            .map(|status| status.name.to_string())
            .collect();
        Self::read(line, &known)
    }

    /// `servers`: the names there are.
    fn read(line: &str, servers: &[String]) -> Result<Self, CommandError> {
        let text = line.trim();
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        if let Some(rest) = text.strip_prefix("//") {
            return message(&format!("/{rest}"), servers);
        }
        if !text.starts_with('/') {
            return message(text, servers);
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if [QUIT, "/exit"].contains(&word) {
            return Ok(Self::Quit);
        }
        if let Some((.., slash)) = COMMANDS.iter().find(|(name, ..)| *name == word) {
            return Ok(Self::Slash(*slash));
        }
        let Address {
            server,
            name: Some(name),
        } = Address::of(&word[1..])
        else {
            return Err(unknown(word));
        };
        let words = shlex::split(rest)
            .ok_or_else(|| CommandError::usage("a quote is not closed; nothing was sent"))?;
        Ok(Self::Prompt {
            server: server.to_owned(),
            name: name.to_owned(),
            words,
        })
    }
}

fn unknown(word: &str) -> CommandError {
    let names = COMMANDS.iter().map(|(name, ..)| *name).chain([QUIT]);
    let near = outrigger_host::toolset::nearest(names, word);
    CommandError::usage(format!("there is no `{}`", visible::line(word))).did_you_mean(
        &near,
        "`/help` lists what there is; a message that begins with `/` is typed as `//`",
    )
}

/// `@SERVER:URI` at the beginning of a word attaches; `@SERVER:<URI>` may hold blanks, `\\@` is an `@`.
fn message(text: &str, servers: &[String]) -> Result<Typed, CommandError> {
    let mut attached: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    let mut begins = true;
    while let Some(c) = rest.chars().next() {
        if begins
            && let Some(after) = rest.strip_prefix('@')
            && let Some((server, uri, length)) = attachment(after, servers)?
        {
            let one = (server, uri);
            if !attached.contains(&one) {
                attached.push(one);
            }
            rest = &after[length..];
            begins = false;
            continue;
        }
        begins = c.is_whitespace();
        rest = &rest[c.len_utf8()..];
    }
    let text = text.replace("\\@", "@");
    Ok(Typed::Message { text, attached })
}

/// The server and the address behind an `@`, and how many bytes they take.
fn attachment(
    after: &str,
    servers: &[String],
) -> Result<Option<(String, String, usize)>, CommandError> {
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    let Some(colon) = after[..end].find(':') else {
        return Ok(None);
    };
    let (server, behind) = (&after[..colon], &after[colon + 1..]);
    let (uri, length) = if let Some(quoted) = behind.strip_prefix('<') {
        match quoted.find('>') {
            Some(close) => (&quoted[..close], colon + 1 + close + 2),
            None => (quoted, after.len()),
        }
    } else {
        let word = &after[colon + 1..end];
        let uri = word.trim_end_matches([',', ';', '.', '!', '?', ')']);
        (uri, colon + 1 + uri.len())
    };
    if server.is_empty() || uri.is_empty() {
        return Ok(None);
    }
    if !servers.iter().any(|known| known == server) {
        let error = format!(
            "`@{}`: there is no server `{}`; nothing was sent",
            visible::line(&after[..length]),
            visible::line(server)
        );
        let near = outrigger_host::toolset::nearest(servers.iter().map(String::as_str), server);
        return Err(CommandError::usage(error)
            .did_you_mean(&near, "an `@` that attaches nothing is typed as `\\@`"));
    }
    Ok(Some((server.to_owned(), uri.to_owned(), length)))
}

/// The lines of standard input, as they come.
pub(super) fn lines_of_stdin() -> mpsc::Receiver<std::io::Result<String>> {
    let (send, receive) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receive
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Result<Typed, String> {
        let servers = ["docs".to_owned(), "my-db".to_owned()];
        Typed::read(line, &servers).map_err(|error| format!("{error}: {}", error.hints.join("; ")))
    }

    fn attached(line: &str) -> Vec<String> {
        match read(line) {
            Ok(Typed::Message { attached, .. }) => {
                let attached = attached.into_iter();
                attached
                    .map(|(server, uri)| format!("{server} {uri}"))
                    .collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_and_prompts_begin_with_a_slash() {
        assert_eq!(read("  \n"), Ok(Typed::Nothing));
        assert_eq!(read("/help"), Ok(Typed::Slash(Slash::Help)));
        assert_eq!(read(" /quit "), Ok(Typed::Quit));
        assert_eq!(
            read("/docs:review file='a b.rs' depth=2"),
            Ok(Typed::Prompt {
                server: "docs".to_owned(),
                name: "review".to_owned(),
                words: vec!["file=a b.rs".to_owned(), "depth=2".to_owned()],
            })
        );
        let text = "/etc/passwd is a file".to_owned();
        assert_eq!(
            read("//etc/passwd is a file"),
            Ok(Typed::Message {
                text,
                attached: Vec::new()
            })
        );
        insta::assert_snapshot!(read("/tool").unwrap_err(), @"there is no `/tool`: did you mean `/tools`?");
        insta::assert_snapshot!(read("/docs:review it's").unwrap_err(), @"a quote is not closed; nothing was sent:");
    }

    #[test]
    fn an_at_sign_attaches() {
        assert_eq!(attached("read @docs:note:///a, please"), ["docs note:///a"]);
        assert_eq!(
            attached("@docs:note:///a @my-db:row:1 @docs:note:///a"),
            ["docs note:///a", "my-db row:1"]
        );
        assert_eq!(attached("see @docs:<note:///a b?>."), ["docs note:///a b?"]);
        for plain in ["mail ada@docs:1", "@docs", "@docs: hi", "\\@docs:note:///a"] {
            assert_eq!(attached(plain), Vec::<String>::new(), "{plain}");
        }
        insta::assert_snapshot!(read("@doc:note:///a").unwrap_err(), @"`@doc:note:///a`: there is no server `doc`; nothing was sent: did you mean `docs`?");
        insta::assert_snapshot!(read("@bob:x").unwrap_err(), @r"`@bob:x`: there is no server `bob`; nothing was sent: an `@` that attaches nothing is typed as `\@`");
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_panics(line in "[@/:<>\\\\ a-dé'\"\n]{0,24}") {
            let _ = read(&line);
        }
    }
}
