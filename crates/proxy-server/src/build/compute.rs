//! Builds the compute lane from the configuration, and runs scans of files on it.

use crate::exit::{Exit, Failure};
use crate::reload::watch::Scan;
use doorbell::Offload;
use doorbell::offload::Class;
use doorbell_proxy_config::model::{Compute, Config};
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Maximum time that the watcher waits for one scan; it cannot scan other files meanwhile. Most
/// scans take a millisecond.
const SCAN_TIMEOUT: Duration = Duration::from_millis(500);

/// Starts the compute threads; `None` if the configuration does not need them.
pub(crate) fn start(config: &Config) -> Result<Option<Offload>, Failure> {
    if !config.needs_compute() {
        return Ok(None);
    }
    let Compute { threads, name, cpus, stack_size, nice, queue_high, queue_normal, timeout } =
        &config.compute;
    let cpus: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
    let mut builder = Offload::builder()
        .name(name)
        .cpus(&cpus)
        .nice(*nice)
        .queue_max(Class::High, *queue_high as usize)
        .queue_max(Class::Normal, *queue_normal as usize)
        .timeout(*timeout);
    if let Some(threads) = threads.and_then(|count| NonZeroU16::new(u16::try_from(count).ok()?)) {
        builder = builder.threads(threads);
    }
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(*bytes as usize);
    }
    builder.build().map(Some).map_err(|error| Failure::new(Exit::Failure, error.to_string()))
}

/// Runs the scans of one [reader](crate::reload::watch::Watched) of files.
#[derive(Debug)]
pub(crate) struct ScanRunner {
    lane: Option<Offload>,
    /// Channel for the result of a scan that missed the time limit.
    late: Option<Receiver<Scan>>,
}

impl ScanRunner {
    /// Creates a runner of scans on this compute lane; without it, scans run on the calling thread.
    /// Scans have a higher priority than jobs that verify tokens: clients can cause any number of
    /// such jobs, and one scan serves all later requests.
    pub(crate) fn new(lane: Option<Offload>) -> Self {
        Self { lane: lane.map(|lane| lane.class(Class::High)), late: None }
    }

    /// Returns a runner with the same lane for another reader.
    pub(crate) fn for_another_reader(&self) -> Self {
        Self { lane: self.lane.clone(), late: None }
    }

    /// Runs a scan as a job, and waits for a limited time. [`Scan::Later`] if the queue is full or
    /// the scan takes longer. A scan that takes longer continues; until its result has been
    /// returned, further calls start no other scan and do not wait.
    pub(crate) fn scan(&mut self, scan: impl FnOnce() -> Scan + Send + 'static) -> Scan {
        let Some(lane) = &self.lane else { return scan() };
        let (found, wait) = match self.late.take() {
            Some(found) => (found, Duration::ZERO),
            None => {
                let (sender, found) = sync_channel(1);
                let is_queued = lane.spawn(move || {
                    let _gone = sender.send(scan());
                });
                if !is_queued {
                    return Scan::Later;
                }
                (found, SCAN_TIMEOUT)
            }
        };
        match found.recv_timeout(wait) {
            Ok(scan) => scan,
            Err(RecvTimeoutError::Disconnected) => {
                Scan::Refused("reading panicked; this is a bug in doorbell".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => {
                self.late = Some(found);
                Scan::Later
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(queue_max: usize) -> Offload {
        let builder = Offload::builder().name("scan-test").threads(NonZeroU16::MIN);
        builder.queue_max(Class::High, queue_max).queue_max(Class::Normal, queue_max).build().unwrap()
    }

    fn where_it_runs() -> Scan {
        Scan::Changed(std::thread::current().name().unwrap_or_default().to_owned())
    }

    /// Polls until a scan has finished.
    fn found(scan_runner: &mut ScanRunner, scan: impl Fn() -> Scan + Clone + Send + 'static) -> Scan {
        loop {
            match scan_runner.scan(scan.clone()) {
                Scan::Later => std::thread::yield_now(),
                scan => return scan,
            }
        }
    }

    #[test]
    fn a_look_is_a_job_and_goes_before_those_of_requests() {
        let lane = lane(64);
        let (hold, held) = sync_channel::<()>(0);
        let (begin, begun) = sync_channel(1);
        let (sender, receiver) = sync_channel(65);
        assert!(lane.spawn(move || {
            begin.send(()).unwrap();
            let _gone = held.recv();
        }));
        begun.recv().unwrap();
        for _ in 0..64 {
            let sender = sender.clone();
            assert!(lane.spawn(move || sender.send("request").unwrap()));
        }
        assert!(!lane.spawn(|| {}), "the queue of requests is full");
        let mut scan_runner = ScanRunner::new(Some(lane));
        let first = scan_runner.scan(move || {
            sender.send("look").unwrap();
            where_it_runs()
        });
        assert_eq!(first, Scan::Later);
        drop(hold);
        let name = found(&mut scan_runner, || unreachable!("a scan is in progress"));
        assert!(matches!(&name, Scan::Changed(name) if name.starts_with("scan-test")), "{name:?}");
        let order: Vec<&str> = receiver.iter().take(65).collect();
        assert!(order.iter().position(|who| *who == "look").unwrap() <= 1, "{order:?}");
        assert!(
            matches!(scan_runner.scan(where_it_runs), Scan::Changed(_)),
            "the next call starts a new scan"
        );
    }

    #[test]
    fn a_busy_thread_and_a_full_queue_do_not_block() {
        let lane = lane(1);
        let (hold, held) = sync_channel::<()>(0);
        let (begin, begun) = sync_channel(1);
        assert!(lane.spawn(move || {
            begin.send(()).unwrap();
            let _gone = held.recv();
        }));
        begun.recv().unwrap();
        let [mut first, mut second] = [(); 2].map(|()| ScanRunner::new(Some(lane.clone())));
        // The thread is held until after both calls, so a call that waited for it would never
        // return.
        assert_eq!(first.scan(where_it_runs), Scan::Later);
        assert_eq!(second.scan(where_it_runs), Scan::Later, "the queue is full");
        drop(hold);
        assert!(matches!(found(&mut first, where_it_runs), Scan::Changed(_)));
        assert!(matches!(found(&mut second, where_it_runs), Scan::Changed(_)));
    }

    #[test]
    fn a_panic_of_a_look_is_reported() {
        let mut scan_runner = ScanRunner::new(Some(lane(1)));
        let scan = found(&mut scan_runner, || panic!("as a test may"));
        assert!(matches!(&scan, Scan::Refused(why) if why.contains("panicked")), "{scan:?}");
    }
}
