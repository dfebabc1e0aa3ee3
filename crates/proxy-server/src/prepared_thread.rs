//! A thread with a Tokio runtime that is created while a configuration is prepared, and starts its
//! work when the configuration is used.

use std::fmt;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// A thread that waits for its input. Dropping the handle stops the thread, and waits for its end.
pub(crate) struct PreparedThread<T, R = ()> {
    /// Passes the input; dropping the sender ends a thread that still waits.
    input: Option<SyncSender<T>>,
    leaving: Option<watch::Sender<bool>>,
    /// Returns the result of the work, if the work was started.
    thread: Option<JoinHandle<Option<R>>>,
}

impl<T: Send + 'static, R: Send + 'static> PreparedThread<T, R> {
    /// Creates the thread. `run` is called with the input and a receiver that has the value true
    /// after [`Self::leave`], and is closed when the handle is dropped.
    ///
    /// # Errors
    /// If the system refuses a thread or the descriptors of a runtime.
    pub(crate) fn new<F: Future<Output = R>>(
        name: &str,
        lookups_max: usize,
        run: impl FnOnce(T, watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(lookups_max).build()?;
        let (leaving, left) = watch::channel(false);
        let (input, inputs) = sync_channel(1);
        let run = move || {
            let input = inputs.recv().ok()?;
            let result = runtime.block_on(async { run(input, left).await });
            // A name lookup may hang, so the shutdown must not wait.
            runtime.shutdown_background();
            Some(result)
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { input: Some(input), leaving: Some(leaving), thread: Some(thread) })
    }

    /// Starts the work.
    pub(crate) fn start(&self, input: T) {
        let _ended = self.input.as_ref().map(|sender| sender.send(input));
    }

    /// Announces the end. The thread decides what to finish.
    pub(crate) fn leave(&self) {
        let _before = self.leaving.as_ref().map(|leaving| leaving.send_replace(true));
    }

    /// Announces the end, and waits for the result; `None` if the work was not started or panicked.
    pub(crate) fn join(&mut self) -> Option<R> {
        self.leave();
        self.thread.take()?.join().ok()?
    }

    /// Lets the thread end in the background.
    pub(crate) fn detach(mut self) {
        drop(self.thread.take());
    }
}

impl<T, R> fmt::Debug for PreparedThread<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedThread").finish_non_exhaustive()
    }
}

impl<T, R> Drop for PreparedThread<T, R> {
    fn drop(&mut self) {
        // The thread waits for one of these channels.
        drop((self.input.take(), self.leaving.take()));
        // The panic hook has reported a panic.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
