//! A policy of static tokens and a request that it lets in, for benches that ask "what does the check cost".
//!
//! Does not know about: who measures.

use doorbell_http::auth::{Policy, Tokens};

/// A good `Authorization`, with a token of 32 bytes.
pub const VALUE: &[u8] = b"Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

/// A scrape that brings it.
pub const AUTHORIZED: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: Prometheus/3.1.0\r\n\
Accept: */*\r\nAuthorization: Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK\r\n\r\n";

/// A policy of this many tokens of 32 bytes; the last is that of [`VALUE`].
///
/// # Panics
/// With more tokens than a set may have.
pub fn policy(count: usize) -> Policy {
    let mut tokens = Tokens::new();
    for number in 1..count {
        let secret = format!("another-secret-of-32-bytes-{number:05}");
        tokens.add(&number.to_string(), secret.as_bytes()).expect("a good secret");
    }
    let secret = VALUE.strip_prefix(b"Bearer ").unwrap_or_default();
    tokens.add("prometheus", secret).expect("a good secret");
    Policy::bearer("bench", tokens).expect("a good realm")
}
