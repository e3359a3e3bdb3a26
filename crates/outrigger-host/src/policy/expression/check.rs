//! What is checked of a condition before any call: that it is short, that it only names what there
//! is, and how its cost grows with the arguments.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, ExecutionError, ParseErrors};

use super::{BadCondition, ENV, VARIABLES};
use crate::text::shorten;

/// Bytes of a condition.
const MAX_BYTES: usize = 4096;
/// Parts inside of parts. An evaluation recurses this deep, on the stack of whoever calls.
const MAX_DEPTH: u32 = 48;
/// Loops inside of loops.
const MAX_LOOPS: u32 = 3;
/// Doubles from here on, 2⁵³, do not hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Names of CEL's types, for `type(args.x) == string`.
const TYPES: [&str; 10] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];

/// How the cost of a condition grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Parts of the expression.
    pub(super) nodes: u64,
    /// Loops inside of loops, those over the result of another loop included.
    pub(super) loops: u32,
    /// It names something that only a call has.
    pub(super) reads_call: bool,
}

pub(super) fn plain(what: String) -> BadCondition {
    BadCondition { what, hint: None }
}

pub(super) fn length(source: &str) -> Result<(), BadCondition> {
    if source.len() > MAX_BYTES {
        return Err(plain(format!(
            "it has {} bytes; {MAX_BYTES} is the most",
            source.len()
        )));
    }
    Ok(())
}

/// The first thing that the parser says.
pub(super) fn grammar(errors: &ParseErrors) -> BadCondition {
    let Some(first) = errors.errors.first() else {
        return plain("it is not CEL".to_owned());
    };
    let said = first.msg.lines().next().unwrap_or_default();
    // What could stand there instead is a list of the grammar's own words.
    let said = said.split(" expecting ").next().unwrap_or_default();
    let said = said.trim_start_matches("Syntax error: ");
    let said = said.replace("mismatched input '<EOF>'", "it ends too early");
    let (line, column) = first.pos;
    let place = if line > 1 {
        format!("line {line}, column {column}")
    } else {
        format!("column {column}")
    };
    plain(format!("{place}: {}", shorten(&said, 160)))
}

/// Walks the expression; an error names what cannot be used.
pub(super) fn shape(expression: &IdedExpr) -> Result<Shape, BadCondition> {
    let mut walk = Walk {
        nodes: 0,
        depth: 0,
        reads_call: false,
        bound: Vec::new(),
    };
    let loops = walk.loops(expression)?;
    if loops > MAX_LOOPS {
        return Err(plain(format!(
            "it has {loops} loops inside of or after one another; {MAX_LOOPS} is the most"
        )));
    }
    Ok(Shape {
        nodes: walk.nodes,
        loops,
        reads_call: walk.reads_call,
    })
}

struct Walk<'e> {
    nodes: u64,
    /// Parts that this place is inside of.
    depth: u32,
    reads_call: bool,
    /// Names that loops around this place give.
    bound: Vec<&'e str>,
}

impl<'e> Walk<'e> {
    /// How many loops an expression has inside of or after one another.
    fn loops(&mut self, expression: &'e IdedExpr) -> Result<u32, BadCondition> {
        self.nodes += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let what = format!("its parts are nested more than {MAX_DEPTH} deep");
            return Err(plain(what));
        }
        let loops = self.loops_of(expression);
        self.depth -= 1;
        loops
    }

    fn loops_of(&mut self, expression: &'e IdedExpr) -> Result<u32, BadCondition> {
        match &expression.expr {
            Expr::Unspecified => Ok(0),
            Expr::Literal(literal) => literal_is_exact(literal).map(|()| 0),
            Expr::Ident(name) => self.name(name).map(|()| 0),
            Expr::Select(select) => self.loops(&select.operand),
            Expr::List(list) => self.most(&list.elements),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(made) => Err(plain(format!("there is no type `{}`", made.type_name))),
            Expr::Call(call) => {
                function(&call.func_name)?;
                let target = call.target.as_deref();
                let target = target.map_or(Ok(0), |target| self.loops(target))?;
                Ok(self.most(&call.args)?.max(target))
            }
            Expr::Comprehension(looped) => {
                let range = self.loops(&looped.iter_range)?;
                let before = self.bound.len();
                self.bound.push(&looped.iter_var);
                self.bound.extend(looped.iter_var2.as_deref());
                self.bound.push(&looped.accu_var);
                let parts = [
                    &looped.accu_init,
                    &looped.loop_cond,
                    &looped.loop_step,
                    &looped.result,
                ];
                let mut inner = 0;
                for part in parts {
                    inner = self.loops(part)?.max(inner);
                }
                self.bound.truncate(before);
                Ok(1 + range + inner)
            }
        }
    }

    fn most(&mut self, parts: &'e [IdedExpr]) -> Result<u32, BadCondition> {
        let mut most = 0;
        for part in parts {
            most = self.loops(part)?.max(most);
        }
        Ok(most)
    }

    fn entries(
        &mut self,
        entries: impl Iterator<Item = &'e EntryExpr>,
    ) -> Result<u32, BadCondition> {
        let mut most = 0;
        for entry in entries {
            let loops = match entry {
                EntryExpr::StructField(field) => self.loops(&field.value)?,
                EntryExpr::MapEntry(entry) => {
                    let key = self.loops(&entry.key)?;
                    self.loops(&entry.value)?.max(key)
                }
            };
            most = most.max(loops);
        }
        Ok(most)
    }

    fn name(&mut self, name: &str) -> Result<(), BadCondition> {
        if self.bound.contains(&name) || TYPES.contains(&name) {
            return Ok(());
        }
        if !VARIABLES.contains(&name) {
            let near = crate::config::nearest(name, &VARIABLES);
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", VARIABLES.join(", ")),
            };
            return Err(BadCondition {
                what: format!("there is no `{}`", name.escape_debug()),
                hint: Some(hint),
            });
        }
        self.reads_call |= matches!(name, "args" | "args_from" | "origins" | "principal");
        Ok(())
    }
}

/// A double this large stands for its neighbours, too, and would be compared as if it were they.
fn literal_is_exact(literal: &LiteralValue) -> Result<(), BadCondition> {
    match literal {
        LiteralValue::Double(double) if double.inner().abs() >= EXACT => Err(BadCondition {
            what: format!("`{}` is too large to be exact", double.inner()),
            hint: Some("write it without a point and exponent".to_owned()),
        }),
        _ => Ok(()),
    }
}

/// Whether there is a function: one that is not there says so before it looks at what it was given.
fn function(name: &str) -> Result<(), BadCondition> {
    if !name.starts_with(|first: char| first.is_alphabetic()) {
        return Ok(());
    }
    let unknown = |source: String| {
        let context = Context::with_env(Arc::clone(&ENV));
        let said = catch_unwind(AssertUnwindSafe(|| {
            ENV.compile(&source)
                .ok()
                .map(|program| program.execute(&context))
        }));
        matches!(
            said,
            Ok(None | Some(Err(ExecutionError::UndeclaredReference(_)))) | Err(_)
        )
    };
    if unknown(format!("{name}()")) && unknown(format!("''.{name}()")) {
        return Err(BadCondition {
            what: format!("there is no function `{}`", name.escape_debug()),
            hint: Some(
                "there are `size`, `contains`, `startsWith`, `endsWith`, `matches`, `has`, `all`, `exists` and more"
                    .to_owned(),
            ),
        });
    }
    Ok(())
}
