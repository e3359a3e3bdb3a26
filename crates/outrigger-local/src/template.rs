//! The chat template that a GGUF file carries, rendered as its authors' tools would render it.
//!
//! Templates are Jinja for Python: `minijinja` renders them, `pycompat` adds the methods of Python's
//! strings and lists. What is rendered is text; which parts of it are control tokens is known by the
//! tokenizer.

use minijinja::{Environment, ErrorKind, context, syntax::SyntaxConfig};

use crate::{
    gguf::{Gguf, LoadError},
    tokenizer::Vocabulary,
};

const NAME: &str = "chat";

/// One message as templates know it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub(crate) role: &'static str,
    /// Text; what was not written by this crate is quoted ([`Vocabulary::quote`]).
    pub(crate) content: String,
}

/// The template refused the conversation.
#[derive(Debug, thiserror::Error)]
#[error("the model's chat template failed: {0:#}")]
pub(crate) struct TemplateError(#[from] minijinja::Error);

/// A compiled chat template.
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    begin_of_text: String,
    end_of_text: String,
}

impl ChatTemplate {
    pub(crate) fn read(file: &Gguf, vocabulary: &Vocabulary) -> Result<Self, LoadError> {
        let key = "tokenizer.chat_template";
        let source = file.text(key).ok_or_else(|| file.missing(key))?;
        Self::compile(source, vocabulary.begin_of_text(), vocabulary.end_of_text())
            .map_err(|error| file.unsupported(error.to_string()))
    }

    fn compile(
        source: &str,
        begin_of_text: &str,
        end_of_text: &str,
    ) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        // As `transformers` renders templates.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        environment.set_syntax(syntax);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<(), minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self {
            environment,
            begin_of_text: begin_of_text.to_owned(),
            end_of_text: end_of_text.to_owned(),
        })
    }

    /// Renders `messages` up to the point where the assistant speaks. Models that can think aloud
    /// are told not to: the grammar leaves no room for it.
    pub(crate) fn render(&self, messages: &[ChatMessage]) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME)?;
        let messages: Vec<_> = messages
            .iter()
            .map(|message| context! { role => message.role, content => message.content.clone() })
            .collect();
        Ok(template.render(context! {
            messages,
            add_generation_prompt => true,
            enable_thinking => false,
            bos_token => self.begin_of_text.as_str(),
            eos_token => self.end_of_text.as_str(),
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constructs that the templates of Qwen3 use: namespaces, methods of strings, slices.
    const PYTHONIC: &str = "{%- set ns = namespace(seen=false) %}
{%- for message in messages[::-1] %}
{%- if message.role == 'user' and not message.content.startswith('<tool_response>') %}{% set ns.seen = true %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content.strip('\\n') + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}";

    #[test]
    fn renders_what_python_would() {
        let template = ChatTemplate::compile(PYTHONIC, "", "<|im_end|>").unwrap();
        let messages = [
            ChatMessage {
                role: "system",
                content: "Be brief.\n".to_owned(),
            },
            ChatMessage {
                role: "user",
                content: "Hi".to_owned(),
            },
        ];
        let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n\
                        <|im_start|>assistant\n<think>\n\n</think>\n\n";
        assert_eq!(template.render(&messages).unwrap(), expected);
    }

    #[test]
    fn a_refusal_of_the_template_is_told() {
        let template =
            ChatTemplate::compile("{{ raise_exception('roles must alternate') }}", "", "").unwrap();
        let error = template.render(&[]).unwrap_err().to_string();
        assert!(error.contains("roles must alternate"), "{error}");
    }
}
