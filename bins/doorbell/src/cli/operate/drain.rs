//! `doorbell drain`, `doorbell prestop` and `doorbell quit`, and waiting for a drain or a stop.

use super::super::output::print;
use super::args::{DrainArgs, PrestopArgs, QuitArgs};
use super::{act, fetch_status, no_reply, unexpected};
use doorbell_control::Client;
use doorbell_control::{Lifecycle, Request, Response, Status};
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::millis;
use std::time::{Duration, Instant};

/// Interval between two status requests.
const WAIT_EVERY: Duration = Duration::from_millis(100);

/// The target for all endpoints.
const ALL: &str = "all";

/// Progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The drain was cancelled, or its duration has passed.
    Ended,
    /// `drain_delay` has not passed: load balancers may not have noticed the drain.
    Announcing,
    /// `drain_delay` has passed; this many connections are open.
    Announced { open: u64 },
}

/// `doorbell drain`
pub(super) fn drain(client: &mut Client, args: &DrainArgs) -> Result<Exit, Failure> {
    let (target, reason) = (args.target.clone(), args.reason.clone());
    let for_ms = args.for_time.map(millis);
    act(client, Request::Drain { target, reason, for_ms, is_kept: true })?;
    let Some(time) = args.wait else { return Ok(Exit::Success) };
    let is_over = |progress| match progress {
        Progress::Ended => {
            Some(Err("the drain has ended: it was cancelled, or its time has passed".to_owned()))
        }
        Progress::Announced { open: 0 } if is_all(&args.target) => Some(Ok("drained: no connection is open")),
        Progress::Announced { .. } if !is_all(&args.target) => Some(Ok("drain_delay has passed")),
        Progress::Announced { .. } | Progress::Announcing => None,
    };
    let late = |progress| match progress {
        Progress::Announced { open } => format!("{open} connections are still open; the drain continues"),
        Progress::Ended | Progress::Announcing => {
            "drain_delay has not passed yet; the drain continues".to_owned()
        }
    };
    wait(client, &args.target, time, is_over, late)
}

/// `doorbell prestop`. Does not wait for open connections: they finish after SIGTERM, within
/// `drain_timeout`.
pub(super) fn prestop(client: &mut Client, args: &PrestopArgs) -> Result<Exit, Failure> {
    let (target, reason) = (ALL.to_owned(), args.reason.clone());
    act(client, Request::Drain { target, reason, for_ms: None, is_kept: false })?;
    let is_over = |progress| match progress {
        // An operator cancelled the drain. This is not an error: the kubelet stops the container
        // anyway.
        Progress::Ended => Some(Ok("the drain was cancelled")),
        Progress::Announced { .. } => Some(Ok("drain_delay has passed")),
        Progress::Announcing => None,
    };
    wait(client, ALL, None, is_over, |_| String::new())
}

/// `doorbell quit`. With `--wait`, waits until the process has exited, because it holds its locks
/// and addresses until its exit, or until the stop is cancelled.
#[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
pub(super) fn quit(client: &mut Client, args: &QuitArgs) -> Result<Exit, Failure> {
    let process = client.process();
    act(client, Request::Quit { now: args.now })?;
    if !args.wait {
        return Ok(Exit::Success);
    }
    client.wait_forever().map_err(|error| no_reply(&error))?;
    loop {
        match client.call(&Request::Status) {
            // A stop with `--now` may begin after the reply, and cannot be cancelled.
            Ok(Response::Status(status)) if args.now || is_stopping(&status) => {
                std::thread::sleep(WAIT_EVERY);
            }
            Ok(Response::Status(_)) => return Err(Failure::new(Exit::Failure, "the stop was cancelled")),
            Ok(response) => return Err(unexpected(response)),
            Err(error) if error.is_end() => {
                // If the process runs in another PID namespace, the end of the connection is taken
                // as its exit.
                let _exited = process.and_then(|process| process.wait());
                return Ok(Exit::Success);
            }
            Err(error) => return Err(no_reply(&error)),
        }
    }
}

fn is_stopping(status: &Status) -> bool {
    status.lifecycle == Lifecycle::Stopping || status.stops_in_ms.is_some()
}

/// Waits until `is_over` returns a result. After `time`, fails with the text of `late`.
#[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
fn wait(
    client: &mut Client,
    target: &str,
    time: Option<Duration>,
    is_over: impl Fn(Progress) -> Option<Result<&'static str, String>>,
    late: impl Fn(Progress) -> String,
) -> Result<Exit, Failure> {
    let start = Instant::now();
    let mut was_over = false;
    loop {
        let progress = progress(&fetch_status(client)?, target);
        let left = time.map_or(WAIT_EVERY, |time| time.saturating_sub(start.elapsed()).min(WAIT_EVERY));
        match is_over(progress) {
            // Two consecutive polls must agree, because workers publish their connection counts
            // only at the end of a turn.
            Some(Ok(_)) if !was_over && !left.is_zero() => was_over = true,
            Some(Ok(text)) => {
                let _lost = print(&format!("{text}\n"));
                return Ok(Exit::Success);
            }
            Some(Err(text)) => return Err(Failure::new(Exit::Failure, text)),
            None => was_over = false,
        }
        if left.is_zero() {
            return Err(Failure::new(Exit::Failure, late(progress)));
        }
        std::thread::sleep(left);
    }
}

fn progress(status: &Status, target: &str) -> Progress {
    let left_ms = match is_all(target) {
        true => status.observed_in_ms,
        false => status
            .drains
            .iter()
            .find(|drain| is_same(&drain.endpoint, target))
            .map(|drain| drain.observed_in_ms),
    };
    match left_ms {
        None => Progress::Ended,
        Some(0) => Progress::Announced { open: status.conns_open() },
        Some(_) => Progress::Announcing,
    }
}

fn is_all(target: &str) -> bool {
    target == ALL
}

/// Whether a target names this endpoint; `endpoint:` may precede the name if a check has the same
/// name.
fn is_same(endpoint: &str, target: &str) -> bool {
    let bare = |name: &str| name.strip_prefix("endpoint:").unwrap_or(name).to_owned();
    bare(endpoint) == bare(target)
}
