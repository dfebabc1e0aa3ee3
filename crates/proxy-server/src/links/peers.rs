//! The links of this process by name: their queues and the states of their peers, which outlive
//! reloads.

use super::rules::Rule;
use super::view;
use crate::history::Receipts;
use crate::operator::time_of_day;
use doorbell_control::LinkView;
use doorbell_history::{Counter, CounterName, History};
use doorbell_link::net::{LinkClock, LinkHandle, Notice};
use doorbell_link::{Event, Link, LinkOptions, RemoteState, RemoteStates, Subject};
use doorbell_proxy_config::model::{Config, Peer};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum number of results of a link that wait to be sent, enough for one result of each subject.
const RESULTS_MAX: usize = 16_384;

/// All links of this process.
#[derive(Debug)]
pub(crate) struct LinkPeers {
    clock: LinkClock,
    /// Differs between instances.
    seed: u64,
    state: Mutex<PeersState>,
    changed: Arc<Changed>,
    /// Destination of receipts.
    history: Arc<Mutex<Option<Sampled>>>,
}

/// The subjects of all [rules](Rule), and which of them have changed at a peer.
#[derive(Debug, Default)]
struct Changed {
    subjects: Mutex<ChangedSubjects>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct ChangedSubjects {
    /// The subjects of all rules.
    followed: HashSet<Subject>,
    /// The subjects that have changed since the last [`LinkPeers::take_changed`].
    changed: HashSet<Subject>,
}

/// A history, and its sampling: one in this many receipts is stored, or none if the number is 0.
type Sampled = (Arc<History>, u32);

#[derive(Debug, Default)]
struct PeersState {
    known: BTreeMap<String, Arc<KnownPeer>>,
    rules: Arc<[Rule]>,
}

/// One link.
#[derive(Debug)]
pub(super) struct KnownPeer {
    pub(super) handle: LinkHandle,
    pub(super) remote: Arc<Mutex<Remote>>,
    identity: PeerIdentity,
}

/// Distinguishes a peer from another one that a reload gives to the link of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PeerIdentity {
    /// Address of the peer; empty if the peer connects.
    addr: String,
    certificate_name: String,
}

impl KnownPeer {
    /// Address of the peer; empty if the peer connects.
    pub(super) fn addr(&self) -> &str {
        &self.identity.addr
    }
}

impl PeerIdentity {
    fn of(peer: &Peer) -> Self {
        let addr = peer.peer.as_ref().map(ToString::to_string).unwrap_or_default();
        Self { addr, certificate_name: peer.certificate_name().to_owned() }
    }
}

/// States that a peer sent, and the end of its last connection.
#[derive(Debug, Default)]
pub(super) struct Remote {
    pub(super) states: RemoteStates,
    /// Reason for the end of the last connection or attempt.
    pub(super) last_end: String,
}

impl LinkPeers {
    pub(crate) fn new() -> Self {
        Self {
            clock: LinkClock::start(time_of_day()),
            seed: random(),
            state: Mutex::default(),
            changed: Arc::default(),
            history: Arc::default(),
        }
    }

    /// Stores receipts in a history from now on, or stops storing them.
    pub(crate) fn store_in(&self, history: Option<Sampled>) {
        *self.history.lock() = history;
    }

    /// A number that differs between instances.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Keeps the links with these names and peers, adds new links, and removes all others. Returns
    /// the links in the order of `wanted`.
    pub(super) fn replace(&self, wanted: &[Peer]) -> Vec<Arc<KnownPeer>> {
        let mut state = self.state.lock();
        let mut before = std::mem::take(&mut state.known);
        let known = wanted.iter().map(|peer| {
            let same = before.remove(&peer.name).filter(|known| known.identity == PeerIdentity::of(peer));
            let known = same.unwrap_or_else(|| Arc::new(self.known(peer)));
            state.known.insert(peer.name.clone(), Arc::clone(&known));
            known
        });
        known.collect()
    }

    fn known(&self, peer: &Peer) -> KnownPeer {
        let options = LinkOptions { results_max: RESULTS_MAX, ..LinkOptions::default() };
        // A new incarnation, because the peer may still know a removed link of this name.
        let incarnation = random();
        let link = Link::new(options, incarnation);
        let (remote, name) = (Arc::<Mutex<Remote>>::default(), peer.name.clone());
        let (changed, known) = (Arc::clone(&self.changed), Arc::clone(&remote));
        let receipts = Receipts::new(&name, incarnation, time_of_day);
        let history = Arc::clone(&self.history);
        let handle = LinkHandle::new(link, self.clock, move |now, notice| {
            if let Notice::Event(Event::Receipt(receipt)) = &notice {
                let history = history.lock().clone();
                let record = |(history, sample): &Sampled| receipts.record(history, *sample, now, receipt);
                return history.iter().for_each(record);
            }
            let mut remote = known.lock();
            match notice {
                Notice::Ended(why) => {
                    if remote.last_end != why {
                        tracing::warn!(link = name, "link is down: {why}");
                    }
                    remote.last_end = why;
                }
                Notice::Event(event) => {
                    if matches!(event, Event::Opened { .. }) {
                        tracing::info!(link = name, "link is up");
                        remote.last_end.clear();
                    }
                    if let Some(subject) = remote.states.take(now, event) {
                        changed.add(subject);
                    }
                }
            }
        });
        KnownPeer { handle, remote, identity: PeerIdentity::of(peer) }
    }

