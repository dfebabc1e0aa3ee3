//! `doorbell links report`: losses and latency of links in a period, as two tables and, with
//! `--svg`, a picture.

mod picture;
pub(super) mod rows;

use super::history::{ask, read_rows, target};
use super::operate::table::{Cell, Paint, Tone, plain, table};
use super::operate::words::{count, latency, moment};
use super::options::{Global, ReportForm};
use super::output::{colored, print};
use clap::Args;
use doorbell_history::clickhouse::LinkQueries;
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::time_of_day;
use rows::{Course, Latency, Loss};
use serde::Serialize;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

/// Default length of the period, in seconds.
const DAY_S: u32 = 86_400;

/// Maximum number of steps into which the picture divides the period.
const POINTS_MAX: u32 = 240;

/// Minimum length of a step, in seconds.
const STEP_S_MIN: u32 = 60;

pub(in crate::cli) const HELP: &str = "\
Examples:
  doorbell links report -c doorbell.toml
  doorbell links report --from 2026-11-01 --to 2026-12-01 --svg links.svg
  doorbell links report -o json | jq -r '.losses[] | select(.frames_lost > 0) | .link'

The numbers come from the database of [history.clickhouse] and cover all instances that write to it. Lost frames were sent and did not arrive, \
because a connection broke; dropped ones were not sent, because too many waited. Round trips exclude the time in which the peer collected receipts. \
A latency in one direction is known with an error, because the clocks differ.

Exit codes: 0 done, 1 the picture cannot be written, 2 invalid command line, 69 the server refuses or does not reply, 78 invalid configuration";

/// Options of `links report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Start: a date in UTC, or a time as in RFC 3339; default: a day before the end
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<u32>,

    /// End, not included; default: now
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<u32>,

    /// Also draw the round trip of each link over time as an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportForm,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Report {
    from_unix_s: u32,
    to_unix_s: u32,
    losses: Vec<Loss>,
    latencies: Vec<Latency>,
}

pub(in crate::cli) fn run(args: &ReportArgs, global: &Global) -> Result<Exit, Failure> {
    let time = time(args)?;
    let target = target(global)?;
    let queries = LinkQueries { database: &target.database, time: time.clone() };
    let step_s = (time.end - time.start).div_ceil(POINTS_MAX).next_multiple_of(STEP_S_MIN);
    let (losses, latencies, course) = ask(&target, async {
        let course = match &args.svg {
            Some(_) => target.query(&queries.course(step_s)).await?,
            None => String::new(),
        };
        Ok((target.query(&queries.loss()).await?, target.query(&queries.latency()).await?, course))
    })?;
    let report = Report {
        from_unix_s: time.start,
        to_unix_s: time.end,
        losses: read_rows(&losses, Loss::read)?,
        latencies: read_rows(&latencies, Latency::read)?,
    };
    if let Some(file) = &args.svg {
        let svg = picture::draw(&time, step_s, &read_rows(&course, Course::read)?, &report.losses);
        fs::write(file, svg).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot write {}: {error}", file.display()))
        })?;
    }
    let text = match args.output {
        ReportForm::Json => serde_json::to_string_pretty(&report).expect("all keys are strings") + "\n",
        ReportForm::Text => shown(&report, Paint { on: colored(global.color, &std::io::stdout()) }),
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// The period, in seconds since 1970.
fn time(args: &ReportArgs) -> Result<Range<u32>, Failure> {
    // The current second is included.
    let now = || u32::try_from(time_of_day().as_secs() + 1).unwrap_or(u32::MAX);
    let end = args.to.unwrap_or_else(now);
    let start = args.from.unwrap_or_else(|| end.saturating_sub(DAY_S));
    if start >= end {
        let text = format!("nothing between {} and {}: --from must be before --to", show(start), show(end));
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(start..end)
}

fn show(unix_s: u32) -> String {
    moment(u64::from(unix_s) * 1000).replace(".000Z", "Z")
}

/// Parses a date, which stands for its start in UTC, or a time as in RFC 3339.
fn parse_time(text: &str) -> Result<u32, String> {
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    });
    let seconds = time.and_then(|time| u32::try_from(time.as_second()).ok());
    seconds.ok_or_else(|| "expected a date or time, as in 2026-11-27 or 2026-11-27T08:30:00Z".to_owned())
}

