//! Places on a board.
//!
//! Does not know about: what is there.

/// The place of a check on the board that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckIndex(pub(super) u32);

/// The place of an endpoint on the board that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub(super) u32);

impl CheckIndex {
    /// Counted from 0 in the order in which the checks were added.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl EndpointIndex {
    /// Counted from 0 in the order in which the endpoints were added.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}
