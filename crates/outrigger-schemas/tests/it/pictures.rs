//! Pictures of what is sent.
