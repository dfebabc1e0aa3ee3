//! `[compute]`: threads for work that would delay a worker.

use doorbell::offload;
use doorbell_config::{Problem, Section, Table};
use std::time::Duration;

/// Maximum length of `name`. The kernel stores 15 bytes of a thread's name; three are reserved for
/// a hyphen and the thread's number. From thread 100 on, the number shortens the name.
const NAME_LEN_MAX: usize = 12;

/// Largest processor number in the usual mask of `sched_setaffinity(2)`.
const CPU_MAX: u32 = 1023;

/// Threads for work that would delay replies to probes: public-key signatures, files and link maps
/// (`redirect.map`) of routes. The threads are started only if a route needs them.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Compute {
    /// Number of threads; auto is the number of usable processors minus one, at least one.
    #[key(default = "auto", none = "auto", range = 1..=1024)]
    pub threads: Option<u32>,
    /// Prefix of the thread names, followed by a number.
    #[key(default = offload::THREAD_NAME)]
    pub name: String,
    /// Processors to which threads are pinned, one per thread, round-robin; [] leaves the choice to
    /// the kernel.
    #[key(default = [], range = 0..=CPU_MAX)]
    pub cpus: Vec<u32>,
    /// Stack size of each thread; auto is 2MiB.
    #[key(default = "auto", none = "auto", range = "64KiB..=1GiB", size)]
    pub stack_size: Option<u32>,
    /// Nice value added to that of the process, so that probes take precedence over jobs.
    #[key(default = offload::NICE, range = 0..=19)]
    pub nice: u8,
    /// Maximum number of waiting jobs of health and gRPC routes and of scans for changed files;
    /// further requests get 503.
    #[key(default = offload::QUEUE_MAX, range = 1..=100_000)]
    pub queue_high: u32,
    /// Maximum number of waiting jobs of other routes; further requests get 503.
    #[key(default = offload::QUEUE_MAX, range = 1..=100_000)]
    pub queue_normal: u32,
    /// Maximum time of a request in the queue and on a thread; then 503.
    #[key(default = offload::TIMEOUT, range = "1ms..=1h")]
    pub timeout: Duration,
}

impl Compute {
    fn check(&self, at: &Section<'_>) {
        let name = &self.name;
        let is_good = (1..=NAME_LEN_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if let (false, Some(place)) = (is_good, at.right_place("name")) {
            let message = format!("{name:?} is not a valid thread name");
            at.problem(
                Problem::error("bad-name", place, message)
                    .help(format!("1 to {NAME_LEN_MAX} letters, digits, `_` and `-`: a number is appended")),
            );
        }
    }
}
