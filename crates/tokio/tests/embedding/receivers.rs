//! Promise: whatever a receiver of transitions does, the checks continue.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use doorbell_health::EndpointState;
use doorbell_probes::{Transition, TransitionSink};
use doorbell_tokio::{Check, Health, Ttl};

use crate::common::until;

const FAST: Duration = Duration::from_millis(50);

/// Calls a function for each transition.
struct Calls<F>(F);

impl<F: Fn(&Transition) + Send + Sync> TransitionSink for Calls<F> {
    fn write(&self, transition: &Transition) {
        (self.0)(transition);
    }
}

/// A ready program with a check that fails once `fails` is true.
async fn program(fails: &Arc<AtomicBool>) -> Health {
    let fails = Arc::clone(fails);
    let check = move || std::future::ready(if fails.load(Ordering::SeqCst) { Err("no") } else { Ok(()) });
    let check_options = Check::every(FAST).timeout(Duration::from_secs(20));
    let builder = Health::builder().check("db", check_options, check).endpoint("only-db", ["db"]);
    let health = builder.build().unwrap();
    until("ready", || health.is_ready()).await;
    health
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_panics() {
    let fails = Arc::new(AtomicBool::new(false));
    let health = program(&fails).await;
    health.registry().report_to(Arc::new(Calls(|_: &Transition| panic!("a receiver of the test panics"))));
    fails.store(true, Ordering::SeqCst);
    until("not ready", || !health.is_ready()).await;
    fails.store(false, Ordering::SeqCst);
    until("ready again", || health.is_ready()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_sets_the_state() {
    let fails = Arc::new(AtomicBool::new(false));
    let health = program(&fails).await;
    let its = health.clone();
    let set = move |transition: &Transition| {
        if let Transition::Endpoint { to: EndpointState::Down, .. } = transition {
            its.set_live(false);
        }
    };
    health.registry().report_to(Arc::new(Calls(set)));
    fails.store(true, Ordering::SeqCst);
    until("not ready", || !health.is_ready()).await;
    until("not live", || !health.is_live()).await;
    fails.store(false, Ordering::SeqCst);
    until("the checks continue", || health.state("only-db") == Some(EndpointState::Up)).await;
    health.set_live(true);
    assert!(health.is_ready() && health.is_live());
}

/// The last `Health` is then dropped on the thread of the checks.
#[tokio::test]
async fn a_receiver_that_drops_the_last_health() {
    let health = Health::builder().push("job", Ttl::of(Duration::from_secs(60))).build().unwrap();
    let pushed = health.pushed("job").unwrap();
    let slot = Arc::new(Mutex::new(None));
    let taken = Arc::new(AtomicBool::new(false));
    let (its, dropped) = (Arc::clone(&slot), Arc::clone(&taken));
    let take = move |_: &Transition| {
        drop(its.lock().unwrap_or_else(PoisonError::into_inner).take());
        dropped.store(true, Ordering::SeqCst);
    };
    health.registry().report_to(Arc::new(Calls(take)));
    *slot.lock().unwrap() = Some(health);
    assert!(pushed.ok());
    until("it is dropped", || taken.load(Ordering::SeqCst)).await;
    until("pushed results are refused", || !pushed.ok()).await;
}
