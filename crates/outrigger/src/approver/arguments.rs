//! Arguments on the screen of an approval: every character of what will be sent, one argument a line.
//! Long values and long runs of blanks are folded and told; `v` shows them whole. A replacement of
//! text is shown as what goes and what comes.

use outrigger_host::Digest;
use serde_json::Value;

use crate::visible;

/// Characters of a value that are shown before it is folded.
const SHOWN: usize = 600;
/// Characters of the beginning and of the end of a folded one.
const ENDS: (usize, usize) = (300, 150);

/// The lines. `whole`: nothing is folded.
pub(crate) fn lines(arguments: &str, whole: bool) -> Vec<String> {
    let Ok(Value::Object(object)) = serde_json::from_str(arguments) else {
        return vec![value(arguments, whole)];
    };
    if object.is_empty() {
        return vec!["{}".to_owned()];
    }
    let mut lines = Vec::new();
    for (key, argument) in &object {
        let key = visible::line(key);
        if let Some(edits) = edits(argument) {
            lines.push(format!("{key}:"));
            lines.extend(
                edits
                    .into_iter()
                    .flat_map(|(old, new)| edit(&old, &new, whole)),
            );
            continue;
        }
        lines.push(format!("{key}: {}", value(&argument.to_string(), whole)));
    }
    lines
}

/// Whether [`lines`] folds something.
pub(super) fn folds(arguments: &str) -> bool {
    lines(arguments, false) != lines(arguments, true)
}

/// JSON text on one line, with everything hidden written out.
fn value(text: &str, whole: bool) -> String {
    if whole {
        return visible::line(text).into_owned();
    }
    let sent = text;
    let text = visible::without_padding(sent);
    let count = text.chars().count();
    if count <= SHOWN {
        return visible::line(&text).into_owned();
    }
    let head: String = text.chars().take(ENDS.0).collect();
    let tail: String = text.chars().skip(count - ENDS.1).collect();
    let hash = Digest::of_text(sent).to_string();
    let hash = &hash[..16];
    format!(
        "{} … [{} of {count} characters folded, sha256 {hash}] … {}",
        visible::line(&head),
        count - ENDS.0 - ENDS.1,
        visible::line(&tail)
    )
}

/// Old and new texts, where an argument is a list of replacements, whatever its author calls them.
fn edits(argument: &Value) -> Option<Vec<(String, String)>> {
    let list = argument.as_array().filter(|list| !list.is_empty())?;
    let pair = |edit: &Value| {
        let object = edit.as_object().filter(|object| object.len() == 2)?;
        let text = |words: [&str; 3]| {
            words
                .into_iter()
                .find_map(|word| object.get(word)?.as_str())
        };
        let old = text(["oldText", "old_text", "old_string"])?;
        let new = text(["newText", "new_text", "new_string"])?;
        Some((old.to_owned(), new.to_owned()))
    };
    list.iter().map(pair).collect()
}

fn edit(old: &str, new: &str, whole: bool) -> Vec<String> {
    let side = |sign: char, text: &str| -> Vec<String> {
        // Split at line ends alone, so that each of them is where it is sent.
        let lines = text.split('\n');
        lines
            .map(|line| format!("  {sign} {}", value(line, whole)))
            .collect()
    };
    [side('-', old), side('+', new)].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn one_argument_a_line() {
        let arguments = json!({
            "path": "a\u{202e}b",
            "edits": [{ "oldText": "one\ntwo", "newText": "one\n\u{200b}three" }],
            "n": 7,
        });
        insta::assert_snapshot!(lines(&arguments.to_string(), false).join("\n"), @r#"
        path: "a\u{202e}b"
        edits:
          - one
          - two
          + one
          + \u{200b}three
        n: 7
        "#);
        assert_eq!(lines("{}", false), ["{}"]);
        assert!(!folds(&arguments.to_string()));
    }

    #[test]
    fn a_long_value_is_folded_and_can_be_unfolded() {
        let text = format!("{}SECRET{}", "a".repeat(4000), "b".repeat(4000));
        let arguments = json!({ "text": text }).to_string();
        let folded = lines(&arguments, false).join("\n");
        assert!(
            folded.contains("[7558 of 8008 characters folded, sha256 "),
            "{folded}"
        );
        assert!(folded.chars().count() < 700);
        assert!(folds(&arguments) && lines(&arguments, true).join("\n").contains("SECRET"));
    }

    #[test]
    fn blanks_that_push_something_out_of_view_are_folded() {
        let padded = json!({ "text": format!("fine{}rm -rf /", "\n".repeat(300)) }).to_string();
        assert_eq!(
            lines(&padded, false),
            [r#"text: "fine … 299 blank lines … rm -rf /""#]
        );
        assert!(folds(&padded) && lines(&padded, true)[0].matches("\\n").count() == 300);
    }

    proptest! {
        /// Unfolded, every character can be read off: what is escaped is unescaped to what is sent.
        #[test]
        fn nothing_is_hidden(text in any::<String>(), key in "[a-z]{1,8}") {
            let arguments = json!({ (key.clone()): text }).to_string();
            let shown = lines(&arguments, true).join("\n");
            let shown = shown.strip_prefix(&format!("{key}: ")).unwrap();
            prop_assert!(!shown.chars().any(char::is_control));
            let sent = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(visible::line(&sent), shown);
        }
    }
}
