//! Events, results of checks, and receipts of links as rows.
//!
//! Does not know about: the buffer and the writer of the history.

use crate::config::model::Config;
use crate::wire::{Event, EventKind};
use doorbell_checks::{Finding, LastRun, ResultSink};
use doorbell_health::Time;
use doorbell_history::{CheckResult, History, Operation, Receipt, Row, Transition, millis};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Records an event as a row, except for reloads and worker events.
pub(crate) fn record(history: &History, event: &Event) {
    let at_ms = event.at_unix_ms;
    let operation = |what, target: &str, is_on, source, reason: &str, until_ms| {
        let (target, reason) = (target.into(), reason.into());
        Row::Operation(Operation { at_ms, what, target, is_on, source, reason, until_ms })
    };
    history.push(match &event.what {
        EventKind::Check { name, from, to, reason } => Row::Transition(Transition {
            at_ms,
            subject: "check",
            name: name.as_str().into(),
            from: from.as_str(),
            to: to.as_str(),
            cause: "",
            reason: reason.as_str().into(),
        }),
        EventKind::Endpoint { name, from, to, cause, note } => {
            history.moved(name, to.as_str(), at_ms);
            Row::Transition(Transition {
                at_ms,
                subject: "endpoint",
                name: name.as_str().into(),
                from: from.as_str(),
                to: to.as_str(),
                cause: cause.as_str(),
                reason: note.as_str().into(),
            })
        }
        EventKind::Drain { endpoint, on, reason, until_unix_ms } => {
            operation("drain", endpoint, *on, "", reason, *until_unix_ms)
        }
        EventKind::Maintenance { target, source, on, reason, until_unix_ms } => {
            operation("maintenance", target, *on, source.as_str(), reason, *until_unix_ms)
        }
        EventKind::Lifecycle { to, reason, .. } => {
            operation("lifecycle", to.as_str(), true, "", reason, None)
        }
        EventKind::Reload { .. } | EventKind::Worker { .. } => return,
    });
}

/// A sink that passes results on, and records them if there is a history.
pub(crate) struct Recorded<S> {
    sink: Arc<S>,
    history: Option<Results>,
}

/// The results of checks as rows.
struct Results {
    history: Arc<History>,
    /// Name and sampling state of each check.
    checks: Vec<(Arc<str>, OneIn)>,
    sample: u32,
    time_of_day: fn() -> Duration,
}

/// Selects the first of every `sample` items.
#[derive(Debug)]
struct OneIn(AtomicU32);

impl OneIn {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether the next item is selected. Plain loads and stores suffice, because only one thread
    /// calls this.
    fn is_due(&self, sample: u32) -> bool {
        let number = self.0.load(Ordering::Relaxed);
        self.0.store(if number + 1 >= sample { 0 } else { number + 1 }, Ordering::Relaxed);
        number == 0
    }
}

/// The receipts of one link as rows.
#[derive(Debug)]
pub(crate) struct Receipts {
    link: Arc<str>,
    one_in: OneIn,
}

impl Receipts {
    pub(crate) fn new(link: &str) -> Self {
        Self { link: link.into(), one_in: OneIn::new() }
    }

    /// Records one in `sample` receipts; 0 records none.
    pub(crate) fn record(&self, history: &History, sample: u32, receipt: &doorbell_link::Receipt) {
        if sample == 0 || !self.one_in.is_due(sample) {
            return;
        }
        history.push(Row::Receipt(Receipt {
            at_ms: receipt.sent.as_micros() / 1000,
            link: Arc::clone(&self.link),
            size: receipt.size,
            round_trip_us: micros(receipt.round_trip),
            one_way_us: receipt.one_way.map(micros),
            weight: sample,
        }));
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl<S> Recorded<S> {
    /// Creates a sink that passes the results of the checks of `config` on to `sink`, and records
    /// them if there is a history.
    pub(crate) fn new(
        sink: &Arc<S>,
        config: &Config,
        history: Option<&Arc<History>>,
        time_of_day: fn() -> Duration,
    ) -> Self {
        let sample = config.history.clickhouse.as_ref().map_or(0, |settings| settings.sample);
        let named = |name: &str| (name.into(), OneIn::new());
        let results = |history: &Arc<History>| Results {
            history: Arc::clone(history),
            checks: config.checks.iter().map(|check| named(&check.name)).collect(),
            sample,
            time_of_day,
        };
        Self { sink: Arc::clone(sink), history: history.filter(|_| sample > 0).map(results) }
    }
}

impl Results {
    fn record(&self, check: usize, finding: &Finding) {
        let Some((name, one_in)) = self.checks.get(check) else { return };
        if one_in.is_due(self.sample) {
            self.history.push(Row::Result(CheckResult {
                at_ms: millis((self.time_of_day)()),
                check: Arc::clone(name),
                outcome: finding.outcome.as_str(),
                latency_us: micros(finding.latency),
                weight: self.sample,
                reason: finding.reason.as_str().into(),
            }));
        }
    }
}

impl<S: ResultSink> ResultSink for Recorded<S> {
    fn now(&self) -> Time {
        self.sink.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.sink.instant(time)
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        if let Some(results) = &self.history {
            results.record(check, finding);
        }
        self.sink.found(check, finding)
    }

    fn pushed(&self, check: usize, finding: &Finding) {
        if let Some(results) = &self.history {
            results.record(check, finding);
        }
        self.sink.pushed(check, finding);
    }

    fn last_run(&self, check: usize) -> Option<LastRun> {
        self.sink.last_run(check)
    }

    fn deadline(&self) -> Time {
        self.sink.deadline()
    }

    fn tick(&self) {
        self.sink.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};
    use doorbell_health::Outcome;
    use doorbell_history::Kind;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl ResultSink for Counting {
        fn now(&self) -> Time {
            Time::ZERO
        }

        fn instant(&self, _: Time) -> Instant {
            Instant::now()
        }

        fn found(&self, _: usize, _: &Finding) -> Duration {
            self.0.fetch_add(1, Ordering::Relaxed);
            Duration::from_secs(1)
        }

        fn deadline(&self) -> Time {
            Time::ZERO
        }

        fn tick(&self) {}
    }

    #[test]
    fn one_result_in_a_sample_is_recorded_and_all_are_passed_on() {
        for (sample, rows) in [(0, 0), (1, 20), (3, 8), (10, 2), (100, 2)] {
            let text = format!(
                "version = 1\n[history.clickhouse]\nurl = \"http://ch\"\nsample = {sample}\n\
                 [check.a]\ntype = \"ttl\"\nttl = \"1m\"\n[check.b]\ntype = \"ttl\"\nttl = \"1m\"\n"
            );
            let parsed = parse(&Source { name: "f".into(), text }, &|_| None);
            let config = parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems));
            let (sink, history) = (Arc::new(Counting::default()), Arc::new(History::new(1 << 20, 100)));
            let recorded = Recorded::new(&sink, &config, Some(&history), || Duration::from_secs(1));
            let (outcome, latency) = (Outcome::Timeout, Duration::from_millis(2));
            let finding = Finding { outcome, latency, reason: "slow".to_owned() };
            for run in 0..20 {
                recorded.found(run % 2, &finding);
            }
            assert_eq!(sink.0.load(Ordering::Relaxed), 20);
            assert_eq!(history.stats().rows[Kind::Result as usize].added, rows, "one in {sample}");
        }
    }
}
