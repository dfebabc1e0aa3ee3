//! Everything by which operators reach a running doorbell, from its start to its end.
//!
//! Does not know about: what they ask.

use super::{Operator, OpsLane};
use crate::config::model::{Config, ControlSocket};
use crate::control::{self, Access, ControlFile};
use std::io;
use std::path::Path;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::serve) struct Ops {
    // Before the file, so that nobody finds a file that nobody serves.
    lane: OpsLane,
    control: Option<ControlFile>,
}

impl Ops {
    /// A control socket that cannot be had is told, and no more: probes are answered without. Without a configuration file, of which
    /// `is_configured` tells, nobody prepared a place for one.
    pub(in crate::serve) fn start(
        config: &Config,
        operator: &Operator,
        is_configured: bool,
    ) -> io::Result<Self> {
        let lane = OpsLane::start(operator.answers())?;
        let control = match control::open(&config.control) {
            Ok(Some((file, listener))) => {
                let access = Access::new(config.control.group.is_some());
                lane.spawn(control::serve(listener, operator.clone(), access));
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
        Ok(Self { lane, control })
    }

    /// Descriptors that it may have open.
    pub(in crate::serve) fn descriptors(config: &Config) -> u32 {
        match config.control.socket {
            ControlSocket::Off => super::lane::DESCRIPTORS,
            ControlSocket::Auto | ControlSocket::Path(_) => super::lane::DESCRIPTORS + control::DESCRIPTORS,
        }
    }

    /// Where commands are taken.
    pub(in crate::serve) fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlFile::path)
    }

    /// Where other servers for operators run.
    pub(in crate::serve) const fn lane(&self) -> &OpsLane {
        &self.lane
    }
}
