//! The choice of the driver at the start, and its reason.
//!
//! Capabilities are detected by a self-test (`doorbell_ring::selftest`), not by kernel version.

use core::fmt;

use doorbell_ring::selftest::{Capabilities, capabilities};
use doorbell_ring::{Ring, Setup, SetupError};

use super::epoll::Epoll;
use super::examine::Cause;
use super::uring::{Uring, UringOptions};
use super::{AcceptMode, DriverKind, DriverSockets, Fault, WakeSource};
use crate::tuning::{Accepting, Tuning};

/// Driver requested by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// io_uring where it works, otherwise epoll with the reason in the [`DriverReport`].
    #[default]
    Auto,
    /// epoll.
    Epoll,
    /// io_uring; the start fails where io_uring does not work.
    IoUring,
}

/// Whether io_uring connections are ordinary descriptors or entries of the ring's fixed-file table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Descriptors {
    /// Ordinary descriptors: they allow plain system calls where these are cheaper, and they
    /// provide the peer addresses that the per-address cap needs.
    #[default]
    Auto,
    /// The fixed-file table, if the start-up self-test shows that a close takes effect at once, no
    /// listener is shared, and `RLIMIT_NOFILE` allows the table; otherwise ordinary descriptors.
    /// For servers that need no peer addresses: see
    /// [`ServerBuilder::descriptors`](crate::ServerBuilder::descriptors).
    Direct,
}

/// The driver in use, and the reason for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverReport {
    /// The driver.
    pub kind: DriverKind,
    /// Reason for the choice, a sentence without a full stop.
    pub why: String,
    /// True if io_uring was wanted and epoll is used instead.
    pub is_fallback: bool,
    /// The reason why io_uring is not used, or [`Cause::Ok`].
    pub cause: Cause,
    /// How io_uring accepts from sockets that are not shared; shared sockets are always polled.
    /// `None` on epoll.
    pub accept_mode: Option<AcceptMode>,
    /// True if connections are in the fixed-file table.
    pub direct: bool,
}

/// The driver to open in each worker.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) report: DriverReport,
    pub(crate) uring: Option<UringOptions>,
}

/// io_uring was required and does not work on this system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct EngineUnavailable {
    /// The likely cause and its remedy.
    pub why: String,
}

/// Tests the kernel's capabilities and chooses a driver.
///
/// # Errors
/// io_uring was required and does not work.
pub(crate) fn plan(
    engine: Engine,
    descriptors: Descriptors,
    tuning: &Tuning,
) -> Result<Plan, EngineUnavailable> {
    if engine == Engine::Epoll {
        return Ok(epoll_plan("requested".to_owned(), Cause::Forced));
    }
    let setup = Setup { levers: tuning.levers(), ..Setup::default() };
    // The ring is opened first, because its error names the cause; the self-test could only report
    // that every test failed.
    match Ring::open(&setup) {
        Err(error) if engine == Engine::IoUring => return Err(EngineUnavailable { why: error.to_string() }),
        Err(error) => return Ok(epoll_plan(fallback_reason(&error), Cause::of(error.hint))),
        Ok(ring) => drop(ring),
    }
    let found = capabilities(&setup);
    if found.multishot_accept.ok || engine == Engine::IoUring {
        return Ok(uring_plan(&found, descriptors, tuning));
    }
    let why = format!("the io_uring self-test failed, no multishot accept: {}", found.multishot_accept.why);
    Ok(epoll_plan(why, Cause::Kernel))
}

/// A plan for epoll. The plan is a fallback unless epoll was requested.
pub(crate) fn epoll_plan(why: String, cause: Cause) -> Plan {
    let is_fallback = cause != Cause::Forced;
    let report =
        DriverReport { kind: DriverKind::Epoll, why, is_fallback, cause, accept_mode: None, direct: false };
    Plan { report, uring: None }
}

/// The reason why epoll replaces io_uring, as a sentence.
pub(crate) fn fallback_reason(error: &SetupError) -> String {
    error.to_string()
}

fn uring_plan(found: &Capabilities, descriptors: Descriptors, tuning: &Tuning) -> Plan {
    let accept_mode = match tuning.accept {
        Accepting::Multishot if found.multishot_accept.ok => AcceptMode::Multishot,
        Accepting::Multishot | Accepting::SingleShot => AcceptMode::SingleShot,
        Accepting::Poll => AcceptMode::Readiness,
    };
    let (direct, table) = match descriptors {
        Descriptors::Auto => (false, "ordinary descriptors".to_owned()),
        Descriptors::Direct if found.direct_descriptors.ok => (true, "direct descriptors".to_owned()),
        Descriptors::Direct => (
            false,
            format!(
                "ordinary descriptors, because direct ones do not work: {}",
                found.direct_descriptors.why
            ),
        ),
    };
    let accepts = match accept_mode {
        AcceptMode::Multishot => "multishot accept",
        AcceptMode::Readiness => "accept by polling",
        AcceptMode::SingleShot => "single-shot accept",
    };
    let report = DriverReport {
        kind: DriverKind::IoUring,
        why: format!("the self-test passed; {accepts}, {table}"),
        is_fallback: false,
        cause: Cause::Ok,
        accept_mode: Some(accept_mode),
        direct,
    };
    let options = UringOptions { direct, accept_mode, tuning: tuning.clone(), ..UringOptions::default() };
    Plan { report, uring: Some(options) }
}

impl Plan {
    /// Records that the ring of a worker has no table of direct descriptors.
    pub(crate) fn without_table(&mut self, slots_max: u32, shared: &[bool]) {
        if self.report.direct {
            self.report.direct = false;
            let because = if shared.contains(&true) {
                "a listener is shared by several workers or processes".to_owned()
            } else {
                format!("a table of {slots_max} entries needs RLIMIT_NOFILE to be at least as high")
            };
            self.report.why = format!("{}; using ordinary descriptors, because {because}", self.report.why);
        }
    }
}

/// A driver opened by [`Plan::open`].
#[derive(Debug)]
pub(crate) enum Opened {
    Epoll(Box<Epoll>),
    Uring(Box<Uring>),
}

impl Plan {
    /// Opens the planned driver on the calling thread. If the ring cannot be opened, opens epoll
    /// and also returns the reason.
    pub(crate) fn open(
        &self,
        sockets: DriverSockets,
        shared: &[bool],
        slots_max: u32,
        wake: WakeSource,
    ) -> Result<(Opened, Option<SetupError>), Fault> {
        let Some(options) = &self.uring else {
            return Ok((Opened::Epoll(Box::new(Epoll::new(sockets, slots_max, wake)?)), None));
        };
        let options = UringOptions { shared: shared.to_vec(), ..options.clone() };
        match Uring::new(sockets, slots_max, wake.clone(), &options) {
            Ok(uring) => Ok((Opened::Uring(Box::new(uring)), None)),
            Err((error, sockets)) => {
                Ok((Opened::Epoll(Box::new(Epoll::new(sockets, slots_max, wake)?)), Some(error)))
            }
        }
    }
}

impl fmt::Display for DriverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.why)
    }
}
