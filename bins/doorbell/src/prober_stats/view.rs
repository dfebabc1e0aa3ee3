//! How load balancers say they see us: `X-Haproxy-Server-State`, by the name of the server and the node that asks.
//!
//! Does not know about: probes, endpoints. The names come from clients, so there are few and short ones. One that is new takes the place of one that
//! said nothing for long, else of the one that was heard last longest ago among those that were heard once only, else of that among all. So invented
//! names do not keep a load balancer out, which says the same name every few seconds.

use crate::http::Time;
use arc_swap::ArcSwapOption;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Load balancers that are kept for an endpoint; those that have to go for others are counted.
pub(super) const VIEWS_MAX: usize = 32;

/// Of a name of a server with its backend, and of a node.
pub(super) const NAME_LEN_MAX: usize = 64;

/// How long a load balancer is known by what it said last. It asks every few seconds: its node has gone, or has another name.
pub(super) const HEARD_FOR: Duration = Duration::from_secs(3_600);

/// What one endpoint is told.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// None is taken behind one that is free.
    places: [ArcSwapOption<Place>; VIEWS_MAX],
    refused: AtomicU64,
}

#[derive(Debug)]
struct Place {
    name: Box<str>,
    /// The state in the lowest byte, then the steps done and the steps there are, two bytes each.
    packed: AtomicU64,
    at: AtomicU64,
    /// Whether it said more than its first words.
    is_steady: AtomicBool,
}

/// What it is worth to keep a load balancer, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    is_heard: bool,
    is_steady: bool,
    at: Time,
}

/// How one load balancer sees us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LbView {
    /// `BACKEND/SERVER@NODE`
    pub(crate) lb: Box<str>,
    pub(crate) state: LbState,
    /// Checks that passed of those that are needed for the other state; without any it stays as it is.
    pub(crate) steps: Option<(u16, u16)>,
    /// When it said so, on the clock of requests.
    pub(crate) at: Time,
}

/// States of a server as HAProxy words them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LbState {
    Down,
    Drain,
    Maint,
    /// Up, and gets no new traffic: it is being stopped.
    Nolb,
    /// Something else: checks are off, for instance.
    Other,
    Up,
}

impl LbState {
    pub(crate) const ALL: [Self; 6] =
        [Self::Down, Self::Drain, Self::Maint, Self::Nolb, Self::Other, Self::Up];

    /// The word for a label.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Drain => "drain",
            Self::Maint => "maint",
            Self::Nolb => "nolb",
            Self::Other => "other",
            Self::Up => "up",
        }
    }
}

impl fmt::Display for LbView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.lb, self.state.as_str())?;
        match self.steps {
            Some((done, of)) => write!(f, " {done}/{of}"),
            None => Ok(()),
        }
    }
}

impl Views {
    /// Keeps what this field says. Waits for nobody, and allocates for a name that is new.
    #[inline(never)]
    pub(super) fn note(&self, field: &[u8], now: Time) {
        match parse(field) {
            Some(said) => self.keep(&said, now),
            None => self.refuse(),
        }
    }

    /// Counts what is not kept.
    #[cold]
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn keep(&self, said: &Said<'_>, now: Time) {
        loop {
            // By how much it is worth to keep what is there.
            let mut least = None;
            for place in &self.places {
                let known = place.load_full();
                let worth = match &known {
                    Some(one) if said.is_named(&one.name) => return one.hear(said, now),
                    Some(one) => Some(one.worth(now)),
                    None => None,
                };
                let is_free = known.is_none();
                if least.as_ref().is_none_or(|(least, _, _)| worth < *least) {
                    least = Some((worth, place, known));
                }
                // Those behind it are free, too.
                if is_free {
                    break;
                }
            }
            let Some((worth, place, known)) = least else { return };
            let new = Arc::new(Place::new(said, now));
            let before = place.compare_and_swap(&known, Some(new));
            // Otherwise another thread was faster, perhaps for the same name.
            if before.as_ref().map(Arc::as_ptr) == known.as_ref().map(Arc::as_ptr) {
                if worth.is_some_and(|worth| worth.is_heard) {
                    self.refuse();
                }
                return;
            }
        }
    }

