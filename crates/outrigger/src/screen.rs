//! Where output goes: stdout is data, stderr is talk. Commands push labelled text; only this file
//! knows colours. Everything is legible without them, and at 60 columns.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::cli::{Color, Common, LogFormat};
use crate::error::CommandError;
use crate::visible;

/// What a piece of text is. A theme maps it to a style.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label {
    /// Names: servers, tools, runs.
    Name,
    /// It went well.
    Good,
    /// Worth a look.
    Warn,
    /// It went wrong.
    Bad,
    /// Beside the point: times, origins.
    Dim,
}

/// Both outputs, and how they may be written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    quiet: bool,
    /// Nothing is written at all.
    silent: bool,
    /// Somebody can be asked: stdin and stderr are terminals.
    attended: bool,
    out: Stream,
    err: Stream,
}

/// What is known of one output.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    terminal: bool,
    color: bool,
}

/// Text with a label, ready to be written.
pub(crate) struct Painted<'a> {
    text: &'a str,
    style: Option<Style>,
}

impl Screen {
    pub(crate) fn new(common: &Common) -> Self {
        let auto = !crate::surroundings::no_color();
        let stream = |terminal: bool| Stream {
            terminal,
            color: match common.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => auto && terminal,
            },
        };
        let (out, err) = (
            stream(io::stdout().is_terminal()),
            stream(io::stderr().is_terminal()),
        );
        Self {
            quiet: common.quiet,
            silent: false,
            attended: io::stdin().is_terminal() && err.terminal,
            out,
            err,
        }
    }

    /// Before the flags are known.
    pub(crate) fn plain() -> Self {
        Self {
            quiet: false,
            silent: false,
            attended: false,
            out: Stream::default(),
            err: Stream::default(),
        }
    }

    /// For a run that nobody is to see or hear.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::plain()
        }
    }

    /// Whether stdout is a terminal, and so read by a person.
    pub(crate) fn data_is_read_live(self) -> bool {
        self.out.terminal
    }

    /// The same, with nobody to ask.
    pub(crate) fn unattended(self) -> Self {
        Self {
            attended: false,
            ..self
        }
    }

    /// Whether somebody can be asked: the question goes to stderr, the answer comes from stdin.
    pub(crate) fn can_ask(self) -> bool {
        self.attended
    }

    /// Characters of a line on stdout, where that is a terminal.
    pub(crate) fn width(self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
        self.out.terminal.then_some(width.0.into())
    }

    /// Data on a line of ours. On a terminal that is too narrow for it, it is broken between words,
    /// and goes on `indent` further in.
    pub(crate) fn line(self, text: &str, indent: usize) -> io::Result<()> {
        self.data(&self.broken(text, indent))
    }

    /// What [`Screen::line`] prints.
    pub(crate) fn broken(self, text: &str, indent: usize) -> String {
        match self.width() {
            Some(width) => format!("{}\n", visible::wrapped(text, width, indent)),
            None => format!("{text}\n"),
        }
    }

    /// Data, as it is.
    pub(crate) fn data(self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }

    /// Data that is no text, as it is.
    pub(crate) fn bytes(self, bytes: &[u8]) -> io::Result<()> {
        if self.silent {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            // Whoever reads has read enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Much data, piece by piece.
    #[expect(clippy::unused_self, reason = "who has no screen cannot print")]
    pub(crate) fn pages(self) -> Pages {
        Pages {
            out: io::BufWriter::with_capacity(64 << 10, io::stdout()),
            trouble: None,
        }
    }

    /// Whether talk is coloured.
    pub(crate) fn colors_talk(self) -> bool {
        self.err.color
    }

    /// Data from elsewhere: as it is into a pipe or file, made visible on a terminal.
    pub(crate) fn foreign(self, text: &str) -> io::Result<()> {
        if self.data_is_read_live() {
            self.data(&visible::lines(text))
        } else {
            self.data(text)
        }
    }

    /// A JSON document and a line end.
    pub(crate) fn json(self, value: &impl serde::Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value).map_err(|error| {
            CommandError::failed(format!("the output cannot be written as JSON: {error}"))
        })?;
        Ok(self.data(&format!("{}\n", visible::json(&text)))?)
    }

    /// Talk. Not heard when quiet; a closed stderr is nobody's problem.
    pub(crate) fn say(self, text: impl fmt::Display) {
        if !self.quiet {
            self.insist(text);
        }
    }

    /// Talk that is heard even when quiet: errors, questions.
    pub(crate) fn insist(self, text: impl fmt::Display) {
        if !self.silent {
            writeln!(io::stderr().lock(), "{text}").ok();
        }
    }

    /// The beginning of a line of talk that the person will end.
    pub(crate) fn prompt(self, text: impl fmt::Display) {
        if self.silent {
            return;
        }
        let mut err = io::stderr().lock();
        write!(err, "{text}").and_then(|()| err.flush()).ok();
    }

    /// A line of talk that takes the place of the one before, on a terminal.
    #[cfg(feature = "local")]
    pub(crate) fn count(self, text: impl fmt::Display) {
        if !self.quiet {
            self.prompt(format_args!("\r{text}"));
        }
    }

    /// Text for stderr.
    pub(crate) fn talk(self, label: Label, text: &str) -> Painted<'_> {
        Painted {
            text,
            style: self.err.color.then(|| style(label)),
        }
    }

    /// Text for stdout.
    pub(crate) fn ink(self, label: Label, text: &str) -> Painted<'_> {
        Painted {
            text,
            style: self.out.color.then(|| style(label)),
        }
    }

    /// Tells a failure, and gives its exit code. Further lines are indented: a server's words in an
    /// error cannot look like a hint of ours.
    pub(crate) fn fail(self, error: &CommandError) -> ExitCode {
        let told = |text: &str| visible::lines(text).replace('\n', "\n  ");
        self.insist(format_args!(
            "{} {}",
            self.talk(Label::Bad, "error:"),
            told(&error.error)
        ));
        for hint in &error.hints {
            self.insist(format_args!(
                "{} {}",
                self.talk(Label::Good, "hint:"),
                told(hint)
            ));
        }
        error.exit.into()
    }

    /// Diagnosis on stderr, off unless asked for.
    #[expect(clippy::unused_self, reason = "who has no screen cannot print")]
    pub(crate) fn trace(self, verbose: u8, format: LogFormat) {
        let filter = match verbose {
            0 => return,
            1 => {
                "outrigger=debug,outrigger_host=debug,outrigger_connect=debug,outrigger_agent=debug,outrigger_gateway=debug,warn"
            }
            _ => "trace,hyper=info,reqwest=info,rustls=info",
        };
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false);
        match format {
            LogFormat::Text => lines.with_writer(crate::traces::line).try_init(),
            LogFormat::Json => lines.json().with_writer(crate::traces::document).try_init(),
        }
        .ok();
    }
}

/// Data in many pieces, written together.
pub(crate) struct Pages {
    out: io::BufWriter<io::Stdout>,
    trouble: Option<io::Error>,
}

impl Pages {
    /// Adds a piece, as it is; false when nobody takes any more.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> bool {
        if self.trouble.is_none() {
            self.trouble = self.out.write_all(bytes).err();
        }
        self.trouble.is_none()
    }

    /// Writes the rest.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let written = match self.trouble.take() {
            None => self.out.flush(),
            Some(trouble) => Err(trouble),
        };
        // What is left in it was refused already.
        drop(self.out.into_parts());
        match written {
            // Whoever reads has read enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => {
                write!(f, "{style}")?;
                f.pad(self.text)?;
                write!(f, "{style:#}")
            }
            None => f.pad(self.text),
        }
    }
}

fn style(label: Label) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match label {
        Label::Name => Style::new().bold(),
        Label::Good => color(AnsiColor::Green),
        Label::Warn => color(AnsiColor::Yellow),
        Label::Bad => color(AnsiColor::Red).bold(),
        Label::Dim => Style::new().dimmed(),
    }
}
