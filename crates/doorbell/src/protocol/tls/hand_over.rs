//! Which ClientHellos are somebody else's: what a decision may look at, read by the TLS library and thrown away.
//!
//! Does not know about: connections.

use core::fmt;
use std::sync::Arc;

use rustls::server::Acceptor;

/// What a client says before anything is answered. It may be anything: nothing of it is verified.
#[derive(Clone, Debug)]
pub struct HelloInfo<'a> {
    /// The host it asks for (SNI), where it names one.
    pub server_name: Option<&'a str>,
    /// The protocols it offers (ALPN), in its order.
    pub alpn: Vec<&'a [u8]>,
}

type Decide = dyn Fn(&HelloInfo<'_>) -> bool + Send + Sync;

/// A decision of the user.
#[derive(Clone)]
pub(super) struct Decider(Arc<Decide>);

impl Decider {
    pub(super) fn new(decide: impl Fn(&HelloInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// `hello` is a complete ClientHello and perhaps more. What cannot be read is for the handshake to refuse.
    #[cold]
    pub(super) fn says_so(&self, mut hello: &[u8]) -> bool {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            // It takes a few KiB at a time.
            if !matches!(acceptor.read_tls(&mut hello), Ok(1..)) {
                return false;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err(_) => return false,
            }
        };
        let hello = accepted.client_hello();
        let alpn = hello.alpn().map(Iterator::collect).unwrap_or_default();
        (self.0)(&HelloInfo { server_name: hello.server_name(), alpn })
    }
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decider")
    }
}
