//! The tools of a request in the provider's words: compiled once, and the same bytes from turn to turn.
//!
//! What is kept is looked up by the declaration itself, so a toolset that grows costs only what is new.
//! A tool that the provider cannot be told of is left out, with its reason.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_model::{DeclaredTool, Message, ModelEvent, ModelRequest, ToolCall, ToolDeclaration};
use outrigger_schemas::{Compiled, SetAside, compile};
use serde::Serializer;
use serde::ser::{Serialize, SerializeMap};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::wire::{Wire, Written};

/// Compiles for one model, and remembers.
#[derive(Default)]
pub(super) struct Declarer {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    newest: Option<(Arc<[ToolDeclaration]>, Arc<Declared>)>,
    /// Every tool that was declared last time, by name.
    tools: HashMap<String, Arc<Tool>>,
}

struct Tool {
    declaration: ToolDeclaration,
    outcome: Result<(Compiled, Value), SetAside>,
}

/// The tools of one request.
#[derive(Default)]
pub(super) struct Declared {
    /// The value of `tools`; nothing when there are none.
    tools: Option<Box<RawValue>>,
    /// All of them, in their order.
    all: Vec<Arc<Tool>>,
    /// Those whose calls differ on the two sides.
    mapped: HashMap<String, Arc<Tool>>,
}

impl Declarer {
    /// The tools as `wire` declares them.
    pub(super) fn declared(
        &self,
        wire: &dyn Wire,
        tools: &Arc<[ToolDeclaration]>,
    ) -> Result<Arc<Declared>, serde_json::Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((newest, declared)) = &known.newest
            && Arc::ptr_eq(newest, tools)
        {
            return Ok(Arc::clone(declared));
        }
        let mut all = HashMap::with_capacity(tools.len());
        let (mut declared, mut values) = (Declared::default(), Vec::with_capacity(tools.len()));
        for declaration in tools.iter() {
            let before = known.tools.get(&declaration.name);
            let tool = match before.filter(|tool| tool.declaration == *declaration) {
                Some(tool) => Arc::clone(tool),
                None => Arc::new(Tool::new(wire, declaration)),
            };
            if let Ok((compiled, value)) = &tool.outcome {
                values.push(Written {
                    value: value.clone(),
                    deferred: declaration.deferred.clone(),
                });
                if !compiled.is_same_call() {
                    declared
                        .mapped
                        .insert(declaration.name.clone(), Arc::clone(&tool));
                }
            }
            declared.all.push(Arc::clone(&tool));
            all.insert(declaration.name.clone(), tool);
        }
        if !values.is_empty() {
            declared.tools = Some(to_raw_value(&wire.declarations(values))?);
        }
        let declared = Arc::new(declared);
        known.tools = all;
        known.newest = Some((Arc::clone(tools), Arc::clone(&declared)));
        Ok(declared)
    }
}

impl Tool {
    fn new(wire: &dyn Wire, declaration: &ToolDeclaration) -> Self {
        let compiled = compile(wire.family(), &declaration.input_schema);
        let outcome = compiled.map(|compiled| {
            let value = wire.declare(declaration, compiled.schema.as_ref());
            (compiled, value)
        });
        Self {
            declaration: declaration.clone(),
            outcome,
        }
    }
}

impl Declared {
    /// The value of `tools`.
    pub(super) fn tools(&self) -> Option<&RawValue> {
        self.tools.as_deref()
    }

    /// What the request says of each tool.
    pub(super) fn told(&self) -> Vec<DeclaredTool> {
        let told = self.all.iter().map(|tool| DeclaredTool {
            tool: tool.declaration.name.clone(),
            deferred: tool.declaration.deferred.is_some(),
            said: match &tool.outcome {
                Ok((_, value)) => Ok(value.to_string()),
                Err(reason) => Err(reason.to_string()),
            },
        });
        told.collect()
    }

    fn compiled(&self, name: &str) -> Option<&Compiled> {
        let tool = self.mapped.get(name)?;
        tool.outcome.as_ref().ok().map(|(compiled, _)| compiled)
    }

    /// The request with earlier calls as the model wrote them.
    pub(super) fn as_written<'r>(&self, request: &'r ModelRequest) -> Cow<'r, ModelRequest> {
        let differs = |message: &Message| match message {
            Message::Assistant(turn) => turn
                .calls
                .iter()
                .any(|call| self.mapped.contains_key(&call.name)),
            _ => false,
        };
        if self.mapped.is_empty() || !request.messages.iter().any(differs) {
            return Cow::Borrowed(request);
        }
        let mut request = request.clone();
        for message in &mut request.messages {
            if let Message::Assistant(turn) = message {
                for call in &mut turn.calls {
                    self.map(call, Compiled::to_provider);
                }
            }
        }
        Cow::Owned(request)
    }

    /// A finished turn's calls in the servers' own words.
    pub(super) fn map_back(&self, event: &mut ModelEvent) {
        if let ModelEvent::Finished { turn, .. } = event {
            for call in &mut turn.calls {
                self.map(call, Compiled::to_original);
            }
        }
    }

    fn map(&self, call: &mut ToolCall, way: for<'a> fn(&Compiled, &'a str) -> Cow<'a, str>) {
        if let Some(compiled) = self.compiled(&call.name) {
            call.arguments = way(compiled, &call.arguments).into_owned();
        }
    }
}

/// A body with `tools`, which are text already.
pub(super) fn with_tools(
    body: &Value,
    tools: Option<&RawValue>,
) -> Result<Vec<u8>, serde_json::Error> {
    struct Body<'a>(&'a Map<String, Value>, Option<&'a RawValue>);
    impl Serialize for Body<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for (key, value) in self.0 {
                map.serialize_entry(key, value)?;
            }
            if let Some(tools) = self.1 {
                map.serialize_entry("tools", tools)?;
            }
            map.end()
        }
    }
    match body {
        Value::Object(members) => serde_json::to_vec(&Body(members, tools)),
        other => serde_json::to_vec(other),
    }
}
