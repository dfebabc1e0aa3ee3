//! When a check runs: what the file says, what follows from it, what contradicts.
//!
//! Does not know about: what a check looks at.

use super::super::super::written;
use super::super::or;
use doorbell_checks::options::Pace;
use doorbell_config::{At, Problem, Problems, format_duration};
use std::time::Duration;

pub(super) fn pace(own: &written::Pace, defaults: &written::Pace) -> Pace {
    let interval = pick(&own.interval, &defaults.interval).unwrap_or_else(|| Pace::default().interval);
    let default = Pace::every(interval);
    let timeout = pick(&own.timeout, &defaults.timeout).unwrap_or_else(|| default.timeout.min(interval));
    let mut pace = Pace {
        interval,
        fast_interval: pick(&own.fast_interval, &defaults.fast_interval).unwrap_or(default.fast_interval),
        down_interval: pick(&own.down_interval, &defaults.down_interval).unwrap_or(default.down_interval),
        timeout,
        connect_timeout: pick(&own.connect_timeout, &defaults.connect_timeout).unwrap_or(timeout),
        jitter: pick(&own.jitter, &defaults.jitter).unwrap_or(default.jitter),
        rise: pick(&own.rise, &defaults.rise).unwrap_or(default.rise),
        fall: pick(&own.fall, &defaults.fall).unwrap_or(default.fall),
        initial: pick(&own.initial, &defaults.initial).unwrap_or(default.initial),
        max_age: Duration::ZERO,
        flap: pick(&own.flap, &defaults.flap).unwrap_or(default.flap),
        history: pick(&own.history, &defaults.history).unwrap_or(default.history),
        cache: pick(&own.cache, &defaults.cache),
        is_scheduled: true,
    };
    // The interval of all checks is not one of this check.
    pace.is_scheduled = pace.cache.is_none() || own.interval.is_some();
    pace.max_age = pick(&own.max_age, &defaults.max_age).unwrap_or_else(|| pace.default_max_age());
    pace
}

/// Of a service that tells every change: it is not asked again whether it means it, unless the file says so.
pub(super) fn of_watch(own: &written::Pace, defaults: &written::Pace, pace: Pace) -> Pace {
    Pace {
        rise: pick(&own.rise, &defaults.rise).unwrap_or(1),
        fall: pick(&own.fall, &defaults.fall).unwrap_or(1),
        ..pace
    }
}

/// Of a check whose results are pushed: the last one decides alone unless the check itself says otherwise, and nothing runs.
pub(super) fn of_pushes(own: &written::Pace, ttl: Duration, pace: Pace) -> Pace {
    let default = Pace::pushed(ttl);
    Pace {
        rise: or(&own.rise, default.rise),
        fall: or(&own.fall, default.fall),
        initial: pace.initial,
        flap: pace.flap,
        history: pace.history,
        ..default
    }
}

fn pick<T: Clone>(own: &Option<At<T>>, default: &Option<At<T>>) -> Option<T> {
    own.as_ref().or(default.as_ref()).map(|at| at.value.clone())
}

/// Times that only make sense in one order. Told where the check writes one of them, else where the defaults do.
pub(super) fn wrong_times(
    own: &written::Pace,
    defaults: &written::Pace,
    pace: &Pace,
) -> [Option<Problem>; 3] {
    let place = |keys: [&Option<At<Duration>>; 4]| {
        keys.into_iter().flatten().next().map_or(0..0, |at| at.span.clone())
    };
    let longest = match pace.cache {
        Some(cache) if !pace.is_scheduled => cache,
        _ => pace.interval.max(pace.fast_interval).max(pace.down_interval),
    };
    // Without a word of it a timeout is at most the interval.
    let is_written = own.timeout.is_some() || defaults.timeout.is_some();
    let timeout = (is_written && pace.is_scheduled && pace.timeout >= pace.interval).then(|| {
        let message = format!(
            "a run may take {}, and the next is due after {}",
            format_duration(pace.timeout),
            format_duration(pace.interval)
        );
        let at = place([&own.timeout, &own.interval, &defaults.timeout, &defaults.interval]);
        Problem::warning("timeout-over-interval", at, message)
            .help("a check never runs twice at once: runs come late; make `timeout` shorter")
    });
    let connect = (pace.connect_timeout > pace.timeout).then(|| {
        let at = place([&own.connect_timeout, &own.timeout, &defaults.connect_timeout, &defaults.timeout]);
        let message = "`connect_timeout` is longer than `timeout`, which holds for all of a run";
        Problem::warning("no-effect", at, message).help("remove it, or make it shorter")
    });
    let max_age = (pace.max_age < longest).then(|| {
        let message = format!(
            "a result is too old after {}, and the next may come after {}",
            format_duration(pace.max_age),
            format_duration(longest)
        );
        let at = place([&own.max_age, &defaults.max_age, &own.interval, &own.down_interval]);
        Problem::warning("max-age-under-interval", at, message)
            .help("the check would be stale between its runs; make `max_age` longer")
    });
    [timeout, connect, max_age]
}

/// Nothing of a check runs whose results are pushed.
pub(super) fn find_of_no_use(pace: &written::Pace, problems: &Problems) {
    let durations = [
        ("interval", &pace.interval),
        ("fast_interval", &pace.fast_interval),
        ("down_interval", &pace.down_interval),
        ("timeout", &pace.timeout),
        ("connect_timeout", &pace.connect_timeout),
        ("max_age", &pace.max_age),
        ("cache", &pace.cache),
    ];
    let durations = durations.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone())));
    let jitter = pace.jitter.iter().map(|at| ("jitter", at.span.clone()));
    for (key, span) in durations.chain(jitter) {
        let message = format!("`{key}` has no effect on a check whose results are pushed");
        problems.add(
            Problem::warning("no-effect", span, message)
                .help("remove it; `ttl` says how long a result holds"),
        );
    }
}
