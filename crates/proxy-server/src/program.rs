//! What the program knows about its own build.
//!
//! Does not know about: how it is determined (`build.rs` of the program).

/// The build of the program, for the build information metric.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The commit, or `unknown`.
    pub revision: &'static str,
    /// The version of the compiler, or `unknown`.
    pub rustc: &'static str,
}

impl Default for Program {
    fn default() -> Self {
        Self { revision: "unknown", rustc: "unknown" }
    }
}
