//! One turn of a server: how much CPU time a handshake or a request took it.
//!
//! Does not know about: the other server.

use std::time::Duration;

use serde::Serialize;

use super::client::Client;
use super::identity::Identity;
use super::server::Set;
use super::{IN_FLIGHT, Side};
use crate::guest::group_run_time;
use crate::image::OurPrograms;
use crate::native::{Rules, Running, Subject, pause};

/// Until a server has seen the last connection end and sleeps, so that the kernel has its run time up to date.
const AFTER_LOAD: Duration = Duration::from_millis(60);
/// A kept connection's request is quick, so a turn has more of them.
const KEPT_TIMES: u64 = 10;

/// What one turn found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Turn {
    /// User and system time of all threads of the server, nanoseconds a connection or, where it is kept, a request.
    pub(crate) cpu_ns: f64,
    /// The cipher suite it chose.
    pub(crate) suite: String,
}

/// Starts the server, warms it with a tenth of the load, and measures the load. Connections that are kept are opened before.
pub(super) fn turn(
    side: Side,
    exchanges: u64,
    identity: &Identity,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Turn, String> {
    let Side { server, load } = side;
    let set = Set { server, identity };
    let running = Running::start(Subject::Tls(set), rules.server_core, ours)?;
    let mut client = Client::new(running.port(), load, identity, rules.client_core, IN_FLIGHT)?;
    let requests = if load.kind.keeps() { KEPT_TIMES * exchanges } else { exchanges };
    let exchanges = requests / u64::from(load.kind.requests());
    client.ask(exchanges / 10)?;
    pause(AFTER_LOAD);
    let before = group_run_time(running.group())?;
    let done = client.ask(exchanges)?;
    pause(AFTER_LOAD);
    let after = group_run_time(running.group())?;
    Ok(Turn { cpu_ns: share(after - before, done * u64::from(load.kind.requests())), suite: client.suite() })
}

#[expect(clippy::cast_precision_loss, reason = "a load takes seconds, far below 2^53 ns")]
fn share(run_ns: i64, count: u64) -> f64 {
    run_ns as f64 / count as f64
}
