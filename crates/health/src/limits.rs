//! The caps: capacities of a board, and bounds of configuration values.
//!
//! No cap can be raised at run time.

/// Maximum number of checks on one board.
pub const CHECKS_MAX: usize = 65_536;
/// Maximum number of endpoints on one board.
pub const ENDPOINTS_MAX: usize = 1_024;
/// Maximum total number of checks used by the endpoints of one board; a check counts once for each
/// endpoint.
pub const USES_MAX: usize = 1 << 20;
/// Maximum length of the name of a check or endpoint, in bytes.
pub const NAME_LEN_MAX: usize = 128;
/// Maximum length of a stored reason, in bytes; longer reasons are cut off at a character boundary.
pub const REASON_LEN_MAX: usize = 256;
/// Maximum number of results stored for one check.
pub const HISTORY_LEN_MAX: usize = 4_096;
/// Largest configurable number of transitions in the window of a flap rule.
pub const FLAP_TRANSITIONS_MAX: u32 = 64;
/// Smallest configurable maximum length of a body, sufficient for the state, the longest name and
/// the remark about omitted checks.
pub const BODY_LEN_MIN: usize = 256;
/// Largest configurable maximum length of a body.
///
/// The kubelet reads 10 KiB of a reply; operators may want more.
pub const BODY_LEN_MAX: usize = 64 * 1024;

// A quarter of the smallest maximum length is reserved for the text around a name.
const _: () = assert!(NAME_LEN_MAX + 64 <= BODY_LEN_MIN);
const _: () = assert!(USES_MAX >= CHECKS_MAX);
