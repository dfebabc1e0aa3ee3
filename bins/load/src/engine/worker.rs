//! One thread: allocates all its memory, opens its ring, and runs.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use doorbell_ring::{Ring, Setup};

use super::Gauge;
use super::delays::Delays;
use super::dial::Dialer;
use super::pace::Pace;
use super::requests::Requests;
use super::turn::{Slot, Turn, Window};
use crate::clock::{Clock, Nanos, nanos};
use crate::conn::Job;
use crate::exit::{Exit, Failure};
use crate::plan::Plan;
use crate::stats::Stats;

/// A worker with an open ring, before its run.
#[derive(Debug)]
pub(super) struct Worker {
    ring: Ring,
    dialer: Dialer,
    slots: Vec<Slot>,
    requests: Requests,
    index: u32,
}

/// Results of a thread.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stats: Stats,
    /// False if the run was stopped during the warm-up.
    pub(super) is_measuring: bool,
    pub(super) measured_from: Nanos,
    pub(super) ended_at: Nanos,
    pub(super) ring: String,
}

/// Delay of a slot after a failed connect.
const BACK_OFF: Duration = Duration::from_millis(10);

/// Checks whether io_uring works, before any request is sent.
pub(super) fn try_ring() -> Result<(), Failure> {
    let setup = Setup { sq_entries: 8, slots: 1, recv_bufs: 8, ..Setup::default() };
    open_ring(&setup).map(drop)
}

fn open_ring(setup: &Setup) -> Result<Ring, Failure> {
    Ring::open(setup).map_err(|error| Failure::new(Exit::NoRing, error.to_string()))
}

impl Worker {
    /// Opens the ring and allocates all memory for the run.
    pub(super) fn open(plan: &Plan, index: u32) -> Result<Self, Failure> {
        let conns = plan.conns_of(index);
        let pipeline = plan.flow.pipeline();
        let setup = Setup {
            sq_entries: (conns * 2).next_power_of_two().clamp(64, 4_096),
            slots: conns,
            recv_bufs: u16::try_from(conns.next_power_of_two().clamp(64, 1_024)).expect("at most 1,024"),
            recv_buf_len: if pipeline > 8 { 16_384 } else { 4_096 },
            ..Setup::default()
        };
        let ring = open_ring(&setup)?;
        let requests = Requests::new(&plan.request, pipeline);
        let slots = (0..conns).map(|_| Slot { buf: requests.buf(), ..Slot::default() }).collect();
        Ok(Self { ring, dialer: Dialer::new(plan, index)?, slots, requests, index })
    }

    /// Runs until the plan ends.
    pub(super) fn run(
        self,
        plan: &Plan,
        clock: Clock,
        stop: &AtomicBool,
        gauge: &Gauge,
    ) -> Result<Ended, Failure> {
        let conns = self.slots.len();
        let began = clock.now();
        let from = began + nanos(plan.warm_up);
        let until = from + nanos(plan.duration);
        let planned = plan.rate.zip(plan.requests).map_or(Duration::ZERO, |(rate, requests)| {
            #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
            Duration::try_from_secs_f64(requests as f64 / rate).unwrap_or(plan.duration)
        });
        let requests = plan.requests_of(self.index);
        let window = Window { from, until, requests, planned_until: from + nanos(planned) };
        let pace = match plan.rate {
            None => Pace::closed(until),
            Some(rate) => {
                let apart = 1e9 / rate;
                // The due times of the threads alternate.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a time, not negative"
                )]
                let from = began + (apart * f64::from(self.index)) as Nanos;
                Pace::rate(from, apart * f64::from(plan.threads), until)
            }
        };
        if plan.rate.is_some() {
            // Timer delays would count as latency of the server, and the default timer slack of the
            // kernel is 50 us. If this fails, the default stays.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let worker_number = u16::try_from(self.index).expect("THREADS_MAX fits");
        let mut turn = Turn {
            job: Job::new(plan, worker_number, until),
            ring: self.ring,
            dialer: self.dialer,
            free: (0..u32::try_from(conns).expect("CONNS_PER_THREAD_MAX fits")).rev().collect(),
            idle: VecDeque::with_capacity(conns),
            paused: Delays::new(nanos(plan.flow.gap()), conns),
            backed_off: Delays::new(nanos(BACK_OFF), conns),
            slots: self.slots,
            requests: self.requests,
            pace,
            pipeline: plan.flow.pipeline(),
            stats: Stats::default(),
            clock,
            now: began,
            sweep_at: began,
            sweep_every: (nanos(plan.timeout) / 8).clamp(1_000_000, 100_000_000),
            stop,
        };
        turn.run(&window, gauge)
    }
}
