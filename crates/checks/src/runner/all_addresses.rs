//! One run that covers every address of a name; its finding is the worst of all addresses.

use crate::connect::dialer::Dialer;
use crate::finding::{Finding, severity};
use crate::progress::Progress;
use crate::runner::target::TargetRunner;
use crate::runner::{RunResult, end_of};
use doorbell_health::Outcome;
use std::cmp::Reverse;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, timeout_at};

/// Maximum number of addresses of one name that are checked at once.
pub(crate) const ADDRS_AT_ONCE: usize = 8;

impl TargetRunner {
    /// Calls [`Self::run_part`] for each address, all within the timeout of one run.
    pub(crate) async fn run_all(&self, dialer: &Dialer, mut progress: Progress, start: Instant) -> RunResult {
        let until = end_of(start, self.timeout);
        let addrs = match timeout_at(until, dialer.addrs(&progress)).await {
            Ok(Ok(addrs)) => addrs,
            Ok(Err(issue)) => {
                return RunResult::without_addrs(issue.outcome, issue.reason, &progress);
            }
            Err(_elapsed) => {
                return RunResult::without_addrs(Outcome::Timeout, progress.overdue(self.timeout), &progress);
            }
        };
        let (all, mut bad) = (addrs.len(), 0);
        let mut certificate = None;
        let mut worst: Option<(SocketAddr, RunResult)> = None;
        let mut waiting = addrs.into_iter();
        let mut begin = || {
            let addr = waiting.next()?;
            let progress = progress.of_one(addr);
            Some(Box::pin(async move { (addr, self.run_part(progress, Instant::now(), until).await) }))
        };
        let mut running: Vec<_> = (0..ADDRS_AT_ONCE).map_while(|_| begin()).collect();
        while !running.is_empty() {
            let (addr, ran) = poll_fn(|cx| poll_any(&mut running, cx)).await;
            running.extend(begin());
            certificate = [certificate, ran.certificate].into_iter().flatten().min();
            bad += usize::from(ran.finding.outcome != Outcome::Success);
            // Of equally bad findings, the one of the lowest address counts, so that the reason is
            // stable.
            let rank =
                |(addr, ran): &(SocketAddr, RunResult)| (severity(ran.finding.outcome), Reverse(*addr));
            let this = (addr, ran);
            if worst.as_ref().is_none_or(|worst| rank(&this) > rank(worst)) {
                worst = Some(this);
            }
        }
        let Some((addr, mut ran)) = worst else {
            return RunResult::without_addrs(
                Outcome::Error,
                "no address to connect to".to_owned(),
                &progress,
            );
        };
        if ran.finding.outcome != Outcome::Success {
            // The address may no longer belong to this name.
            dialer.forget();
            ran.finding.reason = reason_of(addr, &ran.finding.reason, bad, all);
        }
        ran.finding.latency = start.elapsed();
        RunResult { certificate, ..ran }
    }
}

/// Polls the few futures in order until one is ready, and removes it.
fn poll_any<F: Future>(running: &mut Vec<Pin<Box<F>>>, cx: &mut Context<'_>) -> Poll<F::Output> {
    for at in 0..running.len() {
        if let Poll::Ready(done) = running[at].as_mut().poll(cx) {
            drop(running.swap_remove(at));
            return Poll::Ready(done);
        }
    }
    Poll::Pending
}

impl RunResult {
    fn without_addrs(outcome: Outcome, reason: String, progress: &Progress) -> Self {
        let finding = Finding { outcome, latency: progress.start().elapsed(), reason };
        Self { finding, phase_times: progress.phase_times(), certificate: None }
    }
}

fn reason_of(addr: SocketAddr, reason: &str, bad: usize, all: usize) -> String {
    let addr = addr.to_string();
    let of_it = if reason.starts_with(&addr) { reason.to_owned() } else { format!("{addr}: {reason}") };
    if all == 1 { of_it } else { format!("{bad} of {all} addresses, {of_it}") }
}
