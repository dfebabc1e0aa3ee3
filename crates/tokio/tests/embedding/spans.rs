//! Promises: a result stays valid during a slow run. A run ends when its `Health` is dropped. A
//! `Health` works after its runtime has ended.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell_health::CheckState;
use doorbell_probes::{Transition, TransitionSink};
use doorbell_tokio::{Check, Health};
use tokio::runtime::Builder;

use crate::common::{eventually, until};

/// Records whether a check was stale.
#[derive(Default)]
struct Stale(Mutex<bool>);

impl TransitionSink for Stale {
    fn write(&self, transition: &Transition) {
        if let Transition::Check { to: CheckState::Stale, .. } = transition {
            *self.0.lock().unwrap() = true;
        }
    }
}

/// A run may take longer than three times the longest interval.
#[tokio::test]
async fn a_result_is_not_stale_before_the_next_run_can_end() {
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let options = Check::every(Duration::from_millis(10)).timeout(Duration::from_secs(60));
    let health = Health::builder().check("slow", options, move || {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok::<(), String>(())
        }
    });
    let health = health.build().unwrap();
    let stale = Arc::new(Stale::default());
    health.registry().report_to(Arc::clone(&stale) as Arc<dyn TransitionSink>);
    until("some runs", || runs.load(Ordering::SeqCst) > 4).await;
    assert!(health.is_ready() && !*stale.0.lock().unwrap());
}

struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_run_in_progress_ends_with_its_health() {
    let [began, ended] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
    let options = Check::every(Duration::from_secs(3_600)).timeout(Duration::from_secs(3_600));
    let health = Health::builder().check("hangs", options, move || {
        begins.store(true, Ordering::SeqCst);
        let ends = Ends(Arc::clone(&ends));
        async move {
            let _ends = ends;
            std::future::pending::<Result<(), String>>().await
        }
    });
    let health = health.build().unwrap();
    until("it begins", || began.load(Ordering::SeqCst)).await;
    drop(health);
    until("it ends", || ended.load(Ordering::SeqCst)).await;
}

/// A runtime that has ended is not stuck.
#[test]
fn a_health_outlives_the_runtime_that_built_it() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let health = {
        let _context = runtime.enter();
        Health::builder()
            .stalled_after(Duration::from_millis(100), Duration::from_millis(100))
            .build()
            .unwrap()
    };
    drop(runtime);
    eventually("ready", || health.is_ready());
    let mut looks = 0;
    eventually("it stays ready", || {
        assert!(health.is_ready());
        looks += 1;
        looks > 100
    });
}
