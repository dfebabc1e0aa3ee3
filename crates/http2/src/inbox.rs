//! The queue from the workers to the thread of HTTP/2: connections arrive in batches, with one
//! wake-up per batch. The first connection starts the thread. The hand-over permits are an
//! upper bound on the number of connections.

use doorbell::{HandedConn, Taker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::{fmt, io};
use tokio::sync::Notify;

/// The shared queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox(Arc<InboxInner>);

/// Function that starts the thread.
pub(super) type Start = Box<dyn Fn() -> io::Result<JoinHandle<()>> + Send>;

#[derive(Debug, Default)]
struct InboxInner {
    conns: Mutex<Conns>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Conns {
    waiting: Vec<HandedConn>,
    thread: Thread,
}

/// The thread.
#[derive(Default)]
enum Thread {
    /// Not started yet. `has_failed` is set after the first error; later errors are not logged.
    Idle {
        start: Start,
        has_failed: bool,
    },
    Running(JoinHandle<()>),
    /// Further connections are closed.
    #[default]
    Ended,
}

impl Inbox {
    /// Accepts connections from now on. The first connection calls `start`; after an error, the
    /// next connection calls it again.
    pub(super) fn open(&self, start: Start) {
        self.lock().thread = Thread::Idle { start, has_failed: false };
    }

    /// Waits for connections and takes all of them.
    pub(super) async fn take(&self) -> Vec<HandedConn> {
        loop {
            let arrived = self.0.arrived.notified();
            let conns = core::mem::take(&mut self.lock().waiting);
            if !conns.is_empty() {
                return conns;
            }
            arrived.await;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Closes queued connections and all later ones. Returns the thread, if there is one.
    pub(super) fn close(&self) -> Option<JoinHandle<()>> {
        let Conns { waiting, thread } = core::mem::take(&mut *self.lock());
        drop(waiting);
        match thread {
            Thread::Running(thread) => Some(thread),
            Thread::Idle { .. } | Thread::Ended => None,
        }
    }

    /// Closes the inbox if the thread was not started.
    pub(super) fn close_idle(&self) {
        let mut conns = self.lock();
        if matches!(conns.thread, Thread::Idle { .. }) {
            *conns = Conns::default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Conns> {
        // No code that can panic runs while the lock is held.
        self.0.conns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taker for Inbox {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        let mut inner = self.lock();
        // The thread starts under the lock, so that it starts once.
        if !inner.thread.run() {
            return;
        }
        inner.waiting.append(conns);
        drop(inner);
        self.0.arrived.notify_one();
    }
}

impl Thread {
    /// Starts the thread unless it was started. False if the thread does not run.
    fn run(&mut self) -> bool {
        let Self::Idle { start, has_failed } = self else { return matches!(self, Self::Running(_)) };
        match start() {
            Ok(thread) => {
                *self = Self::Running(thread);
                true
            }
            Err(error) => {
                if !core::mem::replace(has_failed, true) {
                    tracing::error!("cannot start the HTTP/2 thread: {error}; connections are closed");
                }
                false
            }
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle { .. } => "Idle",
            Self::Running(_) => "Running",
            Self::Ended => "Ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An inbox whose first `failures` starts fail, and the number of starts.
    fn inbox(failures: u32) -> (Inbox, Arc<AtomicU32>) {
        let (inbox, starts) = (Inbox::default(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&starts);
        inbox.open(Box::new(move || {
            if counted.fetch_add(1, Ordering::Relaxed) < failures {
                return Err(io::Error::other("no thread"));
            }
            Ok(std::thread::spawn(|| ()))
        }));
        (inbox, starts)
    }

    #[test]
    fn the_first_batch_starts_the_thread_once() {
        let (inbox, starts) = inbox(0);
        assert_eq!(starts.load(Ordering::Relaxed), 0);
        for _ in 0..3 {
            Taker::take(&inbox, &mut Vec::new());
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        inbox.close().expect("a running thread").join().expect("it ends");
    }

    #[test]
    fn a_failed_start_is_tried_again() {
        let (inbox, starts) = inbox(2);
        for _ in 0..4 {
            Taker::take(&inbox, &mut Vec::new());
        }
        assert_eq!(starts.load(Ordering::Relaxed), 3);
        assert!(inbox.close().is_some());
    }

    #[test]
    fn a_closed_inbox_starts_nothing() {
        for close in [|inbox: &Inbox| inbox.close_idle(), |inbox: &Inbox| assert!(inbox.close().is_none())] {
            let (inbox, starts) = inbox(0);
            close(&inbox);
            Taker::take(&inbox, &mut Vec::new());
            assert_eq!(starts.load(Ordering::Relaxed), 0);
        }
    }
}
