//! Links on Tokio: TLS 1.3 with certificates of both sides, reconnects, accepted connections.
//!
//! Does not know about: frames, what the events cause.

mod accept;
mod clock;
mod dial;
mod handle;
mod tls;

pub use accept::{Acceptor, Refused};
pub use clock::LinkClock;
pub use dial::{Dial, HANDSHAKE_TIMEOUT};
pub use handle::{LinkHandle, Notice};
pub use tls::LinkTls;
