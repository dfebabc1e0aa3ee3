//! Tests the recommendations for default and tuned systems.

use super::links::{self, Link, Measured, Settings};
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
            ("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic"),
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
    for (bits_per_sec, rtt_us) in [(10_000_000_000, 20_000), (100_000_000_000, 100_000)] {
        let path = Path { bits_per_sec, rtt_us };
        let (_, changes) = network::findings(&plain, Some(path));
        let mut numbers = changes.iter().flat_map(|change| change.value.split_whitespace());
        assert!(numbers.all(|number| number.parse::<i32>().is_ok()), "the kernel refuses one: {changes:?}");
        let after = |asked: &str| {
            let done =
                changes.iter().find(|change| asked == format!("/proc/sys/{}", change.key.replace('.', "/")));
            done.map(|change| change.value.clone()).or_else(|| plain(asked))
        };
        let (findings, more) = network::findings(&after, Some(path));
        assert!(more.is_empty(), "{more:?}");
        assert_eq!(Diagnosis { findings, changes: more }.level(), Level::Ok);
    }
    assert!(sysctl_file(&[]).contains("No changes recommended"));
}

/// Returns a link with these rates in bytes per second.
fn measured(rtt_us: u64, [sent, received]: [u64; 2]) -> Measured {
    let path = |bytes: u64| Path { bits_per_sec: 8 * bytes, rtt_us };
    Measured { sending: path(sent), receiving: path(received) }
}

#[test]
fn settings_that_limit_a_link() {
    const MEGA: u64 = 1_000_000;
    let plain = || Settings {
        rmem: Some([4096, 131_072, 6_291_456]),
        wmem: Some([4096, 16_384, 4_194_304]),
        slow_start_after_idle: true,
        congestion_control: "cubic".to_owned(),
        has_bbr: true,
    };
    let (rmem, wmem) = ("net.ipv4.tcp_rmem=", "net.ipv4.tcp_wmem=");
    let (idle, control) = ("net.ipv4.tcp_slow_start_after_idle=", "net.ipv4.tcp_congestion_control=");
    for (case, rtt_us, rates, settings, expected) in [
        ("small frames", 200_000, [1_000, 1_000], plain(), vec![]),
        ("fast and near", 500, [10 * MEGA, 10 * MEGA], plain(), vec![]),
        ("the initial window", 100_000, [146_000, 0], plain(), vec![]),
        // Order flow between block builders: a few bundles a second, each of 60 kB.
        ("bursts", 100_000, [600_000, 600_000], plain(), vec![(idle, "0"), (control, "bbr")]),
        (
            "bursts, tuned",
            100_000,
            [600_000, 600_000],
            Settings { slow_start_after_idle: false, congestion_control: "bbr".to_owned(), ..plain() },
            vec![],
        ),
        ("half of the default", 100_000, [0, 655_360], plain(), vec![]),
        ("above the default", 100_000, [0, 2 * MEGA], plain(), vec![(rmem, "4096 400000 6291456")]),
        (
            "1 Gbit/s over 100 ms",
            100_000,
            [125 * MEGA, 125 * MEGA],
            plain(),
            vec![
                (rmem, "4096 131072 25000000"),
                (rmem, "4096 25000000 25000000"),
                (wmem, "4096 16384 25000000"),
                (idle, "0"),
                (control, "bbr"),
            ],
        ),
        ("unknown settings", 100_000, [125 * MEGA, 125 * MEGA], Settings::default(), vec![]),
    ] {
        let advice = links::advise("eu", measured(rtt_us, rates), &settings);
        let fixes: Vec<String> = advice.into_iter().filter_map(|(finding, _)| finding.fix).collect();
        let expected: Vec<String> =
            expected.iter().map(|(key, value)| format!("sysctl -w {}'{value}'", key)).collect();
        assert_eq!(fixes, expected, "{case}");
    }
    let advice = links::advise("eu", measured(100_000, [600_000, 0]), &plain());
    let found = advice.iter().map(|(finding, _)| finding.why.as_str()).collect::<Vec<_>>();
    assert!(found[0].contains("60000 bytes") && found[0].contains("up to 200.00 ms longer"), "{found:?}");
    assert!(found[1].ends_with("bbr is available"), "{found:?}");
    let advice =
        links::advise("eu", measured(100_000, [600_000, 0]), &Settings { has_bbr: false, ..plain() });
    assert!(advice[1].0.why.contains("modprobe tcp_bbr"), "{advice:?}");
}

#[test]
fn the_recommended_file_has_the_highest_value_of_all_links() {
    let link = |name: &str, measured| Link { name: name.to_owned(), measured };
    let far = |bytes| Some(measured(100_000, [0, bytes]));
    let links = Ok(vec![link("ap", far(90_000_000)), link("eu", far(50_000_000)), link("us", None)]);
    let plain = system(&[]);
    let path = Path { bits_per_sec: 1_000_000_000, rtt_us: 80_000 };
    let (_, mut changes) = network::findings(&plain, Some(path));
    let findings = links::findings(&plain, &links, &mut changes);
    let change = |key: &str| {
        let mut all = changes.iter().filter(|change| change.key == key);
        let found = all.next().map(|change| change.value.clone());
        (found, all.count())
    };
    assert_eq!(change("net.ipv4.tcp_rmem"), (Some("4096 131072 20000000".to_owned()), 0));
    assert_eq!(change("net.ipv4.tcp_wmem"), (Some("4096 16384 20000000".to_owned()), 0));
    let summary = "round trip 100.00 ms, in which 0 bytes are sent and 9000000 received";
    assert_eq!(level_of(&findings, "ap"), (Level::Ok, summary.to_owned()));
    assert_eq!(level_of(&findings, "ap: net.ipv4.tcp_rmem").0, Level::Hint);
    assert_eq!(level_of(&findings, "us"), (Level::Ok, "not measured".to_owned()));
    let before = changes.clone();
    let none = links::findings(&plain, &Err("no running instance".to_owned()), &mut changes);
    assert_eq!((level_of(&none, "all").0, none[0].why.as_str()), (Level::Ok, "no running instance"));
    assert_eq!(changes, before);
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
