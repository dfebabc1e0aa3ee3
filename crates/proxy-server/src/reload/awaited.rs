//! Listeners that stay closed until their first certificate can be used (`wait_for_certificate`).
//!
//! A waiting listener is not part of its generation: its addresses are not bound, and connections
//! are refused. When its certificate appears, a new generation of the same configuration includes
//! the listener. An open listener does not wait again: if its certificate cannot be used at a
//! reload, the reload fails, as without `wait_for_certificate`.

use crate::build::tls::{self, Pairs};
use crate::exit::Failure;
use doorbell_control::WaitingView;
use doorbell_proxy_config::model::{Config, Tls};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The waiting listeners of a generation.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Mutex<Vec<Waiting>>);

#[derive(Clone, Debug)]
struct Waiting {
    listener: String,
    /// Position of the listener in its configuration.
    position: usize,
    why: Why,
}

/// Why a listener is not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("its certificate: {0}")]
    Certificate(String),
    /// Its certificate can be used, but the new generation could not be started.
    #[error("{0}")]
    Refused(String),
}

impl Awaited {
    /// Returns the certificates of a listener; `None` if it waits for them. An open listener never
    /// waits.
    pub(super) fn pairs(
        &self,
        config: &Config,
        (position, table): (usize, &Tls),
        is_open: impl FnOnce(&str) -> bool,
    ) -> Result<Option<Pairs>, Failure> {
        let listener = config.listeners.get(position).map_or("", |listener| &listener.name);
        match Pairs::read(table) {
            Ok(pairs) => Ok(Some(pairs)),
            Err(error) if table.wait_for_certificate && !is_open(listener) => {
                let waiting = Waiting {
                    listener: listener.to_owned(),
                    position,
                    why: Why::Certificate(error.to_string()),
                };
                self.0.lock().push(waiting);
                Ok(None)
            }
            Err(error) => Err(Failure::bad_config(format!("tls {}: {error}", table.name))),
        }
    }

    pub(super) fn has(&self, listener: &str) -> bool {
        self.0.lock().iter().any(|waiting| waiting.listener == listener)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(super) fn log(&self) {
        self.0.lock().iter().for_each(Waiting::log);
    }

    /// Whether the certificate of a waiting listener of `config` can be used now. If a certificate
    /// cannot, the reason is logged whenever it changes.
    pub(super) fn has_usable(&self, config: &Config) -> bool {
        // A copy, so that the lock is not held while a file system hangs.
        let list = self.0.lock().clone();
        let mut has_usable = false;
        for waiting in list {
            let Some(table) = config.tls_of(waiting.position) else { continue };
            match Pairs::read(table) {
                Ok(_) => has_usable = true,
                Err(error) => self.update(&Waiting { why: Why::Certificate(error.to_string()), ..waiting }),
            }
        }
        has_usable
    }

    /// Records why listeners with a usable certificate are still not open: the generation that
    /// includes them could not be started.
    pub(super) fn refuse(&self, config: &Config, why: &str) {
        let is_usable = |waiting: &Waiting| {
            config.tls_of(waiting.position).is_some_and(|table| Pairs::read(table).is_ok())
        };
        let list = self.0.lock().clone();
        let refused: BTreeSet<usize> =
            list.into_iter().filter(is_usable).map(|waiting| waiting.position).collect();
        for waiting in self.0.lock().iter_mut().filter(|waiting| refused.contains(&waiting.position)) {
            waiting.why = Why::Refused(why.to_owned());
        }
    }

    fn update(&self, now: &Waiting) {
        let mut list = self.0.lock();
        let known = list.iter_mut().find(|known| known.position == now.position);
        if let Some(known) = known.filter(|known| known.why != now.why) {
            known.why.clone_from(&now.why);
            known.log();
        }
    }

    /// The waiting listeners in the order of the configuration.
    pub(crate) fn views(&self) -> Vec<WaitingView> {
        let view = |waiting: &Waiting| WaitingView {
            listener: waiting.listener.clone(),
            reason: waiting.why.to_string(),
        };
        self.0.lock().iter().map(view).collect()
    }

    pub(super) fn directories(&self, config: &Config) -> Vec<PathBuf> {
        let tables: BTreeSet<usize> = self.0.lock().iter().map(|waiting| waiting.position).collect();
        tables.into_iter().filter_map(|position| config.tls_of(position)).flat_map(tls::directories).collect()
    }
}

impl Waiting {
    fn log(&self) {
        tracing::warn!(listener = self.listener, "listener not open: waiting for {}", self.why);
    }
}
