//! What can be wrong with a request, and with what a handler wants to reply.
//!
//! Does not know about: how the connection goes on; it always closes after a [`RequestError`].

use crate::Status;
use std::fmt;

macro_rules! request_errors {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $text:literal;)*) => {
        /// Why a request was refused by the machine itself. One variant per distinct mistake. The labels are the same in statistics,
        /// logs and metrics.
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
    /// The body is larger than `body_bytes_max`, declared or counted.
    BodyTooLarge = "body_too_large", "body too large";
    /// A chunk extension that is not `;name[=value]`, or white space around it.
    ChunkExtension = "chunk_extension", "malformed chunk extension";
    /// More chunk extension bytes than allowed, in one chunk or in the message.
    ChunkExtensionTooLong = "chunk_extension_too_long", "chunk extensions too long";
    /// A chunk size that is not 1 to 16 hexadecimal digits, or data that does not end with CRLF.
    ChunkFraming = "chunk_framing", "malformed chunk";
    /// `Content-Length` is not one number without leading zeros, or is there twice.
    ContentLength = "content_length", "malformed or repeated Content-Length";
    /// `CONNECT`, or a valid method that we do not know, or one that is too long.
    MethodUnknown = "method_unknown", "unknown method";
    /// An expectation other than `100-continue`.
    Expectation = "expectation", "unknown expectation";
    /// A byte that cannot stand there in a field line.
    Field = "field", "malformed field line";
    /// A field name with `_` that others may read as a framing field.
    FieldLookAlike = "field_look_alike", "field name looks like a framing field";
    /// More field lines or more bytes of head than allowed.
    HeadTooLarge = "head_too_large", "head too large";
    /// `Host` is missing, there twice, not a host, or differs from the target's authority.
    Host = "host", "missing, repeated, malformed or contradictory Host";
    /// The connection ended inside a request.
    Incomplete = "incomplete", "connection ended inside a request";
    /// A CR without LF or an LF without CR.
    LineEnd = "line_end", "bare CR or bare LF";
    /// More than the tolerated empty lines before the request line.
    LeadingLines = "leading_lines", "too many empty lines before the request";
    /// A byte that cannot stand there in a method.
    Method = "method", "malformed method";
    /// A byte that cannot stand there in a request target, or a form that does not suit the method.
    Target = "target", "malformed request target";
    /// The request line is longer than allowed.
    TargetTooLong = "target_too_long", "request line too long";
    /// The deadline passed inside a request.
    Timeout = "timeout", "deadline passed inside a request";
    /// More chunks below 16 bytes than allowed.
    TinyChunks = "tiny_chunks", "too many tiny chunks";
    /// `Transfer-Encoding` in HTTP/1.0, beside `Content-Length`, twice, or not exactly `chunked`.
    TransferEncoding = "transfer_encoding", "unacceptable Transfer-Encoding";
    /// A single transfer coding we do not know.
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

    /// What the peer is told.
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

/// A reply no handler may give. While serving, a 500 goes out in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiMisuse {
    /// A connection is handed over after the body of its request was read, or by the answer to a request that was left for later: see [`crate::Service::hands_over`].
    HandOverTooLate,
    /// Not a token (RFC 9110 5.1).
    HeaderName,
    /// A field that the machine itself writes: framing, connection and date fields.
    HeaderReserved,
    /// CR, LF, NUL or another control character in a value.
    HeaderValue,
    /// A 1xx status as the final reply.
    StatusInformational,
}

impl fmt::Display for ApiMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
    use super::RequestError;

    #[test]
    fn indexes_and_labels_are_unique() {
        for (index, error) in RequestError::ALL.iter().enumerate() {
            assert_eq!(error.index(), index);
            let same = RequestError::ALL.iter().filter(|other| other.as_str() == error.as_str()).count();
            assert_eq!(same, 1, "{error}");
        }
    }
}
