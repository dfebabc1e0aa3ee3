//! The control plane: the runtime of all servers for operators, and the control socket.
//!
//! Does not know about: the commands.

use crate::config::model::{Config, ControlSocket};
use crate::control::{self, Access, ControlFile};
use crate::operator::{AdminRuntime, Operator, RUNTIME_DESCRIPTORS};
use std::io;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct ControlPlane {
    // Dropped first, so that no socket file is left that nothing serves.
    runtime: AdminRuntime,
    control: Option<ControlFile>,
}

impl ControlPlane {
    /// A control socket that cannot be opened is logged and does not end the start: probes are served without it. Without a
    /// configuration file (`is_configured`) this is no warning, because no place was prepared for it.
    pub(crate) fn start(config: &Config, operator: &Operator, is_configured: bool) -> io::Result<Self> {
        let runtime = AdminRuntime::start(operator.answers())?;
        let control = match control::open(&config.control) {
            Ok(Some((file, listener))) => {
                let access = Access::new(config.control.group.is_some());
                runtime.spawn(control::serve(listener, operator.clone(), access));
                Some(file)
            }
            Ok(None) => None,
            Err(why) => {
                const EFFECT: &str = "`doorbell status`, `drain` and `prestop` do not work";
                let is_wanted =
                    config.control.socket != ControlSocket::Auto || config.control.group.is_some();
                if is_wanted {
                    tracing::error!("no control socket, {EFFECT}: {why}");
                } else if is_configured {
                    tracing::warn!(
                        "no control socket, {EFFECT}: {why}; allow that, name another place as `control.socket`, or set it to \"off\""
                    );
                } else {
                    tracing::info!("no control socket, {EFFECT}: {why}");
                }
                None
            }
        };
        Ok(Self { runtime, control })
    }

    /// Upper bound on open descriptors.
    pub(crate) fn descriptors(config: &Config) -> u32 {
        match config.control.socket {
            ControlSocket::Off => RUNTIME_DESCRIPTORS,
            ControlSocket::Auto | ControlSocket::Path(_) => RUNTIME_DESCRIPTORS + control::DESCRIPTORS,
        }
    }

    /// Path of the control socket.
    pub(crate) fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlFile::path)
    }

    /// Runs the other servers for operators, too.
    pub(crate) const fn runtime(&self) -> &AdminRuntime {
        &self.runtime
    }
}
