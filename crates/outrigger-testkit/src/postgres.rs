//! A real PostgreSQL for tests: one server for each test program, in a folder of its own, reached over
//! a socket there. It ends with the program, however that ends. Needs what `apt-get install postgresql`
//! brings; `cargo xtask test` sees to that.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::expect_used,
    reason = "tests alone use it; what is missing has to be said"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to answer; much more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs until its standard input ends, which is when the test program does.
const KEEPER: &str = r#"
trap '' INT TERM
"$1/initdb" --pgdata "$2/data" --username outrigger --auth trust --no-sync --encoding UTF8 --locale C >"$2/initdb.log" 2>&1 || exit 1
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c max_connections=200 >"$2/postgres.log" 2>&1 &
server=$!
cat >/dev/null
kill -QUIT $server
wait $server
rm -rf "$2"
"#;

/// A running server.
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    keeper: Child,
    /// Whatever waits for its end ends the server.
    held: Option<ChildStdin>,
    databases: AtomicU32,
}

/// The server of this test program.
///
/// # Panics
///
/// Where there is no PostgreSQL, or it does not start: says what to do.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

impl Server {
    /// Another server, for tests that stop it.
    ///
    /// # Panics
    ///
    /// Like [`server`].
    pub fn start() -> Self {
        let programs = programs().expect(
            "these tests need PostgreSQL's `initdb` and `postgres`: `apt-get install postgresql`, or OUTRIGGER_POSTGRES=FOLDER-OF-ITS-PROGRAMS",
        );
        let folder = tempfile::Builder::new()
            .prefix("outrigger-pg-")
            .tempdir()
            .expect("a folder for the server")
            .keep();
        let mut keeper = keeper(&programs, &folder);
        let held = keeper.stdin.take();
        let server = Self {
            folder,
            programs,
            keeper,
            held,
            databases: AtomicU32::new(0),
        };
        server.wait();
        server
    }

    /// An empty database of its own: its address.
    ///
    /// # Panics
    ///
    /// When the server does not make one.
    pub fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::SeqCst));
        // Copying nothing is quicker than copying a log of it.
        self.sql(
            "postgres",
            &format!("CREATE DATABASE {name} STRATEGY file_copy"),
        )
        .expect("a database");
        self.url(&name)
    }

    /// The address of a database here.
    pub fn url(&self, name: &str) -> String {
        format!(
            "postgres://outrigger@localhost/{name}?host={}",
            self.folder.display()
        )
    }

    /// Runs statements as somebody else would: what they give, one row a line, or what was said.
    ///
    /// # Errors
    ///
    /// What `psql` said.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let ran = Command::new(self.programs.join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "outrigger", "-h"])
            .arg(&self.folder)
            .args(["-d", database, "-c", sql])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        if ran.status.success() {
            Ok(text(&ran.stdout))
        } else {
            Err(text(&ran.stderr))
        }
    }

    /// Stops the server at once and starts it anew, as an operator would.
    ///
    /// # Panics
    ///
    /// When it does not come back.
    pub fn restart(&self) {
        let data = self.folder.join("data");
        let words = ["restart", "-m", "fast", "-w", "-t", "60", "-D"];
        let ran = as_nobody(&self.programs.join("pg_ctl"))
            .args(words)
            .arg(&data)
            .args(["-l", &self.folder.join("again.log").display().to_string()])
            .stdin(Stdio::null())
            .output()
            .expect("pg_ctl runs");
        assert!(ran.status.success(), "{ran:?}");
        self.wait();
    }

    fn wait(&self) {
        let until = Instant::now() + PATIENCE;
        while self.sql("postgres", "SELECT 1").is_err() {
            assert!(Instant::now() < until, "{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let mut all = "PostgreSQL did not start:\n".to_owned();
        for name in ["initdb.log", "postgres.log"] {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            writeln!(all, "{name}: {text}").ok();
        }
        all
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.held.take());
        drop(self.keeper.wait());
    }
}

/// The database at the end of an address.
pub fn name_of(url: &str) -> &str {
    let place = url.split('?').next().unwrap_or_default();
    place.rsplit('/').next().unwrap_or_default()
}

fn keeper(programs: &Path, folder: &Path) -> Child {
    let mut sh = as_nobody(Path::new("sh"));
    if let Some(owner) = unprivileged() {
        std::os::unix::fs::chown(folder, Some(owner), None).expect("the folder is given away");
    }
    sh.args(["-c", KEEPER, "keeper"])
        .args([programs, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("`sh` starts")
}

/// A command that does not run as root, which PostgreSQL refuses.
fn as_nobody(program: &Path) -> Command {
    if unprivileged().is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = unprivileged().unwrap_or_default().to_string();
    command
        .args(["--reuid", &id, "--clear-groups", "--"])
        .arg(program)
        .current_dir("/");
    command
}

/// Whom to be instead of root: the user that comes with the package, else nobody.
fn unprivileged() -> Option<u32> {
    let own = fs::metadata("/proc/self").ok()?;
    if std::os::unix::fs::MetadataExt::uid(&own) != 0 {
        return None;
    }
    let mut users = String::new();
    fs::File::open("/etc/passwd")
        .and_then(|mut file| file.read_to_string(&mut users))
        .ok()?;
    let id = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        line.split(':').nth(2)?.parse().ok()
    };
    id("postgres").or_else(|| id("nobody"))
}

/// The folder of the newest `initdb` and `postgres`.
fn programs() -> Option<PathBuf> {
    let has = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("psql").is_file();
    if let Some(said) = std::env::var_os("OUTRIGGER_POSTGRES") {
        return Some(PathBuf::from(said)).filter(has);
    }
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, folder)| has(folder))
        .collect();
    versions.sort();
    let newest = versions.pop().map(|(_, folder)| folder);
    let path = std::env::var_os("PATH").unwrap_or_default();
    newest.or_else(|| std::env::split_paths(&path).find(has))
}
