//! Comparisons of TLS on the real machine: a server of ours and a peer take turns on one core, a client of this process asks
//! from another.
//!
//! Does not know about: how turns alternate (`native` does), tables.

mod client;
mod identity;
mod reply;
mod report;
mod server;
mod turn;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub(crate) use report::Report;
pub(crate) use server::{Set, TlsServer};

use crate::error::RigError;
use crate::image::OurPrograms;
use crate::native::{Conditions, Pair, Rules, alternate};
use crate::session::{now_s, say, time_left};
use identity::Identity;
use turn::Turn;

/// Connections at a time.
const IN_FLIGHT: u32 = 16;

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A full handshake, a request, the end.
    Full,
    /// A request after the other on a kept connection.
    Keep,
    /// Sixteen requests in a row on a kept connection.
    #[serde(rename = "keep-16")]
    Keep16,
    /// A handshake that resumes the session before, a request, the end.
    Resumed,
}

/// The cipher suites the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Offer {
    /// AES-128-GCM alone.
    Aes128,
    /// All of TLS 1.3, AES-256-GCM first, as the client's library has them.
    Usual,
}

/// The key exchange the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Group {
    X25519,
    X25519MlKem768,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TlsLoad {
    pub(crate) kind: Kind,
    pub(crate) offer: Offer,
    pub(crate) group: Group,
}

/// One of two that take turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) server: &'static TlsServer,
    pub(crate) load: TlsLoad,
}

/// A server of ours against a peer under one load, or against itself under another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) ours: Side,
    pub(crate) peer: Side,
}

/// What became of a contest.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) contest: Contest,
    pub(crate) result: Result<Vec<Pair<Turn>>, String>,
}

/// All of them.
const KINDS: [Kind; 4] = [Kind::Full, Kind::Resumed, Kind::Keep, Kind::Keep16];

impl Kind {
    /// Requests of an exchange.
    pub(crate) const fn requests(self) -> u32 {
        match self {
            Self::Keep16 => 16,
            Self::Full | Self::Keep | Self::Resumed => 1,
        }
    }

    /// Whether an exchange leaves the connection as it is.
    pub(crate) const fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::Keep16)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Keep => "keep",
            Self::Keep16 => "keep-16",
            Self::Resumed => "resumed",
        })
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128 => "aes128",
            Self::Usual => "usual",
        })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X25519 => "x25519",
            Self::X25519MlKem768 => "x25519mlkem768",
        })
    }
}

impl Contest {
    /// `ours/peer/kind/offer/group`; the group is that of our side.
    pub(crate) fn id(&self) -> String {
        let TlsLoad { kind, offer, group } = self.ours.load;
        format!("{}/{}/{kind}/{offer}/{group}", self.ours.server.name, self.peer.server.name)
    }

    fn matches(&self, pattern: &str) -> bool {
        format!("/{}/", self.id()).contains(&format!("/{}/", pattern.trim_matches('/')))
    }
}

/// The contests that match one of the patterns; without patterns all of them. The peers' library does not know the hybrid key
/// exchange, so there doorbell is held against itself with X25519.
pub(crate) fn contests(patterns: &[String]) -> Result<Vec<Contest>, RigError> {
    let x25519 = |kind, offer| TlsLoad { kind, offer, group: Group::X25519 };
    let mut all = Vec::new();
    for ours in server::OURS {
        for peer in server::PEERS {
            for offer in [Offer::Usual, Offer::Aes128] {
                for load in KINDS.map(|kind| x25519(kind, offer)) {
                    let side = |server| Side { server, load };
                    all.push(Contest { ours: side(ours), peer: side(peer) });
                }
            }
        }
        let load = x25519(Kind::Full, Offer::Usual);
        let hybrid = TlsLoad { group: Group::X25519MlKem768, ..load };
        all.push(Contest { ours: Side { server: ours, load: hybrid }, peer: Side { server: ours, load } });
    }
    if !patterns.is_empty() {
        all.retain(|contest| patterns.iter().any(|pattern| contest.matches(pattern)));
    }
    if all.is_empty() { Err(RigError::NoRow { patterns: patterns.to_vec() }) } else { Ok(all) }
}

/// Holds the contests, one outcome for each, with a line of progress for each. A turn has `exchanges` handshakes, or ten times as
/// many requests on kept connections.
pub(crate) fn run(
    contests: &[Contest],
    exchanges: u64,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Report, RigError> {
    let conditions = Conditions::read(rules)?;
    let identity = Identity::generate()?;
    let from_s = now_s();
    let mut outcomes = Vec::new();
    for (at, contest) in contests.iter().enumerate() {
        let result = alternate(contest.ours, contest.peer, rules.pairs, |side: Side| {
            turn::turn(side, exchanges, &identity, rules, ours)
                .map_err(|why| format!("{}: {why}", side.server.name))
        });
        let left = time_left(at + 1, contests.len(), now_s() - from_s);
        let shown = match &result {
            Ok(pairs) => report::in_short(pairs),
            Err(why) => format!("SKIP: {why}"),
        };
        say(&format!("[{}/{}, {left}] {}: {shown}", at + 1, contests.len(), contest.id()));
        outcomes.push(Outcome { contest: *contest, result });
    }
    Ok(Report { conditions, outcomes })
}
