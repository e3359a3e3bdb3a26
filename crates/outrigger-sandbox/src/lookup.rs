//! From a launch as it was asked for to a program that can be executed.
//!
//! Promises: what is wrong is found here, before a process exists, and named: the program, the
//! folders searched, the folder to start in, the interpreter a script asks for.
//! Leaves out: races. A file that changes after the look is reported by the operating system.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::launch::{Launch, SpawnError};

/// Checks folder, arguments and variables, then finds a program that is there and executable at
/// this moment.
pub(crate) fn resolve(launch: &Launch) -> Result<PathBuf, SpawnError> {
    check_text(launch)?;
    check_cwd(launch)?;
    if is_path(&launch.program) {
        one_path(launch)
    } else {
        search_path(launch)
    }
}

/// Whether `program` names a file rather than something to look up in `PATH`.
pub(crate) fn is_path(program: &str) -> bool {
    program.chars().any(std::path::is_separator)
}

/// What to say when the operating system refuses a program that was found.
pub(crate) fn why_refused(error: &std::io::Error, program: &Path) -> String {
    if error.kind() == std::io::ErrorKind::NotFound && program.exists() {
        return format!(
            "{error}; the file is there, so the loader that it asks for is not: was it built for \
             another system?"
        );
    }
    error.to_string()
}

fn check_text(launch: &Launch) -> Result<(), SpawnError> {
    let bad = |what: String| {
        Err(SpawnError::BadInput {
            program: launch.program.replace('\0', "\u{fffd}"),
            what,
        })
    };
    if launch.program.is_empty() {
        return bad("the name of the program is empty".to_owned());
    }
    if launch.program.contains('\0') {
        return bad("the name of the program contains a NUL byte".to_owned());
    }
    if let Some(at) = launch.args.iter().position(|arg| arg.contains('\0')) {
        return bad(format!("argument {} contains a NUL byte", at + 1));
    }
    for (name, value) in &launch.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return bad(format!(
                "`{}` is not a name that an environment variable can have",
                name.escape_debug()
            ));
        }
        if value.contains('\0') {
            return bad(format!(
                "the environment variable `{name}` contains a NUL byte"
            ));
        }
    }
    Ok(())
}

fn check_cwd(launch: &Launch) -> Result<(), SpawnError> {
    let reason = match fs::metadata(&launch.cwd) {
        Ok(metadata) if !metadata.is_dir() => "it is not a folder".to_owned(),
        Ok(_) if !may_execute(&launch.cwd) => {
            "this user may not enter it (its `x` permission is missing)".to_owned()
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "it does not exist".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(SpawnError::BadCwd {
        program: launch.program.clone(),
        cwd: launch.cwd.clone(),
        reason,
    })
}

fn one_path(launch: &Launch) -> Result<PathBuf, SpawnError> {
    let path = launch.cwd.join(&launch.program);
    match look_at(&path) {
        Found::Program => Ok(path),
        Found::Nothing => Err(SpawnError::NotFound {
            program: launch.program.clone(),
            searched: vec![path],
        }),
        Found::Useless(reason) => Err(SpawnError::NotExecutable {
            program: path,
            reason,
        }),
    }
}

/// As `execvp` does (POSIX): the first executable file wins, an empty entry means the folder the
/// process starts in, and one that cannot be executed is only reported when no other follows.
fn search_path(launch: &Launch) -> Result<PathBuf, SpawnError> {
    let mut searched = Vec::new();
    let mut useless = None;
    if let Some(path) = path_variable(launch) {
        for entry in std::env::split_paths(path) {
            let folder = launch.cwd.join(entry);
            for name in file_names(launch) {
                let candidate = folder.join(name);
                match look_at(&candidate) {
                    Found::Program => return Ok(candidate),
                    Found::Nothing => {}
                    Found::Useless(reason) => {
                        useless.get_or_insert((candidate, reason));
                    }
                }
            }
            searched.push(folder);
        }
    }
    Err(match useless {
        Some((program, reason)) => SpawnError::NotExecutable { program, reason },
        None => SpawnError::NotFound {
            program: launch.program.clone(),
            searched,
        },
    })
}

fn path_variable(launch: &Launch) -> Option<&String> {
    let found = launch.env.iter().find(|(name, _)| {
        name.as_str() == "PATH" || (cfg!(windows) && name.eq_ignore_ascii_case("PATH"))
    });
    found
        .map(|(_, value)| value)
        .filter(|value| !value.is_empty())
}

#[cfg(not(windows))]
fn file_names(launch: &Launch) -> Vec<String> {
    vec![launch.program.clone()]
}

#[cfg(windows)]
fn file_names(launch: &Launch) -> Vec<String> {
    let endings = ["", ".exe", ".com", ".cmd", ".bat"];
    endings
        .iter()
        .map(|ending| format!("{}{ending}", launch.program))
        .collect()
}

enum Found {
    Nothing,
    Program,
    Useless(String),
}

fn look_at(path: &Path) -> Found {
    match fs::metadata(path) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Found::Nothing
        }
        Err(error) => Found::Useless(error.to_string()),
        Ok(metadata) if metadata.is_dir() => Found::Useless("it is a folder".to_owned()),
        Ok(metadata) if !metadata.is_file() => {
            Found::Useless("it is not a regular file".to_owned())
        }
        Ok(_) if !may_execute(path) => Found::Useless(
            "this user may not execute it; `chmod +x` it, or name the interpreter as the command"
                .to_owned(),
        ),
        Ok(_) => match missing_interpreter(path) {
            Some(interpreter) => Found::Useless(format!(
                "its first line asks for the interpreter `{interpreter}`, which does not exist"
            )),
            None => Found::Program,
        },
    }
}

