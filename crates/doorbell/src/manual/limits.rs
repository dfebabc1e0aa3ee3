//! Every cap and time: its default and what a client sees at it.
//!
//! The engine's own ([`Limits`](crate::Limits)); the protocol's are fields of [`HttpLimits`](crate::HttpLimits), each with its
//! default and the status that answers it.
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | [`conns_max`](crate::Limits::conns_max) | 65,536 a process | new clients wait in the backlog; none is accepted to be reset |
//! | [`conns_per_ip_max`](crate::Limits::conns_per_ip_max) | 1,024 | 503 with `Retry-After` (HTTP), close (raw); what is answered and closed at once may pass |
//! | [`write_timeout`](crate::Limits::write_timeout) | 10 s without progress | reset, so that the reply is visibly not whole |
//! | [`linger_timeout`](crate::Limits::linger_timeout) | 1 s | close |
//! | [`linger_bytes_max`](crate::Limits::linger_bytes_max) | 64 KiB | close |
//! | [`input_bytes_max`](crate::Limits::input_bytes_max) | 64 MiB a process | 503 for the connection that needs more |
//! | [`accept_backoff_min`](crate::Limits::accept_backoff_min) to [`max`](crate::Limits::accept_backoff_max) | 10 ms to 1 s | clients wait in the backlog |
//! | [`Listen::backlog`](crate::Listen::backlog) | 4,096, capped by `net.core.somaxconn` | the kernel drops the SYN; the client tries again |
//! | [`Listen::send_buf_len`](crate::Listen::send_buf_len) | 256 KiB | the reply goes on as the peer reads |
//! | [`Raw::bytes_max`](crate::Raw::bytes_max) | 4 KiB | close |
//! | [`Raw::timeout`](crate::Raw::timeout) | 10 s | close |
//! | [`HandOver::conns_max`](crate::HandOver::conns_max) | 16,384 handed over and not dropped | as [`WhenFull`](crate::WhenFull) says: 503, GOAWAY (HTTP/2) or an alert (TLS), or the client waits |
//! | [`ProxyProtocol::len_max`](crate::ProxyProtocol::len_max) | 536 bytes | close |
//!
//! Of jobs, of one [`Offload`](crate::Offload):
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | [`queue_max`](crate::offload::OffloadBuilder::queue_max) | 1,024 of each class | 503 with `Retry-After`; the connection goes on |
//! | [`timeout`](crate::offload::OffloadBuilder::timeout) | 10 s in the queue and running | 503 with `Retry-After`, close |
//!
//! With TLS (feature `tls`), of one acceptor; what its `handshakes_max` is by default, and plaintext, all acceptors of a server have together:
//!
//! | limit | default | at the limit |
//! |---|---|---|
//! | `TlsLimits::handshake_timeout` | 5 s from accept | close |
//! | `TlsLimits::handshakes_max` | a quarter of `conns_max` | close, before any cryptography |
//! | `TlsLimits::hello_bytes_max` | 16 KiB | alert, close |
//! | `TlsLimits::plain_bytes_max` | 64 MiB | 503 for the connection that needs more |
//!
//! # Why a small send buffer
//!
//! The kernel wakes a writer when a third of the send buffer is free. With an autotuned buffer of 4 MiB and a peer that reads
//! 64 KiB a second that takes 21 s; with 256 KiB it takes under 3 s. It also bounds what a slow reader can bind. When the write timeout
//! has passed the worker asks how much the peer has not taken (`SIOCOUTQ`), and a peer that took something since the last look goes on.
//! With direct descriptors there is no such question: there, only what the kernel takes is progress.
