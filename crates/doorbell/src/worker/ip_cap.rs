//! The cap on connections per address, which costs nothing while no address can reach the cap.
//!
//! Each counter ("cell") counts the connections of a group of addresses.
//!
//! Looking up a peer's address costs one system call per connection. The address of a connection
//! that [`answer_once`](crate::protocol::Protocol::answer_once) serves is never looked up. While no
//! worker has more connections than its share, the cap divided by the number of workers, no address
//! can exceed the cap, so no address is looked up. When a worker exceeds its share, all workers
//! begin to count: first their open connections, then each new one. They stop when every worker
//! that exceeded its share has fallen to half of it.
//!
//! The table is a fixed array of counters, selected by a keyed hash of the address. Two addresses
//! may share a counter, so the connections of one address can use up the allowance of another;
//! because of the key, an attacker cannot predict which addresses share a counter.

use core::hash::BuildHasher;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::hash::RandomState;

use doorbell_http::limit::client_net;

use crate::config::Limits;

/// Number of counters, a power of two.
const CELLS: usize = 16 * 1024;

/// The counters of a server, shared by its workers.
#[derive(Debug)]
pub(crate) struct IpTable {
    key: RandomState,
    cells: Box<[AtomicU32]>,
    /// Number of workers that exceeded their share and have not fallen to half of it.
    pressure: AtomicU32,
    conns_per_ip_max: u32,
    client_v6_len: u8,
    share: u32,
}

/// The state of the cap in one worker.
#[derive(Debug)]
pub(crate) struct IpCap {
    /// True while this worker is counted in `pressure`.
    pressing: bool,
    /// True exactly while every live connection of this worker is counted.
    counting: bool,
}

/// The counting step that a new connection requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Nothing to do.
    Off,
    /// Count the new connection.
    On,
    /// Count all live connections, then the new one.
    Start,
}

impl IpTable {
    /// Creates a table for the cap in `limits`, shared by `workers` workers.
    pub(crate) fn new(limits: &Limits, workers: u16) -> Self {
        let Limits { conns_per_ip_max, client_v6_len, .. } = *limits;
        let cells = if conns_per_ip_max == 0 { 0 } else { CELLS };
        Self {
            key: RandomState::new(),
            cells: (0..cells).map(|_| AtomicU32::new(0)).collect(),
            pressure: AtomicU32::new(0),
            conns_per_ip_max,
            client_v6_len,
            share: conns_per_ip_max / u32::from(workers),
        }
    }

    /// True if the table counts according to these limits.
    pub(crate) const fn is_for(&self, limits: &Limits) -> bool {
        self.conns_per_ip_max == limits.conns_per_ip_max && self.client_v6_len == limits.client_v6_len
    }

    /// Counts a connection and returns its cell: `Ok` within the cap and `Err` above it. The
    /// connection is counted in both cases.
    pub(crate) fn enter(&self, addr: IpAddr) -> Result<u32, u32> {
        let cell = self.cell_of(addr);
        let before = self.cells[cell as usize].fetch_add(1, Ordering::Relaxed);
        if before < self.conns_per_ip_max { Ok(cell) } else { Err(cell) }
    }

    /// Counts a connection like [`Self::enter`], if there is a cap. Without a cap there is no cell.
    pub(crate) fn enter_capped(&self, addr: IpAddr) -> Result<Option<u32>, u32> {
        if self.conns_per_ip_max == 0 { Ok(None) } else { self.enter(addr).map(Some) }
    }

    /// Removes a connection from the count in `cell`.
    pub(crate) fn leave(&self, cell: u32) {
        let before = self.cells[cell as usize].fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "every leave follows an enter");
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the number of cells")]
    fn cell_of(&self, addr: IpAddr) -> u32 {
        let hash = self.key.hash_one(client_net(addr, self.client_v6_len));
        (hash % CELLS as u64) as u32
    }
}

impl IpCap {
    pub(crate) const fn new() -> Self {
        Self { pressing: false, counting: false }
    }

    /// Called after a connection took a slot; `live` includes it.
    #[inline]
    pub(crate) fn on_accept(&mut self, table: &IpTable, live: u32) -> Counting {
        if table.conns_per_ip_max == 0 {
            return Counting::Off;
        }
        if !self.pressing && live > table.share {
            self.pressing = true;
            table.pressure.fetch_add(1, Ordering::Relaxed);
        }
        if table.pressure.load(Ordering::Relaxed) == 0 {
            self.counting = false;
            return Counting::Off;
        }
        if core::mem::replace(&mut self.counting, true) { Counting::On } else { Counting::Start }
    }

    /// Called after a connection closed; `live` connections remain.
    pub(crate) fn on_close(&mut self, table: &IpTable, live: u32) {
        if self.pressing && live <= table.share / 2 {
            self.pressing = false;
            table.pressure.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

    fn table(conns_per_ip_max: u32, client_v6_len: u8, workers: u16) -> IpTable {
        IpTable::new(&Limits { conns_per_ip_max, client_v6_len, ..Limits::default() }, workers)
    }

    #[test]
    fn nothing_is_counted_below_the_share_and_everything_above() {
        let table = table(10, 64, 2);
        let (mut a, mut b) = (IpCap::new(), IpCap::new());
        assert_eq!(a.on_accept(&table, 5), Counting::Off);
        assert_eq!(b.on_accept(&table, 5), Counting::Off);
        assert_eq!(a.on_accept(&table, 6), Counting::Start, "over its share");
        assert_eq!(a.on_accept(&table, 7), Counting::On);
        assert_eq!(b.on_accept(&table, 1), Counting::Start, "the other worker counts too");
        a.on_close(&table, 2);
        assert_eq!(b.on_accept(&table, 2), Counting::Off, "no worker is above its share");
        assert_eq!(a.on_accept(&table, 6), Counting::On, "its live connections are still counted");
    }

    #[test]
    fn the_cap_holds_for_an_address_and_for_a_network_of_v6() {
        let whole = table(2, 128, 1);
        let table = table(2, 64, 1);
        let cell = table.enter(CLIENT).expect("first");
        table.enter(CLIENT).expect("second");
        assert_eq!(table.enter(CLIENT), Err(cell));
        table.leave(cell);
        table.leave(cell);
        assert_eq!(table.enter(CLIENT), Ok(cell));
        let host = |n: u16| IpAddr::V6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n));
        assert_eq!(table.cell_of(host(1)), table.cell_of(host(2)));
        assert!((2..20).any(|n| whole.cell_of(host(1)) != whole.cell_of(host(n))));
    }

    #[test]
    fn no_cap_counts_nothing() {
        let table = table(0, 64, 4);
        assert_eq!(IpCap::new().on_accept(&table, 1_000_000), Counting::Off);
    }
}
