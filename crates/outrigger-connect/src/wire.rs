//! What both sides of a connection need: frames, messages, versions. The side that serves is
//! `outrigger-gateway`.

pub use crate::frame::{FrameEvent, FrameLimits, FrameReader, Unusable, check};
pub use crate::handshake::{LEGACY, MODERN};
pub use crate::rpc::message::{Message, parse};
pub use crate::text::quote;
