//! `[control]` and `[maintenance]`: how operators reach a running doorbell.
//!
//! Does not know about: what they may ask.

use std::path::PathBuf;

/// `[control]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Where commands are taken.
    pub socket: ControlSocket,
    /// A group whose members may use it, beside root and the user doorbell runs as: its name or its number.
    pub group: Option<String>,
}

/// Where commands are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ControlSocket {
    /// In the first directory for run-time files that can be used.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// Here.
    Path(PathBuf),
}

/// `[maintenance]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// A directory: a file `all`, or with the name of an endpoint or a check, is maintenance of that, and its first line the reason.
    pub file_dir: Option<PathBuf>,
}
