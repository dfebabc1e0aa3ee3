//! Chooses the certificate for a client, by the requested name and the client's signature schemes.
//!
//! The unbuffered connection of the TLS library does not expose the requested name, so the resolver
//! records the name. The name is stored per thread: a resolver is shared by all threads, and the
//! library calls it while the thread processes the session.

use core::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::CertPair;

thread_local! {
    static ASKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes the name that was requested in the session that this thread processed last, in lower case.
pub(crate) fn take_asked_name() -> Option<String> {
    ASKED.take()
}

/// Certificates by name. Several may have the same name, for example one with RSA and one with
/// ECDSA.
#[derive(Debug, Default)]
pub(super) struct ByName {
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// Wildcard certificates, by the domain after `*.`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// The certificates for clients that request no name, and for unknown names unless those are
    /// refused.
    default: Vec<Arc<CertifiedKey>>,
    refuses_unknown: bool,
}

impl ByName {
    /// Creates a resolver for `pairs`. The first pair, and pairs with the same names, are the
    /// default.
    pub(super) fn new(pairs: &[CertPair], refuses_unknown: bool) -> Self {
        let mut found = Self { refuses_unknown, ..Self::default() };
        for pair in pairs {
            for name in &pair.names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(domain) => (&mut found.wildcard, domain),
                    None => (&mut found.exact, name.as_str()),
                };
                map.entry(name.to_owned()).or_default().push(Arc::clone(&pair.certified));
            }
        }
        let first = pairs.first().map(|pair| &pair.names);
        let default = pairs.iter().filter(|pair| Some(&pair.names) == first);
        found.default = default.map(|pair| Arc::clone(&pair.certified)).collect();
        found
    }

    fn lookup(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name else { return &self.default };
        let by_wildcard = || self.wildcard.get(name.split_once('.')?.1);
        match self.exact.get(name).or_else(by_wildcard) {
            Some(found) => found,
            None if self.refuses_unknown => &[],
            None => &self.default,
        }
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(str::to_ascii_lowercase));
        let found = self.lookup(hello.server_name());
        let usable = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        // If no certificate is usable, the library fails the handshake with the appropriate alert.
        found.iter().find(usable).or_else(|| found.first()).cloned()
    }
}
