//! The thread of the control plane: it serves the control socket and the admin listener.
//!
//! The thread has its own current-thread runtime, so that commands and probes do not delay each
//! other.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// Maximum number of threads for blocking work: commands, which may write the state file or wait
/// for a check.
const BLOCKING_THREADS_MAX: usize = 8;

/// Maximum number of commands that wait for a check, so that hanging checks do not delay a drain.
const RUNS_MAX: usize = 4;

/// Number of permits for replies; further replies wait for a permit.
const REPLIES_MAX: u32 = 64;

/// Maximum time that the shutdown waits for replies in progress, including the reply to the command
/// that requested the shutdown, and for event streams.
const LAST_REPLIES_TIMEOUT: Duration = Duration::from_secs(1);

/// Descriptors of the runtime: two for epoll, and an eventfd to wake it.
pub(crate) const DESCRIPTORS: u32 = 3;

/// Number of permits for event streams, for which the shutdown waits; larger than the maximum
/// number of open event streams.
const FOLLOWERS_MAX: u32 = 1024;

/// Counts replies of the control socket, replies to `POST /-/quit`, event streams, and commands
/// that wait for a check. The shutdown of the thread waits for the replies and the event streams.
#[derive(Clone, Debug)]
pub(crate) struct ReplyPermits {
    replies: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    runs: Arc<Semaphore>,
}

impl ReplyPermits {
    /// Acquires a permit for a reply, to be held from the request to the last byte of the reply.
    pub(crate) async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.replies).acquire_owned().await.ok()
    }

    /// Acquires a permit for an event stream, to be held until the last event is sent.
    pub(super) fn follow(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().ok()
    }

    /// Acquires a permit, to be held while a command waits for a check; `None` if too many commands
    /// wait.
    pub(super) fn run(&self) -> Option<SemaphorePermit<'_>> {
        self.runs.try_acquire().ok()
    }

    /// Waits until all replies with a permit and all events are sent.
    pub(super) async fn all_sent(&self) {
        // The semaphores are never closed.
        let _all = self.replies.acquire_many(REPLIES_MAX).await;
        let _all = self.followers.acquire_many(FOLLOWERS_MAX).await;
    }
}

impl Default for ReplyPermits {
    fn default() -> Self {
        Self {
            replies: Arc::new(Semaphore::new(REPLIES_MAX as usize)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX as usize)),
            runs: Arc::new(Semaphore::new(RUNS_MAX)),
        }
    }
}

/// The running thread of the control plane. Its drop stops all its servers; end the event log
/// first, because the drop waits for event streams.
#[derive(Debug)]
pub(crate) struct AdminRuntime {
    handle: Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminRuntime {
    pub(crate) fn start(replies: ReplyPermits) -> io::Result<Self> {
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
                let _late = timeout(LAST_REPLIES_TIMEOUT, replies.all_sent()).await;
            });
            // A thread that hangs in a system call must not block the shutdown.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(run)?;
        Ok(Self { handle, stop, thread: Some(thread) })
    }

    /// Runs a server until the thread ends.
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
