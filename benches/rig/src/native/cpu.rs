//! One turn of a server: how much CPU time a request took it.
//!
//! Does not know about: the other server.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Rules;
use super::client::{self, Pace};
use super::host::{self, Running};
use super::subject::Subject;
use crate::guest::group_run_time;
use crate::image::OurPrograms;
use crate::plan::{Load, PATH};

/// Until a server has seen the last connection end and sleeps, so that the kernel has its run time up to date.
const AFTER_LOAD: Duration = Duration::from_millis(60);

/// What one turn found.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Turn {
    /// User and system time of all threads of the server, nanoseconds a request.
    pub(crate) cpu_ns: f64,
    /// Requests a second.
    pub(crate) requests_per_s: f64,
}

/// Starts the server, warms it with a tenth of the load, and measures the load.
pub(super) fn turn(
    subject: Subject<'_>,
    load: Load,
    requests: u64,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Turn, String> {
    let named = |why: String| format!("{}: {why}", subject.name());
    let server = Running::start(subject, rules.server_core, ours)?;
    let ask = |count| client::run(&ours.load, rules.client_core, &server.url(PATH), load, Pace::Count(count));
    ask((requests / 10).max(1)).map_err(named)?;
    host::pause(AFTER_LOAD);
    let before = group_run_time(server.group())?;
    let done = ask(requests).map_err(named)?;
    host::pause(AFTER_LOAD);
    let after = group_run_time(server.group())?;
    Ok(Turn { cpu_ns: share(after - before, done.requests), requests_per_s: done.requests_per_s })
}

#[expect(clippy::cast_precision_loss, reason = "a load takes seconds, far below 2^53 ns")]
fn share(run_ns: i64, requests: u64) -> f64 {
    run_ns as f64 / requests as f64
}
