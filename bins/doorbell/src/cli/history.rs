//! `doorbell history`: creates the schema of the history, and prints the availability of endpoints
//! in a month.

use super::load;
use super::operate::table::{Cell, Paint, Tone, plain, table};
use super::operate::words::length;
use super::options::{Global, ReportForm};
use super::output::{colored, print};
use super::report::rows::Row;
use clap::{Args, Subcommand};
use doorbell_history::StoreError;
use doorbell_history::clickhouse::{ClickHouse, schema};
use doorbell_proxy_config::model::ClickHouse as Settings;
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::history::store;
use doorbell_proxy_server::time_of_day;
use serde::Serialize;
use std::time::Duration;

pub(super) const HELP: &str = "\
Examples:
  doorbell history init -c doorbell.toml
  doorbell history availability -c doorbell.toml --month 2026-11";

const INIT_HELP: &str = "\
Examples:
  doorbell history init -c doorbell.toml
  doorbell history init --print > schema.sql     for a user who may create tables

The server and the database are those of [history.clickhouse]. The command can be repeated, and upgrades the schema of an earlier version. \
Another user: DOORBELL__HISTORY__CLICKHOUSE__USER and DOORBELL__HISTORY__CLICKHOUSE__PASSWORD.

Exit codes: 0 done, 2 invalid command line, 69 the server refuses or does not reply, 78 invalid configuration";

const AVAILABILITY_HELP: &str = "\
Examples:
  doorbell history availability -c doorbell.toml --month 2026-11
  doorbell history availability -o json | jq '.[] | select((.availability // 1) < 0.999).endpoint'

Availability is the time up or degraded as a share of the time up, degraded or down. Drains and maintenance are planned and not counted; \
a time without a running instance is not observed and not counted either.

Exit codes: 0 done, 2 invalid command line, 69 the server refuses or does not reply, 78 invalid configuration";

/// Commands of `history`.
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Print the availability of each endpoint in a month
    #[command(after_help = AVAILABILITY_HELP)]
    Availability(AvailabilityArgs),
    /// Create or upgrade the tables and views in ClickHouse
    #[command(after_help = INIT_HELP)]
    Init(InitArgs),
}

/// Options of `history init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Print the SQL statements instead of running them
    #[arg(long)]
    print: bool,
}

/// Options of `history availability`.
#[derive(Debug, Args)]
pub struct AvailabilityArgs {
    /// Month in UTC; default: the current month
    #[arg(long, value_name = "YYYY-MM", value_parser = parse_month)]
    month: Option<u32>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportForm,
}

/// One endpoint in a month. Times are in seconds, summed over all instances.
#[derive(Debug, PartialEq, Serialize)]
struct Availability {
    endpoint: String,
    instances: u64,
    /// `None` if the endpoint was never up, degraded or down.
    availability: Option<f64>,
    up_s: f64,
    degraded_s: f64,
    down_s: f64,
    planned_s: f64,
}

pub(super) fn run(command: &HistoryCommand, global: &Global) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::Availability(args) => availability(args, global),
        HistoryCommand::Init(args) => init(args, global),
    }
}

fn init(args: &InitArgs, global: &Global) -> Result<Exit, Failure> {
    if args.print {
        let database = settings(global)?.unwrap_or_default().database;
        let statements = schema::statements(&database, 0);
        print(&statements.iter().map(|sql| format!("{sql};\n")).collect::<String>())?;
        return Ok(Exit::Success);
    }
    let target = target(global)?;
    let before = ask(&target, target.init())?;
    let (database, server, version) = (&target.database, &target.server, schema::VERSION);
    let done = match before {
        0 => format!("created the schema, version {version}"),
        same if same == version => {
            format!("the schema has version {version} already; created the views again")
        }
        older => format!("upgraded the schema from version {older} to {version}"),
    };
    if !global.quiet {
        print(&format!("database {database} at {server:?}: {done}\n"))?;
    }
    Ok(Exit::Success)
}

fn availability(args: &AvailabilityArgs, global: &Global) -> Result<Exit, Failure> {
    let target = target(global)?;
    let month = args.month.unwrap_or_else(this_month);
    let query = schema::availability(&target.database, month);
    let text = ask(&target, target.query(&query))?;
    let rows = read_rows(&text, Availability::read)?;
    match args.output {
        ReportForm::Json => {
            let json = serde_json::to_string_pretty(&rows).expect("all keys are strings");
            print(&format!("{json}\n"))?;
        }
        ReportForm::Text if rows.is_empty() => {
            print(&format!("no rows in {:04}-{:02}\n", month / 100, month % 100))?;
        }
        ReportForm::Text => print(&shown(&rows, Paint { on: colored(global.color, &std::io::stdout()) }))?,
    }
    Ok(Exit::Success)
}

/// `[history.clickhouse]`, if the configuration has it.
fn settings(global: &Global) -> Result<Option<Settings>, Failure> {
    Ok(load::for_command(global, "")?.history.clickhouse)
}

