//! `[control]` and `[maintenance]` as they were written.
//!
//! Does not know about: what is the default.

use super::super::model::ControlSocket;
use super::super::problem::Problem;
use super::super::section::{At, Section};
use std::path::PathBuf;

/// Bytes of a path that fit into `sockaddr_un` with a NUL, less the name of the file that locks it (unix(7)).
const SOCKET_PATH_LEN_MAX: usize = 102;

#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) socket: Option<At<ControlSocket>>,
    pub(crate) group: Option<At<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    pub(crate) file_dir: Option<At<PathBuf>>,
}

impl Control {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let control = Self { socket: read_socket(&mut at), group: at.string("group") };
        if let Some(At { value, span }) = &control.group
            && (value.is_empty() || value.contains([':', '\n']))
        {
            let problem = Problem::error("bad-group", span.clone(), format!("{value:?} is not a group"));
            at.problem(problem.help("write its name or its number, as in group = \"adm\""));
        }
        at.finish();
        control
    }
}

fn read_socket(at: &mut Section<'_>) -> Option<At<ControlSocket>> {
    let At { value, span } = at.string("socket")?;
    let socket = match value.as_str() {
        "auto" => ControlSocket::Auto,
        "off" => ControlSocket::Off,
        path if path.starts_with('/') && path.len() <= SOCKET_PATH_LEN_MAX && !path.contains('\0') => {
            ControlSocket::Path(path.into())
        }
        other => {
            let problem =
                Problem::error("bad-path", span, format!("{other:?} cannot be the path of a socket"));
            at.problem(problem.help(format!(
                "write \"auto\", \"off\" or an absolute path of at most {SOCKET_PATH_LEN_MAX} bytes"
            )));
            return None;
        }
    };
    Some(At { value: socket, span })
}

impl Maintenance {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let maintenance = Self { file_dir: at.path("file_dir") };
        at.finish();
        maintenance
    }
}
