//! Where `outrigger secrets import` puts secrets, and where `keyring:` and `age:` find them.
//!
//! Promises: what it writes is for its owner only, and a secret that is there is never replaced.
//! A store that this build lacks says how to build one that has it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use outrigger_host::config::{Reference, Unresolved};

use crate::cli::Store;
use crate::surroundings;

/// `secrets` beside the person's configuration.
pub(crate) fn folder() -> Result<PathBuf, Unresolved> {
    surroundings::configuration_folder()
        .map(|folder| folder.join("secrets"))
        .map_err(|error| Unresolved::new(error.error))
}

/// A reference that is free in the store and among those `taken`, made of `name`.
pub(crate) fn plan(
    store: Store,
    name: &str,
    taken: &BTreeSet<Reference>,
) -> Result<Reference, Unresolved> {
    for number in 1..1000_u32 {
        let name = match number {
            1 => name.to_owned(),
            _ => format!("{name}-{number}"),
        };
        let reference = match store {
            Store::File => Reference::File(folder()?.join(&name)),
            Store::Keyring => Reference::Keyring(name),
            Store::Age => Reference::Age(name),
        };
        if !taken.contains(&reference) && is_free(&reference)? {
            return Ok(reference);
        }
    }
    Err(Unresolved::new(format!(
        "the store has too many secrets like `{name}`"
    )))
}

fn is_free(reference: &Reference) -> Result<bool, Unresolved> {
    match reference {
        Reference::File(path) => Ok(!path.exists()),
        Reference::Keyring(name) => keyring::is_free(name),
        Reference::Age(name) => age::is_free(&folder()?, name),
        Reference::Env(_) | Reference::Cmd(_) => Ok(false),
    }
}

/// Keeps a secret where a planned reference says. One that has come there since is an error.
pub(crate) fn keep(reference: &Reference, secret: &str) -> Result<(), Unresolved> {
    let kept = match reference {
        Reference::File(path) => keep_in_file(path, secret.as_bytes())?,
        Reference::Keyring(name) => keyring::keep(name, secret)?,
        Reference::Age(name) => age::keep(&folder()?, name, secret)?,
        Reference::Env(_) | Reference::Cmd(_) => false,
    };
    if kept {
        Ok(())
    } else {
        Err(Unresolved::new(format!("`{reference}` is taken")))
    }
}

/// Keeps secrets where planned references say, and then does `work`. Where one of both fails, none of
/// these secrets is kept.
pub(crate) fn keep_while<'s, T, E: From<Unresolved>>(
    secrets: impl IntoIterator<Item = (Reference, &'s str)>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let mut kept = Vec::new();
    let all = || {
        for (reference, secret) in secrets {
            keep(&reference, secret)?;
            kept.push(reference);
        }
        work()
    };
    all().inspect_err(|_| kept.iter().for_each(forget))
}

/// Takes back what was just kept.
pub(crate) fn forget(reference: &Reference) {
    match reference {
        Reference::File(path) => drop(std::fs::remove_file(path)),
        Reference::Keyring(name) => keyring::forget(name),
        Reference::Age(name) => {
            if let Ok(folder) = folder() {
                drop(std::fs::remove_file(age_file(&folder, name)));
            }
        }
        Reference::Env(_) | Reference::Cmd(_) => {}
    }
}

fn age_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.age"))
}

/// Writes a new file with mode 0600 into a folder with mode 0700; `false` when there is one already.
pub(crate) fn keep_in_file(path: &Path, bytes: &[u8]) -> Result<bool, Unresolved> {
    let failed = |error: std::io::Error| {
        Unresolved::new(format!("`{}` cannot be written: {error}", path.display()))
    };
    if let Some(folder) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    Ok(true)
}

/// The system's keyring.
#[cfg(feature = "keyring")]
pub(crate) mod keyring {
    use keyring::v1::{Entry, Error};
    use outrigger_host::config::Unresolved;

    /// The name under which entries are filed.
    const SERVICE: &str = "outrigger";

    fn entry(name: &str) -> Result<Entry, Unresolved> {
        Entry::new(SERVICE, name).map_err(|error| failed(&error))
    }

    fn failed(error: &Error) -> Unresolved {
        Unresolved::new(format!("the keyring cannot be used: {error}"))
    }

    pub(crate) fn read(name: &str) -> Result<String, Unresolved> {
        match entry(name)?.get_password() {
            Ok(secret) => Ok(secret),
            Err(Error::NoEntry) => Err(Unresolved::new(format!(
                "the keyring has no entry `{name}` of the service `{SERVICE}`"
            ))),
            Err(error) => Err(failed(&error)),
        }
    }

