//! Checks a metric of this machine or of a control group, with two thresholds against flapping.

use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::blocking::BlockingCall;
use crate::options::{BadIs, GaugeCheck, Level, Metric};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads one gauge.
#[derive(Debug)]
pub(crate) struct GaugeRunner {
    gauge: Arc<Gauge>,
    blocking: BlockingCall,
}

#[derive(Debug)]
struct Gauge {
    check: GaugeCheck,
    is_down: AtomicBool,
}

impl GaugeRunner {
    pub(crate) fn new(check: GaugeCheck) -> Self {
        let gauge = Arc::new(Gauge { check, is_down: AtomicBool::new(false) });
        Self { gauge, blocking: BlockingCall::default() }
    }

    pub(crate) fn is_of(&self, check: &GaugeCheck) -> bool {
        self.gauge.check == *check
    }

    pub(crate) async fn run(&self) -> Verdict {
        let gauge = Arc::clone(&self.gauge);
        self.blocking.run(move || gauge.look()).await
    }
}

impl Gauge {
    fn look(&self) -> Verdict {
        let read = read(&self.check).map_err(|error| Issue::error(cause_of(&error)))?;
        self.evaluate(read)
    }

    /// Evaluates a value. Between the two thresholds the state does not change.
    fn evaluate(&self, read: Level) -> Verdict {
        let GaugeCheck { metric, bad_is, down, up, degraded, .. } = self.check;
        let is_beyond = |level: Level| match bad_is {
            BadIs::Above => read.number() > level.number(),
            BadIs::Below => read.number() < level.number(),
        };
        let was_down = self.is_down.load(Ordering::Relaxed);
        let is_down =
            is_beyond(down) || (was_down && (is_beyond(up) || read.number() == up.number()) && up != down);
        self.is_down.store(is_down, Ordering::Relaxed);
        let value = read.rounded(metric).text(metric);
        let side = if bad_is == BadIs::Above { "above" } else { "below" };
        if is_beyond(down) {
            return Err(Issue::failure(format!("{value}, down {side} {}", down.text(metric))));
        }
        if is_down {
            let side = if bad_is == BadIs::Above { "below" } else { "above" };
            return Err(Issue::failure(format!("{value}, up again {side} {}", up.text(metric))));
        }
        match degraded {
            Some(level) if is_beyond(level) => {
                Err(Issue::degraded(format!("{value}, degraded {side} {}", level.text(metric))))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the metric in the unit of the thresholds: an absolute value or a percentage.
fn read(check: &GaugeCheck) -> io::Result<Level> {
    let (value, all) = match check.metric {
        Metric::DiskFree => {
            let system = rustix::fs::statvfs(&check.path)?;
            let size = system.f_frsize;
            // Blocks reserved for root count neither as free nor in the total.
            let all = system.f_blocks.saturating_sub(system.f_bfree).saturating_add(system.f_bavail);
            (system.f_bavail.saturating_mul(size), all.saturating_mul(size))
        }
        Metric::InodesFree => {
            let system = rustix::fs::statvfs(&check.path)?;
            inodes_of(system.f_favail, system.f_files)?
        }
        Metric::Load => {
            let text = std::fs::read_to_string("/proc/loadavg")?;
            let load = text.split(' ').next().and_then(hundredths).ok_or_else(unexpected)?;
            return Ok(match check.down {
                Level::MilliPercent(_) => {
                    let stat = std::fs::read_to_string("/proc/stat")?;
                    Level::MilliPercent(load * 1000 / cores(&stat).max(1))
                }
                Level::Count(_) | Level::Milli(_) => Level::Milli(load * 10),
            });
        }
        Metric::MemoryAvailable => {
            let text = std::fs::read_to_string("/proc/meminfo")?;
            let of = |name| kibibytes(&text, name).ok_or_else(unexpected);
            let (available, all) = (of("MemAvailable:")? << 10, of("MemTotal:")? << 10);
            match group_of(check) {
                None => (available, all),
                Some(folder) => {
                    let (left, limit) = left_of(folder)?;
                    (left.min(available), limit.min(all))
                }
            }
        }
        Metric::MemoryPressure => {
            let text = match group_of(check) {
                None => std::fs::read_to_string("/proc/pressure/memory")?,
                Some(folder) => read_of(folder, "memory.pressure")?,
            };
            return pressure(&text)
                .map(|hundredths| Level::MilliPercent(hundredths * 10))
                .ok_or_else(unexpected);
        }
        Metric::OpenFiles => {
            let text = std::fs::read_to_string("/proc/sys/fs/file-nr")?;
            let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
            let mut next = || numbers.next().and_then(Result::ok).ok_or_else(unexpected);
            let (open, _free, all) = (next()?, next()?, next()?);
            (open, all)
        }
    };
    Ok(match check.down {
        Level::MilliPercent(_) => Level::MilliPercent(parts(value, all)),
        Level::Count(_) | Level::Milli(_) => Level::Count(value),
    })
}

/// The folder of a control group; `None` for the whole machine.
fn group_of(check: &GaugeCheck) -> Option<&Path> {
    Some(check.path.as_path()).filter(|folder| !folder.as_os_str().is_empty())
}

/// Reads a file of a control group (cgroups(7), version 2).
fn read_of(folder: &Path, name: &str) -> io::Result<String> {
    std::fs::read_to_string(folder.join(name)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "{} has no {name}: not a control group of version 2, or the root group",
            folder.display()
        )),
        _ => error,
    })
}

/// Bytes that a control group may still use, and its limit. Inactive page cache can be reclaimed
/// and counts as free, as in the kubelet.
fn left_of(folder: &Path) -> io::Result<(u64, u64)> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| unexpected());
    let limit = read_of(folder, "memory.max")?;
    if limit.trim() == "max" {
        return Ok((u64::MAX, u64::MAX));
    }
    let (limit, current) = (number(&limit)?, number(&read_of(folder, "memory.current")?)?);
    let stat = read_of(folder, "memory.stat")?;
    let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")).map_or(Ok(0), number)?;
    Ok((limit.saturating_sub(current.saturating_sub(idle)), limit))
}

