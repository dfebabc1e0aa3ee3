//! The progress line on a terminal, once a second.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::engine::{Observer, Sample};
use crate::plan::Plan;

/// A line that is overwritten in place. It has no output unless standard error is a terminal.
#[derive(Debug)]
pub(super) struct Line {
    shown: bool,
    whole: Duration,
    last: Sample,
}

impl Line {
    pub(super) fn new(plan: &Plan, quiet: bool) -> Self {
        let shown = !quiet && io::stderr().is_terminal();
        Self { shown, whole: plan.warm_up + plan.duration, last: Sample::default() }
    }
}

impl Observer for Line {
    fn on_second(&mut self, sample: Sample) {
        if !self.shown {
            return;
        }
        let text = line(&self.last, &sample, self.whole);
        self.last = sample;
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }

    fn on_end(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown in whole numbers")]
fn line(before: &Sample, sample: &Sample, whole: Duration) -> String {
    let seconds = sample.elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-3);
    // The count restarts when the warm-up ends.
    let requests = sample.requests.checked_sub(before.requests).unwrap_or(sample.requests);
    let rate = requests as f64 / seconds;
    let phase = if sample.warming_up { "warm-up" } else { "measuring" };
    format!(
        "{phase} {:.0}/{:.0} s   {rate:.0} requests/s   {} failed",
        sample.elapsed.as_secs_f64(),
        whole.as_secs_f64(),
        sample.failures
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_the_rate_of_the_last_second() {
        let at = |secs, requests, failures| Sample {
            elapsed: Duration::from_secs(secs),
            requests,
            failures,
            warming_up: secs < 2,
        };
        let text = line(&at(1, 1_000, 0), &at(3, 5_000, 2), Duration::from_secs(10));
        assert_eq!(text, "measuring 3/10 s   2000 requests/s   2 failed");
        assert!(
            line(&Sample::default(), &at(1, 9, 0), Duration::from_secs(10))
                .starts_with("warm-up 1/10 s   9 ")
        );
    }
}
