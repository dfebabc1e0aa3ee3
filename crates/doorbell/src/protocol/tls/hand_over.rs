//! Decides by the ClientHello whether a connection is handed over. The TLS library parses the
//! ClientHello; the state of the library is then discarded.

use core::fmt;
use std::sync::Arc;

use rustls::server::Acceptor;

/// Contents of a ClientHello, before any reply. Nothing in it is verified.
#[derive(Clone, Debug)]
pub struct HelloInfo<'a> {
    /// Requested host name (SNI), if any.
    pub server_name: Option<&'a str>,
    /// Offered protocols (ALPN), in the client's order.
    pub alpn: Vec<&'a [u8]>,
}

type Decide = dyn Fn(&HelloInfo<'_>) -> bool + Send + Sync;

/// A decision function of the application.
#[derive(Clone)]
pub(super) struct Decider(Arc<Decide>);

impl Decider {
    pub(super) fn new(decide: impl Fn(&HelloInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Returns the decision for `hello`, a complete ClientHello with optional further bytes. False
    /// for an invalid ClientHello, which the handshake then refuses.
    #[cold]
    pub(super) fn hands_over(&self, mut hello: &[u8]) -> bool {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            // `read_tls` reads a few KiB per call.
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
