//! The thread on which operators are served: the control socket, and whatever else is spawned on it.
//!
//! Does not know about: what it runs.
//!
//! One current-thread runtime apart from all others, so that a slow operator holds up neither probes nor checks, and the other way round.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// Threads for what cannot be waited for: commands that write the state file.
const BLOCKING_THREADS_MAX: usize = 4;

/// Answers in progress at once; one more waits.
const ANSWERS_MAX: u32 = 64;

/// How long the end waits for answers in progress: whoever asked for the end is told that it comes.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Those of the runtime: epoll and two to wake it.
pub(crate) const DESCRIPTORS: u32 = 3;

/// Those who follow events and for whom the end waits; more than there can be.
const FOLLOWERS_MAX: u32 = 1024;

/// Counts answers in progress and those who follow, for which the end of the lane waits a moment.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    answers: Arc<Semaphore>,
    followers: Arc<Semaphore>,
}

impl Answers {
    /// To be held from the request to the last byte of the answer.
    pub(crate) async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        self.answers.acquire().await.ok()
    }

    /// To be held until the last event is told.
    pub(super) fn follow(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().ok()
    }

    /// Waits until nobody has a place.
    async fn all_told(&self) {
        // They are never closed.
        let _told = self.answers.acquire_many(ANSWERS_MAX).await;
        let _told = self.followers.acquire_many(FOLLOWERS_MAX).await;
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            answers: Arc::new(Semaphore::new(ANSWERS_MAX as usize)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX as usize)),
        }
    }
}

/// The running thread. Dropped, it ends with everything on it; whoever follows events has to hear before that none come any more.
#[derive(Debug)]
pub(crate) struct AdminRuntime {
    handle: Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminRuntime {
    pub(crate) fn start(answers: Answers) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(false);
        let run = move || {
            runtime.block_on(async {
                let _closed = stopped.wait_for(|stopped| *stopped).await;
                let _late = timeout(LAST_ANSWERS, answers.all_told()).await;
            });
            // Whoever hangs in a system call does not hold up the end.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("ops".into()).spawn(run)?;
        Ok(Self { handle, stop, thread: Some(thread) })
    }

    /// Runs a server until the end of the lane.
    pub(crate) fn spawn(&self, server: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(server);
    }
}

impl Drop for AdminRuntime {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
