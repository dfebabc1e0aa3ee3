//! Counts requests by listener, route, method and status. Each thread has its own counters.
//!
//! A slot is assigned to one combination of listener, route, method and status, its name, for the
//! lifetime of the process, so that a new configuration continues the counters. Each thread has an
//! array of [`SLOTS`] slots; a read sums the arrays. A fixed reply gets its slots when it is built,
//! any other reply at its first request. One slot counts all requests without a slot of their own.

use doorbell::http::{Method, Replied, Status};
use doorbell_probes::{SHARDS_MAX, current_shard};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Number of slots of a thread, a power of two; they take 16 KiB.
const SLOTS: usize = 2048;

/// Slot of requests without a slot of their own.
const REST: u16 = 0;

const METHODS: usize = Method::ALL.len();

/// Status codes that are counted separately.
const CODES: [u16; 29] = [
    200, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 414, 418,
    421, 429, 431, 500, 501, 502, 503, 504,
];

type Slots = [AtomicU64; SLOTS];

/// Slots by shard, the number of a thread. A later thread with the same number uses the same slots.
static SHARDS: [OnceLock<Box<Slots>>; SHARDS_MAX] = [const { OnceLock::new() }; SHARDS_MAX];

/// Slots of all threads whose number is too high for [`SHARDS`]; concurrent increments may be lost.
static SHARED: LazyLock<Box<Slots>> = LazyLock::new(empty);

static SLOT_TABLE: LazyLock<Mutex<SlotTable>> = LazyLock::new(Mutex::default);

thread_local! {
    static OWN: Cell<Option<&'static Slots>> = const { Cell::new(None) };
}

/// The names of the slots.
#[derive(Debug)]
struct SlotTable {
    slots: HashMap<Counted, u16>,
    /// Names in the order of slots, starting with the slot after [`REST`].
    names: Vec<Counted>,
    next: u16,
}

impl Default for SlotTable {
    fn default() -> Self {
        Self { slots: HashMap::new(), names: Vec::new(), next: REST + 1 }
    }
}

/// The name of a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Counted {
    pub(crate) listener: Box<str>,
    pub(crate) route: Box<str>,
    pub(crate) method: &'static str,
    /// `None` for a code that is not counted separately.
    pub(crate) code: Option<u16>,
}

/// The counters of one route.
#[derive(Debug)]
pub(crate) struct RequestCounters {
    listener: Box<str>,
    route: Box<str>,
    /// Slots by status and method; [`REST`] before the first request.
    slots: Box<[AtomicU16]>,
}

/// Returns the slots of this thread.
#[cold]
#[inline(never)]
fn own() -> &'static Slots {
    let shard = SHARDS.get(current_shard());
    let own: &'static Slots = shard.map_or_else(|| &**SHARED, |shard| shard.get_or_init(empty));
    OWN.set(Some(own));
    own
}

fn empty() -> Box<Slots> {
    Box::new([const { AtomicU64::new(0) }; SLOTS])
}

/// Adds to a slot. Plain loads and stores suffice: only this thread writes its slots, unless they
/// are [`SHARED`].
#[inline(always)]
fn add(slot: u16, count: u32) {
    let own = match OWN.get() {
        Some(own) => own,
        None => own(),
    };
    let counter = &own[usize::from(slot) % SLOTS];
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(u64::from(count)), Ordering::Relaxed);
}

/// Base slot of a fixed reply: adding the number of a method gives the slot of that method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed(u16);

impl Fixed {
    #[inline(always)]
    pub(crate) fn count(self, method: Method, count: u32) {
        add(self.0.wrapping_add(method as u16), count);
    }
}

impl RequestCounters {
    pub(crate) fn new(listener: &str, route: &str) -> Self {
        let slots = (0..METHODS * (CODES.len() + 1)).map(|_| AtomicU16::new(REST)).collect();
        Self { listener: listener.into(), route: route.into(), slots }
    }

    /// Assigns the slots of a fixed reply of this route; `None` if no slots are left.
    pub(crate) fn fixed(&self, methods: &[Method], code: u16) -> Option<Fixed> {
        let (first, last) = (
            methods.iter().min_by_key(|method| **method as u16)?,
            methods.iter().max_by_key(|method| **method as u16)?,
        );
        let all = &Method::ALL[*first as usize..=*last as usize];
        let code = CODES.contains(&code).then_some(code);
        let keys: Vec<Counted> = all.iter().map(|method| self.counted(*method, code)).collect();
        let slot = SLOT_TABLE.lock().consecutive_slots(&keys)?;
        Some(Fixed(slot.wrapping_sub(*first as u16)))
    }

    /// Counts a request with the status of its reply. A deferred reply is counted when it is sent.
    #[inline(never)]
    pub(crate) fn count(&self, method: Method, answered: &Replied<'_>) {
        answered.status().into_iter().for_each(|status| self.count_status(method, status, 1));
    }