    /// Removes all links.
    pub(crate) fn forget(&self) {
        self.state.lock().known.clear();
    }

    /// Sets the checks that depend on links.
    pub(crate) fn follow(&self, config: &Config) {
        let rules = Rule::all(config);
        let subjects = rules.iter().map(|rule| rule.subject.clone()).collect();
        self.state.lock().rules = rules;
        self.changed.follow(subjects);
    }

    pub(super) fn rules(&self) -> Arc<[Rule]> {
        Arc::clone(&self.state.lock().rules)
    }

    /// Completes when a subject of a rule has changed at a peer, or when the rules have changed.
    pub(super) async fn changed(&self) {
        self.changed.notify.notified().await;
    }

    /// The subjects that have changed since the last call.
    pub(super) fn take_changed(&self) -> HashSet<Subject> {
        std::mem::take(&mut self.changed.subjects.lock().changed)
    }

    /// Returns the state of a subject at a peer; `None` for an unknown peer.
    pub(super) fn state_of(&self, peer: &str, subject: &Subject, max_age: Duration) -> Option<RemoteState> {
        let known = self.get(peer)?;
        let remote_state = known.remote.lock().states.state_of(self.clock.now(), subject, max_age);
        Some(remote_state)
    }

    pub(super) fn get(&self, peer: &str) -> Option<Arc<KnownPeer>> {
        self.state.lock().known.get(peer).cloned()
    }

    /// Whether all open links have sent everything.
    pub(super) fn is_flushed(&self) -> bool {
        let known: Vec<_> = self.state.lock().known.values().cloned().collect();
        known.iter().all(|known| !known.handle.is_open() || known.handle.is_flushed())
    }

    /// Counters of all links, for the history.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let state = self.state.lock();
        let counter = |(name, known): (&String, &Arc<KnownPeer>)| {
            let counters = known.handle.report().counters;
            let dropped = counters.results_dropped + counters.superseded;
            let counts = [counters.sent, counters.lost, dropped, 0, 0];
            Counter { name: CounterName::Link(name.as_str().into()), counts }
        };
        state.known.iter().map(counter).collect()
    }

    /// All links, by name.
    pub(crate) fn views(&self) -> Vec<LinkView> {
        let known: Vec<_> =
            self.state.lock().known.iter().map(|(name, known)| (name.clone(), Arc::clone(known))).collect();
        known.iter().map(|(name, known)| view::of(name, known)).collect()
    }
}

impl Changed {
    fn add(&self, subject: Subject) {
        let mut subjects = self.subjects.lock();
        if subjects.followed.contains(&subject) {
            subjects.changed.insert(subject);
            self.notify.notify_one();
        }
    }

    /// Sets the subjects of the rules; all of them count as changed.
    fn follow(&self, followed: HashSet<Subject>) {
        *self.subjects.lock() = ChangedSubjects { changed: followed.clone(), followed };
        self.notify.notify_one();
    }
}

/// A number that differs between calls and between processes.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::options::HostPort;
    use doorbell_link::{State, Statement};

    fn peer(addr: Option<&str>, certificate_name: Option<&str>) -> Peer {
        Peer {
            name: "eu".to_owned(),
            peer: addr.map(|addr| HostPort::parse(addr, None).expect("an address")),
            certificate_name: certificate_name.map(str::to_owned),
            checks: None,
            endpoints: None,
        }
    }

    /// The state and the queue of a former peer would count as those of the new one.
    #[test]
    fn a_link_that_gets_another_peer_is_a_new_link() {
        let (peers, db) = (LinkPeers::new(), Subject::check("db"));
        let state = || peers.state_of("eu", &db, Duration::from_secs(60)).map(|known| known.state);
        let steps = [
            (peer(None, None), true),
            (peer(None, None), false),
            (Peer { checks: Some(Vec::new()), ..peer(None, None) }, false),
            (peer(None, Some("eu-2.test")), true),
            (peer(Some("eu.test:7443"), Some("eu-2.test")), true),
            (peer(Some("us.test:7443"), Some("eu-2.test")), true),
            (peer(Some("us.test:7443"), Some("eu-2.test")), false),
        ];
        for (number, (peer, is_new)) in (1..).zip(steps) {
            let known = peers.replace(&[peer]).remove(0);
            let expected = if is_new { State::Unknown } else { State::Down };
            assert_eq!(state(), Some(expected), "step {number}");
            assert_eq!(known.handle.report().waiting, u64::from(!is_new), "step {number}");
            let statement =
                Statement { subject: db.clone(), state: State::Down, reason: String::new(), at_us: number };
            known.remote.lock().states.take(peers.clock.now(), Event::Transition(statement));
            known.handle.with(|now, link| link.restate(now, db.clone(), State::Up, ""));
        }
        assert!(peers.replace(&[]).is_empty());
        assert_eq!(state(), None);
    }
}
