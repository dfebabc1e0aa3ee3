//! What all servers of this process did together: no number becomes smaller when one of them ends.
//!
//! Does not know about: who shows the numbers.

use crate::serve::totals::Totals;
use doorbell::{Handle, Snapshot};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::serve) struct Ledger(Mutex<Accounts>);

#[derive(Debug, Default)]
struct Accounts {
    live: Vec<Account>,
    /// The sums over those that ended.
    stats: Snapshot,
    refusals: BTreeMap<&'static str, u64>,
    reloads: Reloads,
}

/// A server that runs.
#[derive(Debug)]
struct Account {
    number: u64,
    handle: Handle,
    totals: Arc<Totals>,
}

/// How often the configuration was read anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Reloads {
    pub(in crate::serve) done: u64,
    pub(in crate::serve) failed: u64,
    /// Servers whose connections were hurried because too many others had retired before them.
    pub(in crate::serve) hurried: u64,
}

impl Ledger {
    /// A server has started.
    pub(in crate::serve) fn open(&self, number: u64, handle: Handle, totals: Arc<Totals>) {
        self.lock().live.push(Account { number, handle, totals });
    }

    /// It has ended.
    pub(super) fn close(&self, number: u64) {
        let mut accounts = self.lock();
        let Some(at) = accounts.live.iter().position(|account| account.number == number) else { return };
        let Account { handle, totals, .. } = accounts.live.remove(at);
        accounts.stats.merge(&handle.stats());
        for (name, count) in totals.refusals() {
            *accounts.refusals.entry(name).or_default() += count;
        }
    }

    /// The engine's counters.
    pub(in crate::serve) fn stats(&self) -> Snapshot {
        let accounts = self.lock();
        let mut sum = accounts.stats.clone();
        accounts.live.iter().for_each(|account| sum.merge(&account.handle.stats()));
        sum
    }

    /// Requests and handshakes that were refused, by why.
    pub(in crate::serve) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let accounts = self.lock();
        let ended = accounts.refusals.iter().map(|(&name, &count)| (name, count));
        ended.chain(accounts.live.iter().flat_map(|account| account.totals.refusals())).collect()
    }

    pub(in crate::serve) fn reloads(&self) -> Reloads {
        self.lock().reloads
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Reloads)) {
        change(&mut self.lock().reloads);
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
