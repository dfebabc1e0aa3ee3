//! `[runtime]`: threads and limits of the process.

use doorbell::OnWorkerFailure;
use doorbell::http::limit::CLIENT_V6_LEN;
use doorbell_config::{Table, Words};

/// Threads and limits of the process.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Runtime {
    /// I/O driver. `auto` uses io_uring where its self-test passes and epoll elsewhere; the log and
    /// `doorbell status` give the reason.
    #[key(default = "auto")]
    pub driver: Driver,
    /// Number of worker threads. auto is the smallest of: the number of usable processors; the CPU
    /// quota, rounded up; one for each MiB of the memory limit beyond 8 MiB; 4 in a container
    /// without a CPU quota.
    #[key(default = "auto", none = "auto", range = 1..=1024)]
    pub workers: Option<u32>,
    /// Pins each worker to a processor.
    #[key(default = false)]
    pub pin_cpus: bool,
    /// Maximum number of connections of the process; auto is 65536, or fewer if open files are
    /// limited.
    #[key(default = "auto", none = "auto", range = 16..=4_000_000)]
    pub max_connections: Option<u32>,
    /// Length of the IPv6 prefix that identifies a client in `connections.per_ip_max`,
    /// `handshakes_per_ip`, `per_ip_rate` and `[limit.NAME]`, 1 to 128. A provider gives each
    /// customer at least a /64.
    #[key(default = CLIENT_V6_LEN, range = 1..=128)]
    pub client_ipv6_prefix: u8,
    /// Maximum number of checks that run at once; further ones are queued.
    #[key(default = 1024, range = 1..=65_536, nonzero)]
    pub checks_in_flight: u32,
    /// Reaction to a failed worker: exit ends the process with code 1, degrade continues and
    /// reports not ready.
    #[key(default = "exit", words = ON_WORKER_FAILURE)]
    pub on_worker_failure: OnWorkerFailure,
}

/// I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Words)]
pub enum Driver {
    /// io_uring where it works, epoll elsewhere.
    Auto,
    /// epoll only.
    Epoll,
    /// io_uring only.
    #[value(name = "io_uring")]
    #[word("io_uring")]
    IoUring,
}

const ON_WORKER_FAILURE: [(&str, OnWorkerFailure); 2] =
    [("degrade", OnWorkerFailure::Degrade), ("exit", OnWorkerFailure::Stop)];
