//! Runs a plan: a preflight request, then threads with one ring each, then the totals.

mod act;
mod delays;
mod dial;
mod pace;
mod preflight;
mod requests;
mod start;
#[cfg(test)]
mod tests;
mod turn;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::plan::Plan;
use crate::stats::Stats;
use start::Start;
use worker::Ended;

/// Results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Statistics of all threads since the end of the warm-up.
    pub stats: Stats,
    /// Duration of the measurement.
    pub elapsed: Duration,
    /// CPU time of this program during the whole run, including the warm-up.
    pub client_cpu: Duration,
    /// Duration of the whole run.
    pub whole: Duration,
    /// Whether the user stopped the run.
    pub stopped: bool,
    /// A description of the ring.
    pub ring: String,
}

/// Progress of a run, once a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Time since the threads started.
    pub elapsed: Duration,
    /// Number of good replies. The count restarts after the warm-up.
    pub requests: u64,
    /// Number of failed requests.
    pub failures: u64,
    /// Whether the warm-up is still running.
    pub warming_up: bool,
}

/// Receives the progress of a run.
pub trait Observer {
    /// Called about once a second.
    fn on_second(&mut self, sample: Sample);
    /// Called after the last `on_second`.
    fn on_end(&mut self) {}
}

/// State shared by the threads.
#[derive(Debug)]
struct EngineState {
    clock: Clock,
    start: Start,
    /// Whether the user stopped the run.
    stop: Arc<AtomicBool>,
    gauges: Vec<Gauge>,
    running: Mutex<u32>,
    ended: Condvar,
}

/// Values that a worker publishes once per turn. Aligned to its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gauge {
    requests: AtomicU64,
    failures: AtomicU64,
}

/// Runs `plan` to its end.
///
/// # Errors
/// When no load is possible: no server, no io_uring, too few descriptors. When the user stopped the
/// run before its measured time.
pub fn run(plan: &Plan, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    raise_open_files(plan)?;
    worker::try_ring()?;
    let clock = Clock::start();
    let plan = &Plan { expect: preflight::run(plan, clock)?, ..plan.clone() };
    let stop = Arc::new(AtomicBool::new(false));
    let signals = [SIGINT, SIGTERM].map(|signal| signal_hook::flag::register(signal, Arc::clone(&stop)));
    let shared = EngineState {
        clock,
        start: Start::new(plan.threads),
        stop,
        gauges: (0..plan.threads).map(|_| Gauge::default()).collect(),
        running: Mutex::new(plan.threads),
        ended: Condvar::new(),
    };
    let cpu_before = cpu_time();
    let began = clock.now();
    let results = run_threads(plan, &shared, observer);
    for signal in signals.into_iter().flatten() {
        signal_hook::low_level::unregister(signal);
    }
    let whole = Duration::from_nanos(clock.now() - began);
    let client_cpu = cpu_time().saturating_sub(cpu_before);
    let stopped = shared.stop.load(Ordering::Relaxed);
    let (ended, elapsed) = sum(results?)?;
    if !ended.is_measuring {
        return Err(Failure::new(Exit::Failures, "stopped during the warm-up: nothing was measured"));
    }
    Ok(Outcome { stats: ended.stats, elapsed, client_cpu, whole, stopped, ring: ended.ring })
}

/// Starts the threads and waits for their results.
fn run_threads(
    plan: &Plan,
    shared: &EngineState,
    observer: &mut dyn Observer,
) -> Result<Vec<Result<Option<Ended>, Failure>>, Failure> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for index in 0..plan.threads {
            let builder = thread::Builder::new().name(format!("load-{index}"));
            match builder.spawn_scoped(scope, move || run_worker(plan, index, shared)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.start.refused(plan.threads - index);
                    let remedy = "use fewer threads, or raise the limit of processes (`ulimit -u`)";
                    let message = format!("cannot start {} threads: {error}; {remedy}", plan.threads);
                    return Err(Failure::new(Exit::Failures, message));
                }
            }
        }
        watch(plan, shared, observer);
        Ok(threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect())
    })
}

/// Runs one thread. Returns `None` if another thread failed or could not be started; [`run`]
/// returns that error.
fn run_worker(plan: &Plan, index: u32, shared: &EngineState) -> Result<Option<Ended>, Failure> {
    let worker = worker::Worker::open(plan, index);
    let all_are_ready = shared.start.arrive(worker.is_ok());
    let result = worker.and_then(|worker| {
        if !all_are_ready {
            return Ok(None);
        }
        worker.run(plan, shared.clock, &shared.stop, &shared.gauges[index as usize]).map(Some)
    });
    *shared.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    shared.ended.notify_all();
    result
}

/// Notifies the observer once a second until every worker has ended.
fn watch(plan: &Plan, shared: &EngineState, observer: &mut dyn Observer) {
    let began = shared.clock.now();
    let mut running = shared.running.lock().unwrap_or_else(PoisonError::into_inner);
    while *running > 0 {
        let waited = shared.ended.wait_timeout(running, Duration::from_secs(1));
        let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        running = guard;
        if timeout.timed_out() && *running > 0 {
            let sum = |of: fn(&Gauge) -> &AtomicU64| {
                shared.gauges.iter().map(|gauge| of(gauge).load(Ordering::Relaxed)).sum()
            };
            let elapsed = Duration::from_nanos(shared.clock.now() - began);
            observer.on_second(Sample {
                elapsed,
                requests: sum(|gauge| &gauge.requests),
                failures: sum(|gauge| &gauge.failures),
                warming_up: elapsed < plan.warm_up,
            });
        }
    }
    observer.on_end();
}

/// Returns the totals of all threads and the duration, or the first error.
fn sum(results: Vec<Result<Option<Ended>, Failure>>) -> Result<(Ended, Duration), Failure> {
    let mut sum: Option<Ended> = None;
    for result in results {
        let Some(ended) = result? else { continue };
        match &mut sum {
            None => sum = Some(ended),
            Some(sum) => {
                sum.stats.add(&ended.stats);
                sum.is_measuring |= ended.is_measuring;
                sum.measured_from = sum.measured_from.min(ended.measured_from);
                sum.ended_at = sum.ended_at.max(ended.ended_at);
            }
        }
    }
    let sum = sum.expect("a run without an error has at least one thread");
    let elapsed = Duration::from_nanos(sum.ended_at.saturating_sub(sum.measured_from));
    Ok((sum, elapsed))
}

/// Raises the soft limit of open files if this run needs it.
fn raise_open_files(plan: &Plan) -> Result<(), Failure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Descriptors for rings, standard streams and run-time libraries are included.
    let needed = u64::from(plan.conns) + 8 * u64::from(plan.threads) + 64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if maximum.is_none_or(|maximum| maximum >= needed)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_ok()
    {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} connections need {needed} open files, and the limit is {}: raise it (`ulimit -n`)",
        plan.conns,
        maximum.unwrap_or(needed)
    )))
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
