//! Which of several entries with one name counts: the nearest, as a whole. Entries of one layer
//! are told apart by the order of their files, the later one nearer.

use indexmap::IndexMap;

use super::origin::Layer;

/// The entries of one name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged<T> {
    /// The one that counts.
    pub(crate) winner: T,
    /// The others, nearest first.
    pub(crate) losers: Vec<T>,
}

/// Merges entries that come in the order of their files, from the farthest to the nearest within
/// each layer. Names keep the order in which they first appear.
pub(crate) fn merge<T>(
    entries: impl IntoIterator<Item = (String, Layer, T)>,
) -> IndexMap<String, Merged<(Layer, T)>> {
    let mut names: IndexMap<String, Vec<(Layer, T)>> = IndexMap::new();
    for (name, layer, entry) in entries {
        names.entry(name).or_default().push((layer, entry));
    }
    let mut merged = IndexMap::new();
    for (name, mut entries) in names {
        // Stable: the order of files decides within a layer.
        entries.sort_by_key(|(layer, _)| *layer);
        if let Some(winner) = entries.pop() {
            entries.reverse();
            merged.insert(
                name,
                Merged {
                    winner,
                    losers: entries,
                },
            );
        }
    }
    merged
}
