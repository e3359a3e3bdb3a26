//! The content, byte for byte, into a file or a pipe. A file is there as a whole or not at all.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use outrigger_journal::{ArtifactError, ArtifactLine, Artifacts};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::error::CommandError;
use crate::screen::Screen;
use crate::visible;

/// Where it goes.
pub(super) enum Target {
    Output,
    File { path: PathBuf, replace: bool },
}

impl Target {
    pub(super) fn of(file: PathBuf, force: bool, screen: Screen) -> Result<Self, CommandError> {
        if file.as_os_str() != "-" {
            if !force && file.exists() {
                return Err(exists(&file));
            }
            return Ok(Self::File {
                path: file,
                replace: force,
            });
        }
        if screen.data_is_read_live() {
            let error = "the content is not written to a terminal: it may hold anything";
            return Err(CommandError::usage(error).hint("name a file, or a pipe behind `-`"));
        }
        Ok(Self::Output)
    }
}

pub(super) async fn run(
    artifacts: &Artifacts,
    handle: &str,
    target: &Target,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let line = artifacts.about(handle).await?.line;
    match target {
        Target::Output => {
            let mut pages = screen.pages();
            let exported = artifacts.export(&line.digest, |some| {
                let taken = pages.add(some);
                taken.then_some(()).ok_or(io::ErrorKind::BrokenPipe.into())
            });
            let exported = exported.await;
            // First why the output took no more, where that is what was wrong.
            pages.end()?;
            match exported {
                Err(ArtifactError::Export(_)) => Ok(()),
                exported => Ok(exported.map(drop)?),
            }
        }
        Target::File { path, replace } => {
            let failed = |error| cannot(path, &error);
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
            artifacts
                .export(&line.digest, |some| file.write_all(some))
                .await?;
            file.as_file().sync_all().map_err(failed)?;
            let kept = if *replace {
                file.persist(path).map(drop)
            } else {
                file.persist_noclobber(path).map(drop)
            };
            match kept.map_err(|error| error.error) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
                kept => {
                    kept.map_err(failed)?;
                    written(&line, path, json, screen)
                }
            }
        }
    }
}

fn written(
    line: &ArtifactLine,
    path: &Path,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    if json {
        return screen.json(&json!({
            "handle": line.handle,
            "digest": line.digest,
            "bytes": line.bytes,
            "file": path.display().to_string(),
        }));
    }
    screen.say(format_args!(
        "{} written into `{}`",
        visible::size(line.bytes),
        visible::line(&path.display().to_string())
    ));
    Ok(())
}

fn exists(path: &Path) -> CommandError {
    CommandError::usage(format!("`{}` is there already", path.display()))
        .hint("`--force` replaces it")
}

fn cannot(path: &Path, error: &dyn fmt::Display) -> CommandError {
    CommandError::failed(format!("`{}` cannot be written: {error}", path.display()))
}
