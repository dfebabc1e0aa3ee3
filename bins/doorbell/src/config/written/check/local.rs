//! Checks of what is on this machine, as they were written.
//!
//! Does not know about: defaults.

use super::AGE_RANGE;
use doorbell_checks::options::{Level, Metric};
use doorbell_config::{At, Problem, Section, parse_size};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const METRICS: [(&str, Metric); 6] = [
    ("disk_free", Metric::DiskFree),
    ("inodes_free", Metric::InodesFree),
    ("load", Metric::Load),
    ("memory_available", Metric::MemoryAvailable),
    ("memory_pressure", Metric::MemoryPressure),
    ("open_files", Metric::OpenFiles),
];

/// Words of a command.
const WORDS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct FileWatched {
    /// Whether `path` is written, right or wrong.
    pub(crate) has_path: bool,
    pub(crate) path: Option<At<PathBuf>>,
    pub(crate) exists: Option<At<bool>>,
    pub(crate) contains: Option<At<String>>,
    pub(crate) max_age: Option<At<Duration>>,
}

#[derive(Debug)]
pub(crate) struct ExecAsked {
    /// Whether `command` is written, right or wrong.
    pub(crate) has_command: bool,
    pub(crate) command: Option<At<Vec<At<String>>>>,
    pub(crate) degraded_exit_code: Option<At<u32>>,
}

#[derive(Debug)]
pub(crate) struct GaugeAsked {
    pub(crate) has_metric: bool,
    /// Whether a threshold for down is written, right or wrong.
    pub(crate) has_down: bool,
    pub(crate) metric: Option<At<Metric>>,
    pub(crate) path: Option<At<PathBuf>>,
    pub(crate) down_above: Option<At<Level>>,
    pub(crate) down_below: Option<At<Level>>,
    pub(crate) up_above: Option<At<Level>>,
    pub(crate) up_below: Option<At<Level>>,
    pub(crate) degraded_above: Option<At<Level>>,
    pub(crate) degraded_below: Option<At<Level>>,
}

impl FileWatched {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let has_path = at.value("path").is_some();
        let path = at.path("path");
        let mut file = Self { has_path, path, exists: None, contains: None, max_age: None };
        if let Some(mut expect) = at.section("expect") {
            file.exists = expect.bool("exists");
            file.contains = expect.string("contains");
            file.max_age = expect.duration("max_age", AGE_RANGE);
            expect.finish();
        }
        file
    }
}

impl ExecAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let has_command = at.value("command").is_some();
        let command = at.strings("command");
        if let Some(at_words) = &command {
            let words = &at_words.value;
            let is_bad = |word: &At<String>| word.value.contains('\0');
            let is_program = words.first().is_some_and(|word| word.value.starts_with('/'));
            if !is_program || words.len() > WORDS_MAX || words.iter().any(is_bad) {
                let problem = Problem::error("bad-value", at_words.span.clone(), "this is not a command");
                at.problem(problem.help(
                    "write the path of a program and what it is given, as in [\"/usr/lib/nagios/plugins/check_ntp\", \"-H\", \"a\"]; no shell reads it",
                ));
            }
        }
        let degraded_exit_code = at.section("degraded").and_then(|mut degraded| {
            let code = degraded.integer("exit_code", 1..=255);
            degraded.finish();
            code
        });
        Self { has_command, command, degraded_exit_code }
    }
}

impl GaugeAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let has_metric = at.value("metric").is_some();
        let metric = at.choice("metric", &METRICS);
        let of = metric.as_ref().map(|at| at.value);
        Self {
            has_metric,
            has_down: ["down_above", "down_below"].into_iter().any(|key| at.value(key).is_some()),
            metric,
            path: at.path("path"),
            down_above: read_level(at, "down_above", of),
            down_below: read_level(at, "down_below", of),
            up_above: read_level(at, "up_above", of),
            up_below: read_level(at, "up_below", of),
            degraded_above: read_level(at, "degraded_above", of),
            degraded_below: read_level(at, "degraded_below", of),
        }
    }
}

/// A threshold in one of the forms that this metric has; without a metric there is nothing to say about it.
fn read_level(at: &mut Section<'_>, key: &'static str, metric: Option<Metric>) -> Option<At<Level>> {
    at.value(key)?;
    let metric = metric?;
    let text = at.string(key)?;
    let level = parse_level(&text.value, metric).filter(|level| metric.takes(*level));
    if level.is_none() {
        let message = format!("`{key}` cannot be {:?}", text.value);
        let problem = Problem::error("bad-value", text.span.clone(), message);
        at.problem(problem.help(format!("write \"{}\"", metric.example())));
    }
    Some(At { value: level?, span: text.span })
}

fn parse_level(text: &str, metric: Metric) -> Option<Level> {
    if let Some(percent) = text.strip_suffix('%') {
        return parse_milli(percent).map(Level::MilliPercent);
    }
    if metric == Metric::Load {
        return parse_milli(text).map(Level::Milli);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match (metric.is_bytes(), is_number) {
        (true, _) => parse_size(text).map(Level::Count),
        (false, true) => text.parse().ok().map(Level::Count),
        (false, false) => None,
    }
}

/// A number with up to three digits behind its point, in thousandths.
fn parse_milli(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        for (text, metric, expected) in [
            ("512MiB", Metric::DiskFree, Some(Level::Count(512 << 20))),
            ("5%", Metric::DiskFree, Some(Level::MilliPercent(5_000))),
            ("12.5%", Metric::MemoryPressure, Some(Level::MilliPercent(12_500))),
            ("8.25", Metric::Load, Some(Level::Milli(8_250))),
            ("8", Metric::Load, Some(Level::Milli(8_000))),
            ("10000", Metric::InodesFree, Some(Level::Count(10_000))),
            ("10000", Metric::DiskFree, None),
            ("1KiB", Metric::OpenFiles, None),
            ("%", Metric::Load, None),
            (".5", Metric::Load, None),
            ("0.1234", Metric::Load, None),
            ("-1", Metric::Load, None),
            ("", Metric::InodesFree, None),
            ("99999999999999999999", Metric::InodesFree, None),
        ] {
            assert_eq!(parse_level(text, metric), expected, "{text:?} {metric:?}");
        }
    }
}
