//! Which model is chosen, and what a person reads when none can be.

use std::collections::BTreeMap;

use outrigger_agent::provider::{
    Available, Choice, ChoiceError, ConfiguredProvider, ModelChoice, ProviderError, ProviderKind,
    ProviderSpec, Secret, build, choose,
};

use crate::provider_play::serve;

struct World {
    variables: BTreeMap<String, String>,
    providers: BTreeMap<String, ConfiguredProvider>,
    local: bool,
}

impl World {
    /// No Ollama of the machine that runs the test.
    fn new(variables: &[(&str, &str)]) -> Self {
        let mut all = BTreeMap::from([("OLLAMA_HOST".to_owned(), "127.0.0.1:9".to_owned())]);
        all.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        Self {
            variables: all,
            providers: BTreeMap::new(),
            local: false,
        }
    }

    async fn choose(
        &self,
        requested: Option<&str>,
        configured: Option<&str>,
    ) -> Result<Choice, ChoiceError> {
        let variable = |name: &str| self.variables.get(name).cloned();
        let available = Available {
            variable: &variable,
            providers: &self.providers,
            local: self.local,
        };
        choose(requested, configured, &available).await
    }

    async fn spec(&self, requested: Option<&str>) -> ProviderSpec {
        match self.choose(requested, None).await {
            Ok(Choice::Provider(spec)) => *spec,
            other => panic!("{other:?}"),
        }
    }

