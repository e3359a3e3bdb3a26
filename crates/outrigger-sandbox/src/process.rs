//! The processes of a child, for a person to look at.

/// One process, as it was at the moment of looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// Its command line, words joined by spaces, at most [`Process::SHOWN`] bytes of it; its name in
    /// brackets where it has none. May hold secrets.
    pub command: String,
    /// It has ended, and its parent has not taken notice yet.
    pub ended: bool,
}

impl Process {
    /// Bytes of a command line that are looked at.
    pub const SHOWN: usize = 4096;
}
