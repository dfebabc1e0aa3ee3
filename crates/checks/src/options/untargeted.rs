//! The keys of a check kind except its target, which each request contains, as in `/probe?target=`.

use super::kind::{self, CheckKind};
use doorbell_config::{Dump, JsonMap, Key, Section, Table};
use std::time::Duration;

/// Kinds that contact one target.
const KINDS: [&str; 8] = ["dns", "grpc", "http", "icmp", "redis", "tcp", "tls", "udp"];

/// Keys of the target.
const TARGET: [&str; 4] = ["address", "host", "server", "url"];

/// What a check does to a target that is not part of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct UntargetedKind(pub CheckKind);

impl Table for UntargetedKind {
    const DOC: &'static str = "What a check does to its target.";

    fn keys() -> &'static [Key] {
        CheckKind::keys()
    }

    fn defaults() -> &'static Self {
        const { &Self(CheckKind::Ttl(Duration::from_secs(1))) }
    }

    fn properties() -> JsonMap {
        let mut properties = kind::properties_among(&KINDS);
        TARGET.iter().for_each(|key| drop(properties.remove(*key)));
        properties
    }

    fn take(at: &mut Section<'_>) -> Self {
        at.without(&TARGET);
        Self(kind::take_among(at, &KINDS))
    }

    fn show(&self, to: &mut Dump) {
        self.0.show(to);
        to.hide(&TARGET);
    }
}

impl Default for UntargetedKind {
    fn default() -> Self {
        Self::defaults().clone()
    }
}
