//! What was last known of the tools, kept between runs so that a listing need not wait for servers.
//!
//! Promises: the file is there whole or not at all; one that cannot be read is as good as none. It
//! holds what servers say of their tools, and nothing of how they are reached.

use std::fs;
use std::io::{self, BufWriter, IntoInnerError};
use std::path::Path;

use outrigger_connect::ServerName;
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::{Known, Shown};

/// A change of the form is another version.
const VERSION: u32 = 2;
/// Bytes of a file that is read.
const LONGEST: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    servers: Vec<Server>,
}

#[derive(Serialize, Deserialize)]
struct Server {
    name: String,
    tools: Vec<Tool>,
}

#[derive(Serialize, Deserialize)]
struct Tool {
    host: String,
    own: String,
    definition: Definition,
}

pub(super) fn read(path: &Path) -> Known {
    let long = fs::metadata(path).is_ok_and(|file| file.len() > LONGEST);
    let text = if long {
        None
    } else {
        fs::read_to_string(path).ok()
    };
    let file = text.and_then(|text| serde_json::from_str::<File>(&text).ok());
    let Some(file) = file.filter(|file| file.version == VERSION) else {
        return Known::new();
    };
    let servers = file.servers.into_iter().filter_map(|server| {
        let tools = server.tools.into_iter().map(|tool| Shown {
            host: tool.host,
            own: tool.own,
            definition: tool.definition.into(),
        });
        Some((ServerName::new(&server.name).ok()?, tools.collect()))
    });
    servers.collect()
}

pub(super) fn write(path: &Path, known: &Known) -> io::Result<()> {
    let servers = known.iter().map(|(name, tools)| {
        let tools = tools.iter().map(|tool| Tool {
            host: tool.host.clone(),
            own: tool.own.clone(),
            definition: (*tool.definition).clone(),
        });
        Server {
            name: name.to_string(),
            tools: tools.collect(),
        }
    });
    let file = File {
        version: VERSION,
        servers: servers.collect(),
    };
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut aside = BufWriter::new(tempfile::NamedTempFile::new_in(folder)?);
    serde_json::to_writer(&mut aside, &file)?;
    let aside = aside.into_inner().map_err(IntoInnerError::into_error)?;
    aside.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn what_is_kept_is_read_back_or_is_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("deep/catalog.json");
        assert!(read(&file).is_empty());
        let raw = RawValue::from_string(r#"{"name":"a","x":1.50}"#.to_owned()).unwrap();
        let shown = Shown {
            host: "mcp__lab__a".to_owned(),
            own: "a".to_owned(),
            definition: Definition::read(&raw).unwrap().into(),
        };
        let known = Known::from([(ServerName::new("lab").unwrap(), vec![shown])]);
        write(&file, &known).unwrap();
        let again = read(&file);
        let [tool] = &again[&ServerName::new("lab").unwrap()][..] else {
            panic!("{again:?}")
        };
        assert_eq!(
            tool.definition,
            known.values().next().unwrap()[0].definition
        );
        for broken in ["", "{}", "[]", "{\"version\":1,\"servers\":[]}"] {
            fs::write(&file, broken).unwrap();
            assert!(read(&file).is_empty(), "{broken}");
        }
    }
}