    async fn words(&self, requested: Option<&str>) -> String {
        let error = self.choose(requested, None).await.unwrap_err();
        let hints = error
            .hints()
            .into_iter()
            .map(|hint| format!("hint: {hint}"));
        std::iter::once(error.to_string())
            .chain(hints)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[test]
fn choices_are_split_at_the_first_colon() {
    let provider = |provider: &str, model: Option<&str>| ModelChoice::Provider {
        provider: provider.to_owned(),
        model: model.map(str::to_owned),
    };
    assert_eq!(ModelChoice::parse("local"), ModelChoice::Local(None));
    assert_eq!(
        ModelChoice::parse("local:qwen3-0.6b"),
        ModelChoice::Local(Some("qwen3-0.6b".to_owned()))
    );
    assert_eq!(
        ModelChoice::parse("ollama:qwen3:4b"),
        provider("ollama", Some("qwen3:4b"))
    );
    assert_eq!(ModelChoice::parse(" openai "), provider("openai", None));
}

#[tokio::test]
async fn asked_for_then_configured_then_what_is_there() {
    let world = World::new(&[
        ("OPENAI_API_KEY", "k1"),
        ("DEEPSEEK_API_KEY", "k2"),
        ("GOOGLE_API_KEY", "k3"),
    ]);
    assert_eq!(
        world.spec(Some("deepseek:deepseek-v4-pro")).await.id,
        "deepseek:deepseek-v4-pro"
    );
    let Ok(Choice::Provider(spec)) = world.choose(None, Some("gemini")).await else {
        panic!("no provider")
    };
    assert_eq!(
        (&*spec.id, spec.kind),
        ("gemini:gemini-flash-latest", ProviderKind::Gemini)
    );
    let key = format!("{:?}", spec.key.unwrap());
    assert_eq!(
        key,
        "Secret([secret] from `GOOGLE_API_KEY` in the environment)"
    );
    let spec = world.spec(None).await;
    assert!(spec.id.starts_with("openai:"), "{}", spec.id);
    assert_eq!(spec.kind, ProviderKind::OpenAiResponses);
    assert_eq!(
        world.spec(Some("openai-chat:gpt-4o")).await.kind,
        ProviderKind::OpenAiChat
    );
    let Ok(Choice::Local(Some(name))) = world.choose(Some("local:tiny"), None).await else {
        panic!("not local")
    };
    assert_eq!(name, "tiny");
}

#[tokio::test]
async fn a_running_ollama_comes_before_the_local_model() {
    let server = serve([]).await;
    let mut world = World::new(&[
        ("OLLAMA_HOST", &server.host()),
        ("OLLAMA_CONTEXT_LENGTH", "16384"),
    ]);
    world.local = true;
    let spec = world.spec(None).await;
    assert_eq!(
        (&*spec.id, spec.context_tokens),
        ("ollama:scripted:latest", Some(16_384))
    );
    assert_eq!(
        spec.base_url.as_str(),
        format!("http://{}/v1", server.host())
    );
    drop(server);
    assert!(matches!(
        world.choose(None, None).await,
        Ok(Choice::Local(None))
    ));
}

#[tokio::test]
async fn base_urls_come_from_the_environment_and_then_need_no_key() {
    let server = serve([]).await;
    let world = World::new(&[
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000"),
        ("VLLM_BASE_URL", &server.base_url()),
        ("OPENAI_BASE_URL", "not a url"),
    ]);
    let spec = world.spec(Some("anthropic:m")).await;
    assert_eq!(
        (spec.base_url.as_str(), spec.key),
        ("http://127.0.0.1:4000/", None)
    );
    assert_eq!(world.spec(Some("vllm")).await.id, "vllm:scripted");
    insta::assert_snapshot!(world.words(Some("openai")).await, @r"
    `OPENAI_BASE_URL` does not hold a URL: relative URL without a base
    hint: it should look like `https://host/v1`
    ");
}

#[tokio::test]
async fn configured_providers_win_and_bring_their_own_defaults() {
    let mut world = World::new(&[]);
    let mut mine = ConfiguredProvider::new(
        ProviderKind::OpenAiChat,
        "https://models.example/v1".parse().unwrap(),
    );
    mine.model = Some("big".to_owned());
    mine.key = Some(Secret::new("k", "`providers.mine.key`"));
    mine.headers = vec![(
        "x-team".to_owned(),
        Secret::new("blue", "`providers.mine.headers`"),
    )];
    world.providers.insert("mine".to_owned(), mine);
    world.providers.insert(
        "bare".to_owned(),
        ConfiguredProvider::new(
            ProviderKind::Anthropic,
            "https://models.example".parse().unwrap(),
        ),
    );
    assert_eq!(world.spec(Some("mine")).await.id, "mine:big");
    assert_eq!(world.spec(Some("mine:small")).await.model, "small");
    insta::assert_snapshot!(world.words(Some("bare")).await, @r"
    `bare` was named without a model
    hint: `--model bare:NAME`
    ");
    insta::assert_snapshot!(world.words(Some("mime")).await, @r"
    unknown model provider `mime`
    hint: did you mean `mine`?
    hint: known providers: bare, mine, anthropic, openai, openai-chat, gemini, deepseek, openrouter, ollama, vllm, llamacpp, and `local`
    ");
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let world = World::new(&[("OPENAI_API_KEY", "  ")]);
    insta::assert_snapshot!(world.words(None).await, @r"
    no model is available
    hint: set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY`, `GOOGLE_API_KEY`, `DEEPSEEK_API_KEY` or `OPENROUTER_API_KEY`
    hint: or start Ollama with a model installed
    hint: or build with `--features local` for a model that needs no key
    ");
    insta::assert_snapshot!(world.words(Some("gemini")).await, @r"
    `gemini` needs an API key, and neither `GEMINI_API_KEY` nor `GOOGLE_API_KEY` is set
    hint: set `GEMINI_API_KEY` or `GOOGLE_API_KEY`
    ");
    insta::assert_snapshot!(world.words(Some("claude-sonnet-5-5")).await, @r"
    unknown model provider `claude-sonnet-5-5`
    hint: did you mean `anthropic:claude-sonnet-5-5`?
    hint: known providers: anthropic, openai, openai-chat, gemini, deepseek, openrouter, ollama, vllm, llamacpp, and `local`
    ");
    insta::assert_snapshot!(world.words(Some("ollama")).await, @r"
    `ollama` was named without a model, and nothing answers at http://127.0.0.1:9/v1
    hint: `ollama serve` starts the server; `OLLAMA_HOST` says where it is
    ");
}

#[test]
fn a_spec_that_cannot_work_is_refused_before_anything_is_sent() {
    let words = |base_url: &str, header: Option<(&str, &str)>| {
        let mut spec = ProviderSpec::new(
            "mine:m",
            ProviderKind::OpenAiChat,
            base_url.parse().unwrap(),
            "m",
        );
        spec.headers = header
            .map(|(name, value)| {
                (
                    name.to_owned(),
                    Secret::new(value, "`providers.mine.headers`"),
                )
            })
            .into_iter()
            .collect();
        build(spec)
            .err()
            .map(|error: ProviderError| error.to_string())
            .unwrap_or_default()
    };
    insta::assert_snapshot!(words("ftp://h/v1", None), @"mine:m: the base URL must begin with `http://` or `https://`, not `ftp:`");
    insta::assert_snapshot!(words("https://me:pass@h/v1", None), @"mine:m: the base URL carries a user name or password; configure the key or a header instead");
    insta::assert_snapshot!(words("http://h/v1", Some(("x-team", "two\nlines"))), @"mine:m: header `x-team` (from `providers.mine.headers`) cannot be sent: its value holds characters that a header cannot, perhaps a line break");
    assert_eq!(words("http://h/v1", Some(("x-team", "blue"))), "");
}
