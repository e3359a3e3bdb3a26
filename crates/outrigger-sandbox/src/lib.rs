//! Starts one child process, confined, and leaves nothing behind.
//!
//! Promises: a [`Child`] that is closed or dropped, or whose host is killed with SIGKILL, leaves
//! no process, no zombie, no descriptor and no task behind, whatever it does; closing always
//! ends. [`supervisor`] says what is covered on which platform. Leaves out: what is said over the
//! pipes (no MCP here), and for now the confinement itself.

mod child;
mod group;
#[cfg(target_os = "linux")]
mod kernel;
mod launch;
mod lookup;
mod process;
mod report;
mod ring;
mod start;
pub mod supervisor;
#[cfg(target_os = "linux")]
mod tether;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod wire;

pub use child::Child;
pub use launch::{Launch, SpawnError};
pub use process::Process;
pub use report::{CloseOutcome, Ending, ExitReport, Patience};
pub use ring::{MAX_LINE_CHARS, StderrRing};
pub use tokio::process::{ChildStdin, ChildStdout};
