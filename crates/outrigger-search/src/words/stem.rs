//! Cuts the endings of English words that differ between how tools are described and how they are
//! asked for: plurals, `-ing`, `-ed`. Light on purpose: what is cut too far makes strangers equal.

/// The stem of a folded word. Words of other scripts and words with digits stay as they are.
pub(crate) fn stem(word: &str) -> &str {
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    without_vowel(without_suffix(without_plural(word)))
}

fn without_plural(word: &str) -> &str {
    if let Some(stem) = word.strip_suffix("ies") {
        return if stem.len() > 1 {
            &word[..=stem.len()]
        } else {
            word
        };
    }
    for sibilant in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(sibilant) {
            return &word[..word.len() - 2];
        }
    }
    let kept = ["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    match word.strip_suffix('s') {
        Some(stem) if !kept => stem,
        _ => word,
    }
}

fn without_suffix(word: &str) -> &str {
    for suffix in ["ing", "ed"] {
        if let Some(stem) = word.strip_suffix(suffix)
            && stem.len() > 2
            && stem.bytes().any(is_vowel)
        {
            return undoubled(stem);
        }
    }
    word
}

/// `planned` is of `plan`, `called` of `call`.
fn undoubled(stem: &str) -> &str {
    let bytes = stem.as_bytes();
    let last = bytes[bytes.len() - 1];
    let doubled = bytes[bytes.len() - 2] == last && !is_vowel(last);
    if doubled && !matches!(last, b'l' | b's' | b'z') {
        &stem[..stem.len() - 1]
    } else {
        stem
    }
}

/// So `create`, `created` and `creating` meet, and so do `copy`, `copies` and `copied`.
fn without_vowel(word: &str) -> &str {
    match word.strip_suffix(['e', 'y', 'i']) {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['a', 'e', 'o', 'u']) => stem,
        _ => word,
    }
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}
