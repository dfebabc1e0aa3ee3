//! Two places watch one database; a third instance decides. The connections are in memory here;
//! `net::Dial` and `net::Acceptor` use TCP and TLS.
//!
//! `cargo run -p doorbell-link --features tokio --example two_places`

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use doorbell_link::net::{LinkClock, LinkHandle, Notice};
use doorbell_link::{Decision, Link, LinkOptions, RemoteStates, State, Subject, decide};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Remote = Arc<Mutex<RemoteStates>>;

/// Connects a place with the deciding instance.
fn place(name: &'static str, incarnation: u64, clock: LinkClock) -> (LinkHandle, Remote) {
    let link = |incarnation| Link::new(LinkOptions::default(), incarnation);
    let remote = Remote::default();
    let known = Arc::clone(&remote);
    let central = LinkHandle::new(link(100 + incarnation), clock, move |now, notice| match notice {
        Notice::Event(event) => {
            known.lock().unwrap_or_else(PoisonError::into_inner).take(now, event);
        }
        Notice::Ended(why) => println!("{name}: {why}"),
    });
    let place = LinkHandle::new(link(incarnation), clock, |_, _| {});
    let (one, other) = tokio::io::duplex(4096);
    let dialing = place.clone();
    tokio::spawn(async move { dialing.run(one).await });
    tokio::spawn(async move { central.run(other).await });
    (place, remote)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let clock = LinkClock::start(Duration::from_secs(1_800_000_000));
    let places = [place("eu", 1, clock), place("us", 2, clock)];
    let db = Subject::check("db");
    for (state, expected) in [(State::Up, Decision::Up), (State::Down, Decision::Down)] {
        for (place, _) in &places {
            place.with(|now, link| link.transition(now, db.clone(), state, "connection refused"));
        }
        let mut decision = Decision::Undecided;
        while decision != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let remote_state = |(_, remote): &(LinkHandle, Remote)| {
                let remote = remote.lock().unwrap_or_else(PoisonError::into_inner);
                remote.state_of(clock.now(), &db, Duration::from_secs(15)).state
            };
            decision = decide(&places.iter().map(remote_state).collect::<Vec<_>>(), 2);
        }
        println!("db: {decision:?}");
    }
}
