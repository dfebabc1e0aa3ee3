//! Study of the cost of `connect()`, by the position of the connection (first, second, ...) and the
//! parity of its port, for any port selection strategy.
//!
//! Tens of thousands of concurrent connections exceed the limit of open files of one process.
//! Helper processes of this program hold them, each below its own limit. Some accept on the
//! server's side. The others connect on the client's side; each starts when the previous one has
//! made all its connections. Helpers are killed when no longer needed, and end together with this
//! program.

pub(crate) mod helper;
mod holders;
pub mod network;
pub mod plot;
pub mod report;
pub mod sample;

use std::io::{BufReader, Read};
use std::net::{IpAddr, SocketAddr};

use doorbell_egress::{EgressConfig, PortChoice, PortRange, Strategy};

use crate::exit::{Exit, Failure};
use holders::{Side, dialer};
use sample::Sample;

/// Maximum number of connections of a run, enough to use all ports of fifteen source addresses.
pub const CONNS_MAX: u32 = 1_000_000;
/// Maximum number of helpers on one side.
pub const HELPERS_MAX: u32 = 256;
/// Open files of a helper besides connections: standard streams, the listener, files of run-time
/// libraries.
const FILES_BESIDE: u64 = 32;

/// The parameters of a study.
#[derive(Clone, Debug)]
pub struct Study {
    /// TCP, UDP or both.
    pub transports: Vec<Transport>,
    /// Port selection strategies, in the order of the runs.
    pub strategies: Vec<PortChoice>,
    /// Connections of one run, all open at once.
    pub conns: u32,
    /// Source addresses, used in turn. Empty means 127.0.0.1.
    pub sources: Vec<IpAddr>,
    /// The target address of all connections.
    pub target: IpAddr,
    /// Range of local ports in the current network namespace.
    pub ports: PortRange,
    /// Maximum number of connections that one helper holds.
    pub conns_per_helper: u32,
}

/// The transport of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Transport {
    Tcp,
    Udp,
}

/// One run: all connections with one transport and one strategy.
#[derive(Clone, Debug)]
pub struct Run {
    /// TCP or UDP.
    pub transport: Transport,
    /// The requested choice.
    pub asked: PortChoice,
    /// The strategy that was used.
    pub strategy: Strategy,
    /// Number of processes that held the connections on both sides.
    pub helpers: u32,
    /// The connections in the order of their start.
    pub samples: Vec<Sample>,
}

/// Receives the progress of a study.
pub trait Observer {
    /// A run has made this many connections of the total.
    fn on_connects(&mut self, run: &RunName, done: u32, of: u32);
    /// A run is over.
    fn on_run(&mut self, run: &RunName, done: &Run);
    /// A strategy was skipped because this kernel does not support it.
    fn on_skipped(&mut self, why: &str);
}

/// Identifies a run.
#[derive(Clone, Copy, Debug)]
pub struct RunName {
    /// TCP or UDP.
    pub transport: Transport,
    /// The requested choice of ports.
    pub choice: PortChoice,
}

/// Maximum number of connections per process, from the hard limit of open files. `None` means no
/// limit.
#[must_use]
pub fn conns_per_helper() -> Option<u32> {
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum?;
    Some(u32::try_from(hard.saturating_sub(FILES_BESIDE)).unwrap_or(u32::MAX))
}

