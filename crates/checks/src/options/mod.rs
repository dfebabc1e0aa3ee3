//! Options of checks: targets, intervals, expectations. Each key of `[check.NAME]` is a field here.

mod address;
#[cfg(feature = "alias")]
mod alias;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod database;
mod egress;
mod fields;
mod gauge;
mod grpc;
mod hex;
mod http;
mod http_method;
#[cfg(feature = "icmp")]
mod icmp;
mod kind;
mod latency;
#[cfg(feature = "link")]
mod link;
mod local;
#[cfg(feature = "mail")]
mod mail;
#[cfg(feature = "mysql")]
mod mysql;
mod pace;
mod payload;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "process")]
mod process;
mod proxy_header;
mod remote;
mod status;
mod target;
#[cfg(feature = "udp")]
mod udp;
mod untargeted;
#[cfg(feature = "websocket")]
mod websocket;

pub use address::{Address, ClientTls, HostPort, Prefer, Resolve, Url};
#[cfg(feature = "alias")]
pub use alias::{AliasCheck, Followed, cycles};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use database::DatabaseAccess;
pub use doorbell_config::Secret;
use doorbell_config::{Problem, Section, Table};
use doorbell_health::Severity;
pub use egress::EgressOptions;
pub use grpc::{GrpcCheck, GrpcMode, GrpcStatus};
pub use hex::unhex;
pub use http::{
    FieldValue, FollowRedirects, HttpCheck, HttpDegraded, HttpExpect, HttpVersion, Pattern, RequestVersion,
};
pub use hyper::Method;
#[cfg(feature = "icmp")]
pub use icmp::IcmpCheck;
pub use kind::CheckKind;
pub use latency::LatencyRule;
#[cfg(feature = "link")]
pub use link::{DECISION_TTL, LinkCheck};
pub use local::{BadIs, ExecCheck, FileCheck, GaugeCheck, Level, Metric};
#[cfg(feature = "mail")]
pub use mail::{MailCheck, MailProtocol};
#[cfg(feature = "mysql")]
pub use mysql::MysqlCheck;
pub use pace::Pace;
pub use payload::Payload;
#[cfg(feature = "postgres")]
pub use postgres::PostgresCheck;
#[cfg(feature = "process")]
pub use process::ProcessCheck;
pub use proxy_header::ProxyHeader;
pub use remote::{CertificateRule, DnsCheck, DnsCode, DnsRecord, RedisCheck, TcpCheck, TlsCheck};
pub use status::{StatusRange, StatusSet};
use std::time::Duration;
pub(crate) use target::address_of;
#[cfg(feature = "udp")]
pub use udp::UdpCheck;
pub use untargeted::UntargetedKind;
#[cfg(feature = "websocket")]
pub use websocket::WebsocketCheck;

const SEVERITIES: [(&str, Severity); 3] =
    [("degrading", Severity::Degrading), ("info", Severity::Info), ("required", Severity::Required)];

/// One check. Its keys depend on `type`. The keys of `[check_defaults]`, except `egress`, can be
/// set here, too, for this check only.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(inherits = "check_defaults", check = Self::complete, useless = Self::useless)]
pub struct Check {
    /// Name in endpoints, logs and metrics.
    #[key(table_name)]
    pub name: String,
    /// Severity of the check in endpoints that do not list their checks: required, degrading or
    /// info.
    #[key(default = "required", words = SEVERITIES)]
    pub severity: Severity,
    /// Whether instances with the same options for this check share it through `[shared]`: one of
    /// them runs the check, and the others apply the results. While the store is unavailable, each
    /// instance runs the check.
    #[key(default = false)]
    pub share: bool,
    /// When the check runs and how its results become states.
    #[key(flatten)]
    pub pace: Pace,
    /// What the check does.
    #[key(flatten)]
    pub kind: CheckKind,
}

/// Defaults of every check.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(useless = Self::useless)]
pub struct CheckDefaults {
    /// When checks run and how their results become states.
    #[key(flatten)]
    pub pace: Pace,
    /// Source addresses and ports of connections.
    pub egress: EgressOptions,
}

