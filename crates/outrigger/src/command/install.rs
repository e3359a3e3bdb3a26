//! `outrigger install`: enters this program in the server list of other hosts, or takes it out again.
//!
//! Promises: what is done to a file is shown first, and done when the person agrees; all that a person
//! could have got wrong is told before the first file is written; each file is whole at any time, the
//! file as it was is beside it, and an entry that is there as it should be is left alone. Leaves out: the
//! other servers of the list, which the host goes on starting itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outrigger_host::config::foreign::{self, Host, Places};

use crate::cli::{Common, InstallArgs};
use crate::error::{CommandError, Exit};
use crate::hosts::{self, Start, Wanted};
use crate::rewrite::{self, Rewrite, agreed};
use crate::screen::{Label, Screen};
use crate::{session, surroundings, visible};

/// One file that is to change.
struct Plan {
    host: Host,
    rewrite: Rewrite,
    /// Not to be shown.
    secrets: Vec<String>,
}

pub(crate) async fn run(
    common: &Common,
    args: &InstallArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let places = surroundings::hosts(common)?;
    if common.profile.is_some() {
        // A name that does not exist would be found out by the host only.
        session::configuration(common, screen)?;
    }
    let mut hosts = args.into.clone();
    hosts.sort();
    hosts.dedup();
    let mut plans = Vec::new();
    for host in hosts {
        let plan = plan(host, &places, common, args)?;
        if plan.rewrite.changes() {
            plans.push(plan);
        } else {
            let how = if args.remove { "not" } else { "already" };
            let file = plan.rewrite.file.display().to_string();
            screen.say(format_args!(
                "{}: `{}` is {how} in {}",
                host.title(),
                visible::line(&args.name),
                visible::line(&file)
            ));
        }
    }
    for plan in &plans {
        plan.rewrite.show(&plan.secrets, screen)?;
    }
    if plans.is_empty() || args.dry_run {
        return Ok(Exit::Done.into());
    }
    if !args.yes {
        let files = visible::count(plans.len() as u64, "file");
        agreed(&format!("Change {files}?"), screen).await?;
    }
    for plan in &plans {
        carry_out(plan, args, screen)?;
    }
    advise(&plans, common, args, screen);
    Ok(Exit::Done.into())
}

fn plan(
    host: Host,
    places: &Places,
    common: &Common,
    args: &InstallArgs,
) -> Result<Plan, CommandError> {
    let file = file(host, places, args.project)?;
    let (file, before) = rewrite::read(&file)?;
    let text = before.clone().unwrap_or_default();
    let mut path = foreign::table_in(host, &file, &text).to_vec();
    path.push(&args.name);
    let wanted = if args.remove {
        Wanted::Gone
    } else {
        wanted(host, common, args)?
    };
    let after = if args.remove && before.is_none() {
        None
    } else {
        let after = hosts::edited(host.format(), &text, &path, &wanted).map_err(|error| {
            CommandError::failed(format!("`{}` is left as it is: {error}", file.display()))
        })?;
        Some(after)
    };
    Ok(Plan {
        host,
        secrets: foreign::secrets(host, &file, &text),
        rewrite: Rewrite {
            file,
            // Where nothing is and nothing comes, nothing changes.
            before: before.or_else(|| after.is_none().then(String::new)),
            after: after.unwrap_or_default(),
        },
    })
}

/// The file that gets the entry: of several the first that is there, else the usual one.
fn file(host: Host, places: &Places, project: bool) -> Result<PathBuf, CommandError> {
    if project && host == Host::Claude {
        return Ok(places.workspace.join(".mcp.json"));
    }
    let mut files: Vec<_> = places
        .of(host)
        .into_iter()
        .filter(|file| file.project == project)
        .map(|file| file.path)
        .collect();
    if host == Host::VsCode {
        // Its other file is read for what older versions left there.
        files.truncate(1);
    }
    let there = files.iter().find(|file| file.exists()).cloned();
    there.or_else(|| files.into_iter().next()).ok_or_else(|| {
        let error = format!("{} has no server list of a folder", host.title());
        CommandError::usage(error).hint("without `--project` it gets the entry for all folders")
    })
}

fn wanted(host: Host, common: &Common, args: &InstallArgs) -> Result<Wanted, CommandError> {
    let program;
    let start = if let Some(url) = &args.http {
        if !matches!(url.scheme(), "http" | "https") {
            let error = format!("`--http {url}` is no address of HTTP");
            return Err(
                CommandError::usage(error).hint("for example `--http http://127.0.0.1:4180/mcp`")
            );
        }
        if common.profile.is_some() {
            return Err(CommandError::usage(
                "`--profile` is said where the server is started, not with `--http`",
            )
            .hint("`outrigger serve --http ADDRESS --profile NAME`"));
        }
        Start::Url(url)
    } else {
        program = surroundings::own_program()
            .ok_or_else(|| CommandError::failed("it is not known where this program is"))?;
        Start::Program(&program, arguments(common)?)
    };
    hosts::entry(host, &start).ok_or_else(|| {
        let error = format!("{} only starts programs; it takes no address", host.title());
        CommandError::usage(error).hint("without `--http` it starts this program")
    })
}

/// What `serve` is told: what this command was told about where to look.
fn arguments(common: &Common) -> Result<Vec<String>, CommandError> {
    let mut arguments = vec!["serve".to_owned()];
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    let path = |path: &Path| -> Result<String, CommandError> {
        Ok(surroundings::absolute(path)?.to_string_lossy().into_owned())
    };
    if common.workspace.is_some() {
        let folder = surroundings::workspace(common)?;
        add("--workspace", folder.to_string_lossy().into_owned());
    }
    for file in &common.config {
        add("--config", path(file)?);
    }
    if let Some(folder) = &common.state_dir {
        add("--state-dir", path(folder)?);
    }
    if let Some(profile) = &common.profile {
        add("--profile", profile.clone());
    }
    if common.locked {
        arguments.push("--locked".to_owned());
    }
    Ok(arguments)
}

fn carry_out(plan: &Plan, args: &InstallArgs, screen: Screen) -> Result<(), CommandError> {
    let backup = plan.rewrite.carry_out()?;
    let done = if args.remove { "taken out of" } else { "is in" };
    let file = plan.rewrite.file.display().to_string();
    let was = backup.map_or_else(String::new, |backup| {
        format!("; the file as it was is {}", backup.display())
    });
    screen.say(format_args!(
        "{} {}: `{}` {done} {}{}",
        screen.talk(Label::Good, "done:"),
        plan.host.title(),
        visible::line(&args.name),
        visible::line(&file),
        visible::line(&was)
    ));
    Ok(())
}

/// What the person should know before the host starts.
fn advise(plans: &[Plan], common: &Common, args: &InstallArgs, screen: Screen) {
    if args.remove {
        return;
    }
    let hint = screen.talk(Label::Good, "hint:").to_string();
    let desktop = plans.iter().any(|plan| plan.host == Host::ClaudeDesktop);
    if desktop && common.workspace.is_none() {
        screen.say(format_args!(
            "{hint} Claude Desktop starts programs in a folder of its own choice; `--workspace DIR` says which one is meant"
        ));
    }
    screen.say(format_args!(
        "{hint} a host reads its list when it starts. `outrigger import` takes its other servers over; switch them off there then"
    ));
}
