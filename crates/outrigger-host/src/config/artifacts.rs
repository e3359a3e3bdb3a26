//! How long artifacts are kept.

use std::time::Duration;

use super::origin::Setting;

/// `[artifacts]`: what `outrigger artifacts gc` removes unless its flags say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactSettings {
    /// Contents that were not used for this long. 30 days by default.
    pub older_than: Setting<Option<Duration>>,
    /// Those that were not used for the longest time, until all together have at most so many bytes.
    /// Not by default.
    pub keep: Setting<Option<usize>>,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        Self {
            older_than: Setting::builtin(Some(Duration::from_hours(30 * 24))),
            keep: Setting::builtin(None),
        }
    }
}