/// Keys that have no effect on a check without runs: all of them on type ttl, all but the last one
/// on type link, where `max_age` limits the age of a statement.
const OF_RUNS: [&str; 9] = [
    "share",
    "interval",
    "fast_interval",
    "down_interval",
    "timeout",
    "connect_timeout",
    "cache",
    "jitter",
    "max_age",
];

impl Check {
    /// A required check with the default pace: that of [`Pace::every`] with an interval of 5 s.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<CheckKind>) -> Self {
        let (severity, pace) = (Severity::Required, Pace::default());
        Self { name: name.into(), severity, share: false, pace, kind: kind.into() }
    }

    fn useless(&self) -> &'static [&'static str] {
        match &self.kind {
            CheckKind::Ttl(_) => &OF_RUNS,
            #[cfg(feature = "link")]
            CheckKind::Link(_) => &OF_RUNS[..OF_RUNS.len() - 1],
            _ => &[],
        }
    }

    fn complete(&mut self, at: &Section<'_>) {
        let useless = self.useless();
        if !useless.is_empty() {
            self.share = false;
        }
        if self.share {
            self.pace.run_by_interval(at);
        }
        let pace = &mut self.pace;
        match &self.kind {
            // Without a valid type, nothing is known about the check.
            _ if !at.has_valid("type") => {}
            CheckKind::Ttl(ttl) => {
                settle_without_runs(
                    pace,
                    *ttl,
                    useless,
                    at,
                    ["a check whose results are pushed", "remove it; `ttl` is the lifetime of a result"],
                );
            }
            // `max_age` applies to the state that each instance sends on a link.
            #[cfg(feature = "link")]
            CheckKind::Link(_) => {
                let max_age = LinkCheck::max_age(pace.max_age, at);
                settle_without_runs(
                    pace,
                    max_age,
                    useless,
                    at,
                    ["a check of type link", "remove it; `max_age` limits the age of a statement"],
                );
            }
            kind => {
                let is_local = kind.is_local_alias();
                if is_local {
                    pace.follow(at);
                }
                // A watched service reports every change, and a followed check has thresholds of
                // its own, so by default one result changes the state.
                if is_local || matches!(kind, CheckKind::Grpc(grpc) if grpc.mode == GrpcMode::Watch) {
                    let of = |key: &str, count: u32| if at.has_valid(key) { count } else { 1 };
                    (pace.rise, pace.fall) = (of("rise", pace.rise), of("fall", pace.fall));
                }
                // Reading a state takes no time, so the interval may be shorter than `timeout`.
                if !is_local {
                    pace.check(at);
                }
                #[cfg(feature = "udp")]
                if let CheckKind::Udp(udp) = kind {
                    udp.check_wait(pace.timeout, at);
                }
            }
        }
    }
}

/// Sets the pace of a check that does not run, whose results are valid for `max_age`. Unless the
/// check itself sets `rise` or `fall`, one result changes the state. Reports each key of `useless`
/// that the check itself sets, with `check` and `help` in the message.
fn settle_without_runs(
    pace: &mut Pace,
    max_age: Duration,
    useless: &[&str],
    at: &Section<'_>,
    [check, help]: [&str; 2],
) {
    let of = |key: &str, count: u32| if at.is_own(key) { count } else { 1 };
    let (rise, fall) = (of("rise", pace.rise), of("fall", pace.fall));
    let Pace { initial, flap, history, .. } = *pace;
    *pace = Pace { rise, fall, initial, flap, history, ..Pace::pushed(max_age) };
    for key in useless.iter().filter(|key| at.is_own(key)) {
        let message = format!("`{key}` has no effect on {check}");
        at.problem(Problem::warning("no-effect", at.place(key).unwrap_or_default(), message).help(help));
    }
}

impl CheckDefaults {
    /// Keys that are omitted when this table is printed: those of `pace`, which are printed in each
    /// check, where they take effect.
    fn useless(&self) -> Vec<&'static str> {
        Pace::keys().iter().map(|key| key.name).collect()
    }
}
