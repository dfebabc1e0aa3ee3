//! Main function of a worker thread: opens the driver, runs the worker, and replaces the driver if
//! io_uring fails.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use super::{Core, Event, WorkerFailure};
use crate::control::WorkerShared;
use crate::driver::epoll::Epoll;
use crate::driver::examine::Cause;
use crate::driver::select::{DriverReport, Opened, Plan, epoll_plan, fallback_reason};
use crate::driver::uring::Uring;
use crate::driver::{Driver, DriverCounters, DriverSockets, Errno, Fault, WakeSource};
use crate::id::WorkerIndex;
use crate::panics::caught;
use crate::time::OsClock;
use crate::worker::{ServerShared, Worker};

/// Arguments of a worker thread.
pub(super) struct WorkerThread {
    pub(super) index: WorkerIndex,
    pub(super) cpu: Option<usize>,
    pub(super) plan: Plan,
    pub(super) sockets: DriverSockets,
    pub(super) wake: WakeSource,
    pub(super) server: Arc<ServerShared>,
    pub(super) shared: Arc<WorkerShared>,
    pub(super) core: Arc<Core>,
    pub(super) engine_is_forced: bool,
    pub(super) started: SyncSender<Result<DriverReport, WorkerFailure>>,
    /// Receives the signal that all workers have started. The channel is closed if a worker failed
    /// to start: then no worker accepts, and a predecessor loses no client.
    pub(super) go: Receiver<()>,
}

impl WorkerThread {
    pub(super) fn main(self) {
        if let Some(cpu) = self.cpu {
            pin(cpu);
        }
        self.guarded(Self::run);
    }

    /// Runs `work` and reports a failure or panic. Before the report, the driver and its listeners
    /// are closed, so the kernel distributes this worker's share of clients to the other workers.
    fn guarded(self, work: impl FnOnce(Self) -> Result<(), Fault>) {
        let (index, core, started) = (self.index, Arc::clone(&self.core), self.started.clone());
        let failure = match caught(|| work(self)) {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => WorkerFailure::Driver(fault),
            Err(panic) => WorkerFailure::Panicked(panic.message()),
        };
        // The start waits for a message of each worker. After the start the receiver no longer
        // exists, and sending fails.
        let _sent = started.try_send(Err(failure.clone()));
        core.worker_failed(index, failure);
    }

    fn run(mut self) -> Result<(), Fault> {
        let slots_max = self.server.slots_max();
        let sockets = core::mem::take(&mut self.sockets);
        let opened = self.plan.open(sockets, &self.server.listener_is_shared, slots_max, self.wake.clone());
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
            self.plan.without_table(slots_max, &self.server.listener_is_shared);
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
        // The connections are lost with the ring, because their receives are in it. The listeners
        // are kept.
        let counters = uring.counters();
        let sockets = uring.into_sockets();
        self.shared.counters.driver_fallbacks.add(1);
        self.core.observe(&Event::DriverFellBack {
            worker: self.index,
            why: fault.to_string(),
            cause: Cause::of_failure(fault.errno),
        });
        // The worker continues on another thread. A failed ring cannot be torn down: it exists
        // until its thread ends, and until then its armed accept consumes wake-ups of the listener.
        let core = Arc::clone(&self.core);
        let name = format!("doorbell-{}-epoll", self.index.0);
        let again = move || self.guarded(|thread| thread.serve_on_epoll(sockets, counters));
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

    fn serve_on_epoll(self, sockets: DriverSockets, counters: DriverCounters) -> Result<(), Fault> {
        let slots_max = self.server.slots_max();
        let epoll = Epoll::in_place_of(sockets, counters, slots_max, self.wake.clone())?;
        self.serve(epoll.hearing_all(), false).map_err(|(fault, _)| fault)
    }

    /// Runs the worker until it ends; returns a failed driver with its fault.
    fn serve<D: Driver>(&self, driver: D, first: bool) -> Result<(), (Fault, D)> {
        let mut worker = Worker::new(driver, OsClock, Arc::clone(&self.server), Arc::clone(&self.shared));
        if first {
            // The receiver is gone if another worker failed to start.
            let _answered = self.started.try_send(Ok(self.plan.report.clone()));
            if self.go.recv().is_err() {
                return Ok(());
            }
        }
        worker.open();
        let report = |misuses| self.core.report_misuses(self.index, misuses);
        match caught(|| worker.run(report)) {
            Ok(Ok(())) => {
                self.shared.leave();
                Ok(())
            }
            Ok(Err(fault)) => Err((fault, worker.into_driver())),
            Err(panic) => {
                // The counters and the cap per address outlive this worker, so its connections are
                // recorded there as lost.
                worker.lose_connections();
                panic.resume()
            }
        }
    }

    fn fail_to_start(&self, fault: Fault) -> Result<(), Fault> {
        let _answered = self.started.try_send(Err(fault.into()));
        Ok(())
    }
}

/// Pins the thread to a CPU. If the process may no longer use the CPU, the worker runs on any other
/// CPU.
fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let _best_effort = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU8};
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::config::{Limits, OnWorkerFailure};
    use crate::driver::Waker;
    use crate::protocol::ServerSize;

    #[test]
    fn a_start_fails_if_a_worker_panics_while_it_opens() {
        let (waker, wake) = Waker::pair().unwrap();
        let shared = Arc::new(WorkerShared::new(waker));
        let server = Arc::new(ServerShared::new(Vec::new(), Limits::default(), 1));
        let core = Arc::new(Core {
            workers: vec![Arc::clone(&shared)],
            on_failure: OnWorkerFailure::Degrade,
            failures: Mutex::default(),
            replacements: Mutex::default(),
            draining: AtomicBool::new(false),
            drain_timeout: Duration::ZERO,
            observer: None,
            sockets: Mutex::default(),
            ip_table: Arc::clone(&server.ip_table),
            balancer: None,
            server_size: ServerSize::new(1),
            predecessor: Mutex::default(),
            misuses_reported: AtomicU8::new(0),
        });
        // As in a server, a sender stays open while other workers wait for the start signal.
        let (started, starts) = sync_channel(2);
        let (_go, go) = sync_channel(1);
        let thread = WorkerThread {
            index: WorkerIndex(0),
            cpu: None,
            plan: epoll_plan("requested".to_owned(), Cause::Forced),
            sockets: DriverSockets::default(),
            wake,
            server,
            shared,
            core: Arc::clone(&core),
            engine_is_forced: false,
            started: started.clone(),
            go,
        };
        thread.guarded(|_thread| panic!("while it opens"));
        let failure = WorkerFailure::Panicked("while it opens".to_owned());
        assert_eq!(starts.try_recv().unwrap(), Err(failure));
        assert_eq!(core.failures.lock().unwrap().len(), 1);
        drop(started);
    }
}
