//! What can be wrong with a request, and with what a handler wants to reply.
//!
//! Does not know about: how the connection goes on; it always closes after a [`RequestError`].

use crate::Status;
use std::fmt;

/// Why a request was refused by the machine itself. One variant per distinct mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// The body is larger than `body_bytes_max`, declared or counted.
    BodyTooLarge,
    /// A chunk extension that is not `;name[=value]`, or white space around it.
    ChunkExtension,
    /// More chunk extension bytes than allowed, in one chunk or in the message.
    ChunkExtensionTooLong,
    /// A chunk size that is not 1 to 16 hexadecimal digits, or data that does not end with CRLF.
    ChunkFraming,
    /// `Content-Length` is not one number without leading zeros, or is there twice.
    ContentLength,
    /// `CONNECT`, or a valid method that we do not know, or one that is too long.
    MethodUnknown,
    /// An expectation other than `100-continue`.
    Expectation,
    /// A byte that cannot stand there in a field line.
    Field,
    /// A field name with `_` that others may read as a framing field.
    FieldLookAlike,
    /// More field lines or more bytes of head than allowed.
    HeadTooLarge,
    /// `Host` is missing, there twice, not a host, or differs from the target's authority.
    Host,
    /// The connection ended inside a request.
    Incomplete,
    /// A CR without LF or an LF without CR.
    LineEnd,
    /// More than the tolerated empty lines before the request line.
    LeadingLines,
    /// A byte that cannot stand there in a method.
    Method,
    /// A byte that cannot stand there in a request target, or a form that does not suit the method.
    Target,
    /// The request line is longer than allowed.
    TargetTooLong,
    /// The deadline passed inside a request.
    Timeout,
    /// More chunks below 16 bytes than allowed.
    TinyChunks,
    /// `Transfer-Encoding` in HTTP/1.0, beside `Content-Length`, twice, or not exactly `chunked`.
    TransferEncoding,
    /// A single transfer coding we do not know.
    TransferEncodingUnknown,
    /// Not `HTTP/` digit `.` digit.
    Version,
    /// A version whose major number is not 1.
    VersionUnsupported,
}

impl RequestError {
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

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyTooLarge => "body too large",
            Self::ChunkExtension => "malformed chunk extension",
            Self::ChunkExtensionTooLong => "chunk extensions too long",
            Self::ChunkFraming => "malformed chunk",
            Self::ContentLength => "malformed or repeated Content-Length",
            Self::Expectation => "unknown expectation",
            Self::Field => "malformed field line",
            Self::FieldLookAlike => "field name looks like a framing field",
            Self::HeadTooLarge => "head too large",
            Self::Host => "missing, repeated, malformed or contradictory Host",
            Self::Incomplete => "connection ended inside a request",
            Self::LeadingLines => "too many empty lines before the request",
            Self::LineEnd => "bare CR or bare LF",
            Self::Method => "malformed method",
            Self::MethodUnknown => "unknown method",
            Self::Target => "malformed request target",
            Self::TargetTooLong => "request line too long",
            Self::Timeout => "deadline passed inside a request",
            Self::TinyChunks => "too many tiny chunks",
            Self::TransferEncoding => "unacceptable Transfer-Encoding",
            Self::TransferEncodingUnknown => "unknown transfer coding",
            Self::Version => "malformed version",
            Self::VersionUnsupported => "unsupported version",
        })
    }
}

impl std::error::Error for RequestError {}

/// A reply no handler may give. While serving, a 500 goes out in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiMisuse {
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
            Self::HeaderName => "reply header name is not a token",
            Self::HeaderReserved => "reply header belongs to the connection, not to the handler",
            Self::HeaderValue => "reply header value holds a control character",
            Self::StatusInformational => "a 1xx status is not a final reply",
        })
    }
}

impl std::error::Error for ApiMisuse {}
