//! Reasons why doorbell's framing of a stream may differ from another server's. A difference
//! without a reason is an error of one of the servers.
//!
//! Each reason is as narrow as possible. It names the rule, and applies only if the refused byte,
//! or the line that the other server refused, concerns that rule.

mod look;
mod theirs;

use doorbell_http::RequestError as Error;
pub use look::Case;
use look::{is_number, is_plain_host, is_token_byte};
use theirs::THEIRS;

/// A reason why two framings may differ.
#[derive(Debug)]
pub struct Reason {
    /// The behaviour, and the rule that permits it.
    pub name: &'static str,
    holds: fn(&Case<'_>) -> bool,
}

/// Cases that doorbell refuses and another server accepts. The order matters only where noted.
const OURS: &[Reason] = &[
    Reason {
        name: "bare LF (RFC 9112 2.2: MAY accept)",
        holds: |case| case.is(Error::LineEnd) && case.byte() == b'\n' && case.before() != b'\r',
    },
    Reason {
        name: "bare CR (2.2: MUST be invalid)",
        holds: |case| case.is(Error::LineEnd) && case.byte() != b'\n' && case.before() == b'\r',
    },
    Reason {
        name: "more than two empty lines before a request (2.2: SHOULD ignore at least one)",
        holds: |case| case.is(Error::LeadingLines) && case.request.starts_with(b"\r\n\r\n\r"),
    },
    Reason {
        name: "unknown method (RFC 9110 9.1: 501)",
        holds: |case| {
            let known: [&[u8]; 8] =
                [b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE"];
            case.is(Error::MethodUnknown) && !known.contains(&case.method()) && case.method() != b"CONNECT"
        },
    },
    Reason {
        name: "CONNECT (RFC 9110 9.3.6: 501, doorbell is not a proxy)",
        holds: |case| {
            matches!(case.error, Some(Error::MethodUnknown | Error::Target)) && case.method() == b"CONNECT"
        },
    },
    Reason {
        name: "byte in the target outside visible ASCII (RFC 3986 2)",
        holds: |case| {
            case.is(Error::Target)
                && !case.byte().is_ascii_graphic()
                && case.byte() != b' '
                && !case.is_line_end()
        },
    },
    Reason {
        name: "fragment in the target (RFC 9112 3.2)",
        holds: |case| case.is(Error::Target) && case.byte() == b'#',
    },
    Reason {
        name: "user information in the target (RFC 9110 4.2.4: SHOULD treat as an error)",
        holds: |case| case.is(Error::Target) && case.is_line_end() && case.target().contains(&b'@'),
    },
    Reason {
        name: "form of the target unsuitable for the method (9112 3.2)",
        holds: |case| {
            let web = [&b"http://"[..], b"https://"].iter().any(|scheme| {
                case.target().get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            });
            case.is(Error::Target) && case.is_line_end() && case.target().first() != Some(&b'/') && !web
        },
    },
    Reason {
        name: "authority of the target is not a valid host (RFC 9110 4.2)",
        holds: |case| {
            let authority = || case.target().split(|&byte| matches!(byte, b'/' | b'?')).nth(2);
            case.is(Error::Target) && case.is_line_end() && !authority().is_some_and(is_plain_host)
        },
    },
    Reason {
        name: "Host missing (9112 3.2)",
        holds: |case| case.is(Error::Host) && case.is_end_of_head() && case.values("host").is_empty(),
    },
    Reason {
        name: "Host twice (9112 3.2)",
        holds: |case| case.is(Error::Host) && case.values("host").len() > 1,
    },
    Reason {
        name: "Host differs from the target's authority (9112 3.2.2)",
        holds: |case| {
            case.is(Error::Host)
                && case.is_end_of_head()
                && case.target().windows(3).any(|window| window == b"://")
        },
    },
    Reason {
        name: "Host is not a valid host (9112 3.2: 400)",
        holds: |case| {
            case.is(Error::Host) && matches!(case.values("host")[..], [value] if !is_plain_host(value))
        },
    },
    Reason {
        name: "folded line, or white space before a field (9112 2.2, 5.2)",
        holds: |case| case.is(Error::Field) && case.line().is_empty() && matches!(case.byte(), b' ' | b'\t'),
    },
    Reason {
        name: "white space before a colon (9112 5.1: MUST 400)",
        holds: |case| {
            case.is(Error::Field) && !case.line().contains(&b':') && matches!(case.byte(), b' ' | b'\t')
        },
    },
    Reason {
        name: "field name is not a token (9110 5.1)",
        holds: |case| case.is(Error::Field) && !case.line().contains(&b':') && !is_token_byte(case.byte()),
    },
    Reason {
        name: "control character in a value (9110 5.5)",
        holds: |case| {
            case.is(Error::Field)
                && case.line().contains(&b':')
                && (case.byte() < b' ' || case.byte() == 0x7f)
        },
    },
    Reason {
        name: "field name that some servers read as a framing field",
        holds: |case| {
            let name =
                case.line().split(|&byte| byte == b':').next().unwrap_or_default().to_ascii_lowercase();
            case.is(Error::FieldLookAlike) && matches!(&name[..], b"content_length" | b"transfer_encoding")
        },
    },
    Reason {
        name: "Content-Length twice (9110 8.6: MAY accept equal ones)",
        holds: |case| case.is(Error::ContentLength) && case.values("content-length").len() > 1,
    },
    Reason {
        name: "Content-Length is not a number, or has leading zeros (9112 6.3)",
        holds: |case| {
            case.is(Error::ContentLength)
                && matches!(case.values("content-length")[..], [value] if !is_number(value))
        },
    },
    Reason {
        name: "Content-Length above 2^63 (9112 6.3)",
        holds: |case| {
            case.is(Error::ContentLength)
                && matches!(case.values("content-length")[..], [value] if value.len() >= 19)
        },
    },
    Reason {
        name: "Transfer-Encoding in HTTP/1.0 (9112 6.1: MUST treat as faulty)",
        holds: |case| case.is(Error::TransferEncoding) && case.has_version("HTTP/1.0"),
    },
    Reason {
        name: "Transfer-Encoding and Content-Length (9112 6.1: MAY reject)",
        holds: |case| {
            case.is(Error::TransferEncoding)
                && case.is_end_of_head()
                && !case.values("content-length").is_empty()
        },
    },
    Reason {
        name: "Transfer-Encoding twice (9112 6.1, 7.1)",
        holds: |case| case.is(Error::TransferEncoding) && case.values("transfer-encoding").len() > 1,
    },
    Reason {
        name: "Transfer-Encoding is not exactly chunked (9112 6.1)",
        holds: |case| {
            let odd = |value: &[u8]| !value.eq_ignore_ascii_case(b"chunked");
            matches!(case.error, Some(Error::TransferEncoding | Error::TransferEncodingUnknown))
                && matches!(case.values("transfer-encoding")[..], [value] if odd(value))
        },
    },
    Reason {
        name: "an expectation other than 100-continue (9110 10.1.1: MAY 417)",
        holds: |case| {
            let values = case.values("expect");
            case.is(Error::Expectation)
                && (values.len() > 1
                    || values.iter().any(|value| !value.eq_ignore_ascii_case(b"100-continue")))
        },
    },
    Reason {
        name: "more than 100 fields (9110 5.4: 431)",
        holds: |case| case.is(Error::HeadTooLarge) && case.fields() > 100,
    },
    Reason {
        name: "chunk size with white space (9112 7.1)",
        holds: |case| {
            case.is(Error::ChunkFraming) && case.is_in_body() && matches!(case.byte(), b' ' | b'\t')
        },
    },
    Reason {
        name: "chunk size of more than 16 digits (9112 7.1)",
        holds: |case| {
            case.is(Error::ChunkFraming) && case.line().len() == 16 && case.byte().is_ascii_hexdigit()
        },
    },
    Reason {
        name: "chunk extension with white space around it (9112 7.1.1: BWS)",
        holds: |case| {
            case.is(Error::ChunkExtension)
                && case.line().contains(&b';')
                && matches!(case.byte(), b' ' | b'\t')
        },
    },
    Reason {
        name: "chunk extension without a name or value (9112 7.1.1)",
        holds: |case| {
            case.is(Error::ChunkExtension)
                && matches!(case.byte(), b'\r' | b';' | b'=')
                && matches!(case.before(), b';' | b'=')
        },
    },
    Reason {
        name: "byte that no chunk extension may hold (9112 7.1.1)",
        holds: |case| {
            case.is(Error::ChunkExtension)
                && case.line().contains(&b';')
                && (!is_token_byte(case.byte()) || case.before() == b'"')
        },
    },
];

/// Returns the number of the reason for a difference.
pub fn find(case: &Case<'_>) -> Option<usize> {
    all().position(|reason| (reason.holds)(case))
}

/// All reasons, by number.
pub fn all() -> impl Iterator<Item = &'static Reason> {
    OURS.iter().chain(THEIRS)
}
