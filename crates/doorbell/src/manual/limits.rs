//! All limits and timeouts: their defaults, and the effect on a client when a limit is reached.
//!
//! Limits of the engine ([`Limits`](crate::Limits)). Limits of HTTP are fields of
//! [`HttpLimits`](crate::HttpLimits), each with its default and its error status.
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | [`conns_max`](crate::Limits::conns_max) | 65,536 per server | new clients wait in the backlog; none is reset |
//! | [`conns_per_ip_max`](crate::Limits::conns_per_ip_max) | 1,024 | 503 with `Retry-After` (HTTP), close (raw); an HTTP connection without TLS that is served and closed in the turn that accepted it may exceed the cap |
//! | [`write_timeout`](crate::Limits::write_timeout) | 10 s without progress | reset, so that the client does not mistake a partial reply for a whole one |
//! | [`linger_timeout`](crate::Limits::linger_timeout) | 1 s | close |
//! | [`linger_bytes_max`](crate::Limits::linger_bytes_max) | 64 KiB | close |
//! | [`input_bytes_max`](crate::Limits::input_bytes_max) | 64 MiB per server, an equal share for each worker | 503 for the connection that needs more |
//! | [`accept_backoff_min`](crate::Limits::accept_backoff_min) to [`max`](crate::Limits::accept_backoff_max) | 10 ms to 1 s | clients wait in the backlog |
//! | [`Listen::backlog`](crate::Listen::backlog) | 4,096, capped by `net.core.somaxconn` | the kernel drops the SYN; the client retries |
//! | [`Listen::send_buf_len`](crate::Listen::send_buf_len) | 256 KiB | sending continues as the peer reads |
//! | [`Raw::bytes_max`](crate::Raw::bytes_max) | 4 KiB | close |
//! | [`Raw::timeout`](crate::Raw::timeout) | 10 s | close |
//! | [`Stream::frame_bytes_max`](crate::stream::Stream::frame_bytes_max) | 64 KiB | close |
//! | [`Stream::first_timeout`](crate::stream::Stream::first_timeout), [`frame_timeout`](crate::stream::Stream::frame_timeout), [`idle_timeout`](crate::stream::Stream::idle_timeout) | 10 s, 10 s, 60 s | [`StreamHandler::timeout`](crate::stream::StreamHandler::timeout), by default a close |
//! | [`Stream::output_bytes_max`](crate::stream::Stream::output_bytes_max) | 64 KiB unsent | further frames and messages of the connection wait |
//! | [`Stream::messages_max`](crate::stream::Stream::messages_max) | 64 per connection | [`ConnHandle::push`](crate::stream::ConnHandle::push) returns the message |
//! | [`HandOver::conns_max`](crate::HandOver::conns_max) | 16,384 handed over and not dropped | by [`WhenFull`](crate::WhenFull): 503, GOAWAY (HTTP/2) or an alert (TLS), or the client waits |
//! | [`ProxyProtocol::len_max`](crate::ProxyProtocol::len_max) | 536 bytes | close |
//!
//! Limits of an [`Offload`](crate::Offload):
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | [`queue_max`](crate::offload::OffloadBuilder::queue_max) | 1,024 per class | 503 with `Retry-After`; the connection stays open |
//! | [`timeout`](crate::offload::OffloadBuilder::timeout) | 10 s in the queue and running | 503 with `Retry-After`, close |
//!
//! Limits of a TLS acceptor (feature `tls`). All acceptors of a server share `plain_bytes_max`, and
//! the default of `handshakes_max`:
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | `TlsLimits::handshake_timeout` | 5 s from accept | close |
//! | `TlsLimits::handshakes_max` | a quarter of `conns_max` | alert, close, before any cryptography |
//! | `TlsLimits::hello_bytes_max` | 16 KiB | alert, close |
//! | `TlsLimits::plain_bytes_max` | 64 MiB | 503 for the connection that needs more |
//!
//! # Why a small send buffer
//!
//! The kernel wakes a writer when a third of the send buffer is free. With an autotuned buffer of 4
//! MiB and a peer that reads 64 KiB per second, that takes 21 s; with 256 KiB it takes less than 3
//! s. A small buffer also limits the memory that a slow reader can occupy. After the write timeout
//! the worker queries the bytes that the peer has not acknowledged (`SIOCOUTQ`); if their number
//! has decreased since the last check, the connection continues. With direct descriptors this query
//! needs Linux 6.8; before that, only bytes that the kernel accepts count as progress.
