//! Instruction counts of the access log on the thread that serves requests.
//!
//! Each row is a whole request from parsing to rendering, like the rows `whole` of `machine`. The
//! difference from the row `without` is the cost of the log.
//!
//! Does not know about: time; `logger.rs` measures it.
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use doorbell_benches::machine::Machine;
use doorbell_benches::probes::{ELB, KUBELET, REDIRECT};
use doorbell_http::Next;
use doorbell_http::log::{Filter, Record, Sink};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::harness::at_most;

/// Copies records into slots, like a queue. The real writer would run on its own thread, and it
/// reads kernel clocks that callgrind does not support.
#[derive(Clone, Default)]
struct Slots(Arc<Mutex<Vec<Record>>>);

impl Sink for Slots {
    fn log(&self, record: &Record) {
        let mut slots = self.0.try_lock().expect("one thread");
        slots.truncate(7);
        slots.push(*record);
    }
}

/// A machine, and the slots that receive its records.
struct Logging {
    machine: Box<Machine>,
    slots: Slots,
}

impl Logging {
    fn new(input: &[u8], filter: Filter) -> Box<Self> {
        // The first search by `memchr` in a process detects CPU features. This request, which is
        // not counted, makes that search.
        let _ = Machine::logged(input, Filter::ALL, Slots::default()).handle();
        let slots = Slots(Arc::new(Mutex::new(Vec::with_capacity(8))));
        Box::new(Self { machine: Machine::logged(input, filter, slots.clone()), slots })
    }

    fn without(input: &[u8]) -> Box<Self> {
        Box::new(Self { machine: Machine::new(input), slots: Slots::default() })
    }
}

fn sampled() -> Filter {
    Filter::ERRORS.one_in(NonZeroU32::MAX)
}

// The fixture is returned so that its drop is not counted.
#[library_benchmark]
#[bench::without(args = (Logging::without(KUBELET)), config = at_most(690))]
#[bench::off(args = (Logging::new(KUBELET, Filter::OFF)), config = at_most(705))]
#[bench::errors(args = (Logging::new(KUBELET, Filter::ERRORS)), config = at_most(746))]
#[bench::sampled(args = (Logging::new(KUBELET, sampled())), config = at_most(1_210))]
#[bench::all(args = (Logging::new(KUBELET, Filter::ALL)), config = at_most(1_620))]
fn request(mut logging: Box<Logging>) -> (Next, Box<Logging>) {
    (logging.machine.handle(), logging)
}

library_benchmark_group!(name = log, benchmarks = [request]);

/// Asserts that the counted operations give the correct results.
pub(crate) fn check_replies() {
    for (filter, records) in [(Filter::OFF, 0), (Filter::ERRORS, 0), (sampled(), 0), (Filter::ALL, 1)] {
        for input in [ELB, REDIRECT] {
            let mut logging = Logging::new(input, filter);
            let _ = logging.machine.handle();
            assert!(logging.machine.output().starts_with(b"HTTP/1.1 "));
            // A sample never includes probes, and these requests are probes.
            assert_eq!(logging.slots.0.lock().expect("one thread").len(), records, "{filter:?}");
        }
    }
}
