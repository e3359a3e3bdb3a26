//! Why a call came to no result of its server's, in a word: what a program that makes calls goes by, where
//! a model goes by the sentence beside it.

use outrigger_connect::ConnectErrorKind;
use outrigger_host::outcome::{CallOutcome, Rejection, UnknownReason};
use outrigger_host::{FailureKind, ServerState};

/// The word for an outcome. `state`: where the server stands now, for a call that was not sent to it.
pub(crate) fn of(outcome: &CallOutcome, state: Option<&ServerState>) -> &'static str {
    match outcome {
        // A refusal of HTTP; all others are results, or errors of the protocol.
        CallOutcome::Completed(_) => "http_error",
        CallOutcome::Rejected(rejection) => of_rejection(rejection),
        CallOutcome::NotSent(_) => state.map_or("closed", of_state),
        CallOutcome::Unknown(reason) => match reason {
            UnknownReason::Deadline(_) => "timeout",
            UnknownReason::ConnectionLost(_) => "closed",
            UnknownReason::Unfinished(_) => "unfinished",
            UnknownReason::Cancelled => "cancelled",
            UnknownReason::Earlier(_) => "earlier",
        },
        CallOutcome::Violated(_) => "contract",
    }
}

fn of_rejection(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::UnknownTool { .. } => "unknown_tool",
        Rejection::NotAnObject { .. } | Rejection::BadArguments { .. } => "bad_arguments",
        Rejection::NoArtifact { .. } => "no_artifact",
        Rejection::SetAside { .. } => "set_aside",
        Rejection::Denied { .. } | Rejection::Hook { .. } => "denied",
        Rejection::Declined { .. } => "declined",
        Rejection::NobodyToAsk { .. } | Rejection::Repeats(_) => "nobody_to_ask",
        Rejection::Changed => "changed",
        Rejection::HeldBack => "held_back",
        Rejection::Cancelled => "cancelled",
        Rejection::NotRecorded { .. } => "not_recorded",
    }
}

/// Why a server is not there.
pub(crate) fn of_state(state: &ServerState) -> &'static str {
    let Some(failure) = state.failure() else {
        return match state {
            ServerState::Starting => "starting",
            ServerState::Disabled => "disabled",
            _ => "closed",
        };
    };
    match failure.kind {
        FailureKind::Config => "config",
        FailureKind::NeedsTrust => "needs_trust",
        FailureKind::List => "not_listed",
        FailureKind::Ended => "closed",
        FailureKind::Busy | FailureKind::Elsewhere => "busy",
        FailureKind::SignedOff => "auth_required",
        FailureKind::Connect(kind) => match kind {
            ConnectErrorKind::StartupFailed => "startup_failed",
            ConnectErrorKind::Timeout => "timeout",
            ConnectErrorKind::Closed => "closed",
            ConnectErrorKind::Unreachable => "unreachable",
            ConnectErrorKind::HttpError => "http_error",
            ConnectErrorKind::AuthRequired => "auth_required",
            ConnectErrorKind::VersionMismatch => "version_mismatch",
            ConnectErrorKind::RpcError => "rpc_error",
            ConnectErrorKind::BadResult => "bad_result",
            ConnectErrorKind::Cancelled => "cancelled",
        },
    }
}