/// Free and total inodes. File systems that create inodes on demand, such as btrfs, report 0 of 0.
fn inodes_of(free: u64, all: u64) -> io::Result<(u64, u64)> {
    if all == 0 { Err(io::Error::other("the file system does not count inodes")) } else { Ok((free, all)) }
}

/// A ratio in thousandths of a percent.
fn parts(value: u64, all: u64) -> u64 {
    u64::try_from(u128::from(value) * 100_000 / u128::from(all.max(1))).unwrap_or(u64::MAX)
}

fn unexpected() -> io::Error {
    io::Error::other("unexpected format of a kernel file")
}

/// Parses a number with two decimals (proc_loadavg(5)).
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part: u64 = (part.len() == 2).then(|| part.parse().ok())??;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)
}

fn cores(stat: &str) -> u64 {
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    stat.lines().filter(is_core).count() as u64
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// `avg10` of `some`, in hundredths of a percent (PSI).
fn pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    hundredths(line.split(' ').find_map(|field| field.strip_prefix("avg10="))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn gauge(bad_is: BadIs, [down, up, degraded]: [u64; 3]) -> Gauge {
        let [down, up, degraded] = [down, up, degraded].map(Level::Count);
        let (metric, path) = (Metric::InodesFree, PathBuf::from("/"));
        let check = GaugeCheck { metric, path, bad_is, down, up, degraded: Some(degraded) };
        Gauge { check, is_down: AtomicBool::new(false) }
    }

    #[test]
    fn a_file_system_may_not_count_inodes() {
        assert_eq!(inodes_of(1, 2).unwrap(), (1, 2));
        assert_eq!(inodes_of(0, 0).unwrap_err().to_string(), "the file system does not count inodes");
    }

    #[test]
    fn between_the_thresholds_the_state_does_not_change() {
        let free = gauge(BadIs::Below, [100, 200, 300]);
        let used = gauge(BadIs::Above, [900, 800, 700]);
        for (step, (value, expected)) in [
            (400, "ok"),
            (300, "ok"),
            (299, "degraded: 299, degraded below 300"),
            (100, "degraded: 100, degraded below 300"),
            (99, "failure: 99, down below 100"),
            (100, "failure: 100, up again above 200"),
            (200, "failure: 200, up again above 200"),
            (201, "degraded: 201, degraded below 300"),
            (150, "degraded: 150, degraded below 300"),
            (0, "failure: 0, down below 100"),
            (1000, "ok"),
        ]
        .into_iter()
        .enumerate()
        {
            let text = |verdict: Verdict| match verdict {
                Ok(()) => "ok".to_owned(),
                Err(issue) => format!("{}: {}", issue.outcome.as_str(), issue.reason),
            };
            assert_eq!(text(free.evaluate(Level::Count(value))), expected, "step {step}");
            let mirrored = text(used.evaluate(Level::Count(1000 - value)));
            assert_eq!(mirrored.split(':').next(), expected.split(':').next(), "step {step}");
        }
        // With a single threshold, the previous state has no effect.
        let one = gauge(BadIs::Below, [100, 100, 0]);
        assert!(one.evaluate(Level::Count(99)).is_err());
        assert_eq!(one.evaluate(Level::Count(100)), Ok(()));
    }

    #[test]
    fn every_gauge_of_this_machine_can_be_read() {
        for (metric, levels) in [
            (Metric::DiskFree, [Level::Count(0), Level::MilliPercent(0)]),
            (Metric::InodesFree, [Level::Count(0), Level::MilliPercent(0)]),
            (Metric::Load, [Level::Milli(0), Level::MilliPercent(0)]),
            (Metric::MemoryAvailable, [Level::Count(0), Level::MilliPercent(0)]),
            (Metric::OpenFiles, [Level::Count(0), Level::MilliPercent(0)]),
        ] {
            for down in levels {
                let path = PathBuf::from(if metric.is_of_group() { "" } else { "/" });
                let check = GaugeCheck { metric, path, bad_is: BadIs::Below, down, up: down, degraded: None };
                let found = read(&check).unwrap();
                assert!(found.is_like(down) && metric.takes(down), "{metric:?} {found:?}");
                if let Level::MilliPercent(part) = found {
                    assert!(part <= 100_000 || metric == Metric::Load, "{metric:?} {part}");
                }
            }
        }
    }

    #[test]
    fn a_control_group_has_less_than_the_machine() {
        let folder = std::env::temp_dir().join(format!("doorbell-gauge-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let read = |metric, path: &Path, down| {
            let path = path.to_owned();
            read(&GaugeCheck { metric, path, bad_is: BadIs::Below, down, up: down, degraded: None })
        };
        let memory = |down| read(Metric::MemoryAvailable, &folder, down);
        let missing = memory(Level::Count(0)).unwrap_err().to_string();
        assert!(missing.contains("has no memory.max"), "{missing}");
        write("memory.max", "4194304\n");
        write("memory.current", "3145728\n");
        write("memory.stat", "anon 1\ninactive_anon 7\ninactive_file 1048576\nactive_file 5\n");
        assert_eq!(memory(Level::Count(0)).unwrap(), Level::Count(2 << 20));
        assert_eq!(memory(Level::MilliPercent(0)).unwrap(), Level::MilliPercent(50_000));
        write("memory.current", "9999999\n");
        assert_eq!(memory(Level::Count(0)).unwrap(), Level::Count(0));
        write("memory.current", "many\n");
        assert!(memory(Level::Count(0)).is_err());
        write("memory.max", "max\n");
        let (Level::Count(there), Level::Count(machine)) = (
            memory(Level::Count(0)).unwrap(),
            read(Metric::MemoryAvailable, Path::new(""), Level::Count(0)).unwrap(),
        ) else {
            panic!("bytes")
        };
        assert!(there > machine / 2 && there < machine * 2, "{there} and {machine}");
        write("memory.pressure", "some avg10=12.50 avg60=0.87 avg300=0.24 total=1\n");
        let pressure = read(Metric::MemoryPressure, &folder, Level::MilliPercent(0)).unwrap();
        assert_eq!(pressure, Level::MilliPercent(12_500));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn kernel_files_are_parsed() {
        assert_eq!(hundredths("12.05"), Some(1205));
        assert_eq!([hundredths("12"), hundredths("1.5"), hundredths("a.00")], [None; 3]);
        assert_eq!(cores("cpu  1 2\ncpu0 1\ncpu1 2\nintr 5\n"), 2);
        let meminfo = "MemTotal:        1000 kB\nMemFree:          10 kB\nMemAvailable:    500 kB\n";
        assert_eq!(kibibytes(meminfo, "MemAvailable:"), Some(500));
        assert_eq!(kibibytes(meminfo, "Nothing:"), None);
        let psi = "some avg10=1.53 avg60=0.87 avg300=0.24 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure(psi), Some(153));
        assert_eq!(pressure("full avg10=0.00"), None);
        assert_eq!((parts(1, 3), parts(5, 0)), (33_333, 500_000));
    }
}
