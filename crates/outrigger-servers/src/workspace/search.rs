//! `search`: the lines of files that match a regular expression.
//!
//! Promises: at most 100 matches, in the order of paths and lines; bounded in time, in entries
//! looked at and in the size of the compiled expression, whose matching takes linear time; says what
//! it skipped and why it stopped. Bytes that are not UTF-8 are shown as U+FFFD. Leaves out `.git`,
//! binary files, files over 2 MB, symbolic links below the path, and matches across lines.

use std::{io::Read, path::Path};

use cap_std::fs::DirEntry;
use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Answer, LARGEST_FILE, binary,
    error::WorkspaceError,
    path,
    root::{Root, reading},
    stop::Stop,
    walk::{End, Entry, Visit, Walk},
};

const MATCHES: usize = 100;
const LONGEST_PATTERN: usize = 1000;
const COMPILED_SIZE: usize = 1 << 20;
/// The most characters of a line that are shown, and how many of them before the match.
const LINE_SHOWN: usize = 240;
const BEFORE_MATCH: usize = 80;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Regular expression, matched line by line; (?i) ignores case.
    pattern: String,
    /// File or folder, relative to the workspace; default: all of it.
    path: Option<String>,
    /// Only these files, e.g. *.rs or src/**/*.md.
    glob: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    matches: Vec<Match>,
    files_searched: usize,
    skipped_binary: usize,
    /// Over 2 MB.
    skipped_large: usize,
    /// What could not be looked into.
    unreadable: usize,
    /// False when there may be more matches; `stopped` then says why.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Match {
    /// Relative to the workspace.
    path: String,
    line: usize,
    text: String,
}

struct Search<'a> {
    pattern: Regex,
    glob: Option<Glob>,
    base: &'a Path,
    stop: &'a Stop,
    found: Found,
}

/// Why the content of a file is not searched to its end.
enum Searched {
    All,
    Enough,
    OutOfTime,
}

struct Glob {
    matcher: GlobMatcher,
    /// Without a `/` it is about names, in whichever folder.
    name_only: bool,
}

pub(super) fn search(
    root: &Root,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Found, WorkspaceError> {
    let pattern = compile(&arguments.pattern)?;
    let glob = arguments.glob.as_deref().map(Glob::new).transpose()?;
    let place = root.locate(arguments.path.as_deref())?;
    let mut search = Search {
        pattern,
        glob,
        base: &place.path,
        stop,
        found: Found::default(),
    };
    if place.metadata.is_file() {
        let content = place.read_file()?;
        let searched = search.content(&place.shown, &content)?;
        search.found.ended(match searched {
            Searched::All => End::Complete,
            Searched::Enough => End::Visitor,
            Searched::OutOfTime => End::Time,
        });
        return Ok(search.found);
    }
    let folder = place.open_folder()?;
    let mut walk = Walk::new(stop, u32::MAX);
    let mut out_of_time = false;
    let end = walk.run(&folder, &place.path, &mut |entry| {
        let searched = search.entry(entry)?;
        out_of_time = matches!(searched, Some(Searched::OutOfTime));
        Ok(match searched {
            None => Visit::Pass,
            Some(Searched::All) => Visit::Enter,
            Some(Searched::Enough | Searched::OutOfTime) => Visit::End,
        })
    })?;
    search.found.unreadable += walk.unreadable;
    search
        .found
        .ended(if out_of_time { End::Time } else { end });
    Ok(search.found)
}

fn compile(pattern: &str) -> Result<Regex, WorkspaceError> {
    if pattern.is_empty() {
        return Err(WorkspaceError::EmptyPattern);
    }
    if pattern.len() > LONGEST_PATTERN {
        return Err(WorkspaceError::LongPattern {
            length: pattern.len(),
            limit: LONGEST_PATTERN,
        });
    }
    RegexBuilder::new(pattern)
        .size_limit(COMPILED_SIZE)
        .dfa_size_limit(COMPILED_SIZE)
        .nest_limit(50)
        .build()
        .map_err(|error| WorkspaceError::Pattern(Box::new(error)))
}

impl Glob {
    fn new(glob: &str) -> Result<Self, WorkspaceError> {
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| WorkspaceError::Glob(Box::new(error)))?
            .compile_matcher();
        Ok(Self {
            matcher,
            name_only: !glob.contains('/'),
        })
    }

    /// A glob with `/` may begin at the workspace or at the folder that is searched.
    fn takes(&self, entry: &Entry<'_>, base: &Path) -> bool {
        if self.name_only {
            return self.matcher.is_match(entry.name);
        }
        let below_base = entry.path.strip_prefix(base);
        self.matcher.is_match(&entry.path)
            || below_base.is_ok_and(|path| self.matcher.is_match(path))
    }
}

