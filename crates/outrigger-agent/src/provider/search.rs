//! Which models can be left to find tools themselves, by their provider's own search.
//!
//! Two formats have one, from a certain generation of models on. Sources: Anthropic, "Tool search tool"
//! (`tool_search_tool_bm25_20251119`; generally available, no beta header); OpenAI, "Tool search"
//! (`tool_search`, hosted). Where the name of a model says nothing, configuration can
//! (`[model.providers.NAME] tool_search`).

use outrigger_model::ToolSearch;

use super::{ProviderKind, ProviderSpec, limits};

/// "Maximum tools: 10,000 tools in your catalog."
const ANTHROPIC: ToolSearch = ToolSearch {
    most_tools: 10_000,
    most_entries: 10_000,
    shows_groups: false,
};

/// The list may have 128 entries (`array_above_max_length`); tools in a namespace are not among them,
/// and for these no limit is documented.
const OPENAI: ToolSearch = ToolSearch {
    most_tools: 10_000,
    most_entries: 128,
    shows_groups: true,
};

/// The search of the provider for this model, or why there is none, in words that follow the model's
/// name.
pub(super) fn tool_search(spec: &ProviderSpec) -> Result<ToolSearch, String> {
    let (search, since, has) = match spec.kind {
        ProviderKind::Anthropic => (ANTHROPIC, "Claude 4.5", anthropic(&spec.model)),
        ProviderKind::OpenAiResponses => (OPENAI, "gpt-5.4", openai(&spec.model)),
        ProviderKind::OpenAiChat => {
            let why = "the Chat Completions API has no tool search (OpenAI's Responses API has)";
            return Err(why.to_owned());
        }
        ProviderKind::Gemini => return Err("the Gemini API has no tool search".to_owned()),
    };
    match spec.tool_search.unwrap_or(has) {
        true => Ok(search),
        false if spec.tool_search.is_some() => {
            Err("its provider is configured with `tool_search = false`".to_owned())
        }
        false => Err(format!("models have tool search since {since}")),
    }
}

/// Claude 4.5 and later; the families since then have it from the start.
fn anthropic(model: &str) -> bool {
    let bare = limits::bare(model);
    let Some(name) = bare.strip_prefix("claude-") else {
        return false;
    };
    // `claude-3-5-sonnet` has its number first, and is older.
    let (family, rest) = name.split_once('-').unwrap_or((name, ""));
    match family {
        "fable" | "mythos" => true,
        "opus" | "sonnet" | "haiku" => version(rest, '-') >= Some((4, 5)),
        _ => false,
    }
}

/// gpt-5.4 and later.
fn openai(model: &str) -> bool {
    let bare = limits::bare(model);
    let rest = bare.strip_prefix("gpt-").unwrap_or_default();
    version(rest, '.') >= Some((5, 4))
}

/// The two numbers that a name begins with; the second is 0 where there is none. What has more than
/// two digits is a date.
fn version(text: &str, between: char) -> Option<(u32, u32)> {
    let number = |text: &str| -> Option<u32> {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text.get(..end)
            .filter(|digits| digits.len() <= 2)?
            .parse()
            .ok()
    };
    let major = number(text)?;
    let minor = text.split_once(between).and_then(|(_, rest)| number(rest));
    Some((major, minor.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(kind: ProviderKind, model: &str) -> Result<ToolSearch, String> {
        let spec = ProviderSpec::new("p:m", kind, "http://h".parse().unwrap(), model);
        tool_search(&spec)
    }

    #[test]
    fn models_have_it_since_a_generation() {
        for model in [
            "claude-sonnet-4-5-20250929",
            "claude-haiku-4-5",
            "anthropic/claude-opus-4-8",
            "claude-sonnet-5-5",
            "claude-opus-5",
            "claude-fable-5-1",
            "claude-mythos-preview",
        ] {
            assert_eq!(
                has(ProviderKind::Anthropic, model),
                Ok(ANTHROPIC),
                "{model}"
            );
        }
        for model in [
            "claude-opus-4-20250514",
            "claude-opus-4-1-20250805",
            "claude-sonnet-4-0",
            "claude-3-5-sonnet-latest",
            "claude-2",
            "somebody-s",
        ] {
            let why = has(ProviderKind::Anthropic, model).unwrap_err();
            assert_eq!(why, "models have tool search since Claude 4.5", "{model}");
        }
        for model in [
            "gpt-5.4",
            "gpt-5.4-mini",
            "openai/gpt-5.6-sol",
            "gpt-6",
            "gpt-10.1",
        ] {
            assert_eq!(
                has(ProviderKind::OpenAiResponses, model),
                Ok(OPENAI),
                "{model}"
            );
        }
        for model in [
            "gpt-5",
            "gpt-5.1-codex",
            "gpt-4.5",
            "gpt-4o",
            "o3",
            "gpt-oss",
        ] {
            assert!(
                has(ProviderKind::OpenAiResponses, model).is_err(),
                "{model}"
            );
        }
        assert!(
            has(ProviderKind::OpenAiChat, "gpt-6")
                .unwrap_err()
                .contains("Chat")
        );
        assert!(has(ProviderKind::Gemini, "gemini-flash-latest").is_err());
    }

    #[test]
    fn configuration_knows_better() {
        let url = "http://h".parse().unwrap();
        let mut spec = ProviderSpec::new("p:m", ProviderKind::Anthropic, url, "in-house");
        spec.tool_search = Some(true);
        assert_eq!(tool_search(&spec), Ok(ANTHROPIC));
        spec.tool_search = Some(false);
        spec.model = "claude-opus-5".to_owned();
        assert!(
            tool_search(&spec)
                .unwrap_err()
                .contains("tool_search = false")
        );
        spec.kind = ProviderKind::OpenAiChat;
        spec.tool_search = Some(true);
        assert!(
            tool_search(&spec).is_err(),
            "the format has no words for it"
        );
    }
}
