//! What is wrong with the configuration, as data: a problem names its file, place and key, says
//! what was expected, and hints at what to do. Rendering is plain text; colours are the command
//! line's business.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth saying; everything still means what it says.
    Warning,
    /// What was written cannot be used. In `Config::problems` nothing should run until it is
    /// mended; in a server's own list only that server is set aside.
    Error,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// The column in characters, from 1; 0 when the whole file is meant.
    pub column: u32,
    /// The key it is about (`servers.fs.args`); empty when none is.
    pub key: String,
    /// What is wrong, without the place.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
    /// The line of the file, with a secret-looking rest masked and long lines cut.
    pub excerpt: Option<Excerpt>,
}

/// A line of a file with a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// How many characters stand before the place.
    pub offset: usize,
}

impl ConfigProblem {
    /// An error about a whole file.
    pub(crate) fn of_file(file: &Path, message: String) -> Self {
        Self {
            severity: Severity::Error,
            file: file.into(),
            line: 0,
            column: 0,
            key: String::new(),
            message,
            hints: Vec::new(),
            excerpt: None,
        }
    }

    /// Several lines for a person: message, place, the line itself with a caret, hints.
    pub fn render(&self) -> String {
        let word = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let mut out = format!("{word}: {}\n  {}\n", self.message, self.place());
        if let Some(excerpt) = &self.excerpt {
            let number = self.line.to_string();
            let gutter = " ".repeat(number.len());
            let indent = " ".repeat(excerpt.offset);
            // Writing to a String does not fail.
            let _ = writeln!(out, "   {gutter} |");
            let _ = writeln!(out, "   {number} | {}", excerpt.text);
            let _ = writeln!(out, "   {gutter} | {indent}^");
        }
        for hint in &self.hints {
            let _ = writeln!(out, "  hint: {hint}");
        }
        out
    }

    /// `FILE:LINE:COLUMN`, or the file alone.
    pub(crate) fn place(&self) -> String {
        let file = self.file.display();
        if self.line == 0 {
            file.to_string()
        } else {
            format!("{file}:{}:{}", self.line, self.column)
        }
    }
}

/// One line: `FILE:LINE:COLUMN: message; hint`.
impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.message)?;
        for hint in &self.hints {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}
