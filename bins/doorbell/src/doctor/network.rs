//! The kernel's network settings that affect a server with many short connections, and their
//! recommended values.
//!
//! The settings are documented in ip-sysctl and socket(7).

use super::{Finding, Level, Read};
use serde::Serialize;
use std::fmt::Write as _;

/// Bandwidth and round-trip time of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) bits_per_sec: u64,
    pub(crate) rtt_us: u64,
}

/// A recommended change of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) why: &'static str,
}

/// Length of the accept queue: the default of a listener, and of the kernel since Linux 5.4.
const BACKLOG: u64 = 4096;

/// Minimum number of ports for outgoing connections; the kernel's default range has 28,232.
const PORTS_MIN: u64 = 28_000;

/// The kernel's default minimum of `tcp_rmem` and `tcp_wmem`.
const BUFFER_MIN: u64 = 4096;

/// Settings of buffers, and the effect of their maximum.
pub(super) const RMEM: (&str, &str) =
    ("net.ipv4.tcp_rmem", "the third number limits the receive buffer of one connection");
pub(super) const WMEM: (&str, &str) =
    ("net.ipv4.tcp_wmem", "the third number limits the send buffer of one connection");

impl Path {
    /// Bandwidth-delay product in bytes.
    pub(crate) fn product(self) -> u64 {
        let bits_us = u128::from(self.bits_per_sec) * u128::from(self.rtt_us);
        u64::try_from(bits_us / 8_000_000).unwrap_or(u64::MAX)
    }

    /// Size of a buffer in bytes. The kernel uses half of a receive buffer for overhead, so a
    /// buffer needs twice the bandwidth-delay product. Larger sizes are refused by the kernel.
    pub(super) fn buffer(self) -> u64 {
        self.product().saturating_mul(2).min(i32::MAX.unsigned_abs().into())
    }
}

struct Looking<'a> {
    read: Read<'a>,
    findings: Vec<Finding>,
    changes: Vec<Change>,
}

pub(super) fn findings(read: Read<'_>, path: Option<Path>) -> (Vec<Finding>, Vec<Change>) {
    let mut at = Looking { read, findings: Vec::new(), changes: Vec::new() };
    at.least(
        "net.core.somaxconn",
        BACKLOG,
        Level::Degraded,
        "connections beyond this queue length are dropped and retried by clients after a second",
    );
    at.least(
        "net.ipv4.tcp_max_syn_backlog",
        BACKLOG,
        Level::Hint,
        "handshakes beyond this limit use SYN cookies, which lose TCP options",
    );
    at.word(
        "net.ipv4.tcp_syncookies",
        &["1", "2"],
        "1",
        Level::Degraded,
        "without SYN cookies a SYN flood blocks all other clients",
    );
    at.ports();
    at.word(
        "net.ipv4.tcp_tw_reuse",
        &["1", "2"],
        "1",
        Level::Hint,
        "allows ports of outgoing connections to be reused after a second instead of a minute",
    );
    at.word(
        "net.ipv4.tcp_window_scaling",
        &["1"],
        "1",
        Level::Degraded,
        "without it a connection can have at most 64 KiB in flight",
    );
    at.word(
        "net.ipv4.tcp_slow_start_after_idle",
        &["0"],
        "0",
        Level::Hint,
        "with it a kept-alive connection restarts slowly after a short idle time",
    );
    at.show("net.ipv4.tcp_congestion_control");
    at.echo();
    at.buffers(path);
    (at.findings, at.changes)
}

/// The value of a setting; `None` if it cannot be read.
pub(super) fn value(read: Read<'_>, key: &str) -> Option<String> {
    read(&format!("/proc/sys/{}", key.replace('.', "/")))
}

/// Minimum, default and maximum size of a buffer.
pub(super) fn sizes(read: Read<'_>, key: &str) -> Option<[u64; 3]> {
    let value = value(read, key)?;
    let numbers: Vec<u64> = value.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().ok()
}

/// Minimum, default and maximum of a buffer size, as in its file below `/proc/sys`.
pub(super) fn shown([least, start, most]: [u64; 3]) -> String {
    format!("{least} {start} {most}")
}

