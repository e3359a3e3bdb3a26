//! What text costs a model to read: an estimate, and marked as one wherever it is shown (`~173`).
//!
//! Vocabularies differ between models by a tenth or so; JSON and English come to about four bytes a
//! token, other scripts to about one token a character.

/// Estimated tokens of `text`.
pub fn estimate(text: &str) -> u64 {
    let (mut ascii, mut wide) = (0_u64, 0_u64);
    for c in text.chars() {
        if c.is_ascii() { ascii += 1 } else { wide += 1 }
    }
    ascii.div_ceil(4) + wide
}

/// Estimated tokens of a tool's declaration in a request: name, description and schema, and the
/// few tokens with which a provider wraps them.
pub fn estimate_declaration(name: &str, description: &str, schema: &serde_json::Value) -> u64 {
    const WRAPPING: u64 = 8;
    estimate(name) + estimate(description) + estimate(&schema.to_string()) + WRAPPING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_grow_with_the_text() {
        assert_eq!(estimate(""), 0);
        assert_eq!(estimate("eight by"), 2);
        assert_eq!(estimate("时间"), 2);
        let short = estimate_declaration("a", "b", &serde_json::json!({"type": "object"}));
        let long = estimate_declaration(
            "a",
            &"b ".repeat(100),
            &serde_json::json!({"type": "object"}),
        );
        assert!(long > short + 40);
    }
}
