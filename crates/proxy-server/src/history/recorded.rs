//! Events, results of checks, and receipts of links as rows.

use doorbell_checks::Finding;
use doorbell_control::{Event, EventKind};
use doorbell_history::{CheckResult, FrameId, History, Operation, Receipt, Row, Transition, millis};
use doorbell_link::Time;
use doorbell_proxy_config::model::Config;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

/// The results of checks as rows.
pub(crate) struct Results {
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
    /// Incarnation of the link.
    incarnation: u64,
    one_in: OneIn,
    time_of_day: fn() -> Duration,
}

impl Receipts {
    pub(crate) fn new(link: &str, incarnation: u64, time_of_day: fn() -> Duration) -> Self {
        Self { link: link.into(), incarnation, one_in: OneIn::new(), time_of_day }
    }

    /// Records one in `sample` receipts; 0 records none. `now` is the time on the clock of the
    /// link.
    pub(crate) fn record(&self, history: &History, sample: u32, now: Time, receipt: &doorbell_link::Receipt) {
        if sample > 0 && self.one_in.is_due(sample) {
            history.push(Row::Receipt(self.row(sample, now, receipt)));
        }
    }

    fn row(&self, sample: u32, now: Time, receipt: &doorbell_link::Receipt) -> Receipt {
        // The clock of the link does not follow corrections of the time of day.
        let sent = (self.time_of_day)().saturating_sub(now.since(receipt.sent));
        let (incarnation, connection, number) = (self.incarnation, receipt.connection, receipt.number);
        Receipt {
            at_ms: millis(sent),
            link: Arc::clone(&self.link),
            frame: FrameId { incarnation, connection, number },
            size: receipt.size,
            round_trip_us: micros(receipt.round_trip),
            one_way_us: receipt.one_way.map(micros),
            weight: sample,
        }
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Results {
    /// Records the results of the checks of `config`; `None` if they are not stored.
    pub(crate) fn new(
        config: &Config,
        history: Option<&Arc<History>>,
        time_of_day: fn() -> Duration,
    ) -> Option<Self> {
        let sample = config.history.clickhouse.as_ref().map_or(0, |settings| settings.sample);
        let history = Arc::clone(history.filter(|_| sample > 0)?);
        let checks = config.checks.iter().map(|check| (check.name.as_str().into(), OneIn::new()));
        Some(Self { history, checks: checks.collect(), sample, time_of_day })
    }

    /// Records a result, if it is in the sample.
    pub(crate) fn record(&self, check: usize, finding: &Finding) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the link started an hour before this time.
    fn corrected() -> Duration {
        Duration::from_secs(1_800_003_600)
    }

    fn receipt(connection: u64, number: u64) -> doorbell_link::Receipt {
        let sent = Time::from_micros(1_800_000_000_000_000);
        let (arrived, round_trip) = (sent, Duration::from_millis(2));
        let one_way = [Duration::ZERO, round_trip];
        doorbell_link::Receipt { connection, number, size: 66, sent, arrived, round_trip, one_way }
    }

    #[test]
    fn receipts_have_the_corrected_time_of_day() {
        let now = receipt(1, 1).sent.after(Duration::from_millis(100));
        let row = Receipts::new("eu", 7, corrected).row(1, now, &receipt(1, 1));
        assert_eq!(row.at_ms, 1_800_003_600_000 - 100);
    }

    #[test]
    fn rows_of_equal_receipts_differ() {
        let now = receipt(1, 1).sent;
        let row =
            |incarnation, receipt| Receipts::new("eu", incarnation, corrected).row(1, now, &receipt).frame;
        let frame = |incarnation, connection, number| FrameId { incarnation, connection, number };
        let rows =
            [row(7, receipt(1, 1)), row(7, receipt(1, 2)), row(7, receipt(2, 1)), row(8, receipt(1, 1))];
        assert_eq!(rows, [frame(7, 1, 1), frame(7, 1, 2), frame(7, 2, 1), frame(8, 1, 1)]);
    }
}
