//! All replies of a board at one moment, replaced as a whole: whatever a probe reads, and by which protocol, comes from one set.
//!
//! Does not know about: how replies are rendered, what they say.
//!
//! A set becomes visible with its number. A reader that finds the pointer to a newer set than the number says raises the number first, so
//! that no later reader still takes the older set for the newest: once any probe has been told of a change, all probes are.

use super::reply_cache::{Replies, Single};
use arc_swap::{ArcSwap, Guard};
use doorbell_health::{Audience, EndpointState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The replies about single checks in one piece: a change copies one piece and the list of pieces.
const SINGLES_A_PIECE: usize = 128;

/// No two sets of any board have the same number, so that a thread cannot take what it read of one board for what another one says.
/// 0 is none.
static NUMBER_NEXT: AtomicU64 = AtomicU64::new(1);

/// What load balancers, kubelets and all others are told by protocols with words of their own: the state, and whether it serves.
pub(crate) type Told = [(EndpointState, bool); Audience::ALL.len()];

/// One text for each endpoint, by its position in the configuration.
pub(super) type Texts = Vec<Arc<[u8]>>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Published {
    set: ArcSwap<ReplySet>,
    number: AtomicU64,
    #[cfg(test)]
    pub(super) pause: Pause,
}

/// Everything that a board answers at one moment. Nothing in it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplySet {
    number: u64,
    /// By the place of the page.
    pub(super) caches: Vec<CacheReplies>,
    /// By the position of the endpoint in the configuration.
    pub(super) told: Vec<Told>,
    /// By the place of whatever renders them.
    pub(super) texts: Vec<Texts>,
}

/// The replies of one page.
#[derive(Clone, Debug)]
pub(super) struct CacheReplies {
    pub(super) all: Arc<Replies>,
    pub(super) singles: Singles,
}

/// The replies for each check of an endpoint, in its order; none where no path asks for single checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Singles(Vec<Arc<Vec<Arc<Single>>>>);

/// What a test does between two steps of a publication.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Pause(pub(super) std::sync::Mutex<Option<Box<dyn Fn() + Send>>>);

impl Published {
    pub(super) fn new(set: ReplySet) -> Arc<Self> {
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
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The newest set. Reading it holds nothing up.
    pub(crate) fn load(&self) -> Guard<Arc<ReplySet>> {
        let set = self.set.load();
        if self.number() < set.number {
            self.number.fetch_max(set.number, Ordering::AcqRel);
        }
        set
    }

    /// Replaces the set. One thread at a time.
    pub(super) fn publish(&self, mut set: ReplySet) {
        set.number = NUMBER_NEXT.fetch_add(1, Ordering::Relaxed);
        let number = set.number;
        self.set.store(Arc::new(set));
        self.step();
        self.number.fetch_max(number, Ordering::AcqRel);
        self.step();
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests look at the steps")]
    const fn step(&self) {}

    #[cfg(test)]
    fn step(&self) {
        if let Some(look) = &*self.pause.0.lock().unwrap() {
            look();
        }
    }
}

impl ReplySet {
    /// What is told of each endpoint, and nothing else yet.
    pub(super) fn of(told: impl Iterator<Item = Told>) -> Self {
        Self { told: told.collect(), ..Self::default() }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// What is told of the endpoint at this position.
    pub(crate) fn told(&self, endpoint: usize) -> Told {
        self.told.get(endpoint).copied().unwrap_or([(EndpointState::Down, false); Audience::ALL.len()])
    }

    /// The text of an endpoint in the row of texts at this place.
    pub(crate) fn text(&self, place: usize, endpoint: usize) -> &[u8] {
        self.texts.get(place).and_then(|texts| texts.get(endpoint)).map_or(&[], |text| text)
    }
}

impl Singles {
    pub(super) fn get(&self, place: usize) -> Option<&Single> {
        self.0.get(place / SINGLES_A_PIECE)?.get(place % SINGLES_A_PIECE).map(|single| &**single)
    }

    pub(super) fn set(&mut self, place: usize, single: Single) {
        let piece = self.0.get_mut(place / SINGLES_A_PIECE).map(Arc::make_mut);
        if let Some(one) = piece.and_then(|piece| piece.get_mut(place % SINGLES_A_PIECE)) {
            *one = Arc::new(single);
        }
    }
}

impl FromIterator<Single> for Singles {
    fn from_iter<T: IntoIterator<Item = Single>>(singles: T) -> Self {
        let all: Vec<Arc<Single>> = singles.into_iter().map(Arc::new).collect();
        Self(all.chunks(SINGLES_A_PIECE).map(|piece| Arc::new(piece.to_vec())).collect())
    }
}

#[cfg(test)]
impl std::fmt::Debug for Pause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pause")
    }
}
