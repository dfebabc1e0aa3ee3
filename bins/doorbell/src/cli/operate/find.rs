//! Which doorbell is meant.
//!
//! Does not know about: what it is asked.

use super::super::load;
use super::super::options::Global;
use super::args::Reach;
use crate::config::glean;
use crate::config::model::ControlSocket;
use crate::control::{CallError, Client, Found, directories, living};
use crate::exit::{Exit, Failure};
use crate::wire::frame::FrameError;
use crate::wire::{Request, Response, Status};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A connection to the doorbell that is meant.
pub(super) fn connect(reach: &Reach, global: &Global) -> Result<Client, Failure> {
    if let Some(path) = &reach.socket {
        return open(path);
    }
    let directories = directories(|name| std::env::var_os(name));
    match meant(global)? {
        Meant::Any => {}
        Meant::At(path) => return open(&path),
        Meant::With(file) => return serving(&file, &directories),
    }
    let Found { living, denied } = living(&directories);
    match living.as_slice() {
        [] => Err(none(&directories, &denied)),
        [path] => open(path),
        several => Err(too_many(several)),
    }
}

/// What the one doorbell that runs here says of itself; `None` where none or several run, or where it does not say.
pub(in crate::cli) fn the_only_one(timeout: Duration) -> Option<Status> {
    let Found { living, .. } = living(&directories(|name| std::env::var_os(name)));
    let [path] = living.as_slice() else { return None };
    let mut client = Client::connect_within(path, timeout).ok()?;
    match client.call(&Request::Status) {
        Ok(Response::Status(status)) => Some(*status),
        _ => None,
    }
}

/// Which doorbell the file named with -c leaves to be meant.
#[derive(Debug)]
enum Meant {
    /// No file is named: whichever runs, if it is the only one.
    Any,
    /// The one that takes commands there, as the file says.
    At(PathBuf),
    /// The one that serves with this file, wherever it takes commands.
    With(PathBuf),
}

/// What else is wrong with the file is not asked here: a doorbell may run with what it said before. But it never means another one.
fn meant(global: &Global) -> Result<Meant, Failure> {
    let Some(source) = load::source(global)? else { return Ok(Meant::Any) };
    let config = glean(&source, &|name| std::env::var(name).ok(), &load::overrides()?);
    let usage = |text: String| Err(Failure::new(Exit::Usage, text));
    let name = &source.name;
    match (config.map(|config| config.control.socket), load::origin(global)) {
        (Some(ControlSocket::Path(path)), _) => Ok(Meant::At(path)),
        (Some(ControlSocket::Off), _) => {
            usage(format!("the doorbell of {name} takes no commands: it says `control.socket = \"off\"`"))
        }
        (Some(ControlSocket::Auto) | None, Some(file)) => Ok(Meant::With(file)),
        (Some(ControlSocket::Auto) | None, None) => usage(format!(
            "{name} does not say which doorbell is meant: name its control socket with --socket"
        )),
    }
}

/// The one of those that live that serves with this file.
fn serving(file: &Path, directories: &[PathBuf]) -> Result<Client, Failure> {
    let Found { living, denied } = living(directories);
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for path in living {
        // One that does not answer does not say that it is the one that is meant.
        let Ok(mut client) = Client::connect(&path) else { continue };
        let Ok(Response::Status(status)) = client.call(&Request::Status) else { continue };
        match is_same_file(Path::new(&status.config), file) {
            true => found.push((path, client)),
            false => others.push(format!(
                "\n  --socket {}   pid {}, {}",
                path.display(),
                status.pid,
                status.config
            )),
        }
    }
    if found.len() > 1 {
        return Err(too_many(&found.into_iter().map(|(path, _)| path).collect::<Vec<_>>()));
    }
    if let Some((_, client)) = found.pop() {
        return Ok(client);
    }
    if others.is_empty() {
        return Err(none(directories, &denied));
    }
    let text = format!(
        "no running doorbell serves {}; name the one that is meant by its control socket:{}",
        file.display(),
        others.concat()
    );
    Err(Failure::new(Exit::Unavailable, text))
}

/// Under whatever name. What is no path, as `built-in defaults`, is no file.
fn is_same_file(served: &Path, file: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    served.is_absolute() && (served == file || real(served).is_some_and(|served| real(file) == Some(served)))
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
