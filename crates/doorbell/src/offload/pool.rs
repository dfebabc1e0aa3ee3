//! The rayon pool that runs jobs.
//!
//! The pool runs each [`Pump`], which takes jobs from the queues.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::OffloadBuilder;
use super::queue::{Executor, Pump};
use crate::panics::caught;

/// Maximum length of the name of a thread in the kernel (`TASK_COMM_LEN` minus the NUL).
const THREAD_NAME_LEN_MAX: usize = 15;

/// The threads of the pool could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the threads for jobs could not be started: {0}")]
pub struct PoolError(#[source] ThreadPoolBuildError);

#[derive(Debug)]
pub(super) struct Pool(ThreadPool);

impl Pool {
    pub(super) fn start(asked: &OffloadBuilder) -> Result<Self, PoolError> {
        let name = Arc::clone(&asked.name);
        let (cpus, nice) = (asked.cpus.clone(), i32::from(asked.nice));
        let mut builder = ThreadPoolBuilder::new()
            .num_threads(asked.threads.map_or_else(threads_here, |threads| usize::from(threads.get())))
            .thread_name(move |index| thread_name(&name, index))
            .start_handler(move |index| {
                pin(&cpus, index);
                // On Linux `nice` affects only the calling thread. If a sandbox denies the call,
                // jobs run with the normal priority.
                let _best_effort = (nice > 0).then(|| rustix::process::nice(nice));
            });
        if let Some(bytes) = asked.stack_size {
            builder = builder.stack_size(bytes);
        }
        builder.build().map(Self).map_err(PoolError)
    }
}

/// The name of a thread. A prefix that is too long is shortened, because the kernel would cut off
/// the number.
fn thread_name(prefix: &str, index: usize) -> String {
    let number = format!("-{index}");
    let len = THREAD_NAME_LEN_MAX.saturating_sub(number.len());
    format!("{prefix:.len$}{number}")
}

impl Executor for Pool {
    fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    fn spawn(&self, pump: Pump) {
        // rayon aborts the process if a spawned closure panics.
        self.0.spawn_fifo(move || {
            let _contained = caught(|| pump.run());
        });
    }
}

/// Default number of threads, which leaves one processor to the ring threads.
fn threads_here() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    cpus.saturating_sub(1).max(1)
}

/// Pins the calling thread to the processor selected by `index`. Processors that are not permitted
/// or do not fit into a mask are skipped; if none is left, the thread is not pinned.
fn pin(cpus: &[usize], index: usize) {
    if cpus.is_empty() {
        return;
    }
    // Only an attempt shows whether a processor is permitted: the current mask may be narrower than
    // the permitted set.
    let usable: Vec<CpuSet> =
        cpus.iter().filter_map(|cpu| only(*cpu)).filter(|set| sched_setaffinity(None, set).is_ok()).collect();
    if let Some(set) = usable.get(index % usable.len().max(1)) {
        let _did_before = sched_setaffinity(None, set);
    }
}

fn only(cpu: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (cpu < CpuSet::MAX_CPU).then(|| set.set(cpu))?;
    Some(set)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU16;
    use core::time::Duration;
    use std::sync::mpsc::sync_channel;

    use rustix::thread::sched_getaffinity;

    use crate::offload::Offload;

    use super::*;

    /// The CPU masks of two threads.
    fn masks(cpus: &[usize]) -> Vec<Vec<usize>> {
        let jobs = Offload::builder().threads(NonZeroU16::new(2).unwrap()).cpus(cpus).build().unwrap();
        let (sender, receiver) = sync_channel(2);
        // Each pump waits for the other, so they run on different threads.
        let both = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (sender, both) = (sender.clone(), Arc::clone(&both));
            assert!(jobs.spawn(move || {
                both.wait();
                sender.send(allowed()).unwrap();
            }));
        }
        let mut masks: Vec<_> = (0..2)
            .map(|_| receiver.recv_timeout(Duration::from_secs(20)).expect("both threads live"))
            .collect();
        masks.sort();
        masks
    }

    fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }

    #[test]
    fn a_long_number_shortens_the_name() {
        for (index, expected) in [(0, "doorbell-job-0"), (99, "doorbell-job-99"), (1023, "doorbell-j-1023")] {
            assert_eq!(thread_name(crate::offload::THREAD_NAME, index), expected);
        }
    }

    #[test]
    fn threads_are_pinned_to_the_given_processors_that_exist() {
        let all = allowed();
        let (first, last) = (all[0], all[all.len() - 1]);
        let none = [CpuSet::MAX_CPU, usize::MAX, CpuSet::MAX_CPU - 1];
        let table: [(&[usize], [Vec<usize>; 2]); 6] = [
            (&[], [all.clone(), all.clone()]),
            (&[last], [vec![last], vec![last]]),
            (&[last, first], [vec![first], vec![last]]),
            // A number beyond the mask and the number of a missing processor must neither abort the
            // process nor unpin the thread.
            (&[CpuSet::MAX_CPU, last], [vec![last], vec![last]]),
            (&[first, CpuSet::MAX_CPU - 1, last], [vec![first], vec![last]]),
            (&none, [all.clone(), all.clone()]),
        ];
        assert!(!all.contains(&(CpuSet::MAX_CPU - 1)), "the test needs a missing processor");
        for (cpus, expected) in table {
            assert_eq!(masks(cpus), expected, "{cpus:?}");
        }
    }

    #[test]
    fn job_threads_get_the_nice_value_and_the_caller_keeps_its_own() {
        use rustix::process::getpriority_process;

        let before = getpriority_process(None).unwrap();
        for nice in [0, 4, 19] {
            let jobs = Offload::builder().threads(NonZeroU16::MIN).nice(nice).build().unwrap();
            let (sender, receiver) = sync_channel(1);
            assert!(jobs.spawn(move || sender.send(getpriority_process(None).unwrap()).unwrap()));
            let there = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(there, (before + i32::from(nice)).min(19), "{nice}");
        }
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    /// A job can use more stack than the default of 2 MiB.
    #[test]
    fn a_thread_has_the_configured_stack_size() {
        fn deep(left: usize) -> usize {
            let page = [1_u8; 64 * 1024];
            usize::from(core::hint::black_box(&page)[left]) + if left == 0 { 0 } else { deep(left - 1) }
        }
        let jobs = Offload::builder().threads(NonZeroU16::MIN).stack_size(8 * 1024 * 1024).build().unwrap();
        let (sender, receiver) = sync_channel(2);
        assert!(jobs.spawn(move || sender.send(deep(63)).unwrap()));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(64), "4 MiB of stack");
    }
}
