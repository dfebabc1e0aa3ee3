//! Errors of requests, and of replies by handlers.
//!
//! Does not know about: the state of the connection, which always ends after a [`RequestError`].

use crate::Status;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! request_errors {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $text:literal;)*) => {
        /// The reason why the state machine itself refused a request, with one variant for each
        /// distinct error. Statistics, logs and metrics use the same labels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RequestError {
            $($(#[$doc])* $name,)*
        }

        impl RequestError {
            /// All errors, in the order of their indices.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The label in statistics, logs and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }

        impl fmt::Display for RequestError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

request_errors! {
    /// The body exceeds `body_bytes_max`, by its declared length or by the bytes received.
    BodyTooLarge = "body_too_large", "body too large";
    /// A chunk extension is not `;name[=value]`, or has white space around it.
    ChunkExtension = "chunk_extension", "malformed chunk extension";
    /// There are more bytes of chunk extensions than allowed, in one chunk or in the message.
    ChunkExtensionTooLong = "chunk_extension_too_long", "chunk extensions too long";
    /// A chunk size does not consist of 1 to 16 hexadecimal digits, or chunk data does not end with
    /// CRLF.
    ChunkFraming = "chunk_framing", "malformed chunk";
    /// `Content-Length` is not a single number without leading zeros, or occurs twice.
    ContentLength = "content_length", "malformed or repeated Content-Length";
    /// The method is `CONNECT`, unknown or too long.
    MethodUnknown = "method_unknown", "unknown method";
    /// `Expect` is not `100-continue`.
    Expectation = "expectation", "unknown expectation";
    /// An invalid byte in a field line.
    Field = "field", "malformed field line";
    /// The name of a field contains `_` and may be read as a framing field by other parsers.
    FieldLookAlike = "field_look_alike", "field name looks like a framing field";
    /// The head has more field lines or more bytes than allowed.
    HeadTooLarge = "head_too_large", "head too large";
    /// `Host` is missing, repeated, not a host, or different from the target's authority.
    Host = "host", "missing, repeated, malformed or contradictory Host";
    /// The connection ended inside a request.
    Incomplete = "incomplete", "connection ended inside a request";
    /// A CR without LF or an LF without CR.
    LineEnd = "line_end", "bare CR or bare LF";
    /// More empty lines than tolerated before the request line.
    LeadingLines = "leading_lines", "too many empty lines before the request";
    /// An invalid byte in a method.
    Method = "method", "malformed method";
    /// The target contains an invalid byte, or its form does not fit the method.
    Target = "target", "malformed request target";
    /// The connection begins with a PROXY header, which is read only from trusted proxies and
    /// before HTTP.
    ProxyHeader = "proxy_header", "PROXY header from a peer that is not a trusted proxy";
    /// The request line is longer than allowed.
    TargetTooLong = "target_too_long", "request line too long";
    /// The deadline passed inside a request.
    Timeout = "timeout", "deadline passed inside a request";
    /// More chunks below 16 bytes than allowed.
    TinyChunks = "tiny_chunks", "too many tiny chunks";
    /// `Transfer-Encoding` is used in HTTP/1.0, occurs together with `Content-Length`, is repeated,
    /// or is not exactly `chunked`.
    TransferEncoding = "transfer_encoding", "unacceptable Transfer-Encoding";
    /// `Transfer-Encoding` is a single unknown coding.
    TransferEncodingUnknown = "transfer_encoding_unknown", "unknown transfer coding";
    /// The version is not `HTTP/` digit `.` digit.
    Version = "version", "malformed version";
    /// The major version is not 1.
    VersionUnsupported = "version_unsupported", "unsupported version";
}

impl RequestError {
    /// The index of the error in [`RequestError::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The status of the reply.
    pub const fn status(self) -> Status {
        match self {
            Self::BodyTooLarge => Status::CONTENT_TOO_LARGE,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::HeadTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::MethodUnknown | Self::TransferEncodingUnknown => Status::NOT_IMPLEMENTED,
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::Timeout => Status::REQUEST_TIMEOUT,
            Self::VersionUnsupported => Status::HTTP_VERSION_NOT_SUPPORTED,
            Self::ChunkExtension
            | Self::ChunkExtensionTooLong
            | Self::ChunkFraming
            | Self::ContentLength
            | Self::Field
            | Self::FieldLookAlike
            | Self::Host
            | Self::Incomplete
            | Self::LeadingLines
            | Self::LineEnd
            | Self::Method
            | Self::ProxyHeader
            | Self::Target
            | Self::TinyChunks
            | Self::TransferEncoding
            | Self::Version => Status::BAD_REQUEST,
        }
    }
}

impl std::error::Error for RequestError {}

/// A reply that handlers must not send.
///
/// While serving, such a reply is replaced by a 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// A service wants bodies, but a service around it does not forward `wants_body`, so a body of
    /// known length was skipped.
    BodySkipped,
    /// A service needs the client's address, but a service around it does not forward
    /// `wants_client`, so the address was not determined.
    ClientUnknown,
    /// A connection is handed over after the body of its request was read, or by the deferred reply
    /// to a request; see [`crate::Service::hands_over`].
    HandOverTooLate,
    /// The name of a field is not a token (RFC 9110 5.1).
    HeaderName,
    /// A field that only the state machine may write: framing, connection and date fields.
    HeaderReserved,
    /// The value of a field contains CR, LF, NUL or another control character.
    HeaderValue,
    /// The final reply has a 1xx status.
    StatusInformational,
}

impl ApiMisuse {
    /// All misuses, in the order of their numbers.
    const ALL: [Self; 7] = [
        Self::BodySkipped,
        Self::ClientUnknown,
        Self::HandOverTooLate,
        Self::HeaderName,
        Self::HeaderReserved,
        Self::HeaderValue,
        Self::StatusInformational,
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The number of replies that were replaced by a 500, and the reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misuses {
    count: u32,
    /// One bit per reason, by [`ApiMisuse::bit`].
    kinds: u8,
}

impl Misuses {
    /// No misuses.
    pub const NONE: Self = Self { count: 0, kinds: 0 };

    /// Number of replies.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The reasons, each once.
    pub fn kinds(self) -> impl Iterator<Item = ApiMisuse> {
        ApiMisuse::ALL.into_iter().filter(move |kind| self.kinds & kind.bit() != 0)
    }

    /// The reasons that are not in `reported` yet. Adds them to `reported`, so that each reason is
    /// reported once.
    pub fn unreported(self, reported: &AtomicU8) -> impl Iterator<Item = ApiMisuse> {
        let before = reported.fetch_or(self.kinds, Ordering::Relaxed);
        Self { kinds: self.kinds & !before, ..self }.kinds()
    }

    /// Adds `others`.
    pub const fn add(&mut self, others: Self) {
        self.count = self.count.saturating_add(others.count);
        self.kinds |= others.kinds;
    }
}

impl From<ApiMisuse> for Misuses {
    fn from(misuse: ApiMisuse) -> Self {
        Self { count: 1, kinds: misuse.bit() }
    }
}

impl fmt::Display for ApiMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodySkipped => {
                "a service needs the body, which was skipped: an outer service does not forward `wants_body`"
            }
            Self::ClientUnknown => {
                "a service needs the client's address, which is unknown: an outer service does not forward `wants_client`"
            }
            Self::HandOverTooLate => "the body of this request was already read",
            Self::HeaderName => "reply header name is not a token",
            Self::HeaderReserved => "reply header is reserved for the connection",
            Self::HeaderValue => "reply header value contains a control character",
            Self::StatusInformational => "a 1xx status is not a final reply",
        })
    }
}