    pub(super) fn is_free(name: &str) -> Result<bool, Unresolved> {
        match entry(name)?.get_password() {
            Ok(_) => Ok(false),
            Err(Error::NoEntry) => Ok(true),
            Err(error) => Err(failed(&error)),
        }
    }

    pub(super) fn keep(name: &str, secret: &str) -> Result<bool, Unresolved> {
        if !is_free(name)? {
            return Ok(false);
        }
        let kept = entry(name)?.set_password(secret);
        kept.map(|()| true).map_err(|error| failed(&error))
    }

    pub(super) fn forget(name: &str) {
        if let Ok(entry) = entry(name) {
            entry.delete_credential().ok();
        }
    }
}

/// The system's keyring, which this build does not know.
#[cfg(not(feature = "keyring"))]
pub(crate) mod keyring {
    use outrigger_host::config::Unresolved;

    fn missing() -> Unresolved {
        Unresolved::new("this build cannot use the keyring")
            .hint("build it with `--features keyring`")
    }

    pub(crate) fn read(_: &str) -> Result<String, Unresolved> {
        Err(missing())
    }

    pub(super) fn is_free(_: &str) -> Result<bool, Unresolved> {
        Err(missing())
    }

    pub(super) fn keep(_: &str, _: &str) -> Result<bool, Unresolved> {
        Err(missing())
    }

    pub(super) fn forget(_: &str) {}
}

/// Files encrypted to an identity of the person's (age-encryption.org/v1).
#[cfg(feature = "age")]
pub(crate) mod age {
    use std::path::{Path, PathBuf};

    use age::secrecy::ExposeSecret as _;
    use age::x25519::Identity;
    use outrigger_host::config::Unresolved;

    use super::{age_file, keep_in_file};

    fn identity_file(folder: &Path) -> PathBuf {
        folder.join("age-identity.txt")
    }

    pub(crate) fn read(folder: &Path, name: &str) -> Result<String, Unresolved> {
        let file = age_file(folder, name);
        let sealed = std::fs::read(&file).map_err(|error| {
            Unresolved::new(format!("`{}` cannot be read: {error}", file.display()))
        })?;
        let opened = age::decrypt(&identity(folder)?, &sealed).map_err(|error| {
            Unresolved::new(format!("`{}` cannot be opened: {error}", file.display()))
        })?;
        String::from_utf8(opened)
            .map_err(|_| Unresolved::new(format!("what `{}` holds is not UTF-8", file.display())))
    }

    fn identity(folder: &Path) -> Result<Identity, Unresolved> {
        let file = identity_file(folder);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Unresolved::new(format!(
                "the identity `{}` cannot be read: {error}",
                file.display()
            ))
        })?;
        let key = text
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with("AGE-SECRET-KEY-1"));
        key.and_then(|key| key.parse().ok()).ok_or_else(|| {
            Unresolved::new(format!("`{}` holds no `AGE-SECRET-KEY-1…`", file.display()))
        })
    }

    pub(super) fn is_free(folder: &Path, name: &str) -> Result<bool, Unresolved> {
        Ok(!age_file(folder, name).exists())
    }

    pub(super) fn keep(folder: &Path, name: &str, secret: &str) -> Result<bool, Unresolved> {
        let file = identity_file(folder);
        if !file.exists() {
            let fresh = Identity::generate();
            let key = fresh.to_string();
            let text = format!(
                "# public key: {}\n{}\n",
                fresh.to_public(),
                key.expose_secret()
            );
            keep_in_file(&file, text.as_bytes())?;
        }
        let sealed = age::encrypt(&identity(folder)?.to_public(), secret.as_bytes())
            .map_err(|error| Unresolved::new(format!("the secret cannot be sealed: {error}")))?;
        keep_in_file(&age_file(folder, name), &sealed)
    }
}

/// Encrypted files, which this build does not know.
#[cfg(not(feature = "age"))]
pub(crate) mod age {
    use std::path::Path;

    use outrigger_host::config::Unresolved;

    fn missing() -> Unresolved {
        Unresolved::new("this build cannot open encrypted files")
            .hint("build it with `--features age`")
    }

    pub(crate) fn read(_: &Path, _: &str) -> Result<String, Unresolved> {
        Err(missing())
    }

    pub(super) fn is_free(_: &Path, _: &str) -> Result<bool, Unresolved> {
        Err(missing())
    }

    pub(super) fn keep(_: &Path, _: &str, _: &str) -> Result<bool, Unresolved> {
        Err(missing())
    }
}
