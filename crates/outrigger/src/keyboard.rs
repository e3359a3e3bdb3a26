//! Lines that a person types.
//!
//! Promises: an interrupt does not wait for a read; a line goes to the question that is open when it
//! ends, and to none when none is open, so that no word meant for a question that has gone answers the
//! next one. A chat that edits its own lines holds the keyboard meanwhile: nothing else reads then, and
//! a question that is open gets the line that was edited.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Standard input. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Keyboard(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiter: Option<oneshot::Sender<Option<String>>>,
    /// A thread is reading. Its line is the next one, whoever waits then.
    reading: Option<Wake>,
    /// Told when that thread has ended.
    stopped: Option<oneshot::Sender<()>>,
    held: bool,
}

impl Keyboard {
    /// The next line; `None` at end of file. Dropped, it waits for none any more.
    pub(crate) async fn line(&self) -> Option<String> {
        let (send, receive) = oneshot::channel();
        self.state().waiter = Some(send);
        self.read_if_wanted();
        receive.await.ok().flatten()
    }

    /// Reads nothing from now on: lines come by [`Keyboard::typed`].
    pub(crate) async fn hold(&self) {
        let stopped = {
            let mut state = self.state();
            state.held = true;
            let woken = state.reading.as_ref().is_some_and(Wake::wake);
            woken.then(|| {
                let (send, receive) = oneshot::channel();
                state.stopped = Some(send);
                receive
            })
        };
        if let Some(stopped) = stopped {
            stopped.await.ok();
        }
    }

    /// Reads again for whoever waits.
    pub(crate) fn release(&self) {
        self.state().held = false;
        self.read_if_wanted();
    }

    /// A line, or the end of input, that was typed while the keyboard was held; given back when no
    /// question is open.
    pub(crate) fn typed(&self, line: Option<String>) -> Result<(), Option<String>> {
        match self.state().waiter.take() {
            Some(waiter) => waiter.send(line),
            None => Err(line),
        }
    }

    fn read_if_wanted(&self) {
        let mut state = self.state();
        if state.held || state.waiter.is_none() || state.reading.is_some() {
            return;
        }
        let (wake, woken) = Wake::pair();
        state.reading = Some(wake);
        let keyboard = self.clone();
        std::thread::spawn(move || keyboard.read(&woken));
    }

    fn read(&self, woken: &Woken) {
        let line = woken.input_comes().then(|| {
            let mut line = String::new();
            let read = std::io::stdin().read_line(&mut line);
            read.ok().filter(|bytes| *bytes > 0).map(|_| line)
        });
        let mut state = self.state();
        state.reading = None;
        if let Some(line) = line
            && let Some(waiter) = state.waiter.take()
        {
            // Nobody there: the question has gone, and the line with it.
            waiter.send(line).ok();
        }
        if let Some(stopped) = state.stopped.take() {
            stopped.send(()).ok();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the waiting of a thread that reads.
struct Wake(#[cfg(unix)] Option<std::os::fd::OwnedFd>);

/// The other end, in that thread.
struct Woken(#[cfg(unix)] Option<std::os::fd::OwnedFd>);

#[cfg(unix)]
impl Wake {
    fn pair() -> (Self, Woken) {
        let (woken, wake) = rustix::pipe::pipe().ok().unzip();
        (Self(wake), Woken(woken))
    }

    /// Whether the thread will hear it.
    fn wake(&self) -> bool {
        let wake = self.0.as_ref();
        wake.is_some_and(|wake| rustix::io::write(wake, b"x").is_ok())
    }
}

#[cfg(unix)]
impl Woken {
    /// Waits for input. False: it is no longer wanted.
    fn input_comes(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let Some(woken) = &self.0 else {
            return true;
        };
        let stdin = std::io::stdin();
        let mut both = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        loop {
            match poll(&mut both, None) {
                Ok(_) => return both[1].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                // Then the read itself says what is wrong.
                Err(_) => return true,
            }
        }
    }
}

#[cfg(not(unix))]
impl Wake {
    fn pair() -> (Self, Woken) {
        (Self(), Woken())
    }

    #[expect(clippy::unused_self, reason = "as where it can be done")]
    fn wake(&self) -> bool {
        false
    }
}

#[cfg(not(unix))]
impl Woken {
    #[expect(clippy::unused_self, reason = "as where it can be done")]
    fn input_comes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn while_it_is_held_an_open_question_gets_what_was_typed() {
        let keyboard = Keyboard::default();
        keyboard.hold().await;
        assert_eq!(
            keyboard.typed(Some("for nobody".to_owned())),
            Err(Some("for nobody".to_owned()))
        );
        let question = keyboard.line();
        tokio::pin!(question);
        assert!(futures::poll!(&mut question).is_pending());
        assert_eq!(keyboard.typed(Some("yes".to_owned())), Ok(()));
        assert_eq!(question.await.as_deref(), Some("yes"));
    }

    #[tokio::test]
    async fn a_question_that_has_gone_takes_no_line() {
        let keyboard = Keyboard::default();
        keyboard.hold().await;
        {
            let question = keyboard.line();
            tokio::pin!(question);
            assert!(futures::poll!(&mut question).is_pending());
        }
        assert_eq!(keyboard.typed(None), Err(None));
    }
}
