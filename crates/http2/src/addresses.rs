//! Limits the number of connections of one address.
//!
//! The table has at most as many entries as there are connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of connections by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// Counts a connection until this value is dropped. Connections without an address are not counted.
#[derive(Debug)]
pub(super) struct Counted {
    addresses: Addresses,
    addr: Option<IpAddr>,
}

impl Addresses {
    /// Counts a connection; `None` if its address already has `max` connections. Without a limit,
    /// nothing is counted.
    pub(super) fn enter(&self, addr: Option<IpAddr>, max: Option<u32>) -> Option<Counted> {
        let addr = addr.filter(|_| max.is_some());
        if let (Some(addr), Some(max)) = (addr, max) {
            let mut counts = self.lock();
            let count = counts.entry(addr).or_default();
            if *count >= max {
                return None;
            }
            *count += 1;
        }
        Some(Counted { addresses: self.clone(), addr })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        // No code that can panic runs while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(addr) = self.addr else { return };
        let mut counts = self.addresses.lock();
        if let Some(count) = counts.get_mut(&addr) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&addr);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_limit_and_entries_are_removed() {
        let addresses = Addresses::default();
        let (here, there) = (Some(IpAddr::from([127, 0, 0, 1])), Some(IpAddr::from([127, 0, 0, 2])));
        let places: Vec<_> =
            [here, here, there, None, None].map(|addr| addresses.enter(addr, Some(2))).into();
        assert!(places.iter().all(Option::is_some));
        assert!(addresses.enter(here, Some(2)).is_none() && addresses.enter(there, Some(2)).is_some());
        assert!(addresses.enter(None, Some(0)).is_some(), "a Unix socket has no address");
        assert!(addresses.enter(here, None).is_some(), "without a limit");
        drop(places);
        assert!(addresses.lock().is_empty());
    }
}