/// Reads a row from each line of a response.
pub(super) fn read_rows<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Failure> {
    let unexpected =
        |line: &str| Failure::new(Exit::Unavailable, format!("unexpected reply of the server: {line:?}"));
    text.lines().map(|line| read(line).ok_or_else(|| unexpected(line))).collect()
}

pub(super) fn target(global: &Global) -> Result<ClickHouse, Failure> {
    let settings = settings(global)?.ok_or_else(|| load::no_table("history.clickhouse", global))?;
    store(&settings).map_err(|why| Failure::new(Exit::BadConfig, why))
}

/// Waits for a response of the server.
pub(super) fn ask<T>(
    target: &ClickHouse,
    reply: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
    let reply = runtime.block_on(reply);
    runtime.shutdown_background();
    reply.map_err(|error| Failure::new(Exit::Unavailable, format!("{:?}: {error}", target.server)))
}

impl Availability {
    /// Reads a line of a response.
    fn read(line: &str) -> Option<Self> {
        let row = Row::of(line)?;
        let (up_s, degraded_s, down_s) =
            (row.number("up_s")?, row.number("degraded_s")?, row.number("down_s")?);
        let all = up_s + degraded_s + down_s;
        Some(Self {
            endpoint: row.text("endpoint")?,
            instances: row.integer("instances")?,
            availability: (all > 0.0).then(|| (up_s + degraded_s) / all),
            up_s,
            degraded_s,
            down_s,
            planned_s: row.number("planned_s")?,
        })
    }

    /// Availability in percent with three decimals, rounded down, so that 100 means no time down.
    fn percent(&self) -> String {
        match self.availability {
            Some(share) => format!("{:.3} %", (share * 100_000.0).floor() / 1_000.0),
            None => "-".to_owned(),
        }
    }
}

fn shown(rows: &[Availability], paint: Paint) -> String {
    let time = |seconds: f64| -> Cell {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        plain(if time.is_zero() { "-".to_owned() } else { length(doorbell_proxy_server::millis(time)) })
    };
    let row = |row: &Availability| {
        let tone = if row.down_s > 0.0 { Tone::Warn } else { Tone::Good };
        let observed = row.up_s + row.degraded_s + row.down_s + row.planned_s;
        vec![
            plain(&row.endpoint),
            (tone, row.percent()),
            time(row.down_s),
            time(row.degraded_s),
            time(row.planned_s),
            time(observed),
            plain(row.instances.to_string()),
        ]
    };
    let heads = ["ENDPOINT", "AVAILABLE", "DOWN", "DEGRADED", "PLANNED", "OBSERVED", "INSTANCES"];
    table(&heads, &rows.iter().map(row).collect::<Vec<_>>(), paint)
}

/// Parses a month such as `2026-11` into the number that the server uses: `202611`.
fn parse_month(text: &str) -> Result<u32, String> {
    let parse = || {
        let (year, month) = text.split_once('-')?;
        let digits = |text: &str, len: usize| {
            (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse::<u32>().ok())?
        };
        let (year, month) = (digits(year, 4)?, digits(month, 2)?);
        ((1970..=2105).contains(&year) && (1..=12).contains(&month)).then_some(year * 100 + month)
    };
    parse().ok_or_else(|| "expected a month, as in 2026-11".to_owned())
}

fn this_month() -> u32 {
    let now = jiff::Timestamp::UNIX_EPOCH + time_of_day();
    let text = now.strftime("%Y-%m").to_string();
    parse_month(&text).unwrap_or(197_001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months() {
        for (text, expected) in [
            ("2026-11", Some(202_611)),
            ("1970-01", Some(197_001)),
            ("2026-13", None),
            ("2026-1", None),
            ("26-11", None),
            ("+026-11", None),
            ("2026", None),
        ] {
            assert_eq!(parse_month(text).ok(), expected, "{text}");
        }
        assert!(this_month() > 202_501);
    }

    #[test]
    fn a_table_of_old_and_new_servers() {
        let read = |instances: &str, up: f64, down: f64| {
            let line = format!(
                "{{\"endpoint\":\"readyz\",\"instances\":{instances},\"up_s\":{up},\"degraded_s\":0,\"down_s\":{down},\"planned_s\":90}}"
            );
            Availability::read(&line).expect("a row")
        };
        let rows = [read("\"2\"", 99_999.9, 0.1), read("1", 0.0, 0.0), read("1", 60.0, 0.0)];
        let expected = "\
ENDPOINT  AVAILABLE  DOWN   DEGRADED  PLANNED  OBSERVED  INSTANCES
readyz    99.999 %   100ms  -         1m30s    1d3h      2
readyz    -          -      -         1m30s    1m30s     1
readyz    100.000 %  -      -         1m30s    2m30s     1
";
        assert_eq!(shown(&rows, Paint { on: false }), expected);
        assert_eq!(Availability::read("Code: 60"), None);
    }
}
