//! Where calls stand in a distributed trace. Who exports spans knows; the pipeline asks, so that the
//! servers can be told.

use outrigger_connect::TraceContext;

/// Knows the trace that a run belongs to.
pub trait Traces: Send + Sync {
    /// Where this call stands. Asked once it is recorded that the call was proposed.
    fn of_call(&self, call: u32) -> Option<TraceContext>;

    /// A `tools/call` with this JSON-RPC id is being sent for the call. Must return quickly.
    fn sent(&self, call: u32, request: &str);
}
