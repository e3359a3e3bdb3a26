//! `outrigger secrets import`: moves secrets out of configuration files, and leaves references.
//!
//! Promises: nothing is stored or written before the change was shown and agreed to; a secret is in
//! its store before its file is changed, and the file as it was is kept beside it, for its owner only;
//! no secret is printed. Leaves out: files of a project that is not trusted, whose references would not be
//! followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use outrigger_host::config::import::rewritten;
use outrigger_host::config::{self, Literal, Reference};

use crate::cli::{Common, Store};
use crate::error::{CommandError, Exit};
use crate::rewrite::{self, Rewrite, agreed};
use crate::screen::{Label, Screen};
use crate::secrets::store;
use crate::{surroundings, visible};

/// One file and what is to become of it.
struct Plan<'a> {
    rewrite: Rewrite,
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
        let secrets = plan.moved.iter();
        let secrets: Vec<_> = secrets
            .map(|(literal, _)| literal.reveal().to_owned())
            .collect();
        plan.rewrite.show(&secrets, screen)?;
    }
    if !yes {
        agreed("Move these secrets?", screen).await?;
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
        let (file, before) = rewrite::read(file)?;
        let before = before.unwrap_or_default();
        let pairs: Vec<_> = moved
            .iter()
            .map(|(literal, reference)| (*literal, reference))
            .collect();
        let after = rewritten(&before, &pairs)
            .map_err(|left_alone| CommandError::failed(left_alone.to_string()))?;
        let before = Some(before);
        let rewrite = Rewrite {
            file,
            before,
            after,
        };
        plans.push(Plan { rewrite, moved });
    }
    Ok(plans)
}

/// Stores the secrets of one file, and writes it anew. Whatever fails, the file is either as it was, with
/// nothing stored for it, or whole and new.
fn carry_out(plan: &Plan<'_>, screen: Screen) -> Result<(), CommandError> {
    let secrets = plan.moved.iter();
    let secrets = secrets.map(|(literal, reference)| (reference.clone(), literal.reveal()));
    let backup = store::keep_while(secrets, || plan.rewrite.carry_out())?;
    let file = plan.rewrite.file.display().to_string();
    let count = visible::count(plan.moved.len() as u64, "secret");
    let backup = backup.unwrap_or_default().display().to_string();
    screen.say(format_args!(
        "{count} moved out of {}. The file as it was, secrets included, is {}: delete it when all works",
        visible::line(&file),
        visible::line(&backup)
    ));
    Ok(())
}
