//! `[control]` and `[maintenance]`: the control socket, and maintenance by files and schedules.

use crate::Schedule;
use doorbell_config::{At, Entry, Link, Table, Text};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum length of the socket path: the size of `sun_path` minus a NUL (unix(7)) and minus the
/// suffix of the lock file.
const SOCKET_PATH_LEN_MAX: usize = 102;

/// Control socket, for `doorbell status`, `maint`, `drain` and similar commands.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Control {
    /// Absolute path, off, or auto: a socket in the first usable directory of $RUNTIME_DIRECTORY,
    /// /run/doorbell and $XDG_RUNTIME_DIR/doorbell.
    #[key(default = "auto")]
    pub socket: ControlSocket,
    /// Group that may use the socket in addition to root and the user of the process, by name or
    /// number. Default: none.
    #[key(read = group)]
    pub group: Option<String>,
}

/// Location of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// In the first usable directory for run-time files.
    Auto,
    /// No control socket.
    Off,
    /// At this path.
    Path(PathBuf),
}

/// Maintenance of endpoints and checks by files and schedules.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Maintenance {
    /// Directory of maintenance files. A file puts the endpoint or check of the same name into
    /// maintenance, a file named `all` every readiness endpoint. The first line of a file is the
    /// reason.
    pub file_dir: Option<PathBuf>,
    /// Recurring maintenance windows.
    #[key(name = "window")]
    pub windows: Vec<Window>,
}

/// One recurring window.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Window {
    /// Start of each window: minute, hour, day, month, day of week, and optionally a time zone,
    /// such as "0 3 * * SUN Europe/Berlin". Default time zone: TZ, then /etc/localtime, then UTC.
    /// When clocks change, a skipped time starts no window on that day, a repeated time starts two.
    /// `doorbell ready` ends the open window; later windows are unaffected. Required.
    #[key(required = "\"0 3 * * SUN\"")]
    pub cron: Schedule,
    // A longer window can be written as several windows.
    /// Duration of each window. Required.
    #[key(name = "for", required = "\"30m\"", range = "1s..=1d")]
    pub length: Duration,
    /// Endpoints in maintenance; one or a list. Default: all readiness endpoints.
    pub endpoints: Vec<At<Link>>,
    /// Reason, shown to clients that see details.
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
                format!("{text:?} is not a valid socket path"),
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
