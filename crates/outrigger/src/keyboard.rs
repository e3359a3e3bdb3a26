//! Lines that a person types.
//!
//! Promises: an interrupt does not wait for a read, which nothing can take back; a line goes to the
//! question that is open when it ends, and to none when none is open, so that no word meant for a
//! question that has gone answers the next one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Standard input. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Keyboard(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiter: Option<oneshot::Sender<Option<String>>>,
    /// A thread is reading. Its line is the next one, whoever waits then.
    reading: bool,
}

impl Keyboard {
    /// The next line; `None` at end of file. Dropped, it waits for none any more.
    pub(crate) async fn line(&self) -> Option<String> {
        let (send, receive) = oneshot::channel();
        let start = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiter = Some(send);
            !std::mem::replace(&mut state.reading, true)
        };
        if start {
            let keyboard = self.clone();
            std::thread::spawn(move || keyboard.read());
        }
        receive.await.ok().flatten()
    }

    fn read(&self) {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let line = read.ok().filter(|bytes| *bytes > 0).map(|_| line);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.reading = false;
        if let Some(waiter) = state.waiter.take() {
            // Nobody there: the question has gone, and the line with it.
            waiter.send(line).ok();
        }
    }
}
