//! `[compute]`: the threads for work that would hold up a ring thread.
//!
//! Does not know about: which work that is.

use doorbell::offload;
use std::time::Duration;

/// `[compute]`. The threads are there only where something needs them ([`super::Config::needs_compute`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Threads; `None` is one for each processor we may use but one, and at least one.
    pub threads: Option<u32>,
    /// What the threads are called, before a number.
    pub name: String,
    /// Thread i runs on the i-th of these, beginning again at their end; none for wherever the system likes.
    pub cpus: Vec<u32>,
    /// Bytes of stack of each; `None` is what threads have anyway.
    pub stack_size: Option<u32>,
    /// Added to our nice value, 0 to 19.
    pub nice: u8,
    /// Jobs for probes that may wait.
    pub queue_high: u32,
    /// Jobs for everything else that may wait.
    pub queue_normal: u32,
    /// The longest that a request waits for its job.
    pub timeout: Duration,
}

impl Default for Compute {
    /// As the engine has it.
    fn default() -> Self {
        let queue_max = u32::try_from(offload::QUEUE_MAX).unwrap_or(u32::MAX);
        Self {
            threads: None,
            name: offload::THREAD_NAME.to_owned(),
            cpus: Vec::new(),
            stack_size: None,
            nice: offload::NICE,
            queue_high: queue_max,
            queue_normal: queue_max,
            timeout: offload::TIMEOUT,
        }
    }
}
