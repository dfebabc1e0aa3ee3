//! Errors of requests, and of replies by handlers.
//!
//! Does not know about: how the connection continues; it always closes after a [`RequestError`].

use crate::Status;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! request_errors {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $text:literal;)*) => {
        /// Why the machine itself refused a request. One variant per distinct mistake. Statistics,
        /// logs and metrics share the labels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RequestError {
            $($(#[$doc])* $name,)*
        }

        impl RequestError {
            /// Every error, in the order of its index.
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
    /// The body exceeds `body_bytes_max`, by declaration or count.
    BodyTooLarge = "body_too_large", "body too large";
    /// A chunk extension that is not `;name[=value]`, or white space around it.
    ChunkExtension = "chunk_extension", "malformed chunk extension";
    /// More chunk extension bytes than allowed, in one chunk or in the message.
    ChunkExtensionTooLong = "chunk_extension_too_long", "chunk extensions too long";
    /// A chunk size that is not 1 to 16 hexadecimal digits, or data that does not end with CRLF.
    ChunkFraming = "chunk_framing", "malformed chunk";
    /// `Content-Length` is not a single number without leading zeros, or occurs twice.
    ContentLength = "content_length", "malformed or repeated Content-Length";
    /// `CONNECT`, an unknown method, or one that is too long.
    MethodUnknown = "method_unknown", "unknown method";
    /// An expectation other than `100-continue`.
    Expectation = "expectation", "unknown expectation";
    /// An invalid byte in a field line.
    Field = "field", "malformed field line";
    /// A field name with `_` that other parsers may read as a framing field.
    FieldLookAlike = "field_look_alike", "field name looks like a framing field";
    /// More field lines or more bytes in the head than allowed.
    HeadTooLarge = "head_too_large", "head too large";
    /// `Host` is missing, repeated, not a host, or differs from the target's authority.
    Host = "host", "missing, repeated, malformed or contradictory Host";
    /// The connection ended inside a request.
    Incomplete = "incomplete", "connection ended inside a request";
    /// A CR without LF or an LF without CR.
    LineEnd = "line_end", "bare CR or bare LF";
    /// More empty lines than tolerated before the request line.
    LeadingLines = "leading_lines", "too many empty lines before the request";
    /// An invalid byte in a method.
    Method = "method", "malformed method";
    /// An invalid byte in a request target, or a form that does not suit the method.
    Target = "target", "malformed request target";
    /// The request line is longer than allowed.
    TargetTooLong = "target_too_long", "request line too long";
    /// The deadline passed inside a request.
    Timeout = "timeout", "deadline passed inside a request";
    /// More chunks below 16 bytes than allowed.
    TinyChunks = "tiny_chunks", "too many tiny chunks";
    /// `Transfer-Encoding` in HTTP/1.0, together with `Content-Length`, repeated, or not exactly
    /// `chunked`.
    TransferEncoding = "transfer_encoding", "unacceptable Transfer-Encoding";
    /// A single unknown transfer coding.
    TransferEncodingUnknown = "transfer_encoding_unknown", "unknown transfer coding";
    /// Not `HTTP/` digit `.` digit.
    Version = "version", "malformed version";
    /// A version whose major number is not 1.
    VersionUnsupported = "version_unsupported", "unsupported version";
}

impl RequestError {
    /// Its index in [`RequestError::ALL`].
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
            | Self::Target
            | Self::TinyChunks
            | Self::TransferEncoding
            | Self::Version => Status::BAD_REQUEST,
        }
    }
}

impl std::error::Error for RequestError {}

/// A reply that handlers must not give.
///
/// While serving, it is replaced by a 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// A service wants bodies, and the service around it does not forward that: a body of known
    /// length was skipped.
    BodySkipped,
    /// A service needs the address of the client, and the service around it does not forward that:
    /// the address was not determined.
    ClientUnknown,
    /// A connection is handed over after the body of its request was read, or by the deferred reply
    /// to a request: see [`crate::Service::hands_over`].
    HandOverTooLate,
    /// The name of a field is not a token (RFC 9110 5.1).
    HeaderName,
    /// A field that the machine writes itself: framing, connection and date fields.
    HeaderReserved,
    /// A field value contains CR, LF, NUL or another control character.
    HeaderValue,
    /// A 1xx status as the final reply.
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

/// Replies that were replaced by a 500: their number and the reasons.
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

    /// The reasons that are not in `told` yet; adds them, so that each reason is reported once.
    pub fn untold(self, told: &AtomicU8) -> impl Iterator<Item = ApiMisuse> {
        let before = told.fetch_or(self.kinds, Ordering::Relaxed);
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
                "a service wants the body, which was skipped: `wants_body` is not forwarded to it"
            }
            Self::ClientUnknown => {
                "a service needs the client's address, which is unknown: `wants_client` is not forwarded to it"
            }
            Self::HandOverTooLate => "this request was read already",
            Self::HeaderName => "reply header name is not a token",
            Self::HeaderReserved => "reply header belongs to the connection, not to the handler",
            Self::HeaderValue => "reply header value holds a control character",
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
            assert!(!misuses.kinds().any(|other| other == kind), "each has a bit of its own: {kind:?}");
            misuses.add(kind.into());
            misuses.add(kind.into());
        }
        assert_eq!(
            (misuses.count() as usize, misuses.kinds().count()),
            (2 * ApiMisuse::ALL.len(), ApiMisuse::ALL.len())
        );
        let told = AtomicU8::new(0);
        let first = Misuses::from(ApiMisuse::HeaderName);
        assert!(first.untold(&told).eq([ApiMisuse::HeaderName]));
        assert_eq!(first.untold(&told).count(), 0);
        assert!(
            misuses
                .untold(&told)
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
