//! Keys of a gauge. The name of a threshold states the side on which it applies.

use super::local::{BadIs, GaugeCheck, Level, Metric};
use doorbell_config::{At, Dump, JsonMap, Key, Problem, Section, Table, parse_size};
use std::path::PathBuf;
use std::sync::LazyLock;

/// A metric of this machine.
#[derive(Clone, Debug, Table)]
struct Keys {
    /// Metric of this machine, a file system or a control group. Required.
    #[key(required = "\"disk_free\"", with = metric)]
    metric: Option<Metric>,
    /// For disk_free and inodes_free: a file or directory in the file system; required. For
    /// memory_available and memory_pressure: the folder of a control group (version 2), such as
    /// /sys/fs/cgroup in a container. Default: the machine.
    path: Option<PathBuf>,
    /// Threshold above which the check fails: a size or number, or with % a share of the total (for
    /// load: of the number of cores).
    down_above: Option<At<String>>,
    /// Threshold below which the check fails: a size or number, or with % a share of the total.
    down_below: Option<At<String>>,
    /// Threshold above which the check recovers. Default: `down_below`.
    up_above: Option<At<String>>,
    /// Threshold below which the check recovers. Default: `down_above`.
    up_below: Option<At<String>>,
    /// Threshold above which the result is degraded, in the form of `down_above`. Default: never.
    degraded_above: Option<At<String>>,
    /// Threshold below which the result is degraded, in the form of `down_below`. Default: never.
    degraded_below: Option<At<String>>,
}

impl Table for GaugeCheck {
    const DOC: &'static str = Keys::DOC;

    fn keys() -> &'static [Key] {
        Keys::keys()
    }

    fn defaults() -> &'static Self {
        const DOWN: Level = Level::Count(0);
        static DEFAULTS: LazyLock<GaugeCheck> = LazyLock::new(|| GaugeCheck {
            metric: Metric::DiskFree,
            path: PathBuf::new(),
            bad_is: BadIs::Below,
            down: DOWN,
            up: DOWN,
            degraded: None,
        });
        &DEFAULTS
    }

    fn properties() -> JsonMap {
        Keys::properties()
    }

    fn take(at: &mut Section<'_>) -> Self {
        Keys::take(at).build(at).unwrap_or_else(|| Self::defaults().clone())
    }

    fn show(&self, to: &mut Dump) {
        let text = |level: Level| Some(At::from(level.text(self.metric)));
        let (down, up) = (text(self.down), text(self.up).filter(|_| self.up != self.down));
        let (degraded, path) = (self.degraded.and_then(text), Some(self.path.clone()));
        let keys = Keys {
            metric: Some(self.metric),
            path: path.filter(|path| !path.as_os_str().is_empty()),
            ..Keys::default()
        };
        let keys = match self.bad_is {
            BadIs::Above => Keys { down_above: down, up_below: up, degraded_above: degraded, ..keys },
            BadIs::Below => Keys { down_below: down, up_above: up, degraded_below: degraded, ..keys },
        };
        keys.show(to);
    }
}

impl Keys {
    fn build(self, at: &Section<'_>) -> Option<GaugeCheck> {
        let metric = self.metric?;
        let level = |key: &str, text: Option<At<String>>| level(key, text, metric, at);
        let down = [("down_above", self.down_above), ("down_below", self.down_below)];
        let [above, below] = down.map(|(key, text)| level(key, text));
        let up_above = level("up_above", self.up_above);
        let up_below = level("up_below", self.up_below);
        let degraded_above = level("degraded_above", self.degraded_above);
        let degraded_below = level("degraded_below", self.degraded_below);
        let (bad_is, down) = bad_side(above, below, metric, at)?;
        let (up, degraded, wrong) = match bad_is {
            BadIs::Above => (up_below, degraded_above, [up_above, degraded_below]),
            BadIs::Below => (up_above, degraded_below, [up_below, degraded_above]),
        };
        for wrong in wrong.into_iter().flatten() {
            let problem = Problem::error("contradiction", wrong.span, "this threshold is on the wrong side");
            at.problem(problem.also(down.span.clone(), "down").help(match bad_is {
                BadIs::Above => "use `up_below` and `degraded_above` with `down_above`",
                BadIs::Below => "use `up_above` and `degraded_below` with `down_below`",
            }));
        }
        for level in [&up, &degraded].into_iter().flatten() {
            check_order(level, &down, bad_is, at);
        }
        check_path(metric, at);
        Some(GaugeCheck {
            metric,
            path: self.path.unwrap_or_default(),
            bad_is,
            down: down.value,
            up: up.map_or(down.value, |up| up.value),
            degraded: degraded.map(|degraded| degraded.value),
        })
    }
}

