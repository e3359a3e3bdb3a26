//! Names that look like others: other letters of the same shape (Unicode, UTS 39, "skeleton"), and
//! words whose letters come from scripts that are not written together.

use std::collections::{BTreeSet, HashMap};

use outrigger_connect::ServerName;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection as _, skeleton};

use crate::catalog::{Catalog, CatalogTool};

/// Tools by the shape of their names.
pub(super) struct Names<'a>(HashMap<String, Vec<&'a CatalogTool>>);

impl<'a> Names<'a> {
    pub(super) fn of(catalog: &'a Catalog) -> Self {
        let mut names: HashMap<String, Vec<&CatalogTool>> = HashMap::new();
        for tool in catalog.tools() {
            names.entry(shape(&tool.raw_name)).or_default().push(tool);
        }
        Self(names)
    }

    pub(super) fn of_tool(&self, tool: &CatalogTool) -> Vec<String> {
        let name = &tool.raw_name;
        let alike = self.0.get(&shape(name)).into_iter().flatten();
        let imitated = alike
            .filter(|other| other.server != tool.server && other.raw_name != *name)
            .find(|other| !name.is_ascii() || other.raw_name.is_ascii());
        if let Some(other) = imitated {
            let (theirs, server) = (&other.raw_name, &other.server);
            return vec![format!(
                "its name is written with other letters than `{theirs}` of `{server}`, and looks the same"
            )];
        }
        mixed(name).into_iter().collect()
    }
}

pub(super) fn of_server(name: &ServerName, all: &BTreeSet<ServerName>) -> Option<String> {
    let own = shape(name.as_str());
    let alike = |other: &&ServerName| *other != name && shape(other.as_str()) == own;
    let imitated = all
        .iter()
        .filter(alike)
        .find(|other| !name.as_str().is_ascii() || other.as_str().is_ascii());
    match imitated {
        Some(other) => Some(format!(
            "its name is written with other letters than `{other}`, and looks the same"
        )),
        None => mixed(name.as_str()),
    }
}

/// What a name looks like. Two names of one shape can hardly be told apart.
pub(super) fn shape(name: &str) -> String {
    skeleton(name).collect()
}

/// Says so when a word mixes scripts that no language mixes.
fn mixed(name: &str) -> Option<String> {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let odd = words
        .filter(|word| !word.is_ascii())
        .any(|word| word.detect_restriction_level() > RestrictionLevel::ModeratelyRestrictive);
    odd.then(|| "its name mixes letters of scripts that are not written together".to_owned())
}