impl std::error::Error for ApiMisuse {}

#[cfg(test)]
mod tests {
    use super::{ApiMisuse, Misuses, RequestError};
    use std::sync::atomic::AtomicU8;

    #[test]
    fn a_reason_is_reported_once_and_every_misuse_is_counted() {
        let mut misuses = Misuses::NONE;
        for kind in ApiMisuse::ALL {
            assert!(!misuses.kinds().any(|other| other == kind), "each misuse has its own bit: {kind:?}");
            misuses.add(kind.into());
            misuses.add(kind.into());
        }
        assert_eq!(
            (misuses.count() as usize, misuses.kinds().count()),
            (2 * ApiMisuse::ALL.len(), ApiMisuse::ALL.len())
        );
        let reported = AtomicU8::new(0);
        let first = Misuses::from(ApiMisuse::HeaderName);
        assert!(first.unreported(&reported).eq([ApiMisuse::HeaderName]));
        assert_eq!(first.unreported(&reported).count(), 0);
        assert!(
            misuses
                .unreported(&reported)
                .eq(ApiMisuse::ALL.into_iter().filter(|kind| *kind != ApiMisuse::HeaderName))
        );
    }

    #[test]
    fn indexes_and_labels_are_unique() {
        for (index, error) in RequestError::ALL.iter().enumerate() {
            assert_eq!(error.index(), index);
            let same = RequestError::ALL.iter().filter(|other| other.as_str() == error.as_str()).count();
            assert_eq!(same, 1, "{error}");
        }
    }
}
