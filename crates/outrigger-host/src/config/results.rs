//! How much of what tools return a model is shown.

use globset::GlobMatcher;

use super::origin::{Origin, Setting};

/// `[results]`, in estimated tokens.
#[derive(Debug, Clone)]
pub struct ResultSettings {
    /// Of one result; a result that has more is shown by previews. 8000 by default.
    pub max_tokens: Setting<u64>,
    /// Of the two ends of a text that does not fit. 600 by default.
    pub preview_tokens: Setting<u64>,
    /// Of all results of one turn. 24000 by default.
    pub turn_max_tokens: Setting<u64>,
    /// `results.tools`: other rooms for results of some tools; the last that matches counts.
    pub tools: Vec<ToolRoom>,
}

/// The room for results of tools that match a glob.
#[derive(Debug, Clone)]
pub struct ToolRoom {
    /// The glob, as written.
    pub written: String,
    /// Over the name that the model sees.
    pub glob: GlobMatcher,
    /// As [`ResultSettings::max_tokens`].
    pub tokens: u64,
    /// Where it was written.
    pub origin: Origin,
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self {
            max_tokens: Setting::builtin(8000),
            preview_tokens: Setting::builtin(600),
            turn_max_tokens: Setting::builtin(24_000),
            tools: Vec::new(),
        }
    }
}

impl ResultSettings {
    /// The room for one result of this tool.
    pub fn of(&self, tool: &str) -> u64 {
        let mut rooms = self.tools.iter().rev();
        let room = rooms.find(|room| room.glob.is_match(tool));
        room.map_or(self.max_tokens.value, |room| room.tokens)
    }

    /// The keys with one value.
    pub(super) fn each(&self) -> [(&'static str, &Setting<u64>); 3] {
        [
            ("max_tokens", &self.max_tokens),
            ("preview_tokens", &self.preview_tokens),
            ("turn_max_tokens", &self.turn_max_tokens),
        ]
    }
}
