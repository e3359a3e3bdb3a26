//! `outrigger runs unknown`: the calls whose outcome nobody knows, and how to find out.

use outrigger_journal::{Journal, UnknownCall};
use serde::Serialize;

use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::visible;

/// Characters of arguments that are shown; `runs show` has the whole.
const SHOWN: usize = 160;

/// A call, for programs.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    call: &'a UnknownCall,
    /// Commands, in the order in which they help.
    todo: Vec<String>,
}

pub(super) async fn list(
    journal: &Journal,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let calls = journal.unknown().await?;
    if json {
        let lines = calls.iter().map(|call| Line {
            call,
            todo: todo(call),
        });
        return screen.json(&lines.collect::<Vec<_>>());
    }
    if calls.is_empty() {
        screen.say("nothing is unknown");
    }
    for call in &calls {
        for line in told(call, |text| screen.ink(Label::Name, text).to_string()) {
            screen.line(&line, 7)?;
        }
    }
    Ok(())
}

/// A call on a few lines, the first of which names it.
pub(crate) fn told(call: &UnknownCall, name: impl Fn(&str) -> String) -> Vec<String> {
    let run = call.run.to_string();
    let mut lines = vec![format!(
        "{} #{}  {}",
        name(&run),
        call.call,
        call.at.strftime("%F %H:%M:%S UTC")
    )];
    let mut row = |title: &str, text: &str| lines.push(format!("  {title:<6} {text}"));
    row(
        "call",
        &format!(
            "`{}` of the server `{}`",
            visible::line(&call.raw_tool),
            visible::line(&call.server)
        ),
    );
    row("sent", &visible::beginning(&call.arguments, SHOWN));
    row("why", &visible::line(why(call)));
    for (at, command) in todo(call).iter().enumerate() {
        row(if at == 0 { "do" } else { "" }, &visible::line(command));
    }
    lines
}

/// Without the words that the list itself says.
fn why(call: &UnknownCall) -> &str {
    let why = call.why.as_str();
    why.strip_prefix("outcome unknown: ").unwrap_or(why)
}

fn todo(call: &UnknownCall) -> Vec<String> {
    let quoted = |word: &str| match word {
        word if word
            .chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c)) =>
        {
            word.to_owned()
        }
        word => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let server = quoted(&call.server);
    let looks = call
        .checks
        .iter()
        .map(|tool| format!("outrigger call {server} {}", quoted(tool)));
    let settle = format!("outrigger runs settle {} {}", call.run, call.call);
    looks
        .chain([
            format!("{settle} --happened"),
            format!("{settle} --did-not"),
        ])
        .collect()
}
