//! A tool's JSON Schema in the words that a provider family takes, and a call mapped back.
//!
//! [`compile`] promises three things. What a model writes by the compiled schema becomes, through
//! [`Compiled::to_original`], arguments in the server's own words, and that mapping only undoes what
//! the compiler did: names, the JSON text that stands for what a family cannot say, nulls that stand
//! for nothing. Whatever the compiled schema no longer says is in the list of [`Change`]s. And where it
//! offers less than the original allows, that list says [`Effect::Narrower`].
//!
//! It judges no arguments: the host does, by the server's own schema, before every call. Nothing here
//! knows MCP, providers' wire formats or a network.

mod change;
mod document;
mod family;
mod join;
mod light;
mod limits;
mod lowering;
mod names;
mod narrow;
mod plan;
mod root;

use std::borrow::Cow;

use serde_json::Value;

pub use change::{Change, Effect};
pub use family::Family;
use plan::Plan;

/// A schema as one family takes it.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// What is sent. `None`: this family wants a tool without arguments declared without a schema.
    pub schema: Option<Value>,
    /// What is no longer said, or said in other words, in the order of the original.
    pub changes: Vec<Change>,
    plan: Plan,
}

/// Why a tool cannot be declared to a family.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetAside(pub(crate) String);

/// Puts a tool's input schema, of any dialect from draft-04 to 2020-12, in the words of a family.
///
/// # Errors
///
/// When the arguments are no object, or are beyond what the family can be told.
pub fn compile(family: Family, schema: &Value) -> Result<Compiled, SetAside> {
    lowering::run(family, schema)
}

impl Compiled {
    /// The arguments of a call, as the model wrote them by [`Compiled::schema`], in the server's own
    /// words. What is not JSON, or not what the schema asks for, stays as it is written.
    pub fn to_original<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        self.plan.back(arguments)
    }

    /// Arguments in the server's own words, as the model would have written them.
    pub fn to_provider<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        self.plan.forth(arguments)
    }

    /// Whether calls are the same on both sides.
    pub fn is_same_call(&self) -> bool {
        self.plan.is_identity()
    }
}
