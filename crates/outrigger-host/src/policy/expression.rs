//! Conditions of rules: CEL (the Common Expression Language) over one call.
//!
//! A condition is checked when it is read: its grammar, the names and functions it uses, and that its
//! loops are bounded. Judging a call never hangs and never opens anything by failing: what an
//! evaluation may cost is bounded beforehand by the size of the arguments, without a clock, and an
//! evaluation that fails is an error, which denies. Numbers compare by their value, whatever their
//! kind: integers of 64 bits exactly, others as the nearest `double`.

mod check;
mod convert;

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::{Context, Env, ExecutionError, Program, Value};

use super::facts::{Call, Subject};
use crate::config::Mode;
use crate::text::shorten;
use check::Shape;

/// What conditions can name.
pub(crate) const VARIABLES: [&str; 9] = [
    "args",
    "args_from",
    "tool",
    "server",
    "mode",
    "principal",
    "client",
    "annotations",
    "origins",
];
/// Arguments beyond this many bytes of JSON are not judged.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Bound on steps of all conditions in one decision, estimated from above; some tenths of a second
/// at most. Whatever the order of the rules, one of them finds too little left where all together
/// want more.
const MAX_WORK: u64 = 4_000_000;

/// Bytes of stack for reading one condition of the greatest length.
const PARSER_STACK: usize = 256 << 20;

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A condition, ready to judge calls.
#[derive(Clone)]
pub struct Condition {
    source: Arc<str>,
    program: Arc<Program>,
    shape: Shape,
}

/// Why a condition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadCondition {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Condition {
    /// Reads and checks a condition.
    pub fn new(source: &str) -> Result<Self, BadCondition> {
        check::length(source)?;
        // The parser recurses before it counts, so what is nested too deep needs room to be refused.
        let parsed = thread::scope(|scope| {
            let parser = thread::Builder::new().stack_size(PARSER_STACK);
            let parser = parser.spawn_scoped(scope, || Self::parse(source)).ok()?;
            parser.join().ok()
        });
        parsed.unwrap_or_else(|| Err(check::plain("it cannot be read".to_owned())))
    }

    fn parse(source: &str) -> Result<Self, BadCondition> {
        let program = ENV
            .compile(source)
            .map_err(|errors| check::grammar(&errors))?;
        let shape = check::shape(program.expression())?;
        Ok(Self {
            source: source.into(),
            program: Arc::new(program),
            shape,
        })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it depends on the call, and not only on the tool and the mode.
    pub(crate) fn reads_call(&self) -> bool {
        self.shape.reads_call
    }

    /// Whether it is true of these facts; an error says why that cannot be told.
    pub(crate) fn holds(&self, facts: &Facts) -> Result<bool, String> {
        let work = facts.weight.clone()?.work(self.shape);
        let Some(left) = facts.left.get().checked_sub(work) else {
            return Err(
                "the arguments are too large for what it would have to go through".to_owned(),
            );
        };
        facts.left.set(left);
        let judged = catch_unwind(AssertUnwindSafe(|| self.program.execute(&facts.context)));
        match judged {
            Ok(Ok(Value::Bool(truth))) => Ok(truth),
            Ok(Ok(other)) => Err(format!("it gives `{}`, not true or false", kind(&other))),
            Ok(Err(error)) => Err(in_words(&error)),
            Err(_) => Err("the evaluation broke off".to_owned()),
        }
    }
}

/// Words without the values: these may be long, and are in the call already.
fn in_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("`{key}` is missing"),
        ExecutionError::NoSuchOverload(error) => {
            let types = error.argument_types().join("` and `");
            format!("`{}` does not work with `{types}`", plain(error.function()))
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("`{}` cannot be compared with `{}`", kind(left), kind(right))
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => format!(
            "`{}` does not work with `{}` and `{}`",
            sign(operator),
            kind(left),
            kind(right)
        ),
        ExecutionError::Overflow(operator, ..) => {
            format!("the result of `{}` is too large", sign(operator))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::IndexOutOfBounds(_) => "a list is shorter than that".to_owned(),
        ExecutionError::FunctionError { function, message } => {
            let first = message.lines().next().unwrap_or_default();
            format!("`{function}`: {}", shorten(first, 100))
        }
        other => shorten(&other.to_string(), 200),
    }
}

/// The name that CEL has for the type of a value.
fn kind(value: &Value) -> String {
    match value {
        Value::Float(_) => "double".to_owned(),
        other => other.type_of().to_string(),
    }
}

/// An operator as it is written, out of the word for it.
fn sign(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other,
    }
}

/// An operator as it is written, out of CEL's name for it (`_<=_`).
fn plain(function: &str) -> &str {
    function.trim_matches('_')
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.source)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Condition {}

/// What conditions are judged by: a tool, a mode, and a call where there is one.
pub(crate) struct Facts {
    context: Context<'static, 'static>,
    /// An error says why no condition can be judged.
    weight: Result<Weight, String>,
    /// Steps that are left of [`MAX_WORK`].
    left: Cell<u64>,
}

/// How much there is to go through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    /// Bytes of the arguments as JSON.
    bytes: u64,
    /// Values in them.
    values: u64,
}

impl Weight {
    /// Steps of an evaluation, from above: each loop may go through all there is.
    fn work(self, shape: Shape) -> u64 {
        let values = self.values.saturating_add(shape.nodes);
        let rounds = values.saturating_pow(shape.loops);
        let bulk = 1 + self.bytes / 1024;
        shape.nodes.saturating_mul(rounds).saturating_mul(bulk)
    }
}

impl Facts {
    /// Facts about a tool, for calls in a mode and of a client of this name; without a call, conditions
    /// that read it cannot be judged.
    pub(crate) fn new(
        subject: &Subject<'_>,
        (mode, client): (Mode, &str),
        call: Option<&Call<'_>>,
    ) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("tool", subject.name);
        let server = subject
            .offered
            .map_or(subject.server, |offered| offered.server);
        context.add_variable_from_value("server", server);
        context.add_variable_from_value("mode", mode.as_str());
        context.add_variable_from_value("client", client);
        context.add_variable_from_value("annotations", convert::annotations(subject.annotations));
        let mut facts = Self {
            context,
            weight: Ok(Weight {
                bytes: 0,
                values: 0,
            }),
            left: Cell::new(MAX_WORK),
        };
        if let Some(call) = call {
            facts.weight = facts.add(call);
        }
        facts
    }

    fn add(&mut self, call: &Call<'_>) -> Result<Weight, String> {
        if call.arguments.len() > MAX_ARGUMENT_BYTES {
            return Err(format!(
                "the arguments have more than {} MiB",
                MAX_ARGUMENT_BYTES >> 20
            ));
        }
        let arguments: serde_json::Value = serde_json::from_str(call.arguments)
            .map_err(|error| format!("the arguments are not JSON: {error}"))?;
        let mut values = (call.origins.len() + call.args_from.len()) as u64;
        let arguments = convert::json(&arguments, &mut values);
        let origins: Vec<&str> = call.origins.servers().collect();
        let args_from: Vec<&str> = call.args_from.servers().collect();
        self.context.add_variable_from_value("args", arguments);
        self.context.add_variable_from_value("origins", origins);
        self.context.add_variable_from_value("args_from", args_from);
        self.context
            .add_variable_from_value("principal", call.principal.as_str());
        Ok(Weight {
            bytes: call.arguments.len() as u64,
            values,
        })
    }
}

#[cfg(test)]
mod tests;
