//! What holds for any input.

use outrigger_host::config::{EntryState, Layer, show};
use proptest::prelude::*;

use super::{Place, stdio};

const FILES: &[(&str, Layer)] = &[
    ("user/mcp.json", Layer::User),
    ("user/outrigger.json", Layer::User),
    ("user/outrigger.yaml", Layer::User),
    ("user/outrigger.toml", Layer::User),
    ("project/.mcp.json", Layer::Project),
    ("project/mcp.json", Layer::Project),
    ("project/.outrigger/outrigger.json", Layer::Project),
    ("project/.outrigger/outrigger.yml", Layer::Project),
    ("project/.outrigger/outrigger.yaml", Layer::Project),
    ("project/.outrigger/outrigger.toml", Layer::Project),
    ("managed/outrigger.json", Layer::Managed),
    ("managed/outrigger.toml", Layer::Managed),
];

fn write(place: &Place, index: usize, names: &[u8]) {
    let (file, _) = FILES[index];
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    let text = if file.ends_with("toml") {
        let tables: Vec<_> = names
            .iter()
            .map(|name| format!("[servers.s{name}]\ncommand = 'c{index}'\n"))
            .collect();
        tables.concat()
    } else {
        let servers: Vec<_> = names
            .iter()
            .map(|name| format!("\"s{name}\": {{\"command\": \"c{index}\"}}"))
            .collect();
        format!("{{\"servers\": {{{}}}}}", servers.join(", "))
    };
    place.write(file, text);
}

/// Pieces of the three formats, so that random text gets past the first character.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "'",
        "\n",
        "  ",
        "- ",
        "# ",
        "// ",
        "/*",
        "*/",
        "&a",
        "*a",
        "|",
        ">",
        "---",
        "!!str ",
        "= ",
        "mcpServers",
        "servers",
        "\"servers\"",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "policy",
        "rule",
        "tools",
        "[servers.a]",
        "[[policy.rule]]",
        "${A}",
        "${",
        "~",
        "null",
        "true",
        "1e9",
        "0x1",
        "é",
        "\u{feff}",
        "\\u0000",
        "\0",
        "timeouts",
        "\"1s\"",
        "http://",
        "<<",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_last_file_of_the_nearest_layer_wins(
        contents in prop::collection::vec(prop::collection::vec(0_u8..4, 0..4), FILES.len()),
    ) {
        let place = Place::new();
        for (index, names) in contents.iter().enumerate() {
            write(&place, index, names);
        }
        let config = place.load();
        for name in 0_u8..4 {
            let holders: Vec<usize> = (0..FILES.len()).filter(|&index| contents[index].contains(&name)).collect();
            let server = config.servers.keys().find(|server| server.as_str() == format!("s{name}"));
            prop_assert_eq!(server.is_some(), !holders.is_empty());
            let Some(&nearest) = holders.iter().max_by_key(|&&index| (FILES[index].1, index)) else { continue };
            prop_assert_eq!(&stdio(&config, &format!("s{name}")).command, &format!("c{nearest}"));
            let shadowed = config.shadowed.iter().filter(|shadowed| shadowed.name.as_str() == format!("s{name}")).count();
            prop_assert_eq!(shadowed, holders.len() - 1);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in fragments()) {
        let mut place = Place::new().set("A", "value");
        for ending in ["json", "toml", "yaml"] {
            place.write(&format!("user/outrigger.{ending}"), &bytes);
            place.write(&format!("project/.outrigger/outrigger.{ending}"), &text);
        }
        place.write("project/.mcp.json", &text);
        let explicit = place.write("other", &text);
        place.around.explicit = vec![explicit];
        let config = place.load();
        let shown = show::render(&config, true);
        show::to_json(&config);
        for problem in config.all_problems() {
            problem.render();
        }
        // What is shown is TOML, whatever went in.
        prop_assert!(toml::from_str::<toml::Table>(&shown).is_ok(), "{}", shown);
        for entry in config.servers.values() {
            if let EntryState::Broken(problems) = &entry.state {
                prop_assert!(!problems.is_empty());
            }
        }
    }
}
