//! The rules of this workspace that the compiler does not check: layering, file and function
//! length, headers, claims, words.
//!
//! Every rule is a function from sources to complaints, so that `tests/tidy.rs` can run it on the
//! workspace and on small bad samples.

mod claims;
mod complaint;
mod dialect;
mod graph;
mod layering;
mod lengths;
mod lexer;
mod manifest;
mod modules;
mod published;
mod retired;
mod source;
mod times;
mod words;

pub use claims::claims;
pub use complaint::Complaint;
pub use dialect::{MARKS_MAX, Quoted, dialect, package};
pub use layering::{CIRCLE_FILES_MAX, ROOMS, circle_sizes, rooms};
pub use lengths::{FILE_LINES_MAX, FUNCTION_LINES_MAX, Ratchet, file_lengths, function_lengths, functions};
pub use lexer::{Masked, mask};
pub use manifest::{ARROWS, Arrow, package_arrows};
pub use modules::unreferenced;
pub use published::publishable;
pub use retired::{Retired, retired_words};
pub use source::{Source, load, read_tree};
pub use times::time_bounds;
pub use words::{forbids_unsafe, headers, ignores, left_open, line_citations, machine_paths, unsafe_outside};
