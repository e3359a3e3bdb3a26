//! The workspace tools over real folders, with a secret beside them that must never come out.

use std::{fs, path::Path, sync::mpsc, thread};

use proptest::prelude::*;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const SECRET: &str = "the-secret-outside";

/// A folder `inside` that is the workspace, and beside it what must stay unseen.
struct Place {
    outer: TempDir,
    tools: WorkspaceTools,
}

impl Place {
    fn new() -> Self {
        let outer = TempDir::new().unwrap();
        let inside = outer.path().join("inside");
        fs::create_dir_all(inside.join("src/deep")).unwrap();
        fs::write(outer.path().join("secret.txt"), SECRET).unwrap();
        fs::write(inside.join("notes.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(inside.join("src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(inside.join("src/deep/lib.rs"), "pub fn deep() {}\r\n").unwrap();
        fs::write(inside.join(".hidden"), "fn hidden() {}\n").unwrap();
        Self {
            tools: WorkspaceTools::new(inside),
            outer,
        }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.inside().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn inside(&self) -> std::path::PathBuf {
        self.outer.path().join("inside")
    }

    fn ask(&self, name: &str, arguments: Value) -> Result<CallToolResult, String> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        let tools = self.tools.tools();
        let call = Call {
            tool: tools.iter().find(|tool| tool.name == name).unwrap(),
            arguments: Some(arguments),
            cancelled: CancellationToken::new(),
        };
        runtime()
            .block_on(self.tools.call(call))
            .map(Into::into)
            .map_err(|error| error.to_string())
    }

    /// All text blocks, or the error.
    fn text(&self, name: &str, arguments: Value) -> String {
        match self.ask(name, arguments) {
            Ok(result) => {
                let blocks = result.content.iter().filter_map(|block| block.as_text());
                blocks
                    .map(|block| block.text.as_str())
                    .collect::<Vec<_>>()
                    .join("\n---\n")
            }
            Err(error) => {
                let outer = self.outer.path().display().to_string();
                format!("error: {}", error.replace(&outer, "OUTER"))
            }
        }
    }

    fn structured(&self, name: &str, arguments: Value) -> Value {
        self.ask(name, arguments)
            .unwrap()
            .structured_content
            .unwrap()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn a_folder_is_listed_in_order() {
    let place = Place::new();
    insta::assert_snapshot!(place.text("list", json!({})), @"
    notes.txt (14 bytes)
    src/

    ---
    Not shown: 1 hidden, set `hidden` to see them.
    ");
    insta::assert_snapshot!(place.text("list", json!({"depth": 3, "hidden": true})), @"
    .hidden (15 bytes)
    notes.txt (14 bytes)
    src/
    src/deep/
    src/deep/lib.rs (18 bytes)
    src/main.rs (13 bytes)
    ");
    insta::assert_snapshot!(place.text("list", json!({"path": "./src", "depth": 2})), @"
    src/deep/
    src/deep/lib.rs (18 bytes)
    src/main.rs (13 bytes)
    ");
    insta::assert_snapshot!(place.structured("list", json!({"path": "src"})), @r#"{"path":"src","entries":[{"path":"src/deep","kind":"folder"},{"path":"src/main.rs","kind":"file","size":13}],"more":0,"hidden":0,"unreadable":0,"complete":true}"#);
    fs::create_dir(place.inside().join("empty")).unwrap();
    insta::assert_snapshot!(place.text("list", json!({"path": "empty"})), @"empty is empty.");
}

#[test]
fn a_long_listing_keeps_what_is_near_and_counts_the_rest() {
    let place = Place::new();
    for index in 0..600 {
        place.write(&format!("a/{index:04}.txt"), "");
    }
    place.write("z.txt", "");
    let listing = place.structured("list", json!({"depth": 2}));
    let entries = listing["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 500);
    // a, notes.txt, src, z.txt, 600 files, src/main.rs, src/deep.
    assert_eq!(listing["more"], 106);
    assert_eq!(listing["complete"], true);
    assert_eq!(entries.last().unwrap()["path"], "z.txt");
    assert!(place.text("list", json!({"depth": 2})).contains("106 more"));
}

#[test]
fn a_file_is_read_whole_or_by_lines() {
    let place = Place::new();
    insta::assert_snapshot!(place.text("read", json!({"path": "notes.txt"})), @"
    one
    two
    three
    ");
    insta::assert_snapshot!(place.text("read", json!({"path": "notes.txt", "offset": 2, "limit": 1})), @"
    two

    ---
    Lines 2 to 2 of 3. For more: offset 3.
    ");
    insta::assert_snapshot!(place.text("read", json!({"path": "notes.txt", "offset": 3})), @"
    three

    ---
    Lines 3 to 3 of 3.
    ");
    insta::assert_snapshot!(place.text("read", json!({"path": "notes.txt", "offset": 4})), @"error: `offset` 4 is past the end: notes.txt has 3 lines");
    insta::assert_snapshot!(place.structured("read", json!({"path": "notes.txt", "limit": 2})), @r#"{"path":"notes.txt","text":"one\ntwo\n","first_line":1,"last_line":2,"total_lines":3,"total_bytes":14}"#);
    place.write("empty.txt", "");
    insta::assert_snapshot!(place.structured("read", json!({"path": "empty.txt"})), @r#"{"path":"empty.txt","text":"","first_line":0,"last_line":0,"total_lines":0,"total_bytes":0}"#);
    insta::assert_snapshot!(place.text("read", json!({"path": "empty.txt"})), @"The file is empty.");
}

#[test]
fn text_comes_out_as_it_is_in_the_file() {
    let place = Place::new();
    let content = "\u{feff}a\r\nb\rc\n\u{1f600} no newline at the end";
    place.write("mixed.txt", content);
    let read = place.structured("read", json!({"path": "mixed.txt"}));
    assert_eq!(read["text"], content);
    assert_eq!(read["total_lines"], 3);
    let mut windows = String::new();
    for line in 1..=3 {
        let window = place.structured(
            "read",
            json!({"path": "mixed.txt", "offset": line, "limit": 1}),
        );
        windows.push_str(window["text"].as_str().unwrap());
    }
    assert_eq!(windows, content);
}

#[test]
fn what_is_no_text_is_refused_with_size_and_kind() {
    let place = Place::new();
    place.write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    place.write("latin.txt", b"first\nna\xefve\n");
    place.write("exactly.txt", vec![b'x'; 2_000_000]);
    place.write("large.txt", vec![b'x'; 2_000_001]);
    insta::assert_snapshot!(place.text("read", json!({"path": "image.png"})), @"error: image.png is not text but a PNG image (16 bytes); only text can be read");
    insta::assert_snapshot!(place.text("read", json!({"path": "latin.txt"})), @"error: latin.txt is not UTF-8 text: line 2 has an invalid byte (0xEF at offset 8 of 12 bytes)");
    insta::assert_snapshot!(place.text("read", json!({"path": "large.txt"})), @"error: large.txt is too large: 2000001 bytes, at most 2000000 can be read");
    assert_eq!(
        place.structured("read", json!({"path": "exactly.txt"}))["total_bytes"],
        2_000_000
    );
}

#[test]
fn mistakes_say_what_would_work() {
    let place = Place::new();
    let absolute = place.inside().join("src/main.rs");
    insta::assert_snapshot!(place.text("read", json!({"path": ""})), @"error: `path` is empty: name a file, relative to the workspace");
    insta::assert_snapshot!(place.text("read", json!({"path": "src"})), @"error: src is a folder; use `list` for it");
    insta::assert_snapshot!(place.text("read", json!({"path": "notes"})), @"error: notes does not exist in the workspace; `list` shows what does");
    insta::assert_snapshot!(place.text("read", json!({"path": "a\0b"})), @"error: `path` contains a NUL character, which no file name can have");
    insta::assert_snapshot!(place.text("read", json!({"path": "../secret.txt"})), @"error: ../secret.txt leads outside of the workspace; only what is inside can be used");
    insta::assert_snapshot!(place.text("read", json!({"path": "/etc/passwd"})), @"error: `path` must be relative to the workspace, not absolute: /etc/passwd");
    let hint = place.text("read", json!({"path": absolute}));
    assert!(hint.ends_with("; use src/main.rs"), "{hint}");
    insta::assert_snapshot!(place.text("list", json!({"path": "notes.txt"})), @"error: notes.txt is a file, not a folder; use `read` for it");
    insta::assert_snapshot!(place.text("list", json!({"depth": 99})), @"error: `depth` must be at most 20, not 99");
    insta::assert_snapshot!(place.text("search", json!({"pattern": ""})), @r#"error: `pattern` is empty: write a regular expression, such as `fn \w+`"#);
    insta::assert_snapshot!(place.text("search", json!({"pattern": "fn ("})), @"
    error: `pattern` is not a regular expression (Rust syntax): regex parse error:
        fn (
           ^
    error: unclosed group
    ");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "a{1000}{1000}"})), @"error: `pattern` is not a regular expression (Rust syntax): Compiled regex exceeds size limit of 1048576 bytes.");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "fn", "glob": "[a"})), @"error: `glob` is not a glob such as `*.rs` or `src/**/*.md`: error parsing glob '[a': unclosed character class; missing ']'");
    let long = place.text("search", json!({"pattern": "x".repeat(1001)}));
    insta::assert_snapshot!(long, @"error: `pattern` is too long: 1001 bytes, at most 1000");
}

#[test]
fn a_root_that_is_missing_or_appears_later() {
    let outer = TempDir::new().unwrap();
    let place = Place {
        tools: WorkspaceTools::new(outer.path().join("later")),
        outer,
    };
    insta::assert_snapshot!(place.text("list", json!({})), @"error: the workspace OUTER/later cannot be opened: No such file or directory (os error 2)");
    fs::create_dir(place.outer.path().join("later")).unwrap();
    insta::assert_snapshot!(place.text("list", json!({})), @". is empty.");
    fs::remove_dir(place.outer.path().join("later")).unwrap();
    fs::write(place.outer.path().join("later"), "a file").unwrap();
    insta::assert_snapshot!(place.text("list", json!({})), @"error: the workspace OUTER/later cannot be opened: Not a directory (os error 20)");
}

#[test]
fn lines_are_found_by_pattern_path_and_glob() {
    let place = Place::new();
    place.write(".git/config", "fn in_git() {}\n");
    place.write("data.bin", b"fn\0");
    place.write("large.rs", vec![b'f'; 2_000_001]);
    place.write("latin.txt", b"na\xefve fn\n");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "\\bfn\\b"})), @"
    .hidden:1: fn hidden() {}
    latin.txt:1: na�ve fn
    src/deep/lib.rs:1: pub fn deep() {}
    src/main.rs:1: fn main() {}

    ---
    Files skipped: 1 binary, 1 over 2 MB.
    ");
    insta::assert_snapshot!(place.structured("search", json!({"pattern": "deep\\(\\) \\{\\}$"})), @r#"{"matches":[{"path":"src/deep/lib.rs","line":1,"text":"pub fn deep() {}"}],"files_searched":5,"skipped_binary":1,"skipped_large":1,"unreadable":0,"complete":true}"#);
    insta::assert_snapshot!(place.text("search", json!({"pattern": "fn", "glob": "lib.*"})), @"src/deep/lib.rs:1: pub fn deep() {}");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "fn", "glob": "src/*.rs"})), @"src/main.rs:1: fn main() {}");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "fn", "path": "./src", "glob": "deep/*"})), @"src/deep/lib.rs:1: pub fn deep() {}");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "(?i)T[WH]", "path": "notes.txt"})), @"
    notes.txt:2: two
    notes.txt:3: three
    ");
    insta::assert_snapshot!(place.text("search", json!({"pattern": "nowhere", "path": "src"})), @"No matches in 2 files.");
}

#[test]
fn matches_are_bounded_and_long_lines_cut() {
    let place = Place::new();
    place.write("many.txt", "hit\n".repeat(101));
    place.write(
        "long.txt",
        format!("{}needle{}", "é".repeat(5000), "x".repeat(5000)),
    );
    let found = place.structured("search", json!({"pattern": "hit", "path": "many.txt"}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 100);
    assert_eq!(found["complete"], false);
    assert!(
        place
            .text("search", json!({"pattern": "hit"}))
            .contains("more than 100 matches")
    );
    let found = place.structured("search", json!({"pattern": "needle"}));
    let text = found["matches"][0]["text"].as_str().unwrap();
    assert_eq!(text.chars().count(), LINE_WITH_MARKS);
    assert!(text.starts_with('…') && text.contains("needle") && text.ends_with('…'));
    place.write("hundred.txt", "exact\n".repeat(100));
    assert_eq!(
        place.structured("search", json!({"pattern": "exact"}))["complete"],
        true
    );
}

const LINE_WITH_MARKS: usize = 242;

#[test]
fn work_ends_when_its_request_is_cancelled() {
    let place = Place::new();
    let cancelled = CancellationToken::new();
    let (ended, end) = mpsc::channel();
    let (started, start) = mpsc::channel();
    let work = place.tools.work(cancelled.clone(), move |_, stop| {
        started.send(()).unwrap();
        loop {
            if let Err(error) = stop.is_due() {
                ended.send(error.to_string()).unwrap();
                return Err::<list::Listing, _>(error);
            }
            thread::yield_now();
        }
    });
    let helper = thread::spawn(move || {
        start.recv().unwrap();
        cancelled.cancel();
    });
    let error = runtime().block_on(work).unwrap_err();
    helper.join().unwrap();
    assert!(matches!(
        error,
        CallError::Workspace(WorkspaceError::Cancelled)
    ));
    assert_eq!(end.recv().unwrap(), "cancelled");
}

#[test]
fn a_search_without_time_left_says_so() {
    let place = Place::new();
    let root = Root::new(place.inside());
    let stop = Stop::new(CancellationToken::new(), Duration::ZERO);
    let arguments = serde_json::from_value(json!({"pattern": "fn"})).unwrap();
    let found = search::search(&root, &arguments, &stop).unwrap();
    assert!(found.note().unwrap().contains("more than 10 seconds"));
}

#[cfg(unix)]
mod unix {
    use std::{
        ffi::OsStr,
        os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    };

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn with_links() -> Place {
        let place = Place::new();
        let inside = place.inside();
        symlink("notes.txt", inside.join("good")).unwrap();
        symlink("../secret.txt", inside.join("out")).unwrap();
        symlink(place.outer.path(), inside.join("up")).unwrap();
        symlink(
            place.outer.path().join("secret.txt"),
            inside.join("src/absolute"),
        )
        .unwrap();
        symlink("..", inside.join("src/deep/parent")).unwrap();
        symlink("self", inside.join("self")).unwrap();
        place
    }

    #[test]
    fn links_inside_work_and_others_are_refused() {
        let place = with_links();
        insta::assert_snapshot!(place.text("read", json!({"path": "good"})), @"
        one
        two
        three
        ");
        insta::assert_snapshot!(place.text("read", json!({"path": "src/deep/parent/main.rs"})), @"fn main() {}");
        insta::assert_snapshot!(place.text("read", json!({"path": "out"})), @"error: out leads outside of the workspace; only what is inside can be used");
        insta::assert_snapshot!(place.text("read", json!({"path": "up/secret.txt"})), @"error: up/secret.txt leads outside of the workspace; only what is inside can be used");
        insta::assert_snapshot!(place.text("read", json!({"path": "src/absolute"})), @"error: src/absolute leads outside of the workspace; only what is inside can be used");
        insta::assert_snapshot!(place.text("list", json!({"path": "up"})), @"error: up leads outside of the workspace; only what is inside can be used");
        insta::assert_snapshot!(place.text("search", json!({"pattern": "secret", "path": "out"})), @"error: out leads outside of the workspace; only what is inside can be used");
        insta::assert_snapshot!(place.text("read", json!({"path": "self"})), @"error: self: Too many levels of symbolic links (os error 40)");
        insta::assert_snapshot!(place.text("list", json!({"depth": 9})), @"
        good (symbolic link)
        notes.txt (14 bytes)
        out (symbolic link)
        self (symbolic link)
        src/
        src/absolute (symbolic link)
        src/deep/
        src/deep/lib.rs (18 bytes)
        src/deep/parent (symbolic link)
        src/main.rs (13 bytes)
        up (symbolic link)

        ---
        Not shown: 1 hidden, set `hidden` to see them.
        ");
        insta::assert_snapshot!(place.text("search", json!({"pattern": "secret"})), @"No matches in 4 files.");
    }

    #[test]
    fn pipes_sockets_and_devices_do_not_hang() {
        let place = Place::new();
        let pipe = place.inside().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(place.inside().join("socket")).unwrap();
        insta::assert_snapshot!(place.text("read", json!({"path": "pipe"})), @"error: pipe is a named pipe; only regular files and folders can be used");
        insta::assert_snapshot!(place.text("read", json!({"path": "socket"})), @"error: socket is a socket; only regular files and folders can be used");
        insta::assert_snapshot!(place.text("search", json!({"pattern": "x", "path": "pipe"})), @"error: pipe is a named pipe; only regular files and folders can be used");
        insta::assert_snapshot!(place.text("list", json!({})), @"
        notes.txt (14 bytes)
        pipe (neither file nor folder)
        socket (neither file nor folder)
        src/

        ---
        Not shown: 1 hidden, set `hidden` to see them.
        ");
        insta::assert_snapshot!(place.text("search", json!({"pattern": "main"})), @"src/main.rs:1: fn main() {}");
        // Even when it takes the place of a file after the look at it.
        let folder =
            cap_std::fs::Dir::open_ambient_dir(place.inside(), cap_std::ambient_authority());
        let file = folder.unwrap().open_with("pipe", &root::reading()).unwrap();
        assert!(!file.metadata().unwrap().is_file());
        let devices = Place {
            tools: WorkspaceTools::new("/dev".into()),
            outer: TempDir::new().unwrap(),
        };
        insta::assert_snapshot!(devices.text("read", json!({"path": "zero"})), @"error: zero is a device; only regular files and folders can be used");
    }

    #[test]
    fn names_that_are_not_utf8_are_shown_and_can_be_read() {
        let place = Place::new();
        let name = OsStr::from_bytes(b"caf\xe9\n.txt");
        fs::write(place.inside().join(name), "bonjour\n").unwrap();
        let listing = place.structured("list", json!({}));
        assert_eq!(listing["entries"][0]["path"], "caf\\xE9\n.txt");
        assert!(
            place
                .text("list", json!({}))
                .starts_with("caf\\xE9\\n.txt (8 bytes)\n")
        );
        let read = place.structured("read", json!({"path": listing["entries"][0]["path"]}));
        assert_eq!(read["text"], "bonjour\n");
        let found = place.structured("search", json!({"pattern": "bonjour"}));
        assert_eq!(found["matches"][0]["path"], "caf\\xE9\n.txt");
    }

    /// Parts that paths are made of: real names, links, dots, and ways out.
    fn part() -> impl Strategy<Value = String> {
        let known = [
            "..",
            ".",
            "",
            "src",
            "deep",
            "parent",
            "notes.txt",
            "good",
            "out",
            "up",
            "absolute",
            "self",
            "inside",
            "secret.txt",
            "~",
            "\\x2E\\x2E",
            "...",
            "//",
            "main.rs",
        ];
        prop_oneof![
            8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
            1 => "[a-zA-Z0-9._\\\\ -]{1,8}",
        ]
    }

    fn any_path(outer: &Path) -> impl Strategy<Value = String> + use<> {
        let outer = outer.display().to_string();
        let start = prop_oneof![
            6 => Just(String::new()),
            1 => Just("/".to_owned()),
            1 => Just(format!("{outer}/")),
            1 => Just(format!("{outer}/inside/")),
        ];
        (start, prop::collection::vec(part(), 0..8))
            .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")))
    }

    #[test]
    fn nothing_outside_ever_comes_out() {
        let place = with_links();
        let trap = fs::read_to_string(place.inside().join("out")).unwrap();
        assert_eq!(trap, SECRET);
        let strategy = any_path(place.outer.path());
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
        let root = Root::new(place.inside());
        let stop = Stop::new(CancellationToken::new(), Duration::from_secs(600));
        let outcome = runner.run(&strategy, |path| {
            let shown = |answer: Result<Value, WorkspaceError>| match answer {
                Ok(value) => value.to_string(),
                // The path that was asked for comes back in the message.
                Err(_) => String::new(),
            };
            let read = serde_json::from_value(json!({"path": path})).unwrap();
            let listed = serde_json::from_value(json!({"path": path, "hidden": true})).unwrap();
            let searched = serde_json::from_value(json!({"path": path, "pattern": "."})).unwrap();
            let answers = [
                shown(read::read(&root, &read).map(|text| json!(text))),
                shown(list::list(&root, &listed, &stop).map(|listing| json!(listing))),
                shown(search::search(&root, &searched, &stop).map(|found| json!(found))),
            ];
            for answer in answers {
                prop_assert!(!answer.contains(SECRET), "{path}: {answer}");
                // The only name that is outside alone; inside it is asked for, never found.
                let entries: Value = serde_json::from_str(&answer).unwrap_or_default();
                for entry in entries["entries"].as_array().into_iter().flatten() {
                    let name = entry["path"].as_str().unwrap();
                    prop_assert!(!name.ends_with("secret.txt"), "{path}: {answer}");
                }
            }
            Ok(())
        });
        outcome.unwrap();
    }
}