fn bad_side(
    above: Option<At<Level>>,
    below: Option<At<Level>>,
    metric: Metric,
    at: &Section<'_>,
) -> Option<(BadIs, At<Level>)> {
    match (above, below) {
        (Some(down), None) => return Some((BadIs::Above, down)),
        (None, Some(down)) => return Some((BadIs::Below, down)),
        (Some(_), Some(down)) => {
            let problem = Problem::error("contradiction", down.span, "two thresholds for down");
            at.problem(
                problem.help("write `down_below` if low values are bad, `down_above` if high values are bad"),
            );
        }
        (None, None) if at.place("down_above").or_else(|| at.place("down_below")).is_some() => {}
        (None, None) => {
            let problem = Problem::error("missing-key", at.span.clone(), "a gauge without a threshold");
            let example = metric.example();
            at.problem(
                problem.help(format!(
                    "add `down_below = \"{example}\"` or `down_above`, and the threshold for up"
                )),
            );
        }
    }
    None
}

/// Checks another threshold against the `down` threshold: it must not be on the bad side of `down`,
/// and must be of the same kind.
fn check_order(level: &At<Level>, down: &At<Level>, bad_is: BadIs, at: &Section<'_>) {
    let (this, down_at) = (level.number(), down.number());
    let message = if !level.is_like(down.value) {
        "these thresholds cannot be compared"
    } else if match bad_is {
        BadIs::Above => this > down_at,
        BadIs::Below => this < down_at,
    } {
        "the check is already down at this value"
    } else {
        return;
    };
    at.problem(
        Problem::error("contradiction", level.span.clone(), message)
            .also(down.span.clone(), "down")
            .help("write both in the same unit, with `down` as the worse value"),
    );
}

fn check_path(metric: Metric, at: &Section<'_>) {
    let is_of_files = matches!(metric, Metric::DiskFree | Metric::InodesFree);
    match at.place("path") {
        Some(path) if !is_of_files && !metric.is_of_group() => {
            let problem = Problem::warning("no-effect", path, "`path` has no effect on this metric");
            at.problem(problem.help("remove it"));
        }
        None if is_of_files => {
            let problem = Problem::error("missing-key", at.span.clone(), "a file system without a `path`");
            at.problem(problem.help("add `path = \"/var/lib/app\"`, or another file or directory in it"));
        }
        _ => {}
    }
}

/// Parses a threshold in one of the forms that the metric supports.
fn level(key: &str, text: Option<At<String>>, metric: Metric, at: &Section<'_>) -> Option<At<Level>> {
    let text = text?;
    let level = parse_level(&text, metric).filter(|level| metric.takes(*level));
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

/// Parses a number with up to three decimals; the result is in thousandths.
fn parse_milli(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// Form of the metric: one of the known names.
mod metric {
    use super::Metric;
    use doorbell_config::{Entry, Json, Key, Value, Words};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<Metric>> {
        Metric::read(entry).map(Some)
    }

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "signature required by the `Table` derive"
    )]
    pub(super) fn dump(metric: &Option<Metric>) -> Option<Json> {
        metric.map(|metric| metric.word().into())
    }

    pub(super) fn form(key: &Key) -> Json {
        Metric::form(key)
    }
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
