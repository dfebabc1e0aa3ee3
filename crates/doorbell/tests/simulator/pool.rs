//! Threads of the simulation: jobs start and finish at virtual times that depend on the seed.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard};

use doorbell::offload::{Executor, Offload, OffloadBuilder, Pump, StartedJob};
use doorbell_testkit::sim::{Rng, Sim};

/// The executor of the simulation. The [module](self) documents it.
#[derive(Clone)]
pub(super) struct SimPool(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    pumps: Vec<Pump>,
    /// The running jobs, and the time at which each finishes.
    running: Vec<(u64, StartedJob)>,
    threads: usize,
    /// Maximum duration of a job.
    takes_max: Duration,
    /// Number of finished jobs.
    done: u64,
}

struct Threads(SimPool, usize);

impl Executor for Threads {
    fn threads(&self) -> usize {
        self.1
    }

    fn spawn(&self, pump: Pump) {
        self.0.state().pumps.push(pump);
    }
}

impl SimPool {
    /// Creates threads with the parameters of this seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let threads = *rng.pick(&[1, 2, 4]);
        let takes_max = Duration::from_micros(*rng.pick(&[30, 2_000, 60_000]));
        let state = State { rng, pumps: Vec::new(), running: Vec::new(), threads, takes_max, done: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn offload(&self, builder: OffloadBuilder) -> Offload {
        let threads = self.state().threads;
        builder.build_on(Threads(self.clone(), threads))
    }

    /// Starts and finishes the jobs whose time has come. Called before and after a turn, so that
    /// new jobs take time too.
    pub(super) fn step(&self, sim: &Sim) {
        let now = sim.world().now();
        loop {
            let mut state = self.state();
            if let Some(at) = state.running.iter().position(|(until, _)| *until <= now) {
                let (_, job) = state.running.remove(at);
                state.done += 1;
                // A job may submit another one.
                drop(state);
                job.run();
            } else if state.running.len() < state.threads
                && let Some(job) = state.pumps.iter_mut().find_map(Pump::take)
            {
                let takes_max = u64::try_from(state.takes_max.as_nanos()).expect("short");
                let takes = state.rng.range(1..takes_max);
                state.running.push((now + takes, job));
                sim.world_mut().alarm_after(Duration::from_nanos(takes));
            } else {
                break;
            }
        }
    }

    /// Number of finished jobs.
    pub(super) fn done(&self) -> u64 {
        self.state().done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("one thread")
    }
}
