//! Options of `grpc` checks.

use super::address::{Address, ClientTls, Resolve};
use super::http::FieldValue;
use super::latency::LatencyRule;
use super::target::target;
use super::{fields, hex};
use doorbell_config::{Entry, Problem, Section, Table, Words};

/// A call of `Check` or `Watch` of `grpc.health.v1`, or of a unary method of another service.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check, useless = Self::useless)]
pub struct GrpcCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:50051\"")]
    pub address: Address,
    /// Name of the service; empty for the server as a whole.
    #[key(default = "")]
    pub service: String,
    /// check makes a call of Check for each run. watch makes one call of Watch, which stays open
    /// and reports every change; if it ends, the next call of Watch begins no sooner than
    /// `fast_interval` after the start of the previous one. With watch, a run also makes a call of
    /// Check, which must complete in time, unless the server has just reported a status.
    #[key(default = "check")]
    pub mode: GrpcMode,
    /// Unary method to call, such as "/csi.v1.Identity/Probe". Default: Check of grpc.health.v1,
    /// whose response must be SERVING.
    #[key(read = method)]
    pub method: Option<String>,
    /// Message to send to `method`, as pairs of hexadecimal digits. Default: an empty message.
    #[key(with = hex)]
    pub request: Vec<u8>,
    /// Value of `:authority`. Default: the address, or localhost for a Unix socket.
    #[key(read = authority)]
    pub authority: Option<String>,
    /// Metadata of each call. The values of credentials, such as authorization, are not shown. The
    /// value of a key that ends in -bin is Base64.
    #[key(with = metadata)]
    pub metadata: Vec<(String, FieldValue)>,
    /// Send a `traceparent` with the sampled flag cleared.
    #[key(default = true)]
    pub traceparent: bool,
    /// TLS of the connection. Default: none.
    #[key(shown)]
    pub tls: Option<ClientTls>,
    /// Expected status of `method`. Default: OK.
    #[key(table = "expect", default = "OK")]
    pub status: GrpcStatus,
    /// Accepted response messages of `method`, each a whole message as pairs of hexadecimal digits;
    /// "" is the empty message. Default: any message.
    #[key(table = "expect", filled, with = hex::list)]
    pub reply: Vec<Vec<u8>>,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
    /// Value of `User-Agent`; differs if the check imitates a prober.
    #[key(skip = Some(concat!("doorbell/", env!("CARGO_PKG_VERSION"))))]
    pub user_agent: Option<&'static str>,
}

/// Method of `grpc.health.v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum GrpcMode {
    /// `Check`, on a new connection for each run.
    Check,
    /// `Watch`: one call that stays open and reports each change.
    Watch,
}

/// Expected status codes. The codes that are omitted can also mean that the call did not reach the
/// method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum GrpcStatus {
    #[word("OK")]
    Ok = 0,
    #[word("INVALID_ARGUMENT")]
    InvalidArgument = 3,
    #[word("NOT_FOUND")]
    NotFound = 5,
    #[word("ALREADY_EXISTS")]
    AlreadyExists = 6,
    #[word("PERMISSION_DENIED")]
    PermissionDenied = 7,
    #[word("RESOURCE_EXHAUSTED")]
    ResourceExhausted = 8,
    #[word("FAILED_PRECONDITION")]
    FailedPrecondition = 9,
    #[word("ABORTED")]
    Aborted = 10,
    #[word("OUT_OF_RANGE")]
    OutOfRange = 11,
    #[word("UNIMPLEMENTED")]
    Unimplemented = 12,
    #[word("INTERNAL")]
    Internal = 13,
    #[word("DATA_LOSS")]
    DataLoss = 15,
    #[word("UNAUTHENTICATED")]
    Unauthenticated = 16,
}

target!(check: GrpcCheck, check.address.remote(), check.tls.as_ref());

impl GrpcCheck {
    /// Checks the server as a whole, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }

    /// Keys that are omitted when this table is printed, because they have no effect: with
    /// `method`, a key of health calls; without `method`, a key of other calls.
    const fn useless(&self) -> &'static [&'static str] {
        if self.method.is_some() { &["service"] } else { &["expect.status"] }
    }

    fn check(&self, at: &Section<'_>) {
        let (mode, all) = (at.right_place("mode"), at.right_place("resolve.all"));
        if let (Some(mode), Some(all), GrpcMode::Watch, true) = (&mode, all, self.mode, self.resolve.all) {
            let problem = Problem::error("contradiction", all, "a watch is one call to one address");
            at.problem(problem.also(mode.clone(), "the watch").help("remove one of them"));
        }
        let Some(method) = at.place("method") else {
            // These keys apply only to another method: request and response of Check are fixed.
            for key in ["request", "expect.status", "expect.reply"] {
                if let Some(place) = at.right_place(key) {
                    let problem = Problem::error("missing-key", place, format!("`{key}` needs a `method`"));
                    at.problem(problem.help("add `method = \"/package.Service/Method\"`"));
                }
            }
            return;
        };
        let is_watch = self.mode == GrpcMode::Watch;
        let others = [("service", at.right_place("service")), ("mode", mode.filter(|_| is_watch))];
        for (key, place) in others.into_iter().filter_map(|(key, place)| Some((key, place?))) {
            let message = format!("`{key}` belongs to grpc.health.v1");
            let problem = Problem::error("contradiction", place, message);
            at.problem(problem.also(method.clone(), "another method").help("remove one of them"));
        }
        let reply = at.right_place("expect.reply").filter(|_| self.status != GrpcStatus::Ok);
        if let Some(reply) = reply {
            let problem = Problem::error("contradiction", reply, "only the status OK comes with a message");
            at.problem(problem.help("remove it, or `status`"));
        }
    }
}

/// Reads the path of a method: `/SERVICE/METHOD`.
fn method(entry: &Entry<'_>) -> Option<Option<String>> {
    let text = entry.string()?;
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let parts = text.strip_prefix('/').and_then(|path| path.split_once('/'));
    if parts.is_some_and(|(service, method)| is_name(service) && is_name(method)) {
        return Some(Some(text));
    }
    let message = format!("{text:?} is not a gRPC method");
    entry.refuse("bad-value", message, "write \"/package.Service/Method\"")
}

/// Reads a host with an optional port.
fn authority(entry: &Entry<'_>) -> Option<Option<String>> {
    let text = entry.string()?;
    if text.parse::<hyper::http::uri::Authority>().is_ok_and(|authority| !authority.as_str().contains('@')) {
        return Some(Some(text));
    }
    entry.refuse("bad-value", format!("{text:?} is not an authority"), "write \"host\" or \"host:port\"")
}

/// Metadata: header fields, except those of the protocol.
mod metadata {
    use super::fields;
    pub(super) use super::fields::{dump, form};
    use crate::options::FieldValue;
    use doorbell_config::{Entry, Problem};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Vec<(String, FieldValue)>> {
        let metadata = fields::read(entry)?;
        let is_reserved = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("grpc-") || ["content-type", "host", "te"].contains(&&*name)
        };
        for (name, _) in metadata.iter().filter(|(name, _)| is_reserved(name)) {
            let message = format!("metadata `{name}` is reserved by gRPC");
            let help = if name.eq_ignore_ascii_case("host") { "use `authority`" } else { "remove it" };
            entry.problem(Problem::error("bad-header", entry.span(), message).help(help));
        }
        Some(metadata)
    }
}
