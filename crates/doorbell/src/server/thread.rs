//! The main function of a worker thread: opens the driver there, runs the worker, changes the driver if io_uring fails.
//!
//! Does not know about: how many workers there are, what they serve.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use super::{Core, Event, WorkerFailure};
use crate::control::WorkerShared;
use crate::driver::epoll::Epoll;
use crate::driver::examine::Cause;
use crate::driver::select::{DriverReport, Opened, Plan, epoll_plan, fallback_reason};
use crate::driver::uring::Uring;
use crate::driver::{Driver, Errno, Fault, WakeSource};
use crate::id::WorkerIndex;
use crate::time::OsClock;
use crate::worker::{ServerShared, Worker};

/// What a worker thread is given.
pub(super) struct WorkerThread {
    pub(super) index: WorkerIndex,
    pub(super) cpu: Option<usize>,
    pub(super) plan: Plan,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) wake: WakeSource,
    pub(super) server: Arc<ServerShared>,
    pub(super) shared: Arc<WorkerShared>,
    pub(super) core: Arc<Core>,
    pub(super) engine_is_forced: bool,
    pub(super) started: SyncSender<Result<DriverReport, Fault>>,
    /// Says that all workers started. Closed if one did not: then nobody accepts, and whoever accepted before loses no client.
    pub(super) go: Receiver<()>,
}

impl WorkerThread {
    pub(super) fn main(self) {
        if let Some(cpu) = self.cpu {
            pin(cpu);
        }
        self.guarded(Self::run);
    }

    /// Runs `work` and reports its failure, whatever it is. By then the driver and its listeners are gone: the kernel gives this
    /// worker's share of clients to the others.
    fn guarded(self, work: impl FnOnce(Self) -> Result<(), Fault>) {
        let (index, core) = (self.index, Arc::clone(&self.core));
        let failure = match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => WorkerFailure::Driver(fault),
            Err(panic) => WorkerFailure::Panicked(message_of(panic.as_ref())),
        };
        core.worker_failed(index, failure);
    }

    fn run(mut self) -> Result<(), Fault> {
        let slots_max = self.server.slots_max();
        let listeners = core::mem::take(&mut self.listeners);
        let opened = self.plan.open(listeners, &self.server.listener_is_shared, slots_max, self.wake.clone());
        let (opened, ring_error) = match opened {
            Ok(opened) => opened,
            Err(fault) => return self.fail_to_start(fault),
        };
        if let Some(error) = ring_error {
            if self.engine_is_forced {
                let errno = Errno::from_raw_os_error(error.errno.0);
                return self.fail_to_start(Fault { call: "io_uring_setup", errno });
            }
            self.plan = epoll_plan(fallback_reason(&error), Cause::of(error.hint));
        }
        if matches!(&opened, Opened::Uring(uring) if !uring.is_direct()) {
            self.plan.without_table(slots_max);
        }
        match opened {
            Opened::Epoll(epoll) => self.serve(*epoll, true).map_err(|(fault, _)| fault),
            Opened::Uring(uring) => self.serve_on_uring(*uring),
        }
    }

    fn serve_on_uring(self, uring: Uring) -> Result<(), Fault> {
        let Err((fault, uring)) = self.serve(uring, true) else { return Ok(()) };
        if self.engine_is_forced {
            return Err(fault);
        }
        // Its connections are lost with the ring, which holds their receives; its listeners are not.
        let listeners: Option<Vec<OwnedFd>> = uring.into_listeners().into_iter().collect();
        let Some(listeners) = listeners else { return Err(fault) };
        self.shared.counters.driver_fallbacks.add(1);
        self.core.observe(&Event::DriverFellBack {
            worker: self.index,
            why: fault.to_string(),
            cause: Cause::of_failure(fault.errno),
        });
        // On another thread: a ring that takes no more calls cannot be taken apart, and lives (with an armed accept that swallows
        // wake-ups of the listener) until its thread ends.
        let core = Arc::clone(&self.core);
        let name = format!("doorbell-{}-epoll", self.index.0);
        let again = move || self.guarded(|thread| thread.serve_on_epoll(listeners));
        match std::thread::Builder::new().name(name).spawn(again) {
            Ok(thread) => {
                core.replaced(thread);
                Ok(())
            }
            Err(error) => {
                Err(Fault { call: "clone", errno: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN) })
            }
        }
    }

    fn serve_on_epoll(self, listeners: Vec<OwnedFd>) -> Result<(), Fault> {
        let epoll = Epoll::new(listeners, self.server.slots_max(), self.wake.clone())?;
        self.serve(epoll.hearing_all(), false).map_err(|(fault, _)| fault)
    }

    /// Serves until the end; a driver that failed comes back with its fault.
    fn serve<D: Driver>(&self, driver: D, first: bool) -> Result<(), (Fault, D)> {
        let mut worker = Worker::new(driver, OsClock, Arc::clone(&self.server), Arc::clone(&self.shared));
        if first {
            // Nobody waits for the answer any more if another worker failed to start.
            let _answered = self.started.try_send(Ok(self.plan.report.clone()));
            if self.go.recv().is_err() {
                return Ok(());
            }
        }
        worker.open();
        match catch_unwind(AssertUnwindSafe(|| worker.run())) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) => Err((fault, worker.into_driver())),
            Err(panic) => {
                // The other workers go on, and so does what all of them share.
                worker.lose_connections();
                resume_unwind(panic)
            }
        }
    }

    fn fail_to_start(&self, fault: Fault) -> Result<(), Fault> {
        let _answered = self.started.try_send(Err(fault));
        Ok(())
    }
}

/// Best effort: a CPU that was taken away meanwhile is no reason to fail.
fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let _best_effort = rustix::thread::sched_setaffinity(None, &set);
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".to_owned())
}
