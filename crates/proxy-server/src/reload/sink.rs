//! Results of checks: to the registry, the history and other instances.

use crate::history::Results;
use crate::sharing::SharedChecks;
use doorbell_checks::{Finding, LastRun, ResultSink};
use doorbell_health::Time;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A sink that records all results, passes them on, and publishes those of runs of shared checks.
pub(super) struct CheckSink<S> {
    sink: Arc<S>,
    /// Records results, if there is a history.
    results: Option<Results>,
    shared: Option<SharedChecks>,
}

impl<S> CheckSink<S> {
    pub(super) fn new(sink: &Arc<S>, results: Option<Results>, shared: Option<&SharedChecks>) -> Arc<Self> {
        Arc::new(Self { sink: Arc::clone(sink), results, shared: shared.cloned() })
    }
}

impl<S: ResultSink> ResultSink for CheckSink<S> {
    fn now(&self) -> Time {
        self.sink.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.sink.instant(time)
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.results.iter().for_each(|results| results.record(check, finding));
        let interval = self.sink.found(check, finding);
        self.shared.iter().for_each(|shared| shared.ran(check, finding, interval));
        interval
    }

    fn pushed(&self, check: usize, finding: &Finding) {
        self.results.iter().for_each(|results| results.record(check, finding));
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
    use doorbell_health::Outcome;
    use doorbell_history::{History, Kind};
    use doorbell_proxy_config::{Source, parse};
    use std::sync::atomic::{AtomicUsize, Ordering};

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
            let results = Results::new(&config, Some(&history), || Duration::from_secs(1));
            let recorded = CheckSink::new(&sink, results, None);
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
