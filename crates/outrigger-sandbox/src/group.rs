//! The hold on a process that was started directly, without a supervisor.
//!
//! Promises: on Unix its whole process group gets the signals; elsewhere the process itself is
//! killed. Leaves out: descendants that leave the group, which only the supervisor can follow.

#[cfg(not(unix))]
use std::sync::Arc;

/// The group (Unix) or the process (elsewhere) behind a child.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
    #[cfg(not(unix))]
    kill_wanted: Arc<tokio::sync::Notify>,
}

#[cfg(unix)]
impl Group {
    /// The group led by process `pid`, which was started with `process_group(0)`.
    pub(crate) fn led_by(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok();
        Self {
            leader: pid.and_then(rustix::process::Pid::from_raw),
        }
    }

    /// Asks every member to end.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends every member.
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // The only expected error is that nobody is left, which is what is wanted.
            if let Err(error) = rustix::process::kill_process_group(leader, signal) {
                tracing::trace!(?leader, %error, "no process group to signal");
            }
        }
    }

    /// Waits for the leader to exit, then ends what it left in the group.
    pub(crate) async fn wait(
        &self,
        process: &mut tokio::process::Child,
    ) -> std::io::Result<std::process::ExitStatus> {
        let status = process.wait().await;
        self.kill();
        status
    }
}

#[cfg(not(unix))]
impl Group {
    /// The process `pid`.
    pub(crate) fn led_by(_pid: u32) -> Self {
        Self {
            kill_wanted: Arc::new(tokio::sync::Notify::new()),
        }
    }

    /// Nothing to send: end of file was the polite way.
    pub(crate) fn terminate(&self) {
        tracing::trace!(?self, "no polite signal on this platform");
    }

    /// Ends the process.
    pub(crate) fn kill(&self) {
        self.kill_wanted.notify_one();
    }

    /// Waits for the process to exit, and kills it when asked to.
    pub(crate) async fn wait(
        &self,
        process: &mut tokio::process::Child,
    ) -> std::io::Result<std::process::ExitStatus> {
        tokio::select! {
            status = process.wait() => return status,
            () = self.kill_wanted.notified() => {}
        }
        process.kill().await?;
        process.wait().await
    }
}