    /// Those that were heard of lately.
    pub(super) fn all(&self, now: Time) -> Vec<LbView> {
        let mut all: Vec<LbView> = Vec::new();
        for place in self.places.iter().map_while(ArcSwapOption::load_full) {
            // Two threads may have found different places for a name at once.
            if place.is_heard(now) && !all.iter().any(|view| view.lb == place.name) {
                all.push(place.view());
            }
        }
        all
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Place {
    fn new(said: &Said<'_>, now: Time) -> Self {
        let (packed, at) = (AtomicU64::new(said.packed()), AtomicU64::new(now.as_nanos()));
        Self { name: said.name().into(), packed, at, is_steady: AtomicBool::new(false) }
    }

    fn hear(&self, said: &Said<'_>, now: Time) {
        self.packed.store(said.packed(), Ordering::Relaxed);
        self.at.store(now.as_nanos(), Ordering::Relaxed);
        self.is_steady.store(true, Ordering::Relaxed);
    }

    fn worth(&self, now: Time) -> Worth {
        Worth {
            is_heard: self.is_heard(now),
            is_steady: self.is_steady.load(Ordering::Relaxed),
            at: self.at(),
        }
    }

    fn is_heard(&self, now: Time) -> bool {
        now.since(self.at()) < HEARD_FOR
    }

    fn at(&self) -> Time {
        Time::from_nanos(self.at.load(Ordering::Relaxed))
    }

    fn view(&self) -> LbView {
        let [state, done_low, done_high, of_low, of_high, ..] =
            self.packed.load(Ordering::Relaxed).to_le_bytes();
        let (done, of) = (u16::from_le_bytes([done_low, done_high]), u16::from_le_bytes([of_low, of_high]));
        LbView {
            lb: self.name.clone(),
            state: LbState::ALL.get(usize::from(state)).copied().unwrap_or(LbState::Other),
            steps: (of > 0).then_some((done, of)),
            at: self.at(),
        }
    }
}

/// What a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    state: LbState,
    steps: (u16, u16),
    server: &'a str,
    node: &'a str,
}

impl Said<'_> {
    fn name(&self) -> String {
        format!("{}@{}", self.server, self.node)
    }

    fn is_named(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.server).and_then(|rest| rest.strip_prefix('@'));
        rest == Some(self.node)
    }

    fn packed(&self) -> u64 {
        let ([done_low, done_high], [of_low, of_high]) =
            (self.steps.0.to_le_bytes(), self.steps.1.to_le_bytes());
        u64::from_le_bytes([self.state as u8, done_low, done_high, of_low, of_high, 0, 0, 0])
    }
}

/// Reads `UP 1/3; address=..; port=..; name=b/s1; node=vm; ..`. The order of what follows the state does not matter; a field without
/// the name of a server says nothing of whom it speaks.
pub(super) fn parse(field: &[u8]) -> Option<Said<'_>> {
    // By bytes: as text it takes 1,700 instructions more.
    let mut parts = field.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let (word, steps) = state_of(parts.next()?);
    let (mut server, mut node) = (None, "");
    for part in parts {
        if let Some(name) = part.strip_prefix(b"name=") {
            server = Some(plain(name)?);
        } else if let Some(name) = part.strip_prefix(b"node=") {
            node = plain(name)?;
        }
    }
    let state = match word {
        b"DOWN" => LbState::Down,
        b"DRAIN" => LbState::Drain,
        b"MAINT" => LbState::Maint,
        b"NOLB" => LbState::Nolb,
        b"UP" => LbState::Up,
        _ => LbState::Other,
    };
    Some(Said { state, steps: steps.unwrap_or_default(), server: server?, node })
}

/// The word and the steps behind it.
fn state_of(first: &[u8]) -> (&[u8], Option<(u16, u16)>) {
    match first.iter().position(|&byte| byte == b' ') {
        Some(at) => (&first[..at], steps_of(&first[at + 1..])),
        None => (first, None),
    }
}

fn steps_of(text: &[u8]) -> Option<(u16, u16)> {
    let (done, of) = str::from_utf8(text).ok()?.split_once('/')?;
    Some((done.parse().ok()?, of.parse().ok()?))
}

/// A name that may be shown as it is.
fn plain(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let is_one = (1..=NAME_LEN_MAX).contains(&name.len()) && name.iter().copied().all(is_plain);
    str::from_utf8(name).ok().filter(|_| is_one)
}
