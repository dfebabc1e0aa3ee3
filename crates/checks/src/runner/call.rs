//! A function of the embedding program as a check. The function runs on the program's runtime, and
//! its timeout on the scheduler's runtime, so that a stuck runtime fails the check instead of
//! delaying it.

use crate::finding::{Finding, Issue, Verdict};
use crate::phase_times::PhaseTimes;
use crate::runner::RunResult;
use doorbell_health::Outcome;
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

/// The future of one call.
type Running = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A function of the embedding program that checks something, with the runtime on which it runs.
#[derive(Clone)]
pub struct Call {
    function: Arc<dyn Fn() -> Running + Send + Sync>,
    runtime: Handle,
    timeout: Duration,
    /// One permit, held by a run until its call has ended: a blocking call cannot be cancelled, so
    /// the next run waits for it.
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

    pub(super) async fn run(&self) -> RunResult {
        let start = Instant::now();
        let (outcome, reason) = match self.verdict().await {
            Ok(()) => (Outcome::Success, String::new()),
            Err(Issue { outcome, reason }) => (outcome, reason),
        };
        let finding = Finding { outcome, latency: start.elapsed(), reason };
        RunResult { finding, phase_times: PhaseTimes::default(), certificate: None }
    }

    async fn verdict(&self) -> Verdict {
        let start = Instant::now();
        // A cancelled call ends when its runtime polls it, which may be after the next run is due.
        let turn = timeout(self.timeout, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Issue::timeout("the previous run has not ended"));
        };
        let function = Arc::clone(&self.function);
        // Cancels the call when dropped: after the timeout, and at the end of the scheduler.
        let mut call = JoinSet::new();
        let running = async move {
            let _turn = turn;
            // Called inside the task, so that a panic before the first await is caught, too.
            function().await
        };
        call.spawn_on(running, &self.runtime);
        match timeout(self.timeout.saturating_sub(start.elapsed()), call.join_next()).await {
            Ok(Some(Ok(result))) => result.map_err(Issue::failure),
            Ok(Some(Err(error))) => Err(issue_of_join_error(error)),
            Ok(None) | Err(_) => Err(Issue::timeout(format!("no result within {:?}", self.timeout))),
        }
    }
}

/// Why a task ended without a result.
fn issue_of_join_error(error: JoinError) -> Issue {
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

    /// The next run may be due immediately, before the runtime has cancelled the last one.
    #[tokio::test(start_paused = true)]
    async fn a_run_after_a_timeout_waits_for_the_end_of_the_last() {
        let calls = AtomicU32::new(0);
        let call = Call::new(Handle::current(), LIMIT, move || {
            let hangs = calls.fetch_add(1, Ordering::SeqCst) == 0;
            async move { if hangs { std::future::pending().await } else { Ok::<(), String>(()) } }
        });
        assert_eq!(finding(&call).await.0, Outcome::Timeout);
        assert_eq!(finding(&call).await, (Outcome::Success, String::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_cancelled_when_its_run_is_dropped() {
        let held = Arc::new(());
        let by_call = Arc::clone(&held);
        let call = Call::new(Handle::current(), LIMIT, move || {
            let held = Arc::clone(&by_call);
            async move {
                let _held = held;
                std::future::pending::<Result<(), String>>().await
            }
        });
        assert!(timeout(LIMIT / 2, call.run()).await.is_err());
        let ended = async {
            while Arc::strong_count(&held) > 2 {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, ended).await.expect("the future is dropped");
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
            // Blocks on purpose: an application may do this by mistake.
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
