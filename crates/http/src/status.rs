//! Status codes (RFC 9110 15) with their reason phrases, and the rules for content that depend only
//! on the code.

use std::fmt;

/// A status code from 100 to 599.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal;)*) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Self = Self($code);)*

            /// The registered reason phrase; empty for an unregistered code.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }

            /// The complete status line, if the code is registered.
            pub(crate) const fn line(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n")),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    100 CONTINUE "Continue";
    101 SWITCHING_PROTOCOLS "Switching Protocols";
    103 EARLY_HINTS "Early Hints";
    200 OK "OK";
    201 CREATED "Created";
    202 ACCEPTED "Accepted";
    203 NON_AUTHORITATIVE_INFORMATION "Non-Authoritative Information";
    204 NO_CONTENT "No Content";
    205 RESET_CONTENT "Reset Content";
    206 PARTIAL_CONTENT "Partial Content";
    300 MULTIPLE_CHOICES "Multiple Choices";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    303 SEE_OTHER "See Other";
    304 NOT_MODIFIED "Not Modified";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    402 PAYMENT_REQUIRED "Payment Required";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    411 LENGTH_REQUIRED "Length Required";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    425 TOO_EARLY "Too Early";
    426 UPGRADE_REQUIRED "Upgrade Required";
    428 PRECONDITION_REQUIRED "Precondition Required";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large";
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required";
}

impl Status {
    /// The status with this code, if it is between 100 and 599.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code <= 599 { Some(Self(code)) } else { None }
    }

    /// The code as a number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether the status is 1xx, which is not final.
    pub const fn is_informational(self) -> bool {
        self.0 < 200
    }

    /// Whether a reply with this status may have content (RFC 9110 6.4.1, and 15.3.6 for 205).
    pub const fn allows_content(self) -> bool {
        !matches!(self.0, 100..=199 | 204 | 205 | 304)
    }

    /// Whether the reply has a `Content-Length`. RFC 9110 8.6 forbids it for 1xx and 204. It is
    /// omitted for 304, because its value would have to be the content length of a 200 reply that
    /// was never built.
    pub const fn allows_length(self) -> bool {
        !matches!(self.0, 100..=199 | 204 | 304)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_outside_the_range_do_not_exist() {
        assert_eq!(Status::new(99), None);
        assert_eq!(Status::new(600), None);
        assert_eq!(Status::new(551).map(Status::reason), Some(""));
        assert_eq!(Status::OK.to_string(), "200 OK");
    }
}