impl Looking<'_> {
    fn value(&self, key: &str) -> Option<String> {
        value(self.read, key)
    }

    fn show(&mut self, key: &'static str) {
        if let Some(value) = self.value(key) {
            self.findings.push(Finding::ok("network", key, value));
        }
    }

    /// Reports the groups that may open ICMP sockets. Recommends nothing, because few
    /// configurations need these sockets.
    fn echo(&mut self) {
        const KEY: &str = "net.ipv4.ping_group_range";
        let Some(value) = self.value(KEY) else { return };
        let groups = value.split_whitespace().collect::<Vec<_>>().join(" to ");
        let why = "a group of doorbell must be in this range for checks of type icmp";
        self.findings.push(Finding { why: why.to_owned(), ..Finding::ok("network", KEY, groups) });
    }

    /// Recommends a minimum value. Settings that cannot be read, as in a container, are skipped.
    fn least(&mut self, key: &'static str, least: u64, level: Level, why: &'static str) {
        let Some(value) = self.value(key) else { return };
        if value.parse::<u64>().is_ok_and(|number| number >= least) {
            self.findings.push(Finding::ok("network", key, value));
        } else {
            self.advise(key, &value, least.to_string(), level, why);
        }
    }

    fn word(&mut self, key: &'static str, good: &[&str], wanted: &str, level: Level, why: &'static str) {
        let Some(value) = self.value(key) else { return };
        if good.contains(&value.as_str()) {
            self.findings.push(Finding::ok("network", key, value));
        } else {
            self.advise(key, &value, wanted.to_owned(), level, why);
        }
    }

    fn advise(&mut self, key: &'static str, value: &str, wanted: String, level: Level, why: &'static str) {
        let found = Finding::ok("network", key, value).because(level, why, format!("{key} = {wanted}"));
        self.findings.push(found);
        self.changes.push(Change { key, value: wanted, why });
    }

    fn ports(&mut self) {
        const KEY: &str = "net.ipv4.ip_local_port_range";
        let Some(value) = self.value(KEY) else { return };
        let mut ends = value.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
        let (first, last) = (ends.next().unwrap_or(0), ends.next().unwrap_or(0));
        let shown = format!("{first} to {last}");
        if last.saturating_sub(first) >= PORTS_MIN {
            self.findings.push(Finding::ok("network", KEY, shown));
        } else {
            let why =
                "each check and each other outgoing connection to one address takes a port of this range";
            self.advise(KEY, &shown, "32768 60999".into(), Level::Hint, why);
        }
    }

    /// Recommends buffer sizes.
    fn buffers(&mut self, path: Option<Path>) {
        let wanted = path.map(Path::buffer);
        if let (Some(path), Some(wanted)) = (path, wanted) {
            let value = format!("{} bytes; buffers need {wanted}", path.product());
            self.findings.push(Finding::ok("network", "bandwidth-delay product", value));
        }
        for (key, why) in [RMEM, WMEM] {
            let Some(found @ [least, start, most]) = sizes(self.read, key) else { continue };
            match wanted.filter(|wanted| most < *wanted) {
                None => self.findings.push(Finding::ok("network", key, shown(found))),
                Some(wanted) => {
                    let wanted = shown([least.max(BUFFER_MIN), start, wanted]);
                    self.advise(key, &shown(found), wanted, Level::Hint, why);
                }
            }
        }
        for (key, why) in [
            ("net.core.rmem_max", "limits programs that set SO_RCVBUF; doorbell does not set it"),
            ("net.core.wmem_max", "limits programs that set SO_SNDBUF; doorbell does not set it"),
        ] {
            match wanted {
                Some(wanted) => self.least(key, wanted, Level::Hint, why),
                None => self.show(key),
            }
        }
    }
}

/// Adds a change. Two changes of one setting are merged: each number of the value becomes the
/// higher of both.
pub(super) fn merge(changes: &mut Vec<Change>, new: Change) {
    let Some(old) = changes.iter_mut().find(|old| old.key == new.key) else { return changes.push(new) };
    let higher = |(old, new): (&str, &str)| match (old.parse::<u64>(), new.parse::<u64>()) {
        (Ok(old), Ok(new)) => old.max(new).to_string(),
        _ => new.to_owned(),
    };
    let numbers = old.value.split_whitespace().zip(new.value.split_whitespace()).map(higher);
    old.value = numbers.collect::<Vec<_>>().join(" ");
}

/// Formats the changes for sysctl.d(5).
pub(crate) fn sysctl_file(changes: &[Change]) -> String {
    let mut text = "# Written by `doorbell doctor --write-sysctl`. To apply it, copy it to /etc/sysctl.d/ and run `sysctl --system`.\n".to_owned();
    if changes.is_empty() {
        text.push_str("# No changes recommended.\n");
    }
    for Change { key, value, why } in changes {
        let _infallible = write!(text, "\n# {why}\n{key} = {value}\n");
    }
    text
}