    /// Counts requests of one method that got the same status.
    pub(crate) fn count_status(&self, method: Method, status: Status, count: u32) {
        let code = CODES.binary_search(&status.code()).unwrap_or(CODES.len());
        let Some(place) = self.slots.get(code * METHODS + method as usize) else { return };
        match place.load(Ordering::Relaxed) {
            REST => {
                let slot = SLOT_TABLE.lock().slot_of(self.counted(method, CODES.get(code).copied()));
                place.store(slot, Ordering::Relaxed);
                add(slot, count);
            }
            slot => add(slot, count),
        }
    }

    fn counted(&self, method: Method, code: Option<u16>) -> Counted {
        Counted { listener: self.listener.clone(), route: self.route.clone(), method: method.as_str(), code }
    }
}

impl SlotTable {
    fn slot_of(&mut self, counted: Counted) -> u16 {
        self.consecutive_slots(&[counted]).unwrap_or(REST)
    }

    /// Returns the first of consecutive slots for these names: their existing slots if these are
    /// consecutive, otherwise new ones; `None` if no slots are left.
    fn consecutive_slots(&mut self, counted: &[Counted]) -> Option<u16> {
        let known: Option<Vec<u16>> = counted.iter().map(|one| self.slots.get(one).copied()).collect();
        if let Some(known) = known.filter(|known| known.is_sorted_by(|one, next| one + 1 == *next)) {
            return known.first().copied();
        }
        // Existing slots of the same names remain; a read adds them to the new ones.
        let first = self.next;
        let next = usize::from(first) + counted.len();
        if next > SLOTS {
            return None;
        }
        self.next = u16::try_from(next).ok()?;
        self.names.extend(counted.iter().cloned());
        self.slots.extend(counted.iter().cloned().zip(first..));
        Some(first)
    }
}

/// Returns all counters, and the number of requests without a slot.
pub(crate) fn counted() -> (Vec<(Counted, u64)>, u64) {
    let all: Vec<&Slots> =
        SHARDS.iter().filter_map(|shard| shard.get().map(|slots| &**slots)).chain([&**SHARED]).collect();
    let sum = |slot: usize| all.iter().map(|slots| slots[slot].load(Ordering::Relaxed)).sum::<u64>();
    let mut sums = std::collections::BTreeMap::<Counted, u64>::new();
    for (counted, slot) in SLOT_TABLE.lock().names.iter().zip(1..) {
        match sum(slot) {
            0 => {}
            count => *sums.entry(counted.clone()).or_default() += count,
        }
    }
    (sums.into_iter().collect(), sum(usize::from(REST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_in_order() {
        assert!(CODES.is_sorted());
    }

    #[test]
    fn every_method_of_a_reply_has_a_slot_and_names_keep_theirs() {
        let counters = RequestCounters::new("counts-test", "fixed");
        let methods = [Method::Head, Method::Get];
        let fixed = counters.fixed(&methods, 200).unwrap();
        for (method, times) in [(Method::Get, 3), (Method::Head, 2)] {
            std::thread::scope(|scope| {
                for _ in 0..times {
                    scope.spawn(|| fixed.count(method, 1));
                }
            });
        }
        assert_eq!(
            RequestCounters::new("counts-test", "fixed").fixed(&methods, 200),
            Some(fixed),
            "a reload continues"
        );
        assert_ne!(RequestCounters::new("counts-test", "other").fixed(&methods, 200), Some(fixed));
        let more = counters.fixed(&[Method::Get, Method::Head, Method::Put], 200).unwrap();
        more.count(Method::Get, 1);
        let (all, _) = counted();
        let of = |method: &str| {
            let mut own =
                all.iter().filter(|(one, _)| (&*one.listener, &*one.route) == ("counts-test", "fixed"));
            own.find(|(one, _)| one.method == method).map(|(one, count)| (one.code, *count))
        };
        assert_eq!((of("GET"), of("HEAD"), of("PUT")), (Some((Some(200), 4)), Some((Some(200), 2)), None));
    }

    #[test]
    fn requests_without_a_slot_are_counted_together() {
        let mut slot_table = SlotTable::default();
        let key = |at: usize| Counted {
            listener: "".into(),
            route: at.to_string().into(),
            method: "GET",
            code: None,
        };
        let slots: Vec<u16> = (0..SLOTS + 2).map(|at| slot_table.slot_of(key(at))).collect();
        assert!(slots[..SLOTS - 1].iter().zip(1..).all(|(slot, expected)| *slot == expected));
        assert_eq!(slots[SLOTS - 1..], [REST; 3]);
        assert_eq!(slot_table.slot_of(key(7)), 8);
        assert_eq!(slot_table.consecutive_slots(&[key(SLOTS), key(SLOTS + 1)]), None);
    }
}
