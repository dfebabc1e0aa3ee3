//! Errors of a configuration.

use std::fmt;

use crate::limits::{
    BODY_LEN_MAX, BODY_LEN_MIN, CHECKS_MAX, ENDPOINTS_MAX, FLAP_TRANSITIONS_MAX, HISTORY_LEN_MAX,
    NAME_LEN_MAX, USES_MAX,
};

/// The reason why a check or an endpoint was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The maximum length of a body is outside its range.
    BodyLen,
    /// A status code outside 200 to 599, or a code of 400 or more for the state up.
    Code,
    /// Fail-open with a percentage above 99.
    FailOpen,
    /// A flap rule without a window or hold, or with a number of transitions outside its range.
    Flap,
    /// A history length above the cap.
    HistoryLen,
    /// An interval or `max_age` of zero.
    Interval,
    /// An empty name or one that is too long.
    NameLen,
    /// The name is already used on this board.
    NameTaken,
    /// A quorum of zero, a quorum larger than the number of its members, or members without a
    /// quorum.
    Quorum,
    /// `rise` or `fall` is zero.
    Threshold,
    /// The board already has the maximum number of checks.
    TooManyChecks,
    /// The board already has the maximum number of endpoints.
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
            Self::BodyLen => {
                write!(f, "the maximum length of a body must be {BODY_LEN_MIN} to {BODY_LEN_MAX} bytes")
            }
            Self::Code => {
                write!(f, "a status code must be 200 to 599; the code for the state up must be 200 to 399")
            }
            Self::FailOpen => write!(f, "fail-open allows 0 to 99 percent of healthy members"),
            Self::Flap => {
                write!(f, "a flap rule needs a window, a hold and 1 to {FLAP_TRANSITIONS_MAX} transitions")
            }
            Self::HistoryLen => write!(f, "a check can store at most {HISTORY_LEN_MAX} results"),
            Self::Interval => write!(f, "intervals and max_age must be longer than zero"),
            Self::NameLen => write!(f, "a name must have 1 to {NAME_LEN_MAX} bytes"),
            Self::NameTaken => write!(f, "the name is already used"),
            Self::Quorum => write!(f, "members need a quorum of at least one and at most all of them"),
            Self::Threshold => write!(f, "rise and fall must be at least 1"),
            Self::TooManyChecks => write!(f, "a board can have at most {CHECKS_MAX} checks"),
            Self::TooManyEndpoints => write!(f, "a board can have at most {ENDPOINTS_MAX} endpoints"),
            Self::TooManyUses => {
                write!(f, "the endpoints of a board can use at most {USES_MAX} checks in total")
            }
            Self::UnknownCheck => write!(f, "the check is not on this board"),
            Self::UsedTwice => write!(f, "the endpoint uses a check twice"),
        }
    }
}

impl std::error::Error for ConfigError {}
