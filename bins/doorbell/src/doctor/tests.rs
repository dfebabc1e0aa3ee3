//! Tests the recommendations for default and tuned systems.
//!
//! Does not know about: the system under test.

use super::network::{self, Path};
use super::{Diagnosis, Finding, Level, process, sysctl_file};

/// Returns the defaults of Debian 12 on a machine with 4 GiB, with `changed` values.
fn system(changed: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
    move |path: &str| {
        let known = [
            ("/proc/sys/net/core/somaxconn", "4096"),
            ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "512"),
            ("/proc/sys/net/ipv4/tcp_syncookies", "1"),
            ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999"),
            ("/proc/sys/net/ipv4/tcp_tw_reuse", "2"),
            ("/proc/sys/net/ipv4/tcp_window_scaling", "1"),
            ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
            ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic"),
            ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
            ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
            ("/proc/sys/net/core/rmem_max", "212992"),
            ("/proc/sys/net/core/wmem_max", "212992"),
            ("/proc/self/cgroup", "0::/a/b"),
            ("/sys/fs/cgroup/a/b/cpu.max", "max 100000"),
            ("/sys/fs/cgroup/a/cpu.max", "50000 100000"),
            ("/sys/fs/cgroup/a/b/memory.max", "67108864"),
        ];
        changed.iter().chain(&known).find(|(known, _)| *known == path).map(|(_, value)| (*value).to_owned())
    }
}

fn level_of(findings: &[Finding], name: &str) -> (Level, String) {
    let found = findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}"));
    (found.level, found.value.clone())
}

#[test]
fn the_shipped_file_is_what_the_doctor_writes() {
    let path = Path { bits_per_sec: 10_000_000_000, rtt_us: 20_000 };
    assert_eq!(path.product(), 25_000_000);
    let (_, changes) = network::findings(&system(&[]), Some(path));
    let shipped = include_str!("../../../../deploy/sysctl/90-doorbell.conf");
    assert_eq!(sysctl_file(&changes), shipped, "write the file again with `doorbell doctor`");
}

#[test]
fn settings_that_hurt() {
    for (key, value, name, level) in [
        ("/proc/sys/net/core/somaxconn", "128", "net.core.somaxconn", Level::Degraded),
        ("/proc/sys/net/ipv4/tcp_syncookies", "0", "net.ipv4.tcp_syncookies", Level::Degraded),
        ("/proc/sys/net/ipv4/tcp_window_scaling", "0", "net.ipv4.tcp_window_scaling", Level::Degraded),
        ("/proc/sys/net/ipv4/tcp_tw_reuse", "0", "net.ipv4.tcp_tw_reuse", Level::Hint),
        (
            "/proc/sys/net/ipv4/ip_local_port_range",
            "40000 41000",
            "net.ipv4.ip_local_port_range",
            Level::Hint,
        ),
    ] {
        let plain = system(&[]);
        let read = |path: &str| if path == key { Some(value.to_owned()) } else { plain(path) };
        let (findings, changes) = network::findings(&read, None);
        assert_eq!(level_of(&findings, name).0, level, "{name}");
        let (before, _) = network::findings(&plain, None);
        assert_eq!(level_of(&before, name).0, Level::Ok, "{name}");
        assert!(changes.iter().any(|change| change.key == name), "{changes:?}");
    }
}

#[test]
fn a_tuned_system_needs_no_change() {
    let plain = system(&[]);
    let path = Path { bits_per_sec: 10_000_000_000, rtt_us: 20_000 };
    let (_, changes) = network::findings(&plain, Some(path));
    let after = |asked: &str| {
        let done =
            changes.iter().find(|change| asked == format!("/proc/sys/{}", change.key.replace('.', "/")));
        done.map(|change| change.value.clone()).or_else(|| plain(asked))
    };
    let (findings, more) = network::findings(&after, Some(path));
    assert!(more.is_empty(), "{more:?}");
    assert_eq!(Diagnosis { findings, changes: more }.level(), Level::Ok);
    assert!(sysctl_file(&[]).contains("No changes recommended"));
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let (findings, changes) = network::findings(&|_| None, None);
    assert!(findings.is_empty() && changes.is_empty());
    assert!(process::quota(&|_| None).is_empty());
    let zone = |zone: Result<&str, &str>| process::time_zone(zone.map(str::to_owned).map_err(Into::into));
    assert_eq!((zone(Ok("Europe/Berlin")).level, zone(Err("Mars/Base")).level), (Level::Ok, Level::Degraded));
    assert!(zone(Err("Mars/Base")).why.contains("TZ=\"Mars/Base\""));
}

#[test]
fn limits_of_processes() {
    assert_eq!(process::files(Some(32), Some(32)).level, Level::Fatal);
    assert_eq!(process::files(Some(1024), None).level, Level::Hint);
    assert_eq!(process::files(Some(1 << 20), None).level, Level::Ok);
    assert_eq!(process::files(None, None).level, Level::Ok);
    let found = process::quota(&system(&[]));
    assert_eq!(level_of(&found, "CPU quota"), (Level::Hint, "0.50 CPUs".into()));
    assert_eq!(level_of(&found, "memory limit"), (Level::Ok, "64 MiB".into()));
    let free = process::quota(&system(&[("/sys/fs/cgroup/a/cpu.max", "max 100000")]));
    assert_eq!(level_of(&free, "CPU quota"), (Level::Ok, "no limit".into()));
    for (release, expected) in
        [("5.10.0-9-amd64", true), ("5.12.0", false), ("6.1.0-18", false), ("4.19", true), ("x", false)]
    {
        assert_eq!(process::is_before_5_12(release), expected, "{release}");
    }
}
