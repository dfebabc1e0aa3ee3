//! Which doorbell is meant.
//!
//! Does not know about: what it is asked.

use super::super::args::Global;
use super::super::load;
use super::args::Reach;
use crate::config::model::ControlSocket;
use crate::config::parse;
use crate::control::{CallError, Client, Found, directories, living};
use crate::exit::{Exit, Failure};
use crate::wire::frame::FrameError;
use crate::wire::{Request, Response};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A connection to the doorbell that is meant.
pub(super) fn connect(reach: &Reach, global: &Global) -> Result<Client, Failure> {
    if let Some(path) = &reach.socket {
        return open(path);
    }
    if let Some(path) = configured(global)? {
        return open(&path);
    }
    let directories = directories(|name| std::env::var_os(name));
    let Found { living, denied } = living(&directories);
    match living.as_slice() {
        [] => Err(none(&directories, &denied)),
        [path] => open(path),
        several => Err(too_many(several)),
    }
}

/// Where the file named with -c says, if that is a path. What else is wrong with the file is not asked here.
fn configured(global: &Global) -> Result<Option<PathBuf>, Failure> {
    let Some(source) = load::source(global)? else { return Ok(None) };
    let config = parse(&source, &|name| std::env::var(name).ok()).config;
    Ok(config.and_then(|config| match config.control.socket {
        ControlSocket::Path(path) => Some(path),
        ControlSocket::Auto | ControlSocket::Off => None,
    }))
}

fn open(path: &Path) -> Result<Client, Failure> {
    Client::connect(path).map_err(|error| Failure::new(Exit::Unavailable, cannot(path, &error)))
}

/// Why a socket cannot be used, and what helps.
fn cannot(path: &Path, error: &CallError) -> String {
    let path = path.display();
    match error {
        CallError::Frame(error @ FrameError::Version { .. }) => format!(
            "the doorbell at {path} speaks {error}: use the program that runs there, or restart it as this one"
        ),
        CallError::Frame(error) => format!("{path}: {error}; name the control socket of a doorbell"),
        CallError::Io(error) => match error.kind() {
            ErrorKind::NotFound => format!(
                "no doorbell takes commands at {path}: is it running, and is that the `control` of its first log line?"
            ),
            ErrorKind::ConnectionRefused => {
                format!(
                    "no doorbell runs any more that takes commands at {path}: it was killed, start it again"
                )
            }
            ErrorKind::PermissionDenied => format!(
                "{path} belongs to another user: use sudo, or allow a group with `control.group` of its configuration"
            ),
            _ => format!("{path}: {error}"),
        },
    }
}

fn none(directories: &[PathBuf], denied: &[PathBuf]) -> Failure {
    let looked: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
    let mut text = format!(
        "no running doorbell was found in {}; name its control socket with --socket, which is the `control` of its first log line",
        looked.join(", ")
    );
    for path in denied {
        let _ = write!(text, "\n  {} belongs to another user: use sudo", path.display());
    }
    Failure::new(Exit::Unavailable, text)
}

fn too_many(paths: &[PathBuf]) -> Failure {
    let mut text = "several doorbells run here: name one of them with --socket".to_owned();
    for path in paths {
        let _ = write!(text, "\n  --socket {}", path.display());
        let status = Client::connect(path).and_then(|mut client| client.call(&Request::Status));
        if let Ok(Response::Status(status)) = status {
            let (pid, addresses) = (status.pid, status.addresses.join(" "));
            let _ = write!(text, "   pid {pid}, {addresses}, {}", status.config);
        }
    }
    Failure::new(Exit::Usage, text)
}
