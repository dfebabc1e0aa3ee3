//! Listeners that are closed until their first certificate can be used (`wait_for_certificate`).
//!
//! Does not know about: when files are looked at, how a generation follows another.
//!
//! Such a listener is left out of its generation, so its addresses are not bound: a load balancer that connects is refused. When the pair
//! appears, a generation of the same configuration follows that has the listener. One that is open waits no more: where its pair cannot be
//! used at a reload, the reload is refused, as without the key.

use crate::build::tls::{self, Pairs};
use crate::config::model::{Config, Tls};
use crate::exit::{Exit, Failure};
use crate::wire::WaitingView;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those of a generation.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Mutex<Vec<Waiting>>);

#[derive(Clone, Debug)]
struct Waiting {
    listener: String,
    /// Of the listener, in its configuration.
    position: usize,
    why: String,
}

impl Awaited {
    /// The certificates of a listener; `None` for one that waits for them from now on, unless it is open already.
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
                let waiting = Waiting { listener: listener.to_owned(), position, why: error.to_string() };
                self.lock().push(waiting);
                Ok(None)
            }
            Err(error) => Err(Failure::new(Exit::BadConfig, format!("tls {}: {error}", table.name))),
        }
    }

    pub(super) fn has(&self, listener: &str) -> bool {
        self.lock().iter().any(|waiting| waiting.listener == listener)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn tell(&self) {
        self.lock().iter().for_each(Waiting::tell);
    }

    /// Whether a listener of `config` can be opened by now. Why another one cannot is told when that changes.
    pub(super) fn is_over(&self, config: &Config) -> bool {
        // A file system that hangs holds no lock.
        let list = self.lock().clone();
        let mut is_over = false;
        for waiting in list {
            let Some(table) = config.tls_of(waiting.position) else { continue };
            match Pairs::read(table) {
                Ok(_) => is_over = true,
                Err(error) => self.note(&Waiting { why: error.to_string(), ..waiting }),
            }
        }
        is_over
    }

    fn note(&self, now: &Waiting) {
        let mut list = self.lock();
        let known = list.iter_mut().find(|known| known.position == now.position);
        if let Some(known) = known.filter(|known| known.why != now.why) {
            known.why.clone_from(&now.why);
            known.tell();
        }
    }

    /// In the order of the configuration.
    pub(crate) fn views(&self) -> Vec<WaitingView> {
        let view = |waiting: &Waiting| WaitingView {
            listener: waiting.listener.clone(),
            reason: waiting.why.clone(),
        };
        self.lock().iter().map(view).collect()
    }

    pub(super) fn directories(&self, config: &Config) -> Vec<PathBuf> {
        let tables: BTreeSet<usize> = self.lock().iter().map(|waiting| waiting.position).collect();
        tables.into_iter().filter_map(|position| config.tls_of(position)).flat_map(tls::directories).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn tell(&self) {
        tracing::warn!(
            listener = self.listener,
            "the listener is closed and waits for its certificate: {}",
            self.why
        );
    }
}
