//! The control plane: the runtime of the control socket and the admin listener, and the socket
//! file.

use crate::control::{self, Access, ControlFile};
use crate::operator::{AdminRuntime, Operator, RUNTIME_DESCRIPTORS};
use doorbell_proxy_config::model::{Config, ControlSocket};
use std::io;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct ControlPlane {
    // Dropped first: the socket file is removed after its server has ended.
    runtime: AdminRuntime,
    control: Option<ControlFile>,
}

impl ControlPlane {
    /// Starts the runtime and opens the control socket. A failure to open the socket is logged and
    /// does not prevent the start, because probes do not need the socket. The log level is error if
    /// the configuration file sets the socket or its group, warning if the file sets neither, and
    /// info without a file (`is_configured` is false), because the default directory may not exist.
    pub(crate) fn start(config: &Config, operator: &Operator, is_configured: bool) -> io::Result<Self> {
        let runtime = AdminRuntime::start(operator.reply_permits())?;
        let control = match control::open(&config.control) {
            Ok(Some((file, listener))) => {
                let access = Access::new(config.control.group.is_some());
                runtime.spawn(control::serve(listener, operator.clone(), access));
                Some(file)
            }
            Ok(None) => None,
            Err(why) => {
                const EFFECT: &str = "`doorbell status`, `drain` and `prestop` do not work";
                let is_explicit =
                    config.control.socket != ControlSocket::Auto || config.control.group.is_some();
                if is_explicit {
                    tracing::error!("no control socket, {EFFECT}: {why}");
                } else if is_configured {
                    tracing::warn!(
                        "no control socket, {EFFECT}: {why}; grant the permission, or set `control.socket` to another path or \"off\""
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

    /// The runtime, for further servers.
    pub(crate) const fn runtime(&self) -> &AdminRuntime {
        &self.runtime
    }
}
