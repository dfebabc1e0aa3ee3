//! Indices of checks and endpoints on a board.

/// Index of a check on the board that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckIndex(pub(super) u32);

/// Index of an endpoint on the board that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub(super) u32);

impl CheckIndex {
    /// Position of the check in the order of addition, from 0.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl EndpointIndex {
    /// Position of the endpoint in the order of addition, from 0.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}