fn shown(report: &Report, paint: Paint) -> String {
    if report.losses.is_empty() && report.latencies.is_empty() {
        return format!("no rows between {} and {}\n", show(report.from_unix_s), show(report.to_unix_s));
    }
    let warned = |number: u64| (if number == 0 { Tone::Plain } else { Tone::Warn }, count(number));
    let loss = |row: &Loss| -> Vec<Cell> {
        vec![
            plain(&row.of.instance),
            plain(&row.of.link),
            plain(count(row.frames)),
            warned(row.frames_lost),
            plain(row.percent()),
            warned(row.frames_dropped),
        ]
    };
    let time = |us: f64| plain(latency(rows::whole(us)));
    let slow = |row: &Latency| -> Vec<Cell> {
        let [p50, p90, p99, slowest] = row.round_trip_us;
        let correlation = row.size_correlation.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        vec![
            plain(&row.of.instance),
            plain(&row.of.link),
            plain(count(row.receipts)),
            time(p50),
            time(p90),
            time(p99),
            time(slowest),
            plain(format!(
                "{} ± {}",
                latency(rows::whole(row.one_way_us[0])),
                latency(rows::whole(row.one_way_error_us))
            )),
            time(row.one_way_us[1]),
            plain(correlation),
        ]
    };
    let losses: Vec<_> = report.losses.iter().map(loss).collect();
    let latencies: Vec<_> = report.latencies.iter().map(slow).collect();
    let first = table(&["INSTANCE", "LINK", "FRAMES", "LOST", "LOSS", "DROPPED"], &losses, paint);
    let heads =
        ["INSTANCE", "LINK", "RECEIPTS", "RTT P50", "P90", "P99", "MAX", "ONE WAY P50", "P99", "SIZE CORR"];
    format!("{first}\n{}", table(&heads, &latencies, paint))
}

#[cfg(test)]
mod tests {
    use super::rows::Link;
    use super::*;

    #[test]
    fn dates_and_times() {
        for (text, expected) in [
            ("2026-11-27", Some(1_795_737_600)),
            ("2026-11-27T08:30:00Z", Some(1_795_768_200)),
            ("2026-11-27T09:30:00+01:00", Some(1_795_768_200)),
            ("1969-12-31", None),
            ("2200-01-01", None),
            ("2026-13-01", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_time(text).ok(), expected, "{text}");
        }
        assert_eq!(show(1_795_768_200), "2026-11-27T08:30:00Z");
    }

    #[test]
    fn two_tables() {
        let of = Link { instance: "eu-1".to_owned(), link: "us".to_owned() };
        let loss = Loss { of: of.clone(), frames: 1_234_567, frames_lost: 3, frames_dropped: 0 };
        let latency = Latency {
            of,
            receipts: 1_200_000,
            round_trip_us: [88_200.0, 89_000.0, 91_300.5, 310_000.0],
            one_way_us: [44_100.0, 45_000.0],
            one_way_error_us: 44_000.0,
            size_correlation: Some(0.031),
        };
        let mut report =
            Report { from_unix_s: 0, to_unix_s: 60, losses: vec![loss], latencies: vec![latency] };
        let expected = "\
INSTANCE  LINK  FRAMES     LOST  LOSS     DROPPED
eu-1      us    1,234,567  3     0.001 %  0

INSTANCE  LINK  RECEIPTS   RTT P50  P90     P99     MAX      ONE WAY P50      P99     SIZE CORR
eu-1      us    1,200,000  88.2ms   89.0ms  91.3ms  310.0ms  44.1ms ± 44.0ms  45.0ms  0.03
";
        assert_eq!(shown(&report, Paint { on: false }), expected);
        (report.losses, report.latencies) = (Vec::new(), Vec::new());
        let expected = "no rows between 1970-01-01T00:00:00Z and 1970-01-01T00:01:00Z\n";
        assert_eq!(shown(&report, Paint { on: false }), expected);
    }
}
