//! Metrics: what is counted anyway, gathered when somebody scrapes.
//!
//! Does not know about: HTTP, how anything is counted.
//!
//! Labels are names from the configuration and words of small fixed sets, load balancers aside: those name themselves, and few are kept.

mod engine;
mod family;
mod health;
mod process;
#[cfg(test)]
mod tests;
mod text;

use super::census::{LbView, Row};
use super::generation::Reloads;
use super::ops::{Operator, Running};
use crate::wire::{CheckView, Status};
use doorbell::Snapshot;
use doorbell::time::{Clock as _, OsClock};
use family::Families;
use std::collections::BTreeMap;
pub(super) use text::Exposition;

/// What there is to tell at one moment.
#[derive(Clone, Debug)]
struct Scrape {
    status: Status,
    checks: Vec<CheckView>,
    probers: Vec<Prober>,
    views: Vec<(String, LbView)>,
    views_refused: u64,
    /// By worker.
    workers: Vec<Snapshot>,
    refused: BTreeMap<&'static str, u64>,
    handshakes: BTreeMap<&'static str, u64>,
    /// Connections and requests of HTTP/2, where it is spoken.
    http2: Option<(u64, u64)>,
    /// What the checks did all together.
    check_runs: BTreeMap<String, u64>,
    reloads: Reloads,
    process: process::Process,
}

/// A row of the census, and how long ago the last probe came.
#[derive(Clone, Debug)]
struct Prober {
    row: Row,
    age_secs: f64,
}

/// Everything as it is now, in words that a scraper takes: an `Accept` field says which.
pub(super) fn render(operator: &Operator, accept: &[u8]) -> (Exposition, String) {
    let exposition = Exposition::accepted(accept);
    let scrape = Scrape::of(operator);
    (exposition, exposition.render(gather(&scrape)))
}

impl Scrape {
    fn of(operator: &Operator) -> Self {
        let mut scrape = Self {
            status: operator.status(),
            checks: operator.checks(None, false).unwrap_or_default(),
            probers: Vec::new(),
            views: Vec::new(),
            views_refused: 0,
            workers: Vec::new(),
            refused: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            http2: None,
            check_runs: BTreeMap::new(),
            reloads: Reloads::default(),
            process: process::Process::read(),
        };
        if let Some(running) = operator.running() {
            scrape.add(&running);
        }
        scrape
    }

    fn add(&mut self, running: &Running) {
        let now = OsClock.now();
        let census = running.keeper.census();
        let prober = |row: Row| {
            let age_secs = now.since(row.last).as_secs_f64();
            Prober { row, age_secs }
        };
        self.probers = census.rows(now).into_iter().map(prober).collect();
        let views = census.views();
        self.views = views
            .flat_map(|(name, views)| views.into_iter().map(move |view| (name.to_owned(), view)))
            .collect();
        self.views_refused = census.views_refused();
        self.workers = running.ledger.worker_stats();
        self.handshakes = running.ledger.handshakes();
        // Handshakes have a family of their own.
        let refused = running.ledger.refusals().into_iter();
        let refused = refused.filter(|(why, _)| !self.handshakes.contains_key(why));
        for (why, count) in refused.chain(running.totals.http2_refusals()) {
            *self.refused.entry(why).or_default() += count;
        }
        self.http2 = running.totals.http2_served();
        self.reloads = running.ledger.reloads();
        self.check_runs = running.totals.check_runs();
    }
}

fn gather(scrape: &Scrape) -> Families {
    let mut families = Families::default();
    engine::gather(scrape, &mut families);
    health::gather(scrape, &mut families);
    scrape.process.gather(&mut families);
    families
}
