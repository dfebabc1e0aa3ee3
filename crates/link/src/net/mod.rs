//! Links on Tokio: mutual TLS 1.3, reconnects, accepted connections.

mod accept;
mod clock;
mod dial;
mod handle;
mod tls;

pub use accept::{Acceptor, HANDSHAKES_MAX, Refused};
pub use clock::LinkClock;
pub use dial::{Dial, HANDSHAKE_TIMEOUT, connect};
pub use handle::{LinkHandle, Notice};
pub use tls::LinkTls;
