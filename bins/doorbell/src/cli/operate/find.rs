//! Finds the instance to which a command applies.

use super::super::load;
use super::super::options::Global;
use super::args::InstanceArgs;
use doorbell_control::frame::FrameError;
use doorbell_control::places::{Found, directories, find_running};
use doorbell_control::{CallError, Client};
use doorbell_control::{Request, Response, Status};
use doorbell_proxy_config::model::ControlSocket;
use doorbell_proxy_server::exit::{Exit, Failure};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connects to the instance that the options or the configuration select.
pub(super) fn connect(instance: &InstanceArgs, global: &Global) -> Result<Client, Failure> {
    if let Some(path) = &instance.socket {
        return open(path);
    }
    let directories = directories(|name| std::env::var_os(name));
    match selection(global)? {
        Selection::Any => {}
        Selection::At(path) => return open(&path),
        Selection::ByFile(file) => return serving(&file, &directories),
    }
    let Found { running, denied } = find_running(&directories);
    match running.as_slice() {
        [] => Err(none(&directories, &denied)),
        [path] => open(path),
        several => Err(too_many(several)),
    }
}

/// The status of the only running instance; `None` if none or several run, or if it does not reply
/// in time.
pub(in crate::cli) fn only_instance(timeout: Duration) -> Option<Status> {
    let Found { running, .. } = find_running(&directories(|name| std::env::var_os(name)));
    let [path] = running.as_slice() else { return None };
    let mut client = Client::connect_within(path, timeout).ok()?;
    match client.call(&Request::Status) {
        Ok(Response::Status(status)) => Some(*status),
        _ => None,
    }
}

/// Instance selected by the file given with -c.
#[derive(Debug)]
enum Selection {
    /// No file is given: the only running instance.
    Any,
    /// The instance with this control socket, which the file configures.
    At(PathBuf),
    /// The instance that runs with this file, on any control socket.
    ByFile(PathBuf),
}

/// Selects an instance by the configuration. Problems of the file are ignored: the instance may run
/// with an earlier version of the file.
fn selection(global: &Global) -> Result<Selection, Failure> {
    let Some(source) = load::source(global)? else { return Ok(Selection::Any) };
    let config = load::valid_part(&source)?;
    let usage = |text: String| Err(Failure::new(Exit::Usage, text));
    let name = &source.name;
    match (config.map(|config| config.control.socket), load::origin(global)) {
        (Some(ControlSocket::Path(path)), _) => Ok(Selection::At(path)),
        (Some(ControlSocket::Off), _) => usage(format!(
            "the instance of {name} has no control socket: the file sets `control.socket = \"off\"`"
        )),
        (Some(ControlSocket::Auto) | None, Some(file)) => Ok(Selection::ByFile(file)),
        (Some(ControlSocket::Auto) | None, None) => {
            usage(format!("{name} does not name a control socket: give it with --socket"))
        }
    }
}

/// The running instance that was started with this file.
fn serving(file: &Path, directories: &[PathBuf]) -> Result<Client, Failure> {
    let Found { running, denied } = find_running(directories);
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for path in running {
        // An instance that does not reply cannot be identified.
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
        "no running instance uses {}; select one by its control socket:{}",
        file.display(),
        others.concat()
    );
    Err(Failure::new(Exit::Unavailable, text))
}

/// Whether both paths lead to the same file. `served` may be a name such as `built-in defaults`,
/// which is not a path.
fn is_same_file(served: &Path, file: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    served.is_absolute() && (served == file || real(served).is_some_and(|served| real(file) == Some(served)))
}

fn open(path: &Path) -> Result<Client, Failure> {
    Client::connect(path).map_err(|error| Failure::new(Exit::Unavailable, cannot(path, &error)))
}

/// Returns the error for a socket that cannot be used.
fn cannot(path: &Path, error: &CallError) -> String {
    let is_socket = path.metadata().is_ok_and(|file| file.file_type().is_socket());
    let path = path.display();
    match error {
        CallError::NoReply(_) => format!("{path}: {error}"),
        CallError::Frame(error @ FrameError::Version { .. }) => format!(
            "the instance at {path} uses {error}: use the program of its version, or restart it with this one"
        ),
        CallError::Frame(error) => format!("{path}: {error}; give the control socket of an instance"),
        CallError::Io(error) => match error.kind() {
            ErrorKind::NotFound => format!(
                "no control socket at {path}: check that doorbell runs and that this is the path after `control` in its first log line"
            ),
            // The kernel refuses connections to other files, too.
            ErrorKind::ConnectionRefused if !is_socket => {
                format!("{path} is not a socket; give the control socket of an instance")
            }
            ErrorKind::ConnectionRefused => {
                format!("no instance listens on {path}: it was killed; start it again")
            }
            ErrorKind::PermissionDenied => format!(
                "cannot connect to {path}: permission denied; use sudo, or set `control.group` in the configuration"
            ),
            _ => format!("{path}: {error}"),
        },
    }
}

fn none(directories: &[PathBuf], denied: &[PathBuf]) -> Failure {
    let searched: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
    let mut text = format!(
        "no running instance found in {}; give its control socket with --socket (see `control` in its first log line)",
        searched.join(", ")
    );
    for path in denied {
        let _ = write!(text, "\n  {}: permission denied; use sudo", path.display());
    }
    Failure::new(Exit::Unavailable, text)
}

fn too_many(paths: &[PathBuf]) -> Failure {
    let mut text = "several instances are running; select one with --socket".to_owned();
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