#[cfg(unix)]
fn may_execute(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_execute(_path: &Path) -> bool {
    true
}

/// The interpreter that a script names in its `#!` line, when it is not there. The operating
/// system's own words for this are "No such file or directory", of the script that is there.
fn missing_interpreter(path: &Path) -> Option<String> {
    if !cfg!(unix) {
        return None;
    }
    let mut beginning = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut beginning)
        .ok()?;
    let line = beginning
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = String::from_utf8_lossy(line);
    // A carriage return belongs to the name for the kernel, and is the usual cause.
    let interpreter = line
        .trim_start_matches([' ', '\t'])
        .split([' ', '\t'])
        .next()?;
    let absolute = Path::new(interpreter).is_absolute();
    (absolute && !Path::new(interpreter).exists()).then(|| interpreter.escape_debug().to_string())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &Path, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn launch(program: &str, path: &str, cwd: &Path) -> Launch {
        let mut launch = Launch::new(program, [""; 0]);
        launch.env.insert("PATH".to_owned(), path.to_owned());
        cwd.clone_into(&mut launch.cwd);
        launch
    }

    fn refused(launch: &Launch) -> String {
        resolve(launch).unwrap_err().to_string()
    }

    #[test]
    fn path_is_searched_in_order_and_executables_win() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::create_dir_all(one.join("as-folder")).unwrap();
        fs::create_dir_all(&two).unwrap();
        file(&one, "tool", "", 0o644);
        let right = file(&two, "tool", "#!/bin/sh\n", 0o755);
        let found = resolve(&launch("tool", "one:two", folder.path())).unwrap();
        assert_eq!(found, right);

        let only_one = refused(&launch("tool", "one", folder.path()));
        assert!(only_one.contains("one/tool` cannot be executed: this user may not"));
        let directory = refused(&launch("as-folder", "one", folder.path()));
        assert!(directory.ends_with("it is a folder"), "{directory}");
    }

    #[test]
    fn an_empty_entry_is_the_folder_it_starts_in() {
        let folder = tempfile::tempdir().unwrap();
        let tool = file(folder.path(), "tool", "", 0o755);
        let found = resolve(&launch("tool", "/nowhere:", folder.path())).unwrap();
        assert_eq!(found, tool);
    }

    #[test]
    fn a_relative_path_starts_at_cwd() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let tool = file(folder.path(), "bin/tool", "", 0o755);
        let found = resolve(&launch("./bin/tool", "/bin", folder.path())).unwrap();
        assert_eq!(
            fs::canonicalize(found).unwrap(),
            tool.canonicalize().unwrap()
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = Path::new("/");
        insta::assert_snapshot!(refused(&launch("npx-nope", "/usr/nope:/bin", root)),
            @"`npx-nope` was not found in PATH (/usr/nope:/bin)");
        insta::assert_snapshot!(refused(&launch("npx-nope", "", root)),
            @"`npx-nope` was not found: its environment has no PATH; give one, or an absolute path");
        insta::assert_snapshot!(refused(&launch("/no/such/thing", "/bin", root)),
            @"`/no/such/thing` does not exist");
        insta::assert_snapshot!(refused(&launch("no/such", "/bin", root)),
            @"`no/such` does not exist (looked at `/no/such`)");
        insta::assert_snapshot!(refused(&launch("sh", "/bin", Path::new("/no/folder"))),
            @"cannot start `sh` in the folder `/no/folder`: it does not exist");
        insta::assert_snapshot!(refused(&launch("sh", "/bin", Path::new("/dev/null"))),
            @"cannot start `sh` in the folder `/dev/null`: it is not a folder");
    }

    #[test]
    fn a_script_without_its_interpreter_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let script = file(folder.path(), "script", "#! /usr/bin/python9 -u\n", 0o755);
        let words = refused(&launch("./script", "", folder.path()));
        assert!(
            words.contains("the interpreter `/usr/bin/python9`, which"),
            "{words}"
        );
        fs::write(script, "#!/bin/sh\r\n").unwrap();
        let words = refused(&launch("./script", "", folder.path()));
        assert!(
            words.contains(r"the interpreter `/bin/sh\r`, which"),
            "{words}"
        );
    }

    #[test]
    fn text_that_no_process_can_have_is_refused() {
        let mut bad = launch("sh", "/bin", Path::new("/"));
        bad.args = vec!["fine".to_owned(), "a\0b".to_owned()];
        insta::assert_snapshot!(refused(&bad), @"cannot start `sh`: argument 2 contains a NUL byte");
        bad.args.clear();
        bad.env.insert("A=B".to_owned(), String::new());
        insta::assert_snapshot!(refused(&bad),
            @"cannot start `sh`: `A=B` is not a name that an environment variable can have");
    }
}
