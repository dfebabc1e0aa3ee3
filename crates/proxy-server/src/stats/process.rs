//! Totals over all servers of this process, including ended ones. Each generation has one server.

use crate::guards::client_limits::Counted;
use crate::stats::server::{Item, ServerStats, Source};
use doorbell::time::Time;
use doorbell::{Handle, Snapshot};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of counters that are kept apart from those of running servers: sums over ended
/// servers, and counters that belong to no server. Limits the memory if every reload brings new
/// names.
const ENDED_MAX: usize = 16_384;

/// Totals of the process.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats(Mutex<Accounts>);

#[derive(Debug, Default)]
struct Accounts {
    live: Vec<Account>,
    /// Sums over ended servers, by worker.
    workers: Vec<Snapshot>,
    items: BTreeMap<Item, u64>,
    refusals: BTreeMap<&'static str, u64>,
    reloads: Reloads,
    /// Number of open addresses by TCP gate; closed gates are absent.
    gates: BTreeMap<Box<str>, u64>,
}

/// A running server.
#[derive(Debug)]
struct Account {
    number: u64,
    handle: Handle,
    server_stats: Arc<ServerStats>,
}

impl Account {
    fn items(&self) -> Vec<(Source, Item, u64)> {
        self.server_stats.items(&self.handle)
    }
}

/// Counters of reloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloads {
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// Whether the last reload failed, so that the configuration in use differs from the file.
    pub(crate) has_last_failed: bool,
    /// Number of retired servers whose connections got a deadline, because there were too many
    /// retired servers.
    pub(crate) hurried: u64,
    /// Time of the last successful reload or of the start, on the clock of the workers.
    pub(crate) since: Time,
}

/// Counts an open address of a TCP gate until this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenGate {
    process_stats: Arc<ProcessStats>,
    gate: Box<str>,
}

impl Drop for OpenGate {
    fn drop(&mut self) {
        let gates = &mut self.process_stats.0.lock().gates;
        if let Some(count) = gates.get_mut(&self.gate) {
            *count -= 1;
        }
        gates.retain(|_, count| *count > 0);
    }
}

impl ProcessStats {
    /// Increments a counter that is not part of a server.
    pub(crate) fn count_one(&self, item: &Item) {
        let _is_counted = add_to(&mut self.0.lock().items, item, 1);
    }

    /// Records that an address of a TCP gate is open.
    pub(crate) fn opened(self: &Arc<Self>, gate: &str) -> OpenGate {
        *self.0.lock().gates.entry(gate.into()).or_default() += 1;
        OpenGate { process_stats: Arc::clone(self), gate: gate.into() }
    }

    /// Number of open addresses of a TCP gate.
    pub(crate) fn gates_open(&self, gate: &str) -> u64 {
        self.0.lock().gates.get(gate).copied().unwrap_or_default()
    }

    /// Records the start of a server.
    pub(crate) fn open(&self, number: u64, handle: Handle, server_stats: Arc<ServerStats>) {
        let mut accounts = self.0.lock();
        accounts.live.push(Account { number, handle, server_stats });
    }

    /// Records the end of a server.
    pub(crate) fn close(&self, number: u64) {
        let mut accounts = self.0.lock();
        let Some(at) = accounts.live.iter().position(|account| account.number == number) else { return };
        let ended = accounts.live.remove(at);
        // Counters that are shared with another server continue to count there.
        let shared: BTreeSet<Source> =
            accounts.live.iter().flat_map(Account::items).map(|(source, ..)| source).collect();
        let own = ended.items().into_iter().filter(|(source, ..)| !shared.contains(source));
        let lost = own.filter(|(_, item, count)| !add_to(&mut accounts.items, item, *count)).count();
        if lost > 0 {
            tracing::warn!(lost, "counters of removed listeners and limits dropped: more than {ENDED_MAX}");
        }
        let Account { handle, server_stats, .. } = ended;
        let is_live = |counted: &Counted| accounts.live.iter().any(|account| account.has(counted));
        let over = server_stats.counted().iter().filter(|counted| !is_live(counted)).map(Counted::refused);
        let over: Vec<_> = over.chain(server_stats.refusals()).collect();
        merge(&mut accounts.workers, handle.worker_stats());
        for (name, count) in over {
            *accounts.refusals.entry(name).or_default() += count;
        }
    }

