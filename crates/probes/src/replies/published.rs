//! The set of all replies of a registry. A change replaces the whole set, and probes of all
//! protocols read from the same set.
//!
//! Every set has a number, and the number of the newest set is stored after the set itself. A
//! reader that loads a set with a higher number than the stored one raises the stored number first.
//! So after the first reply from the new set, no later probe gets a reply from an older set.

use super::cache::{Replies, Single};
use arc_swap::ArcSwap;
use doorbell_health::{Audience, EndpointState};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of single-check replies in one chunk. A change copies one chunk and the list of chunks.
const SINGLES_PER_CHUNK: usize = 128;

/// Number of the next set. Numbers are unique across all registries, so that a thread cannot
/// confuse replies of two registries. No set has the number 0.
static NUMBER_NEXT: AtomicU64 = AtomicU64::new(1);

/// The state for each audience, and whether the endpoint serves. Read by protocols with their own
/// status values, such as gRPC.
pub(crate) type States = [(EndpointState, bool); Audience::ALL.len()];

/// One text for each endpoint, by its position.
pub(crate) type Texts = Vec<Arc<[u8]>>;

/// The newest set of replies of a registry. Readers never block.
#[derive(Debug)]
pub struct Published {
    set: ArcSwap<ReplySet>,
    number: AtomicU64,
    #[cfg(test)]
    pub(crate) pause: Pause,
}

/// Immutable snapshot of all replies of a registry.
#[derive(Clone, Debug, Default)]
pub struct ReplySet {
    number: u64,
    /// Indexed by the place of the cache.
    pub(crate) caches: Vec<CacheReplies>,
    /// Indexed by the position of the endpoint.
    pub(crate) states: Vec<States>,
    /// Indexed by the place of the renderer.
    pub(crate) texts: Vec<Texts>,
}

/// The replies of one cache.
#[derive(Clone, Debug)]
pub(crate) struct CacheReplies {
    pub(crate) all: Arc<Replies>,
    pub(crate) singles: Singles,
}

/// The reply for each check of an endpoint, in the order of the endpoint's checks; empty if the
/// route serves no single checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Singles(Vec<Arc<Vec<Arc<Single>>>>);

/// Callback of a test, called after each step of a publication.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Pause(pub(crate) std::sync::Mutex<Option<Box<dyn Fn() + Send>>>);

impl Published {
    pub(crate) fn new(set: ReplySet) -> Arc<Self> {
        let published = Self {
            set: ArcSwap::from_pointee(ReplySet::default()),
            number: AtomicU64::new(0),
            #[cfg(test)]
            pause: Pause::default(),
        };
        published.publish(set);
        Arc::new(published)
    }

    /// The number of the newest set.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The newest set.
    #[must_use]
    pub fn load(&self) -> impl Deref<Target = Arc<ReplySet>> + use<> {
        let set = self.set.load();
        if self.number() < set.number {
            self.number.fetch_max(set.number, Ordering::AcqRel);
        }
        set
    }

    /// Replaces the set. Must be called by one thread at a time.
    pub(crate) fn publish(&self, mut set: ReplySet) {
        set.number = NUMBER_NEXT.fetch_add(1, Ordering::Relaxed);
        let number = set.number;
        self.set.store(Arc::new(set));
        self.step();
        self.number.fetch_max(number, Ordering::AcqRel);
        self.step();
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests use it")]
    const fn step(&self) {}

    #[cfg(test)]
    fn step(&self) {
        if let Some(look) = &*self.pause.0.lock().unwrap() {
            look();
        }
    }
}

impl ReplySet {
    /// A set with these states, without replies and texts.
    pub(crate) fn of(states: impl Iterator<Item = States>) -> Self {
        Self { states: states.collect(), ..Self::default() }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// For each audience, in the order of [`Audience::ALL`], the state of the endpoint at this
    /// position and whether it serves.
    #[must_use]
    pub fn states(&self, endpoint: usize) -> [(EndpointState, bool); Audience::ALL.len()] {
        self.states.get(endpoint).copied().unwrap_or([(EndpointState::Down, false); Audience::ALL.len()])
    }

    /// The text of the endpoint at position `endpoint`, from the renderer with the index `place`;
    /// see [`Registry::render`](crate::Registry::render).
    #[must_use]
    pub fn text(&self, place: usize, endpoint: usize) -> &[u8] {
        self.texts.get(place).and_then(|texts| texts.get(endpoint)).map_or(&[], |text| text)
    }
}

impl Singles {
    pub(crate) fn get(&self, place: usize) -> Option<&Single> {
        self.0.get(place / SINGLES_PER_CHUNK)?.get(place % SINGLES_PER_CHUNK).map(|single| &**single)
    }

    pub(crate) fn set(&mut self, place: usize, single: Single) {
        let chunk = self.0.get_mut(place / SINGLES_PER_CHUNK).map(Arc::make_mut);
        if let Some(one) = chunk.and_then(|chunk| chunk.get_mut(place % SINGLES_PER_CHUNK)) {
            *one = Arc::new(single);
        }
    }
}

impl FromIterator<Single> for Singles {
    fn from_iter<T: IntoIterator<Item = Single>>(singles: T) -> Self {
        let all: Vec<Arc<Single>> = singles.into_iter().map(Arc::new).collect();
        Self(all.chunks(SINGLES_PER_CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect())
    }
}

#[cfg(test)]
impl std::fmt::Debug for Pause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pause")
    }
}
