//! Who reads the declarations of tools: whose schemas they are, and which vocabulary counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_agent::provider::{
    Family, ModelChoice, ProviderKind, ProviderSpec, declared, known_providers,
};
use outrigger_agent::tokens::Vocabulary;
use outrigger_agent::{Estimates, Learned};
use outrigger_host::Host;
use outrigger_host::catalog::CatalogTool;
use outrigger_host::config::{Config, ProviderState};
use outrigger_model::{DeclaredTool, ToolDeclaration};
use url::Url;

use crate::error::CommandError;

/// A reader of declarations.
pub(crate) struct Reader {
    spec: ProviderSpec,
    vocabulary: Vocabulary,
    /// As the person named it.
    name: String,
    /// What was learned of how its model counts.
    learned: Learned,
}

impl Reader {
    /// What `--provider` and `--model` name, else the configured model, else OpenAI's.
    pub(crate) fn of(
        config: &Config,
        provider: Option<&str>,
        model: Option<&str>,
    ) -> Result<Self, CommandError> {
        let configured = config
            .model
            .default
            .as_ref()
            .map(|default| default.value.as_str());
        let model = model.or(configured.filter(|_| provider.is_none()));
        let (of_model, name) = match model.map(ModelChoice::parse) {
            // Its weights are not asked: a family and an estimate are all that is needed.
            Some(ModelChoice::Local(_)) => (Some("generic".to_owned()), None),
            Some(ModelChoice::Provider { provider, model }) => (Some(provider), model),
            None => (None, None),
        };
        let named = provider.map(str::to_owned).or(of_model);
        let named = named.unwrap_or_else(|| "openai".to_owned());
        Self::named(config, &named, name.as_deref())
    }

    fn named(config: &Config, named: &str, model: Option<&str>) -> Result<Self, CommandError> {
        let settings = config
            .model
            .providers
            .get(named)
            .and_then(|entry| match &entry.state {
                ProviderState::Ready(settings) => Some(settings),
                ProviderState::Broken(_) => None,
            });
        let family = Family::from_name(named);
        // The families of OpenAI's bear the name of the provider.
        let known = match family {
            Some(Family::OpenAi | Family::OpenAiStrict) => "openai",
            _ => named,
        };
        let known = known_providers()
            .iter()
            .find(|provider| provider.name == known);
        if known.is_none() && settings.is_none() && family.is_none() {
            return Err(unknown(config, named));
        }
        let kind = settings.and_then(|settings| settings.kind.as_ref());
        let kind = kind.and_then(|kind| ProviderKind::from_name(&kind.value));
        let kind = kind
            .or(known.map(|known| known.kind))
            .unwrap_or(ProviderKind::OpenAiChat);
        let url = settings.and_then(|settings| settings.base_url.as_ref());
        let url: Option<Url> = url
            .map(|url| url.value.clone())
            .or_else(|| known?.base_url.parse().ok())
            .or_else(|| "http://127.0.0.1/v1".parse().ok());
        let url = url.ok_or_else(|| unknown(config, named))?;
        let model = model.or_else(|| known?.default_model).unwrap_or_default();
        let mut spec = ProviderSpec::new(named, kind, url, model);
        spec.strict = family == Some(Family::OpenAiStrict)
            || settings
                .and_then(|settings| settings.strict.as_ref())
                .is_some_and(|strict| strict.value);
        Ok(Self {
            vocabulary: Vocabulary::of_model(model),
            name: named.to_owned(),
            spec,
            learned: Learned::default(),
        })
    }

    /// Tools that the configured model is not told of, with the reason; none where no model is
    /// configured, or it cannot be made out.
    pub(crate) fn left_out(config: &Config, host: &Host) -> BTreeMap<String, String> {
        let Some(default) = &config.model.default else {
            return BTreeMap::new();
        };
        let Ok(reader) = Self::of(config, None, None) else {
            return BTreeMap::new();
        };
        let model = &default.value;
        let declared = reader.declared(host.toolset().tools()).into_iter();
        declared
            .filter_map(|declared| {
                let reason = declared.said.err()?;
                Some((
                    declared.tool,
                    format!("`{model}` is not told of it: {reason}"),
                ))
            })
            .collect()
    }

    /// With what was learned of how this model counts.
    pub(crate) fn corrected(self, estimates: &Estimates) -> Self {
        let model = format!("{}:{}", self.name, self.spec.model);
        Self {
            learned: estimates.of(&model),
            ..self
        }
    }

    /// What `text` costs its model.
    pub(crate) fn count(&self, text: &str) -> u64 {
        let counted = self.vocabulary.count(text);
        if self.vocabulary.is_known() {
            counted
        } else {
            self.learned.scale().tokens(counted)
        }
    }

    /// By how many requests counts are corrected that are estimates.
    pub(crate) fn corrected_by(&self) -> u32 {
        if self.vocabulary.is_known() {
            0
        } else {
            self.learned.requests
        }
    }

    pub(crate) fn family(&self) -> Family {
        self.spec.family()
    }

    pub(crate) fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    /// As the person named it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What requests say of these tools.
    pub(crate) fn declared(&self, tools: &[Arc<CatalogTool>]) -> Vec<DeclaredTool> {
        let tools = tools.iter().map(|tool| ToolDeclaration {
            name: tool.name.to_string(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            deferred: None,
        });
        declared(&self.spec, &tools.collect())
    }
}

fn unknown(config: &Config, named: &str) -> CommandError {
    let families = Family::ALL.iter().map(|family| family.name());
    let known = known_providers().iter().map(|known| known.name);
    let configured = config.model.providers.keys().map(String::as_str);
    let mut all: Vec<&str> = Vec::new();
    for name in families.chain(known).chain(configured) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    CommandError::usage(format!("there is no provider `{named}`"))
        .hint(format!("one of {}", all.join(", ")))
}
