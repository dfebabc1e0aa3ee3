//! Builds the compute lane from the configuration, and runs scans of files on it.
//!
//! Does not know about: the content of files, other jobs.

use crate::config::model::{Compute, Config};
use crate::exit::{Exit, Failure};
use crate::reload::watch::Look;
use doorbell::Offload;
use doorbell::offload::Class;
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Maximum time that the watcher waits for one scan; it cannot scan other files meanwhile. Most
/// scans take a millisecond.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Starts the threads; `None` if the configuration does not need them.
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

/// Runs the scans of one reader.
#[derive(Debug)]
pub(crate) struct Reading {
    lane: Option<Offload>,
    /// Channel for the result of a scan that missed the time limit.
    late: Option<Receiver<Look>>,
}

impl Reading {
    /// Creates a runner of scans on this lane, or on the calling thread without a lane. Scans have
    /// a higher priority than jobs that verify tokens: clients can cause any number of such jobs,
    /// and one scan serves all later requests.
    pub(crate) fn new(lane: Option<Offload>) -> Self {
        Self { lane: lane.map(|lane| lane.class(Class::High)), late: None }
    }

    /// Returns a runner with the same lane for another reader.
    pub(crate) fn another(&self) -> Self {
        Self { lane: self.lane.clone(), late: None }
    }

    /// Runs a scan as a job, and waits for a limited time. [`Look::Later`] if the queue is full or
    /// the scan takes longer. Such a scan continues. Until its result has been returned, further
    /// calls start no other scan and do not wait.
    pub(crate) fn look(&mut self, look: impl FnOnce() -> Look + Send + 'static) -> Look {
        let Some(lane) = &self.lane else { return look() };
        let (found, wait) = match self.late.take() {
            Some(found) => (found, Duration::ZERO),
            None => {
                let (sender, found) = sync_channel(1);
                let is_queued = lane.spawn(move || {
                    let _gone = sender.send(look());
                });
                if !is_queued {
                    return Look::Later;
                }
                (found, LOOK_MAX)
            }
        };
        match found.recv_timeout(wait) {
            Ok(look) => look,
            Err(RecvTimeoutError::Disconnected) => {
                Look::Refused("reading panicked; this is a bug in doorbell".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => {
                self.late = Some(found);
                Look::Later
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(queue_max: usize) -> Offload {
        let builder = Offload::builder().name("look-test").threads(NonZeroU16::MIN);
        builder.queue_max(Class::High, queue_max).queue_max(Class::Normal, queue_max).build().unwrap()
    }

    fn where_it_runs() -> Look {
        Look::Changed(std::thread::current().name().unwrap_or_default().to_owned())
    }

    /// Polls until a scan has finished.
    fn found(reading: &mut Reading, look: impl Fn() -> Look + Clone + Send + 'static) -> Look {
        loop {
            match reading.look(look.clone()) {
                Look::Later => std::thread::yield_now(),
                look => return look,
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
        let mut reading = Reading::new(Some(lane));
        let first = reading.look(move || {
            sender.send("look").unwrap();
            where_it_runs()
        });
        assert_eq!(first, Look::Later);
        drop(hold);
        let name = found(&mut reading, || unreachable!("a scan is in progress"));
        assert!(matches!(&name, Look::Changed(name) if name.starts_with("look-test")), "{name:?}");
        let order: Vec<&str> = receiver.iter().take(65).collect();
        assert!(order.iter().position(|who| *who == "look").unwrap() <= 1, "{order:?}");
        assert!(matches!(reading.look(where_it_runs), Look::Changed(_)), "the next call starts a new scan");
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
        let [mut first, mut second] = [(); 2].map(|()| Reading::new(Some(lane.clone())));
        // The thread is held until after both calls, so a call that waited for it would never
        // return.
        assert_eq!(first.look(where_it_runs), Look::Later);
        assert_eq!(second.look(where_it_runs), Look::Later, "the queue is full");
        drop(hold);
        assert!(matches!(found(&mut first, where_it_runs), Look::Changed(_)));
        assert!(matches!(found(&mut second, where_it_runs), Look::Changed(_)));
    }

    #[test]
    fn a_panic_of_a_look_is_reported() {
        let mut reading = Reading::new(Some(lane(1)));
        let look = found(&mut reading, || panic!("as a test may"));
        assert!(matches!(&look, Look::Refused(why) if why.contains("panicked")), "{look:?}");
    }
}
