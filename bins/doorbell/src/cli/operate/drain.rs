//! Drains, and how long somebody waits for one.
//!
//! Does not know about: how a doorbell drains.

use super::super::output::print;
use super::args::{DrainArgs, PrestopArgs};
use super::{act, ask_status, millis};
use crate::control::Client;
use crate::exit::{Exit, Failure};
use crate::wire::{Request, Status};
use std::time::{Duration, Instant};

/// Between two looks.
const WAIT_EVERY: Duration = Duration::from_millis(100);

/// The target that means everything.
const ALL: &str = "all";

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing drains any more: somebody called it off.
    CalledOff,
    /// Load balancers may not have heard of it.
    Unheard,
    /// They have, and so many connections are open.
    Heard { open: u64 },
}

/// `doorbell drain`
pub(super) fn drain(client: &mut Client, args: &DrainArgs) -> Result<Exit, Failure> {
    let (target, reason) = (args.target.clone(), args.reason.clone());
    let for_ms = args.for_time.map(millis);
    act(client, Request::Drain { target, reason, for_ms, is_kept: true })?;
    let Some(time) = args.wait else { return Ok(Exit::Success) };
    let is_over = |progress| match progress {
        Progress::CalledOff => Some(Err("the drain was called off".to_owned())),
        Progress::Heard { open: 0 } if is_all(&args.target) => Some(Ok("no connection is open")),
        Progress::Heard { .. } if !is_all(&args.target) => Some(Ok("load balancers had time to hear of it")),
        Progress::Heard { .. } | Progress::Unheard => None,
    };
    let late = |progress| match progress {
        Progress::Heard { open } => format!("{open} connections are still open; doorbell goes on draining"),
        Progress::CalledOff | Progress::Unheard => {
            "load balancers may not have heard of it yet; doorbell goes on draining".to_owned()
        }
    };
    wait(client, &args.target, time, is_over, late)
}

/// `doorbell prestop`. Connections that are open finish behind SIGTERM, within `drain_timeout`.
pub(super) fn prestop(client: &mut Client, args: &PrestopArgs) -> Result<Exit, Failure> {
    let (target, reason) = (ALL.to_owned(), args.reason.clone());
    act(client, Request::Drain { target, reason, for_ms: None, is_kept: false })?;
    let is_over = |progress| match progress {
        // Whoever did so wants the container to stay, and the kubelet does as it likes.
        Progress::CalledOff => Some(Ok("the drain was called off")),
        Progress::Heard { .. } => Some(Ok("load balancers had time to hear of it")),
        Progress::Unheard => None,
    };
    wait(client, ALL, None, is_over, |_| String::new())
}

/// Waits until it is over and says why; at most for `time`, and then it is late.
#[expect(clippy::disallowed_methods, reason = "a person waits in real time")]
fn wait(
    client: &mut Client,
    target: &str,
    time: Option<Duration>,
    is_over: impl Fn(Progress) -> Option<Result<&'static str, String>>,
    late: impl Fn(Progress) -> String,
) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let mut was_over = false;
    loop {
        let progress = progress(&ask_status(client)?, target);
        let left = time.map_or(WAIT_EVERY, |time| time.saturating_sub(begun.elapsed()).min(WAIT_EVERY));
        match is_over(progress) {
            // Ring threads say at the end of a turn how many are connected, and whoever was answered in this one is not counted yet.
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
        true => status.heard_in_ms,
        false => {
            status.drains.iter().find(|drain| is_same(&drain.endpoint, target)).map(|drain| drain.heard_in_ms)
        }
    };
    let live = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    match left_ms {
        None => Progress::CalledOff,
        Some(0) => Progress::Heard { open: live("conns_live") + live("http2_conns_live") },
        Some(_) => Progress::Unheard,
    }
}

fn is_all(target: &str) -> bool {
    target == ALL
}

/// Whether an endpoint was meant: one that has the name of a check can be named with a word before it.
fn is_same(endpoint: &str, target: &str) -> bool {
    let bare = |name: &str| name.strip_prefix("endpoint:").unwrap_or(name).to_owned();
    bare(endpoint) == bare(target)
}
