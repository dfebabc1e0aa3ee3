//! The file as it was written: each key with its place, nothing resolved against anything else.
//!
//! Does not know about: defaults, other tables, what a key is good for.

mod check;
mod route;

pub(crate) use check::{
    Addresses, Basic, CODES, Certificates, Check, CheckTls, Defaults, DnsAsked, ExecAsked, FileWatched,
    GRPC_MODES, GaugeAsked, GrpcAsked, HTTP_VERSIONS, HttpAsked, INITIALS, Kind, Latencies, METRICS, PREFERS,
    Pace, RECORDS, REDIRECTS, RedisAsked, SEVERITIES, TYPES, TcpAsked, TlsAsked,
};
pub(crate) use route::{CLIENT_CERTS, DETAILS, FORMATS, Files, Redirect, Reply, Route};

use super::model::{
    Admin, Agent, Auth, Blackbox, Compute, Control, Grpc, Health, Http2, Lifecycle, Limit, Listener, Log,
    Maintenance, Runtime, Systemd, TcpGate, Tls, Tuning,
};
use doorbell_config::{At, Places, Problem, Section, Table};

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Where the keys of tables that are read as a whole are written.
    pub(crate) places: Places,
    pub(crate) runtime: Runtime,
    pub(crate) log: Log,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) systemd: Systemd,
    pub(crate) control: Control,
    pub(crate) maintenance: Maintenance,
    pub(crate) admin: Option<Admin>,
    pub(crate) tuning: Tuning,
    pub(crate) compute: Compute,
    pub(crate) tls: Vec<At<Tls>>,
    pub(crate) auth: Vec<At<Auth>>,
    pub(crate) limits: Vec<At<Limit>>,
    pub(crate) listeners: Vec<At<Listener>>,
    pub(crate) http2: Http2,
    pub(crate) grpc: Option<Grpc>,
    pub(crate) check_defaults: Defaults,
    pub(crate) checks: Vec<Check>,
    pub(crate) health: Vec<At<Health>>,
    pub(crate) agents: Vec<At<Agent>>,
    pub(crate) tcp_gates: Vec<At<TcpGate>>,
    pub(crate) blackbox: Option<Blackbox>,
    pub(crate) routes: Vec<Route>,
}

impl File {
    pub(crate) fn read(mut root: Section<'_>) -> Self {
        read_version(&mut root);
        let file = Self {
            places: Places::default(),
            runtime: root.table("runtime").unwrap_or_default(),
            log: root.table("log").unwrap_or_default(),
            lifecycle: root.table("lifecycle").unwrap_or_default(),
            systemd: root.table("systemd").unwrap_or_default(),
            control: root.table("control").unwrap_or_default(),
            maintenance: root.table("maintenance").unwrap_or_default(),
            admin: root.table("admin"),
            tuning: root.table("tuning").unwrap_or_default(),
            compute: root.table("compute").unwrap_or_default(),
            tls: named(&mut root, "tls", whole),
            auth: named(&mut root, "auth", whole),
            limits: named(&mut root, "limit", whole),
            listeners: named(&mut root, "listener", whole),
            http2: root.table("http2").unwrap_or_default(),
            grpc: root.table("grpc"),
            check_defaults: root.section("check_defaults").map(Defaults::read).unwrap_or_default(),
            checks: named(&mut root, "check", Check::read),
            health: named(&mut root, "health", whole),
            agents: named(&mut root, "agent", whole),
            tcp_gates: named(&mut root, "tcp_gate", whole),
            blackbox: root.table("blackbox"),
            routes: named(&mut root, "route", Route::read),
        };
        root.finish();
        file
    }
}

fn named<T>(
    root: &mut Section<'_>,
    key: &'static str,
    read: impl Fn(At<String>, Section<'_>) -> T,
) -> Vec<T> {
    root.named(key).into_iter().map(|(name, at)| read(name, at)).collect()
}

/// A table that derives its keys, at its name.
fn whole<T: Table>(name: At<String>, at: Section<'_>) -> At<T> {
    At { value: at.into_table(), span: name.span }
}

fn read_version(root: &mut Section<'_>) {
    let Some(value) = root.value("version") else {
        let problem =
            Problem::error("missing-version", 0..0, "the file does not say which version it is written for");
        root.problem(problem.help("begin it with `version = 1`"));
        return;
    };
    match value.get_ref().as_integer() {
        Some(number) if number.as_str() == "1" => {}
        Some(_) => root.problem(
            Problem::error("bad-version", value.span(), "this version of the format is not known")
                .help("only `version = 1` exists"),
        ),
        None => {
            root.wrong_type::<()>(value, "the number 1");
        }
    }
}
