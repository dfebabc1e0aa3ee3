//! `[control]` and `[maintenance]`: how operators reach a running doorbell.
//!
//! Does not know about: what they may ask.

use crate::config::Schedule;
use std::path::PathBuf;
use std::time::Duration;

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
    /// `[[maintenance.window]]`, in the order of the file.
    pub windows: Vec<Window>,
}

/// `[[maintenance.window]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins.
    pub cron: Schedule,
    /// How long it lasts.
    pub length: Duration,
    /// The positions in [`super::Config::health`]; none for every endpoint that is about taking traffic.
    pub endpoints: Vec<usize>,
    /// Why, for those who look.
    pub reason: String,
}
