//! A function of the program as a check: it runs on the program's runtime, and its timeout on the
//! scheduler's, so that a stuck runtime fails the check instead of delaying it.
//!
//! Does not know about: what the function does.

use crate::finding::{Finding, Issue, Verdict};
use crate::runner::Ran;
use crate::spent::Spent;
use doorbell_health::Outcome;
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};

/// The future of one call.
type Running = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A function of the program that checks something, with the runtime on which it runs.
#[derive(Clone)]
pub struct Call {
    function: Arc<dyn Fn() -> Running + Send + Sync>,
    runtime: Handle,
    timeout: Duration,
    /// Held by a run to its end: a call that blocks cannot be cancelled.
    turn: Arc<Semaphore>,
}

impl Call {
    /// `function` is called for each run, on `runtime`. An error becomes the reason of a failure,
    /// and so does a panic. After `timeout` the future is dropped.
    pub fn new<F, C, E>(runtime: Handle, timeout: Duration, function: F) -> Self
    where
        F: Fn() -> C + Send + Sync + 'static,
        C: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let function = move || -> Running {
            let running = function();
            Box::pin(async move { running.await.map_err(|error| error.to_string()) })
        };
        Self { function: Arc::new(function), runtime, timeout, turn: Arc::new(Semaphore::new(1)) }
    }

    pub(super) async fn run(&self) -> Ran {
        let start = Instant::now();
        let (outcome, reason) = match self.verdict().await {
            Ok(()) => (Outcome::Success, String::new()),
            Err(Issue { outcome, reason }) => (outcome, reason),
        };
        let finding = Finding { outcome, latency: start.elapsed(), reason };
        Ran { finding, spent: Spent::default(), certificate: None }
    }

    async fn verdict(&self) -> Verdict {
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else {
            return Err(Issue::timeout("the previous run has not ended"));
        };
        let function = Arc::clone(&self.function);
        let mut task = self.runtime.spawn(async move {
            let _turn = turn;
            // Called here, so that a panic before the first await is one of the task, too.
            function().await
        });
        match timeout(self.timeout, &mut task).await {
            Ok(Ok(result)) => result.map_err(Issue::failure),
            Ok(Err(error)) => Err(died(error)),
            Err(_elapsed) => {
                task.abort();
                Err(Issue::timeout(format!("no result within {:?}", self.timeout)))
            }
        }
    }
}

/// Why a task ended without a result.
fn died(error: JoinError) -> Issue {
    match error.try_into_panic() {
        Ok(panic) => Issue::failure(format!("panicked: {}", message(&*panic))),
        Err(_cancelled) => Issue::error("the runtime of the program has ended"),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::sync_channel;

    const LIMIT: Duration = Duration::from_secs(1);

    async fn finding(call: &Call) -> (Outcome, String) {
        let Finding { outcome, reason, .. } = call.run().await.finding;
        (outcome, reason)
    }

    #[tokio::test(start_paused = true)]
    async fn results_panics_and_timeouts_become_findings() {
        let results: Vec<fn() -> Running> = vec![
            || Box::pin(std::future::ready(Ok(()))),
            || Box::pin(std::future::ready(Err("no route".to_owned()))),
            || Box::pin(std::future::poll_fn(|_| panic!("index {}", 3))),
            || panic!("at once"),
            || Box::pin(std::future::pending()),
        ];
        let expected = [
            (Outcome::Success, ""),
            (Outcome::Failure, "no route"),
            (Outcome::Failure, "panicked: index 3"),
            (Outcome::Failure, "panicked: at once"),
            (Outcome::Timeout, "no result within 1s"),
        ];
        for (function, (outcome, reason)) in std::iter::zip(results, expected) {
            let call = Call::new(Handle::current(), LIMIT, function);
            assert_eq!(finding(&call).await, (outcome, reason.to_owned()));
        }
    }

    /// A blocked call cannot be cancelled: until it returns, no other one begins.
    #[test]
    fn a_call_that_blocks_never_runs_twice_at_once() {
        let program = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let own = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let (began, begins) = sync_channel(1);
        let (go, goes) = sync_channel::<()>(1);
        let (goes, count) = (Arc::new(Mutex::new(goes)), Arc::clone(&calls));
        let function = move || {
            count.fetch_add(1, Ordering::SeqCst);
            began.send(()).unwrap();
            // Blocking like this is a mistake in async code.
            let _end = goes.lock().unwrap().recv();
            std::future::ready(Ok::<(), String>(()))
        };
        let call = Call::new(program.handle().clone(), Duration::from_millis(1), function);
        // The timeout is noticed after the function has begun, however slow the machine is.
        let begun = async || {
            let begin = async { begins.recv().unwrap() };
            tokio::join!(biased; finding(&call), begin).0
        };
        own.block_on(async {
            assert_eq!(begun().await, (Outcome::Timeout, "no result within 1ms".to_owned()));
            assert_eq!(finding(&call).await.1, "the previous run has not ended");
        });
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        go.send(()).unwrap();
        drop(go);
        while call.turn.available_permits() == 0 {
            std::thread::yield_now();
        }
        own.block_on(begun());
        assert_eq!(calls.load(Ordering::SeqCst), 2, "the next run begins after the end of the first");
    }

    #[test]
    fn a_runtime_that_is_gone_is_an_error() {
        let program = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let own = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let call = Call::new(program.handle().clone(), LIMIT, || async { Ok::<(), String>(()) });
        drop(program);
        let expected = (Outcome::Error, "the runtime of the program has ended".to_owned());
        assert_eq!(own.block_on(finding(&call)), expected);
    }
}
