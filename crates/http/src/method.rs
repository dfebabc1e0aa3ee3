//! The request methods of RFC 9110 9 and RFC 5789.

use std::fmt;

/// A request method.
///
/// All methods that the parser knows. A request with `CONNECT`, or with any other valid token as
/// its method, gets a 501 unless [`Service::hands_over`](crate::Service::hands_over) accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are the method names")]
pub enum Method {
    Connect,
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
    Trace,
}

impl Method {
    /// All methods, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Delete,
        Self::Get,
        Self::Head,
        Self::Options,
        Self::Patch,
        Self::Post,
        Self::Put,
        Self::Trace,
    ];

    /// Parses a method; methods are case-sensitive.
    pub const fn from_bytes(token: &[u8]) -> Option<Self> {
        Some(match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"PATCH" => Self::Patch,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => return None,
        })
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Trace => "TRACE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_case_matters() {
        for method in Method::ALL {
            assert_eq!(Method::from_bytes(method.as_str().as_bytes()), Some(method));
            assert_eq!(Method::from_bytes(method.as_str().to_lowercase().as_bytes()), None);
        }
        assert_eq!(Method::from_bytes(b""), None);
    }
}
