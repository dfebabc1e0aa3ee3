//! The caps: capacities of a board, and maxima of configuration values.
//!
//! Does not know about: what happens at a cap. None can be raised at run time.

/// Checks on one board.
pub const CHECKS_MAX: usize = 65_536;
/// Endpoints on one board.
pub const ENDPOINTS_MAX: usize = 1_024;
/// Checks that all endpoints of one board use, counted once for each endpoint.
pub const USES_MAX: usize = 1 << 20;
/// Bytes of the name of a check or endpoint.
pub const NAME_LEN_MAX: usize = 128;
/// Bytes kept of a reason; the rest is cut off at a character boundary.
pub const REASON_LEN_MAX: usize = 256;
/// Results that one check remembers.
pub const HISTORY_LEN_MAX: usize = 4_096;
/// Transitions that a flap rule may allow in its window.
pub const FLAP_TRANSITIONS_MAX: u32 = 64;
/// Minimum limit for a body: state, longest name and the remark about missing checks fit.
pub const BODY_LEN_MIN: usize = 256;
/// Maximum limit for a body.
///
/// The kubelet reads 10 KiB of a reply; operators may want more.
pub const BODY_LEN_MAX: usize = 64 * 1024;

// A quarter of the smallest body remains for the text around a name.
const _: () = assert!(NAME_LEN_MAX + 64 <= BODY_LEN_MIN);
const _: () = assert!(USES_MAX >= CHECKS_MAX);
