//! Places in traces, as text and as the SDK has them.

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use outrigger_connect::TraceContext;

use crate::surroundings;

/// What whoever started this program says about its own trace (OpenTelemetry, "Environment Variables
/// as Context Propagation Carriers").
pub(super) fn of_environment() -> Option<TraceContext> {
    let state = surroundings::set("TRACESTATE");
    TraceContext::new(&surroundings::set("TRACEPARENT")?, state.as_deref())
}

/// Something that goes on from there is its child.
pub(super) fn context(place: &TraceContext) -> Context {
    Context::new().with_remote_span_context(span_context(place))
}

/// The SDK's form. A `tracestate` that is not well-formed is dropped, as the standard says.
pub(super) fn span_context(place: &TraceContext) -> SpanContext {
    let mut parts = place.parent().split('-').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let trace = TraceId::from_hex(next()).unwrap_or(TraceId::INVALID);
    let span = SpanId::from_hex(next()).unwrap_or(SpanId::INVALID);
    let flags = u8::from_str_radix(next(), 16).unwrap_or_default();
    let state = place.state().and_then(|state| state.parse().ok());
    SpanContext::new(
        trace,
        span,
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
        true,
        state.unwrap_or(TraceState::NONE),
    )
}

/// The text of it, for who goes on from here. `None` for a place in no trace.
pub(super) fn place(span: &SpanContext) -> Option<TraceContext> {
    let parent = format!(
        "00-{}-{}-{:02x}",
        span.trace_id(),
        span.span_id(),
        span.trace_flags() & TraceFlags::SAMPLED
    );
    let state = span.trace_state().header();
    TraceContext::new(&parent, Some(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_there_and_back() {
        for (parent, state) in [
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                Some("a=1,b=2"),
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
                None,
            ),
        ] {
            let there = TraceContext::new(parent, state).unwrap();
            assert_eq!(place(&span_context(&there)), Some(there));
        }
        assert_eq!(place(&SpanContext::empty_context()), None);
    }
}
