//! Errors in a link map, with their line and a suggested correction.

use super::{LINK_BYTES_MAX, LINKS_MAX, MAP_BYTES_MAX};
use std::fmt;

/// An error in a link map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// The line, counted from 1; 0 if the error concerns the whole map.
    pub line: usize,
    /// The kind of error.
    pub problem: LinkProblem,
}

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkProblem {
    /// The second word is neither an absolute URL with a host nor a path.
    BadLocation,
    /// The first word is not a path.
    BadPath,
    /// The third word is not the status of a redirect.
    BadStatus,
    /// The path occurs twice.
    Duplicate {
        /// The path.
        path: String,
        /// The line of its first occurrence, from 1.
        first: usize,
    },
    /// The line has a path but no location.
    NoLocation,
    /// The path or the location is longer than [`LINK_BYTES_MAX`].
    TooLong,
    /// The total length of paths and locations exceeds [`MAP_BYTES_MAX`].
    TooManyBytes,
    /// The map has more than [`LINKS_MAX`] links.
    TooManyLinks,
    /// The line has more than three words.
    TooManyWords,
}

impl LinkProblem {
    /// A suggestion for correcting the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::BadLocation => {
                "write `https://host/path`, or `/path` for the same server; percent-encode other bytes"
                    .to_owned()
            }
            Self::BadPath => {
                "begin with `/`, omit `?` and `#`, and percent-encode bytes other than visible ASCII"
                    .to_owned()
            }
            Self::BadStatus => "write 301, 302, 303, 307 or 308, or nothing for 308".to_owned(),
            Self::Duplicate { first, .. } => format!("remove this line or line {first}"),
            Self::NoLocation => "write the location after the path: `/from https://to`".to_owned(),
            Self::TooLong => "shorten the path or the location".to_owned(),
            Self::TooManyBytes | Self::TooManyLinks => {
                "split the map over several listeners or servers".to_owned()
            }
            Self::TooManyWords => {
                "a line is `/from https://to [status]`; encode a space inside a word as `%20`".to_owned()
            }
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => self.problem.fmt(f),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl fmt::Display for LinkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLocation => f.write_str("the location is neither a URL with a host nor a path"),
            Self::BadPath => f.write_str("the first word is not a path"),
            Self::BadStatus => f.write_str("not the status of a redirect"),
            Self::Duplicate { path, first } => write!(f, "`{path}` is already in line {first}"),
            Self::NoLocation => f.write_str("a path without a location"),
            Self::TooLong => write!(f, "a path or location of more than {LINK_BYTES_MAX} bytes"),
            Self::TooManyBytes => {
                write!(f, "paths and locations of more than {MAP_BYTES_MAX} bytes in total")
            }
            Self::TooManyLinks => write!(f, "more than {LINKS_MAX} links"),
            Self::TooManyWords => f.write_str("more than a path, a location and a status"),
        }
    }
}

impl std::error::Error for LinkError {}