/// Raises the soft limit of open files for `conns` connections, up to the hard limit.
fn raise_open_files(conns: u32) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::from(conns) + FILES_BESIDE;
    if current.is_some_and(|current| current < wanted) {
        let current = Some(maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // If this fails, connections fail with a lack of descriptors, and are reported.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

impl Study {
    /// Validates the combination of options.
    ///
    /// # Errors
    /// The first invalid combination.
    pub fn check(&self) -> Result<(), Failure> {
        let no = |text: String| Err(Failure::usage(text));
        if self.conns == 0 || self.conns > CONNS_MAX {
            return no(format!("--connections must be from 1 to {CONNS_MAX}"));
        }
        if !self.target.is_loopback() {
            return no(format!("{} is not on this machine's loopback", self.target));
        }
        if let Some(source) = self.sources.iter().find(|source| source.is_ipv4() != self.target.is_ipv4()) {
            return no(format!("--source {source} is not of the family of {}", self.target));
        }
        let there = self.ports_in_all();
        if u64::from(self.conns) > there {
            return no(format!(
                "{} connections at once need as many ports, and {} addresses have {there} of them here ({}): add --own-network, which has \
                 56,512, or more addresses with --source, or ask for fewer",
                self.conns,
                self.sources.len().max(1),
                self.ports,
            ));
        }
        let per = self.conns_per_helper;
        if per == 0 || self.conns.div_ceil(per) > HELPERS_MAX {
            return no(format!(
                "a process may have {per} connections here, and {} need more than {HELPERS_MAX} processes: raise the hard limit of open files \
                 (`ulimit -Hn`), or ask for fewer",
                self.conns
            ));
        }
        Ok(())
    }

    /// Number of ports, summed over all sources.
    #[must_use]
    pub fn ports_in_all(&self) -> u64 {
        u64::from(self.ports.len()) * self.sources.len().max(1) as u64
    }

    /// Performs every run.
    ///
    /// # Errors
    /// A helper cannot be started or ends early; a requested strategy is not supported.
    pub fn run(&self, unsupported: Unsupported, observer: &mut dyn Observer) -> Result<Vec<Run>, Failure> {
        let mut runs = Vec::new();
        for &choice in &self.strategies {
            let strategy = match EgressConfig::new().ports(choice).open() {
                Ok(egress) => egress.report().strategy,
                Err(error) if unsupported == Unsupported::Skip => {
                    observer.on_skipped(&error.to_string());
                    continue;
                }
                Err(error) => return Err(Failure::usage(error.to_string())),
            };
            for &transport in &self.transports {
                let name = RunName { transport, choice };
                let run = self.one(name, strategy, observer)?;
                observer.on_run(&name, &run);
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn one(&self, name: RunName, strategy: Strategy, observer: &mut dyn Observer) -> Result<Run, Failure> {
        let server = Side::serve(self, name.transport)?;
        let mut samples = Vec::with_capacity(self.conns as usize);
        let mut dialers = Vec::new();
        while let left @ 1.. = self.conns - u32::try_from(samples.len()).expect("CONNS_MAX fits") {
            let part = left.min(self.conns_per_helper);
            let (helper, records) = dialer(self, name.transport, strategy, server.addr, part)?;
            let mut records = BufReader::new(records);
            for _ in 0..part {
                samples.push(next(&mut records)?);
                if samples.len().is_multiple_of(PROGRESS_EVERY) {
                    let done = u32::try_from(samples.len()).expect("CONNS_MAX fits");
                    observer.on_connects(&name, done, self.conns);
                }
            }
            dialers.push(helper);
        }
        let helpers = u32::try_from(dialers.len() + server.helpers()).expect("HELPERS_MAX fits");
        Ok(Run { transport: name.transport, asked: name.choice, strategy, helpers, samples })
    }
}

/// Treatment of a strategy that this kernel does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Fail, because the strategy was requested explicitly.
    Failure,
    /// Skip the strategy and report that, because it is only part of the default list.
    Skip,
}

const PROGRESS_EVERY: usize = 1_000;

fn next(records: &mut impl Read) -> Result<Sample, Failure> {
    let mut record = [0; sample::RECORD_LEN];
    let read = records.read_exact(&mut record);
    read.map_err(|error| Failure::new(Exit::Failures, format!("a helper that connects has ended: {error}")))?;
    Ok(Sample::from_bytes(record))
}

impl Transport {
    /// The name of the transport.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The default target address.
pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Candidate server addresses: ports below the range of the connections, then a port that the
/// kernel chooses.
fn server_addrs(study: &Study) -> impl Iterator<Item = SocketAddr> {
    let below = (1_024..study.ports.first()).rev().take(64).chain([0]);
    let target = study.target;
    below.map(move |port| SocketAddr::new(target, port))
}
