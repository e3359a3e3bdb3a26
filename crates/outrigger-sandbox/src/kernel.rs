//! The calls to the kernel that have no safe wrapper (Linux). The only unsafe code of the crate.
//!
//! Promises: each function states why it is sound and may be called by the supervisor alone, at
//! its very start, while it has a single thread and owns no descriptor.
//! Leaves out: everything that `rustix` and the standard library can do.
#![expect(
    unsafe_code,
    reason = "descriptors by number, signal masks and code between fork and exec have no safe interface"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

/// Takes ownership of an inherited descriptor and keeps it from being inherited further.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only looks; a number that is no descriptor gives an error.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and at the start of the supervisor nothing in this process has made it
    // its own: the numbers were chosen by the host for nothing but this.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

/// Closes every descriptor but the standard three and `keep`: what a careless library in the host
/// has let through would keep pipes of other servers open.
pub(crate) fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut strangers: Vec<RawFd> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        strangers.extend(number.filter(|number| *number > 2 && !keep.contains(number)));
    }
    for number in strangers {
        // SAFETY: no value of this process owns it (see the top of the file). One of them is the
        // folder that was just read, which is closed already: EBADF does no harm.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Resets every signal to its default disposition, blocks them all, and gives a non-blocking
/// descriptor from which they are read one by one. So nothing that the host ignores is passed on,
/// and no handler ever runs.
pub(crate) fn signals_as_descriptor() -> io::Result<OwnedFd> {
    let faults = [libc::SIGSEGV, libc::SIGBUS];
    for number in (1..=64).filter(|number| !faults.contains(number)) {
        // SAFETY: SIG_DFL runs no code of ours. KILL, STOP and the two signals of the C library
        // give EINVAL. The handlers for stack overflow stay; exec resets them.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set that it is given a valid pointer to.
    let all = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        all.assume_init()
    };
    // SAFETY: a valid set, and no old set is asked for. The supervisor has one thread.
    let refused =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    // SAFETY: -1 asks for a new descriptor; the set is valid.
    let number =
        unsafe { libc::signalfd(-1, &raw const all, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just created, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes the server that `command` starts the leader of its own session and group (so it has no
/// terminal to read from or to be interrupted by), lets it die with `supervisor`, and unblocks its
/// signals.
pub(crate) fn detach_server(command: &mut Command, supervisor: Pid) {
    let between_fork_and_exec = move || {
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(supervisor) {
            // The supervisor died before the line above: there will be no signal.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set; the mask is this thread's own.
        let refused = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
        };
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only: no allocation, no lock, and
    // `from_raw_os_error` does not allocate. The supervisor has one thread.
    unsafe { command.pre_exec(between_fork_and_exec) };
}

/// The numbers of the signals that are waiting in a descriptor from [`signals_as_descriptor`].
pub(crate) fn read_signals(descriptor: &OwnedFd) -> Vec<i32> {
    const RECORD: usize = std::mem::size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0_u8; RECORD * 16];
    let mut numbers = Vec::new();
    while let Ok(read) = rustix::io::read(descriptor, &mut buffer) {
        if read == 0 {
            break;
        }
        // `ssi_signo`, a u32, is the first field of each record (signalfd(2)).
        for record in buffer[..read].chunks_exact(RECORD) {
            let number = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            numbers.extend(i32::try_from(number));
        }
    }
    numbers
}
