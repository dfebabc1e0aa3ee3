//! Errors of a configuration.
//!
//! Does not know about: files or keys; the reader of the configuration adds the location.

use std::fmt;

use crate::limits::{
    BODY_LEN_MAX, BODY_LEN_MIN, CHECKS_MAX, ENDPOINTS_MAX, FLAP_TRANSITIONS_MAX, HISTORY_LEN_MAX,
    NAME_LEN_MAX, USES_MAX,
};

/// Why a check or an endpoint was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The limit of a body is outside its range.
    BodyLen,
    /// A status code that is not final, or a failing one for "up".
    Code,
    /// A flap rule without window, or with too many transitions.
    Flap,
    /// More results to remember than the cap allows.
    HistoryLen,
    /// An interval or `max_age` of zero.
    Interval,
    /// An empty name or one that is too long.
    NameLen,
    /// The name is in use.
    NameTaken,
    /// A quorum of zero, of more than its members, or without members.
    Quorum,
    /// `rise` or `fall` is zero.
    Threshold,
    /// The board is full of checks.
    TooManyChecks,
    /// The board is full of endpoints.
    TooManyEndpoints,
    /// The endpoints together use too many checks.
    TooManyUses,
    /// An endpoint uses a check that is not on this board.
    UnknownCheck,
    /// An endpoint uses one check twice.
    UsedTwice,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BodyLen => write!(f, "the limit of a body is {BODY_LEN_MIN} to {BODY_LEN_MAX} bytes"),
            Self::Code => write!(f, "a status code is 200 to 599, for up 200 to 399"),
            Self::Flap => {
                write!(f, "a flap rule needs a window, a hold and 1 to {FLAP_TRANSITIONS_MAX} transitions")
            }
            Self::HistoryLen => write!(f, "a check remembers at most {HISTORY_LEN_MAX} results"),
            Self::Interval => write!(f, "an interval or max_age is longer than zero"),
            Self::NameLen => write!(f, "a name has 1 to {NAME_LEN_MAX} bytes"),
            Self::NameTaken => write!(f, "the name is taken"),
            Self::Quorum => write!(f, "a quorum asks for at least one and at most all of its members"),
            Self::Threshold => write!(f, "rise and fall are at least 1"),
            Self::TooManyChecks => write!(f, "a board has at most {CHECKS_MAX} checks"),
            Self::TooManyEndpoints => write!(f, "a board has at most {ENDPOINTS_MAX} endpoints"),
            Self::TooManyUses => write!(f, "the endpoints of a board use at most {USES_MAX} checks together"),
            Self::UnknownCheck => write!(f, "the check is not on this board"),
            Self::UsedTwice => write!(f, "the endpoint uses a check twice"),
        }
    }
}

impl std::error::Error for ConfigError {}
