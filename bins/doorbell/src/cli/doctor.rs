//! `doorbell doctor`: examines the system and recommends settings.

use super::operate;
use super::options::{Global, ReportForm};
use super::output::print;
use crate::doctor::{self, Diagnosis, Level, Link, Measured, Path, sysctl_file};
use clap::Args;
use doorbell_control::LinkView;
use doorbell_proxy_server::exit::{Exit, Failure};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Examples:
  doorbell doctor
  doorbell doctor --link 10Gbit --rtt 20ms --write-sysctl 90-doorbell.conf
  doorbell doctor -o json | jq '.findings[] | select(.level != \"ok\")'

The system is not changed; --write-sysctl only writes a file.

The settings of the kernel are compared with the round trip and the rate of each link of a running instance, if one is found in \
$RUNTIME_DIRECTORY, /run/doorbell or $XDG_RUNTIME_DIR/doorbell, or given with --socket.

Exit codes: 0 ok or hints only, 1 degraded, 2 doorbell cannot work on this system";

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportForm,

    /// Bandwidth of the network, as in 10Gbit or 100Mbit; used to size socket buffers
    #[arg(long, value_name = "RATE", value_parser = parse_link, requires = "rtt")]
    link: Option<u64>,

    /// Round-trip time of the network, as in 20ms
    #[arg(long, value_name = "TIME", value_parser = super::options::parse_timeout, requires = "link")]
    rtt: Option<Duration>,

    /// File to write the recommended settings to, in the format of sysctl.d(5)
    #[arg(long, value_name = "FILE")]
    write_sysctl: Option<PathBuf>,

    /// The instance whose links are examined.
    #[command(flatten)]
    instance: operate::InstanceArgs,
}

pub(super) fn run(args: &DoctorArgs, global: &Global) -> Result<Exit, Failure> {
    let path = args.link.zip(args.rtt).map(|(bits_per_sec, rtt)| Path {
        bits_per_sec,
        rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
    });
    let links = operate::links_at(&args.instance, global);
    let links = links.map(|links| links.iter().map(measured).collect()).map_err(|failure| failure.message);
    let diagnosis = doctor::examine(path, &links);
    let level = diagnosis.level();
    match args.output {
        ReportForm::Json => {
            let Diagnosis { findings, changes } = &diagnosis;
            let report = json!({ "level": level, "findings": findings, "sysctl": changes });
            print(&format!("{report:#}\n"))?;
        }
        ReportForm::Text => {
            for finding in &diagnosis.findings {
                if !global.quiet || finding.level > Level::Hint {
                    print(&format!("{finding}\n"))?;
                }
            }
        }
    }
    if let Some(file) = &args.write_sysctl {
        std::fs::write(file, sysctl_file(&diagnosis.changes)).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot write {}: {error}", file.display()))
        })?;
    }
    Ok(match level {
        Level::Ok | Level::Hint => Exit::Success,
        Level::Degraded => Exit::Failure,
        Level::Fatal => Exit::Code(2),
    })
}

/// The measurements of a link.
fn measured(link: &LinkView) -> Link {
    let path = |rtt_us, bytes_per_s: u64| Path { bits_per_sec: bytes_per_s.saturating_mul(8), rtt_us };
    let measured = link.minute.as_ref().map(|minute| Measured {
        sending: path(minute.round_trip.p50_us, minute.sent_max_bytes_per_s),
        receiving: path(minute.round_trip.p50_us, minute.received_max_bytes_per_s),
    });
    Link { name: link.name.clone(), measured }
}

/// Parses a bandwidth with a decimal unit into bits per second.
fn parse_link(text: &str) -> Result<u64, String> {
    let units = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("Kbit", 1_000)];
    let parsed = units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim().parse::<u64>().ok()?;
        number.checked_mul(*scale).filter(|bits| (1..=10_000_000_000_000).contains(bits))
    });
    parsed.ok_or_else(|| "expected a number and a unit, as in 10Gbit or 100Mbit, at most 10000Gbit".into())
}
