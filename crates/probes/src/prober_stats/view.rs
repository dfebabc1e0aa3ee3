//! Server states that load balancers report in `X-Haproxy-Server-State`, by the name of the server
//! and of the node that sends the probe.
//!
//! Names come from clients, so their number and length are limited. When all entries are in use, a
//! new name replaces an expired entry; if there is none, the oldest entry with a single report; if
//! there is none, the oldest entry. So invented names do not displace a load balancer, which
//! reports every few seconds.

use arc_swap::ArcSwapOption;
use doorbell_http::Time;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of load balancers per endpoint. Displaced ones count as refused.
pub(super) const VIEWS_MAX: usize = 32;

/// Maximum length of a server name with its backend, and of a node name.
pub(super) const NAME_LEN_MAX: usize = 64;

/// How long a reported state is valid. A load balancer reports every few seconds: after an hour
/// without a report, its node was removed or renamed.
pub(super) const REPORT_AGE_MAX: Duration = Duration::from_secs(3_600);

/// States reported to one endpoint.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// Filled from the front: all places after the first free one are free.
    places: [ArcSwapOption<ProberEntry>; VIEWS_MAX],
    refused: AtomicU64,
}

#[derive(Debug)]
struct ProberEntry {
    name: Box<str>,
    /// The state in the lowest byte, then the steps done and the steps needed, two bytes each.
    packed: AtomicU64,
    at: AtomicU64,
    /// `true` from the second report on.
    is_steady: AtomicBool,
}

/// Priority for keeping an entry, most significant field first: the entry with the lowest priority
/// is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    is_valid: bool,
    is_steady: bool,
    at: Time,
}

/// The server state that one load balancer reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbView {
    /// `BACKEND/SERVER@NODE`
    pub lb: Box<str>,
    /// The reported state.
    pub state: LbState,
    /// Completed and required checks for a change of state, as in `UP 1/3`; `None` if no change is
    /// in progress.
    pub steps: Option<(u16, u16)>,
    /// Time of the report, on the clock of requests.
    pub at: Time,
}

/// State of a server as HAProxy reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LbState {
    /// Down.
    Down,
    /// Draining.
    Drain,
    /// In maintenance.
    Maint,
    /// Up, but without new traffic because it is being stopped.
    Nolb,
    /// Any other state, for instance `no check`.
    Other,
    /// Up.
    Up,
}

impl LbState {
    /// All states, in the order of their discriminants.
    pub const ALL: [Self; 6] = [Self::Down, Self::Drain, Self::Maint, Self::Nolb, Self::Other, Self::Up];

    /// Name of the state for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
    /// Records the server state that `field` reports. Never blocks; allocates only for a new name.
    #[inline(never)]
    pub(super) fn note(&self, field: &[u8], now: Time) {
        match parse(field) {
            Some(reported) => self.keep(&reported, now),
            None => self.refuse(),
        }
    }

    /// Counts a report that is not stored.
    #[cold]
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn keep(&self, reported: &ReportedState<'_>, now: Time) {
        loop {
            // The place with the lowest priority.
            let mut least = None;
            for place in &self.places {
                let known = place.load_full();
                let priority = match &known {
                    Some(one) if reported.is_named(&one.name) => return one.update(reported, now),
                    Some(one) => Some(one.priority(now)),
                    None => None,
                };
                let is_free = known.is_none();
                if least.as_ref().is_none_or(|(least, _, _)| priority < *least) {
                    least = Some((priority, place, known));
                }
                // All later places are free, too.
                if is_free {
                    break;
                }
            }
            let Some((priority, place, known)) = least else { return };
            let new = Arc::new(ProberEntry::new(reported, now));
            let before = place.compare_and_swap(&known, Some(new));
            // On failure another thread changed the place, perhaps for the same name: try again.
            if before.as_ref().map(Arc::as_ptr) == known.as_ref().map(Arc::as_ptr) {
                if priority.is_some_and(|priority| priority.is_valid) {
                    self.refuse();
                }
                return;
            }
        }
    }

    /// The reported states that are still valid.
    pub(super) fn all(&self, now: Time) -> Vec<LbView> {
        let mut all: Vec<LbView> = Vec::new();
        for place in self.places.iter().map_while(ArcSwapOption::load_full) {
            // Two threads may have stored the same name in different places.
            if place.is_valid(now) && !all.iter().any(|view| view.lb == place.name) {
                all.push(place.view());
            }
        }
        all
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl ProberEntry {
    fn new(reported: &ReportedState<'_>, now: Time) -> Self {
        let (packed, at) = (AtomicU64::new(reported.packed()), AtomicU64::new(now.as_nanos()));
        Self { name: reported.name().into(), packed, at, is_steady: AtomicBool::new(false) }
    }

    fn update(&self, reported: &ReportedState<'_>, now: Time) {
        self.packed.store(reported.packed(), Ordering::Relaxed);
        self.at.store(now.as_nanos(), Ordering::Relaxed);
        self.is_steady.store(true, Ordering::Relaxed);
    }

    fn priority(&self, now: Time) -> Priority {
        Priority {
            is_valid: self.is_valid(now),
            is_steady: self.is_steady.load(Ordering::Relaxed),
            at: self.at(),
        }
    }

    fn is_valid(&self, now: Time) -> bool {
        now.since(self.at()) < REPORT_AGE_MAX
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

/// Parsed value of `X-Haproxy-Server-State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportedState<'a> {
    state: LbState,
    steps: (u16, u16),
    server: &'a str,
    node: &'a str,
}

impl ReportedState<'_> {
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

/// Parses `UP 1/3; address=..; port=..; name=b/s1; node=vm; ..`. The parameters after the state may
/// be in any order. `None` without the name of a server, or if a name is invalid.
pub(super) fn parse(field: &[u8]) -> Option<ReportedState<'_>> {
    // Parses bytes, because parsing a `str` takes 1,700 more instructions.
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
    Some(ReportedState { state, steps: steps.unwrap_or_default(), server: server?, node })
}

/// The word of the state, and the steps after it, as in `UP 1/3`.
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

/// Returns the name if it can be shown without escaping.
fn plain(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let is_one = (1..=NAME_LEN_MAX).contains(&name.len()) && name.iter().copied().all(is_plain);
    str::from_utf8(name).ok().filter(|_| is_one)
}
