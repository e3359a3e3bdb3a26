//! `outrigger secrets import`: moves secrets out of configuration files, and leaves references.
//!
//! Promises: nothing is stored or written before the change was shown and agreed to; a secret is in
//! its store before its file is changed, and the file as it was is kept beside it, for its owner only;
//! no secret is printed. Leaves out: files of a project that is not trusted, whose references would not be
//! followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outrigger_host::config::import::rewritten;
use outrigger_host::config::{self, Literal, Reference};

use crate::cli::{Common, Store};
use crate::error::{CommandError, Exit};
use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::secrets::store;
use crate::{surroundings, visible};

/// What stands for a secret in what is shown.
const MASK: &str = "••••";

/// One file and what is to become of it.
struct Plan<'a> {
    file: PathBuf,
    before: String,
    after: String,
    moved: Vec<(&'a Literal, Reference)>,
}

pub(super) async fn run(
    common: &Common,
    to: Store,
    yes: bool,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let config = config::load(&surroundings::of_configuration(common)?);
    for problem in config.fatal() {
        screen.insist(visible::lines(problem.render().trim_end()));
    }
    let (ours, strange): (Vec<_>, Vec<_>) = config
        .literals
        .iter()
        .partition(|literal| literal.layer.may_loosen());
    for literal in &strange {
        let place = format!("{}:{}", literal.file.display(), literal.line);
        screen.say(format_args!(
            "{} `{}` at {} stays: no reference is followed in a folder that is not trusted (`outrigger trust`)",
            screen.talk(Label::Warn, "left alone:"),
            visible::line(&literal.key),
            visible::line(&place)
        ));
    }
    let plans = plan(&ours, to)?;
    if plans.is_empty() {
        screen.say("no value in your configuration files looks like a secret");
        return Ok(Exit::Done.into());
    }
    for plan in &plans {
        show(plan, screen)?;
    }
    if !yes {
        agreed(screen).await?;
    }
    for plan in &plans {
        carry_out(plan, screen)?;
    }
    Ok(Exit::Done.into())
}

/// Plans every file, before anything is done to one.
fn plan<'a>(literals: &[&'a Literal], to: Store) -> Result<Vec<Plan<'a>>, CommandError> {
    let mut files: BTreeMap<&Path, Vec<&Literal>> = BTreeMap::new();
    for literal in literals {
        files.entry(&literal.file).or_default().push(literal);
    }
    let mut taken = BTreeSet::new();
    let mut plans = Vec::new();
    for (file, literals) in files {
        let mut moved = Vec::new();
        for literal in literals {
            let reference = store::plan(to, &literal.name(), &taken)?;
            taken.insert(reference.clone());
            moved.push((literal, reference));
        }
        // A link stays a link: what it leads to is changed.
        let file = fs::canonicalize(file).map_err(|error| unreadable(file, &error))?;
        let before = fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
        let pairs: Vec<_> = moved
            .iter()
            .map(|(literal, reference)| (*literal, reference))
            .collect();
        let after = rewritten(&before, &pairs)
            .map_err(|left_alone| CommandError::failed(left_alone.to_string()))?;
        plans.push(Plan {
            file,
            before,
            after,
            moved,
        });
    }
    Ok(plans)
}

fn unreadable(file: &Path, error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("`{}` cannot be read: {error}", file.display()))
}

/// The lines that change, the secrets in them masked.
fn show(plan: &Plan<'_>, screen: Screen) -> Result<(), CommandError> {
    let masked = |line: &str| {
        let mut line = line.to_owned();
        for (literal, _) in &plan.moved {
            let quoted = serde_json::Value::from(literal.reveal()).to_string();
            line = line.replace(literal.reveal(), MASK);
            line = line.replace(quoted.trim_matches('"'), MASK);
        }
        visible::line(&line).into_owned()
    };
    screen.data(&format!(
        "{}\n",
        visible::line(&plan.file.display().to_string())
    ))?;
    let (before, after) = (plan.before.lines(), plan.after.lines());
    for (number, (before, after)) in before.zip(after).enumerate() {
        if before == after {
            continue;
        }
        for (sign, line, label) in [("-", before, Label::Bad), ("+", after, Label::Good)] {
            let line = format!("{sign}{:>5}  {}", number + 1, masked(line));
            screen.data(&format!("{}\n", screen.ink(label, &line)))?;
        }
    }
    Ok(())
}

async fn agreed(screen: Screen) -> Result<(), CommandError> {
    if !screen.can_ask() {
        let error = CommandError::new(
            Exit::Refused,
            "nothing was changed: nobody is there to agree",
        );
        return Err(error.hint("`--yes` agrees in advance"));
    }
    screen.prompt("Move these secrets? [y]es, [n]o: ");
    let answer = Keyboard::default().line().await.unwrap_or_default();
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::new(Exit::Refused, "nothing was changed")),
    }
}

/// Stores the secrets of one file, keeps the file as it was, and writes it anew. Whatever fails, the
/// file is either as it was, with nothing stored for it, or whole and new.
fn carry_out(plan: &Plan<'_>, screen: Screen) -> Result<(), CommandError> {
    let mut kept = Vec::new();
    let done = store_and_write(plan, &mut kept);
    let backup = done.inspect_err(|_| {
        for reference in &kept {
            store::forget(reference);
        }
    })?;
    let file = plan.file.display().to_string();
    let count = visible::count(plan.moved.len() as u64, "secret");
    screen.say(format_args!(
        "{count} moved out of {}. The file as it was, secrets included, is {}: delete it when all works",
        visible::line(&file),
        visible::line(&backup.display().to_string())
    ));
    Ok(())
}

fn store_and_write(plan: &Plan<'_>, kept: &mut Vec<Reference>) -> Result<PathBuf, CommandError> {
    for (literal, reference) in &plan.moved {
        store::keep(reference, literal.reveal())?;
        kept.push(reference.clone());
    }
    let unwritten = |error: std::io::Error| {
        CommandError::failed(format!(
            "`{}` cannot be written: {error}",
            plan.file.display()
        ))
    };
    // Somebody may have changed it while the question was open.
    let now = fs::read_to_string(&plan.file).map_err(unwritten)?;
    if now != plan.before {
        let error = format!(
            "`{}` has changed meanwhile; nothing was done to it",
            plan.file.display()
        );
        return Err(CommandError::failed(error));
    }
    let backup = beside(&plan.file, "backup", plan.before.as_bytes())?;
    let fresh = beside(&plan.file, "new", plan.after.as_bytes())?;
    let permissions = fs::metadata(&plan.file).map_err(unwritten)?.permissions();
    fs::set_permissions(&fresh, permissions)
        .and_then(|()| fs::rename(&fresh, &plan.file))
        .inspect_err(|_| drop(fs::remove_file(&fresh)))
        .map_err(unwritten)?;
    Ok(backup)
}

/// A new file beside `file`, with mode 0600.
fn beside(file: &Path, ending: &str, bytes: &[u8]) -> Result<PathBuf, CommandError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..1000_u32 {
        let number = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
        let path = file.with_file_name(format!("{name}.{ending}{number}"));
        if store::keep_in_file(&path, bytes)? {
            return Ok(path);
        }
    }
    Err(CommandError::failed(format!(
        "there is no free name beside `{}`",
        file.display()
    )))
}
