//! Templates of addresses (RFC 6570), as far as a person needs them who types one: which variable of
//! which template the end of an unfinished address is in. Simple expressions (`{name}`) are known;
//! in others (`{?query*}`) nothing is completed, and what is typed is sent as it is.

use std::collections::BTreeMap;

use super::definition::Template;

/// A variable that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What stands of it so far.
    pub begun: String,
    /// Where it begins in the address, in bytes.
    pub at: usize,
    /// The variables before it.
    pub given: BTreeMap<String, String>,
}

/// A piece of a template.
enum Piece<'t> {
    Words(&'t str),
    Name(&'t str),
}

impl Template {
    /// The part before the first variable.
    pub fn stem(&self) -> &str {
        self.uri.split('{').next().unwrap_or_default()
    }

    /// The variable that the end of `typed` is in, if `typed` begins an address of this template.
    pub fn variable(&self, typed: &str) -> Option<Variable> {
        let pieces = pieces(&self.uri)?;
        let mut given = BTreeMap::new();
        let mut at = 0;
        let mut pieces = pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            let rest = &typed[at..];
            match piece {
                Piece::Words(words) => {
                    rest.strip_prefix(words)?;
                    at += words.len();
                }
                Piece::Name(name) => {
                    let end = match pieces.peek() {
                        Some(Piece::Words(words)) => rest.find(words),
                        _ => None,
                    };
                    let Some(end) = end else {
                        return Some(Variable {
                            name: (*name).to_owned(),
                            begun: rest.to_owned(),
                            at,
                            given,
                        });
                    };
                    given.insert((*name).to_owned(), rest[..end].to_owned());
                    at += end;
                }
            }
        }
        None
    }
}

/// `None` where an expression is not a plain name.
fn pieces(template: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let close = open + rest[open..].find('}')?;
        if open > 0 {
            pieces.push(Piece::Words(&rest[..open]));
        }
        let name = &rest[open + 1..close];
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return None;
        }
        pieces.push(Piece::Name(name));
        rest = &rest[close + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Words(rest));
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(uri: &str) -> Template {
        Template {
            uri: uri.to_owned(),
            name: uri.to_owned(),
            title: None,
            description: String::new(),
            media_type: None,
            raw: String::new(),
        }
    }

    #[test]
    fn the_variable_at_the_end_is_found() {
        let repo = template("repo://{owner}/{name}/readme");
        let variable = repo.variable("repo://ada/eng").unwrap();
        assert_eq!(
            (variable.name.as_str(), variable.begun.as_str()),
            ("name", "eng")
        );
        assert_eq!(variable.at, "repo://ada/".len());
        assert_eq!(variable.given["owner"], "ada");
        assert_eq!(repo.variable("repo://").unwrap().name, "owner");
        assert_eq!(repo.variable("repo://ada/engine/readme"), None);
        assert_eq!(repo.variable("note://ada"), None);
        assert_eq!(template("x://{?q*}").variable("x://"), None);
        assert_eq!(template("x://{").variable("x://"), None);
    }

    proptest! {
        #[test]
        fn no_template_and_no_text_panics(uri in "[a-z:/{}é]{0,12}", typed in "[a-z:/{}é]{0,12}") {
            if let Some(variable) = template(&uri).variable(&typed) {
                prop_assert_eq!(&typed[variable.at..], variable.begun);
            }
        }
    }
}
