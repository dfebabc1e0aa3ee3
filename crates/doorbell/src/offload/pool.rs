//! The rayon pool that jobs run on.
//!
//! Does not know about: jobs, queues. It runs pumps.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::OffloadBuilder;
use super::queue::{Executor, Pump};

/// A pool's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the threads for jobs could not be started: {0}")]
pub struct PoolError(#[source] ThreadPoolBuildError);

#[derive(Debug)]
pub(super) struct Pool(ThreadPool);

impl Pool {
    pub(super) fn start(asked: &OffloadBuilder) -> Result<Self, PoolError> {
        let name = Arc::clone(&asked.name);
        let cpus = asked.cpus.clone();
        let mut builder = ThreadPoolBuilder::new()
            .num_threads(asked.threads.map_or_else(threads_here, |threads| usize::from(threads.get())))
            .thread_name(move |index| format!("{name}-{index}"))
            .start_handler(move |index| pin(&cpus, index));
        if let Some(bytes) = asked.stack_size {
            builder = builder.stack_size(bytes);
        }
        builder.build().map(Self).map_err(PoolError)
    }
}

impl Executor for Pool {
    fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    fn spawn(&self, pump: Pump) {
        self.0.spawn_fifo(move || pump.run());
    }
}

/// One processor is left to the ring threads.
fn threads_here() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    cpus.saturating_sub(1).max(1)
}

/// Best effort: a processor that is not there is no reason to fail.
fn pin(cpus: &[usize], index: usize) {
    let Some(cpu) = cpus.get(index % cpus.len().max(1)) else { return };
    let mut set = rustix::thread::CpuSet::new();
    set.set(*cpu);
    let _best_effort = rustix::thread::sched_setaffinity(None, &set);
}
