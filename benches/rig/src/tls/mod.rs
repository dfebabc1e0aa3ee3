//! Comparisons of TLS on the real machine. doorbell and a peer take turns on one core, and a client
//! in this process runs on another.
//!
//! Does not know about: how turns alternate and results are shown (see `native`).

mod client;
mod identity;
mod reply;

#[cfg(test)]
mod tests;

use std::fmt;

use clap::ValueEnum;
use client::Client;
use identity::Identity;

use crate::error::RigError;
use crate::image::servers::Entry;
use crate::image::{OurPrograms, programs};
use crate::native::{CPU, Contest, Figure, Report, Rules, Running, Shape, Side, Turn, cpu_time};
use crate::plan::{self, name_of};

/// Number of concurrent connections.
const IN_FLIGHT: u32 = 16;
/// Number of requests in a turn with kept connections, as a multiple of the handshakes in a turn
/// with new connections. A request costs less than a handshake.
const KEPT_TIMES: u64 = 10;
/// The promise: a peer needs at least this multiple of doorbell's CPU time.
const PROMISED: f64 = 1.15;

/// Both drivers of doorbell.
const OURS: [&str; 2] = ["doorbell-uring", "doorbell-epoll"];
const PEERS: [&str; 2] = ["nginx", "haproxy"];

const SHAPE: Shape = Shape {
    about: "TLS 1.3, ECDSA P-256; 16 connections at a time; promised: a ratio of at most 0.87",
    heads: ["server", "peer", "load"],
    sides: ["ours", "peer"],
    figures: &[CPU, Figure { key: "per_core", head: "per core second", unit: 1.0, is_judged: false }],
    note: "cipher suite and key exchange",
};

/// Kinds of exchanges, in the order of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A full handshake, one request, and the close.
    Full,
    /// A handshake that resumes the previous session, one request, and the close.
    Resumed,
    /// Consecutive requests on a kept connection.
    Keep,
    /// Sixteen pipelined requests on a kept connection.
    #[value(name = "keep-16")]
    Keep16,
}

/// The cipher suites the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offer {
    /// All suites of TLS 1.3 with AES-256-GCM first, which is the default of the client's library.
    Usual,
    /// Only AES-128-GCM.
    Aes128,
}

/// The key exchange the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Group {
    X25519,
    X25519MlKem768,
}

/// The load on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlsLoad {
    pub(crate) kind: Kind,
    pub(crate) offer: Offer,
    pub(crate) group: Group,
}

impl Kind {
    /// Number of requests in an exchange.
    pub(crate) const fn requests(self) -> u32 {
        match self {
            Self::Keep16 => 16,
            Self::Full | Self::Keep | Self::Resumed => 1,
        }
    }

    /// Whether an exchange keeps the connection open.
    pub(crate) const fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::Keep16)
    }
}

impl fmt::Display for TlsLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", name_of(&self.kind), name_of(&self.offer), name_of(&self.group))
    }
}

/// The comparisons that match a pattern, or without patterns all comparisons. The peers' library
/// does not support the hybrid key exchange, so doorbell with this key exchange is compared with
/// itself with X25519.
pub(crate) fn contests(patterns: &[String]) -> Result<Vec<Contest<Side<TlsLoad>>>, RigError> {
    let x25519 = |kind, offer| TlsLoad { kind, offer, group: Group::X25519 };
    let entry = |name| Entry::named(name).expect("the catalogue has both drivers and their peers");
    let mut all = Vec::new();
    for ours in OURS.map(entry) {
        for peer in PEERS.map(entry) {
            for &offer in Offer::value_variants() {
                for &kind in Kind::value_variants() {
                    let load = x25519(kind, offer);
                    let [ours, peer] = [ours, peer].map(|entry| Side { entry, load });
                    all.push(Contest::of(ours, peer, Some(1.0 / PROMISED)));
                }
            }
        }
        let load = x25519(Kind::Full, Offer::Usual);
        let hybrid = TlsLoad { group: Group::X25519MlKem768, ..load };
        all.push(Contest::of(Side { entry: ours, load: hybrid }, Side { entry: ours, load }, None));
    }
    plan::select(all.into_iter(), patterns, Contest::id, |_| true)
}

/// Runs the comparisons. A turn has `exchanges` handshakes, or ten times as many requests on kept
/// connections.
pub(crate) fn run(
    contests: &[Contest<Side<TlsLoad>>],
    exchanges: u64,
    rules: &Rules,
    ours: &mut OurPrograms,
) -> Result<Report, RigError> {
    let identity = Identity::generate()?;
    rules.hold(contests, SHAPE, |contest| {
        rules.alternate(contest, |side| {
            turn(side, exchanges, &identity, rules, ours).map_err(|why| format!("{}: {why}", side.entry.name))
        })
    })
}

/// Measures CPU time per connection or, on kept connections, per request.
fn turn(
    Side { entry, load }: Side<TlsLoad>,
    exchanges: u64,
    identity: &Identity,
    rules: &Rules,
    ours: &mut OurPrograms,
) -> Result<Turn, String> {
    let program = programs::provide(entry, ours).map_err(|error| error.to_string())?;
    let server =
        Running::start(&program, rules.server_core, |program, place| identity.setup(entry, program, place))?;
    let mut client = Client::new(server.port(), load, identity, rules.client_core, IN_FLIGHT)?;
    let each = u64::from(load.kind.requests());
    let requests = if load.kind.keeps() { KEPT_TIMES * exchanges } else { exchanges };
    let cpu_ns = cpu_time(&server, requests, |count| Ok(client.ask(count / each)? * each))?;
    let note = format!("{}, {}", client.suite().trim_start_matches("TLS13_"), name_of(&load.group));
    Ok(Turn { note, ..Turn::of([("cpu_ns", cpu_ns), ("per_core", 1e9 / cpu_ns)]) })
}