    /// The engine's counters, summed over all workers.
    pub(crate) fn stats(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.worker_stats().iter().for_each(|worker| sum.merge(worker));
        sum
    }

    /// The engine's counters, by worker.
    pub(crate) fn worker_stats(&self) -> Vec<Snapshot> {
        let accounts = self.0.lock();
        let mut workers = accounts.workers.clone();
        accounts.live.iter().for_each(|account| merge(&mut workers, account.handle.worker_stats()));
        workers
    }

    /// Counters of listeners, limits and other items, summed over all servers.
    pub(crate) fn items(&self) -> BTreeMap<Item, u64> {
        let accounts = self.0.lock();
        let mut sums = accounts.items.clone();
        let mut seen = BTreeSet::new();
        for account in &accounts.live {
            let items = account.items();
            let sources: BTreeSet<Source> = items.iter().map(|(source, ..)| *source).collect();
            for (_, item, count) in items.into_iter().filter(|(source, ..)| !seen.contains(source)) {
                *sums.entry(item).or_default() += count;
            }
            seen.extend(sources);
        }
        sums
    }

    /// Open connections, by listener.
    pub(crate) fn conns_live(&self) -> BTreeMap<Box<str>, u64> {
        let accounts = self.0.lock();
        let mut sums = BTreeMap::new();
        for (listener, count) in
            accounts.live.iter().flat_map(|account| account.server_stats.conns_live(&account.handle))
        {
            *sums.entry(listener).or_default() += count;
        }
        sums
    }

    /// Refused requests and handshakes, by reason.
    pub(crate) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let accounts = self.0.lock();
        let ended = accounts.refusals.iter().map(|(&name, &count)| (name, count));
        let mut counted: Vec<&Counted> = Vec::new();
        for one in accounts.live.iter().flat_map(|account| account.server_stats.counted()) {
            if !counted.iter().any(|known| known.is(one)) {
                counted.push(one);
            }
        }
        let shared = counted.into_iter().map(Counted::refused);
        let own = accounts.live.iter().flat_map(|account| account.server_stats.refusals());
        ended.chain(shared).chain(own).collect()
    }

    pub(crate) fn reloads(&self) -> Reloads {
        self.0.lock().reloads
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Reloads)) {
        change(&mut self.0.lock().reloads);
    }
}

impl Account {
    fn has(&self, counted: &Counted) -> bool {
        self.server_stats.counted().iter().any(|own| own.is(counted))
    }
}

/// Adds to a counter; false if the maximum number of counters is reached.
fn add_to(ended: &mut BTreeMap<Item, u64>, item: &Item, count: u64) -> bool {
    if let Some(known) = ended.get_mut(item) {
        *known += count;
        return true;
    }
    let has_room = ended.len() < ENDED_MAX;
    if has_room {
        ended.insert(item.clone(), count);
    }
    has_room
}

/// Adds the counters of each worker.
fn merge(sums: &mut Vec<Snapshot>, workers: Vec<Snapshot>) {
    sums.resize_with(sums.len().max(workers.len()), Snapshot::default);
    sums.iter_mut().zip(&workers).for_each(|(sum, worker)| sum.merge(worker));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::server::ItemKind;

    #[test]
    fn a_gate_is_open_while_one_of_its_addresses_is() {
        let process_stats = Arc::new(ProcessStats::default());
        let (one, other) = (process_stats.opened("lb"), process_stats.opened("lb"));
        assert_eq!((process_stats.gates_open("lb"), process_stats.gates_open("db")), (2, 0));
        drop(one);
        assert_eq!(process_stats.gates_open("lb"), 1);
        drop(other);
        assert_eq!(process_stats.gates_open("lb"), 0);
        let item = Item::new(ItemKind::Gated, "lb", ["held"]);
        process_stats.count_one(&item);
        process_stats.count_one(&item);
        assert_eq!(process_stats.items(), BTreeMap::from([(item, 2)]));
    }

    #[test]
    fn existing_counters_continue_and_new_ones_are_limited() {
        let item = |number: usize| Item::new(ItemKind::Accepted, &number.to_string(), []);
        let mut ended = BTreeMap::new();
        assert!((0..ENDED_MAX).all(|number| add_to(&mut ended, &item(number), 1)));
        assert!(!add_to(&mut ended, &item(ENDED_MAX), 1) && add_to(&mut ended, &item(7), 2));
        assert_eq!((ended.len(), ended[&item(7)]), (ENDED_MAX, 3));
    }
}
