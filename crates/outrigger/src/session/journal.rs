//! The journal, opened for a command.

use outrigger_journal::Journal;

use crate::cli::Common;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::{surroundings, visible};

/// Opens the journal, and says when that has changed its format.
pub(crate) fn open_journal(common: &Common, screen: Screen) -> Result<Journal, CommandError> {
    let journal = Journal::open(&surroundings::journal(common)?)?;
    if let Some(backup) = journal.backup() {
        screen.say(format_args!(
            "{} the journal had an older format and was brought up; as it was it is kept in `{}`",
            screen.talk(Label::Warn, "note:"),
            visible::line(&backup.display().to_string())
        ));
    }
    Ok(journal)
}
