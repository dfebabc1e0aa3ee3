//! Limits of one connection: sizes, counts, times, and their defaults.

use std::time::Duration;

/// Limits of one HTTP connection: sizes, counts, times.
///
/// Every default is finite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a head, from the first byte of the request up to and including the empty
    /// line. Default 16 KiB; beyond: 431. Trailers have a limit of the same size.
    pub head_bytes_max: usize,
    /// Maximum bytes of the request line, including CRLF. Default 8 KiB (RFC 9112 3 recommends at
    /// least 8,000); beyond: 414.
    pub request_line_bytes_max: usize,
    /// Maximum field lines of a head; trailers count separately. Default 100; beyond: 431.
    pub fields_max: u32,
    /// Maximum bytes of a decoded body, wanted or skipped. Default 64 KiB; beyond: 413. A handler
    /// with a lower limit checks the length of [`Request::body`](crate::Request::body).
    pub body_bytes_max: usize,
    /// Requests served before the connection is closed. Default 1,000.
    pub requests_per_conn_max: u32,
    /// Age from which the next reply closes the connection. Default 1 h.
    pub conn_age_max: Duration,
    /// Maximum time from the first byte of a head (for the first request: from the start of the
    /// connection) to its end. Default 10 s.
    pub header_timeout: Duration,
    /// Maximum time between a reply and the next request. Default 30 s.
    pub idle_timeout: Duration,
    /// Maximum time between two pieces of a body. Default 10 s.
    pub body_idle_timeout: Duration,
    /// Maximum time for the whole body. Default 60 s.
    pub body_total_timeout: Duration,
    /// Minimum average rate of a body in bytes per second, after [`Self::body_rate_grace`]. Default
    /// 1,024; 0 disables the limit.
    pub body_rate_min: u32,
    /// Time at the start of a body during which [`Self::body_rate_min`] does not apply. Default 5
    /// s.
    pub body_rate_grace: Duration,
    /// Maximum bytes of the extensions of one chunk, including the first `;`. Default 256; beyond:
    /// 400.
    pub chunk_ext_bytes_max: usize,
    /// Maximum bytes of all chunk extensions of one message. Default 4 KiB; beyond: 400.
    pub chunk_ext_total_bytes_max: usize,
    /// Maximum chunks of less than 16 bytes in one message. Default 1,024; beyond: 400.
    pub tiny_chunks_max: u32,
    /// Empty lines tolerated before a request line (RFC 9112 2.2). Default 2; beyond: 400.
    pub leading_empty_lines_max: u32,
    /// Maximum bytes of unsent replies; beyond, further input is held back. Default 64 KiB.
    pub output_bytes_max: usize,
    /// Whether a connection may serve more than one request. Default true.
    pub keep_alive: bool,
    /// Whether the service is called as soon as a head is complete, even if an unwanted body
    /// follows, so that [`Responder::hand_over`](crate::Responder::hand_over) hands over the
    /// request with its body. Any other reply to such a request closes the connection, because the
    /// body is not read. False: an unwanted body is skipped first.
    pub answer_before_body: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            request_line_bytes_max: 8 * 1024,
            fields_max: 100,
            body_bytes_max: 64 * 1024,
            requests_per_conn_max: 1000,
            conn_age_max: Duration::from_secs(3600),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            body_idle_timeout: Duration::from_secs(10),
            body_total_timeout: Duration::from_secs(60),
            body_rate_min: 1024,
            body_rate_grace: Duration::from_secs(5),
            chunk_ext_bytes_max: 256,
            chunk_ext_total_bytes_max: 4096,
            tiny_chunks_max: 1024,
            leading_empty_lines_max: 2,
            output_bytes_max: 64 * 1024,
            keep_alive: true,
            answer_before_body: false,
        }
    }
}

/// Maximum length of a method in bytes; a longer method gets a 501 immediately.
pub(crate) const METHOD_BYTES_MAX: usize = 32;
/// A chunk below this size counts as tiny.
pub(crate) const TINY_CHUNK_BYTES: u64 = 16;
