//! `[control]` and `[maintenance]`: how operators reach a running doorbell.
//!
//! Does not know about: what they may ask.

use crate::config::Schedule;
use doorbell_config::{At, Entry, Link, Table, Text};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a path that fit into `sockaddr_un` with a NUL, less the name of the file that locks it (unix(7)).
const SOCKET_PATH_LEN_MAX: usize = 102;

/// The socket by which `doorbell status`, `maint`, `drain` and their like reach a running doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Control {
    /// An absolute path, off, or auto: a name in $RUNTIME_DIRECTORY, /run/doorbell or $XDG_RUNTIME_DIR/doorbell.
    #[key(default = "auto")]
    pub socket: ControlSocket,
    /// A group whose members may use it, too, by name or number. Without it root and the user that doorbell runs as.
    #[key(read = group)]
    pub group: Option<String>,
}

/// Where commands are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// In the first directory for run-time files that can be used.
    Auto,
    /// Nowhere.
    Off,
    /// Here.
    Path(PathBuf),
}

/// When endpoints and checks are in maintenance without anybody saying so to doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Maintenance {
    /// A folder: a file `all`, or with the name of an endpoint or a check, is maintenance of that; its first line says why.
    pub file_dir: Option<PathBuf>,
    /// Windows that come again and again.
    #[key(name = "window")]
    pub windows: Vec<Window>,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Window {
    /// Start of each window: minute, hour, day, month, day of week, and a time zone, as in "0 3 * * SUN Europe/Berlin"; without one TZ, then
    /// /etc/localtime, then UTC. Where clocks change: a time that is skipped in spring starts no window on that day, one that comes twice in
    /// autumn starts two. `doorbell ready` ends an open window until its next start. Required.
    #[key(required = "\"0 3 * * SUN\"")]
    pub cron: Schedule,
    // One that is open for longer can be written as several.
    /// How long it lasts, from each of these moments on. Required.
    #[key(name = "for", required = "\"30m\"", range = "1s..=1d")]
    pub length: Duration,
    /// Which endpoints; one or a list. Without it every endpoint but livez and startupz.
    pub endpoints: Vec<At<Link>>,
    /// What is told to those who see details.
    #[key(default = "")]
    pub reason: String,
}

fn group(entry: &Entry<'_>) -> Option<Option<String>> {
    let name = entry.string()?;
    if name.is_empty() || name.contains([':', '\n']) {
        let help = "write its name or its number, as in group = \"adm\"";
        return entry.refuse("bad-group", format!("{name:?} is not a group"), help);
    }
    Some(Some(name))
}

impl Text for ControlSocket {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        match text.as_str() {
            "auto" => Some(Self::Auto),
            "off" => Some(Self::Off),
            path if path.starts_with('/') && path.len() <= SOCKET_PATH_LEN_MAX && !path.contains('\0') => {
                Some(Self::Path(text.into()))
            }
            _ => entry.refuse(
                "bad-path",
                format!("{text:?} cannot be the path of a socket"),
                format!("write \"auto\", \"off\" or an absolute path of at most {SOCKET_PATH_LEN_MAX} bytes"),
            ),
        }
    }

    fn blank() -> Self {
        Self::Auto
    }
}

impl fmt::Display for ControlSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Path(path) => f.write_str(&path.to_string_lossy()),
        }
    }
}
