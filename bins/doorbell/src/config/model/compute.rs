//! `[compute]`: the threads for work that would hold up a ring thread.
//!
//! Does not know about: which work that is.

use doorbell::offload;
use doorbell_config::{Problem, Section, Table};
use std::time::Duration;

/// The system shows 15 bytes of a thread's name; three are for its number.
const NAME_LEN_MAX: usize = 12;

/// As many processors as `sched_setaffinity(2)` knows by the usual mask.
const CPU_MAX: u32 = 1023;

/// Threads for what would hold up replies to probes: signatures with a public key, files and link maps of routes. They are there only
/// where something needs them.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Compute {
    /// Number of threads; auto is one for each processor but one.
    #[key(default = "auto", none = "auto", range = 1..=1024)]
    pub threads: Option<u32>,
    /// What the threads are called, before a number.
    #[key(default = offload::THREAD_NAME)]
    pub name: String,
    /// Thread i runs on the i-th of these processors; [] is wherever the system likes.
    #[key(default = [], range = 0..=CPU_MAX)]
    pub cpus: Vec<u32>,
    /// Stack of each thread; auto is what threads have anyway.
    #[key(default = "auto", none = "auto", range = "64KiB..=1GiB", size)]
    pub stack_size: Option<u32>,
    /// Added to the nice value of the process, 0 to 19: probes go before jobs.
    #[key(default = offload::NICE, range = 0..=19)]
    pub nice: u8,
    /// Requests to routes of health that may wait for a thread; one more gets 503.
    #[key(default = offload::QUEUE_MAX, range = 1..=100_000)]
    pub queue_high: u32,
    /// Requests to all other routes that may wait for a thread; one more gets 503.
    #[key(default = offload::QUEUE_MAX, range = 1..=100_000)]
    pub queue_normal: u32,
    /// Longest wait and work of a request; then 503.
    #[key(default = offload::TIMEOUT, range = "1ms..=1h")]
    pub timeout: Duration,
}

impl Compute {
    fn check(&self, at: &Section<'_>) {
        let name = &self.name;
        let is_good = (1..=NAME_LEN_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if let (false, Some(place)) = (is_good, at.right_place("name")) {
            let message = format!("{name:?} cannot be the name of a thread");
            at.problem(
                Problem::error("bad-name", place, message).help(format!(
                    "1 to {NAME_LEN_MAX} letters, digits, `_` and `-`: a number comes behind it"
                )),
            );
        }
    }
}