impl Search<'_> {
    /// Searches `entry` if it is a file; `None` for a folder that is not to be entered.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Option<Searched>, WorkspaceError> {
        if entry.kind.is_dir() {
            return Ok((entry.name != ".git").then_some(Searched::All));
        }
        let wanted = self
            .glob
            .as_ref()
            .is_none_or(|glob| glob.takes(entry, self.base));
        if !entry.kind.is_file() || !wanted {
            return Ok(Some(Searched::All));
        }
        match open(entry.inner) {
            Ok(Some(content)) => self.content(&path::shown(&entry.path), &content).map(Some),
            Ok(None) => {
                self.found.skipped_large += 1;
                Ok(Some(Searched::All))
            }
            Err(_) => {
                self.found.unreadable += 1;
                Ok(Some(Searched::All))
            }
        }
    }

    fn content(&mut self, path: &str, content: &[u8]) -> Result<Searched, WorkspaceError> {
        if binary::kind(content).is_some() {
            self.found.skipped_binary += 1;
            return Ok(Searched::All);
        }
        self.found.files_searched += 1;
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if index % 256 == 255 && self.stop.is_due()? {
                return Ok(Searched::OutOfTime);
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = String::from_utf8_lossy(line);
            let Some(found) = self.pattern.find(&line) else {
                continue;
            };
            if self.found.matches.len() >= MATCHES {
                return Ok(Searched::Enough);
            }
            self.found.matches.push(Match {
                path: path.to_owned(),
                line: index + 1,
                text: excerpt(&line, found.start()),
            });
        }
        Ok(Searched::All)
    }
}

/// The content of a file, `None` if it is too large.
fn open(entry: &DirEntry) -> std::io::Result<Option<Vec<u8>>> {
    let file = entry.open_with(&reading())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let mut content = Vec::new();
    if metadata.len() <= LARGEST_FILE {
        file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    }
    let fits = metadata.len() <= LARGEST_FILE && content.len() as u64 <= LARGEST_FILE;
    Ok(fits.then_some(content))
}

/// A long line around its match, which begins at byte `start`.
fn excerpt(line: &str, start: usize) -> String {
    let before = line.get(..start).map_or(0, |text| text.chars().count());
    let skipped = if line.chars().count() <= LINE_SHOWN {
        0
    } else {
        before.saturating_sub(BEFORE_MATCH)
    };
    let mut rest = line.chars().skip(skipped);
    let mut shown: String = rest.by_ref().take(LINE_SHOWN).collect();
    if skipped > 0 {
        shown.insert(0, '…');
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

impl Default for Found {
    fn default() -> Self {
        Self {
            matches: Vec::new(),
            files_searched: 0,
            skipped_binary: 0,
            skipped_large: 0,
            unreadable: 0,
            complete: true,
            stopped: None,
        }
    }
}

impl Found {
    fn ended(&mut self, end: End) {
        self.stopped = match end {
            End::Complete => None,
            End::Visitor => Some("there are more than 100 matches"),
            End::Time => Some("it took more than 10 seconds"),
            End::Entries => Some("there are too many files"),
        };
        self.complete = self.stopped.is_none();
    }
}

impl Answer for Found {
    fn text(&self) -> String {
        if self.matches.is_empty() {
            return format!("No matches in {} files.", self.files_searched);
        }
        let lines = self.matches.iter().map(|found| {
            let (path, text) = (path::on_one_line(&found.path), &found.text);
            format!("{path}:{}: {text}\n", found.line)
        });
        lines.collect()
    }

    fn note(&self) -> Option<String> {
        let mut notes = Vec::new();
        if let Some(reason) = self.stopped {
            notes.push(format!(
                "Not everything was searched: {reason}. Narrow it with `path`, `glob` or `pattern`."
            ));
        }
        let skipped: Vec<String> = [
            (self.skipped_binary, "binary"),
            (self.skipped_large, "over 2 MB"),
            (self.unreadable, "unreadable"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
        if !skipped.is_empty() {
            notes.push(format!("Files skipped: {}.", skipped.join(", ")));
        }
        (!notes.is_empty()).then(|| notes.join(" "))
    }
}
