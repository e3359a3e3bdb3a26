//! What text costs a model to read: an estimate, and marked as one wherever it is shown (`~173`).
//!
//! Vocabularies differ between models by a tenth or so; JSON and English come to about four bytes a
//! token, other scripts to about one token a character.

/// How many tokens a model counts where this estimates some. Known from what its provider reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale(u32);

impl Scale {
    /// Nothing is known.
    pub const NONE: Self = Self(1000);

    /// So many thousandths of the estimate; at least one.
    pub const fn thousandths(thousandths: u32) -> Self {
        Self(if thousandths == 0 { 1 } else { thousandths })
    }

    /// Thousandths of the estimate.
    pub const fn in_thousandths(self) -> u32 {
        self.0
    }

    /// What the model counts, most likely, where `estimate` was estimated.
    pub fn tokens(self, estimate: u64) -> u64 {
        estimate.saturating_mul(self.0.into()).div_ceil(1000)
    }

    /// What may be estimated, so that the model counts no more than `tokens`.
    pub fn within(self, tokens: u64) -> u64 {
        if self == Self::NONE {
            return tokens;
        }
        let within = u128::from(tokens) * 1000 / u128::from(self.0);
        u64::try_from(within).unwrap_or(u64::MAX)
    }
}

impl Default for Scale {
    fn default() -> Self {
        Self::NONE
    }
}

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
    fn a_scale_goes_both_ways_and_never_beyond() {
        let scale = Scale::thousandths(1300);
        assert_eq!((scale.tokens(1000), scale.within(1300)), (1300, 1000));
        assert_eq!(scale.tokens(1), 2);
        assert!(scale.tokens(scale.within(4_001)) <= 4_001);
        assert_eq!(Scale::NONE.within(u64::MAX), u64::MAX);
        assert_eq!(Scale::thousandths(0).within(u64::MAX), u64::MAX);
        assert_eq!(Scale::default().tokens(17), 17);
    }

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
