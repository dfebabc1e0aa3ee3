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
    /// A control socket that cannot be had is told, and no more: probes are answered without.
    pub(in crate::serve) fn start(config: &Config, operator: &Operator) -> io::Result<Self> {
        let lane = OpsLane::start(operator.answers())?;
        let control = match control::open(&config.control) {
            Ok(Some((file, listener))) => {
                let access = Access::new(config.control.group.is_some());
                lane.spawn(control::serve(listener, operator.clone(), access));
                Some(file)
            }
            Ok(None) => None,
            Err(why) if config.control.socket == ControlSocket::Auto && config.control.group.is_none() => {
                tracing::info!("no commands are taken, there is no place for a control socket: {why}");
                None
            }
            Err(why) => {
                tracing::error!("no commands are taken: {why}");
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
