//! Tests of listener gates: forbidding accept, and the errors that request another accept mode.

use core::time::Duration;

use super::accept::{AcceptFault, Gate};
use crate::time::Time;

fn gate() -> Gate {
    Gate::new(true, Duration::from_millis(10), Duration::from_secs(1))
}

#[test]
fn only_an_unsupported_mode_requests_a_downgrade() {
    for other in [AcceptFault::Client, AcceptFault::Listener, AcceptFault::Resources] {
        let mut gate = gate();
        gate.on_error(other, Time::ZERO);
        assert!(!gate.takes_downgrade(), "{other:?}");
        gate.on_error(AcceptFault::Mode, Time::ZERO);
        gate.on_error(other, Time::ZERO);
        assert!(gate.takes_downgrade(), "{other:?} after an unsupported mode");
        assert!(!gate.takes_downgrade(), "once");
        // The next mode may also be unsupported.
        gate.on_error(AcceptFault::Mode, Time::ZERO);
        gate.on_error(AcceptFault::Mode, Time::ZERO);
        assert!(gate.takes_downgrade());
    }
}

#[test]
fn a_held_gate_is_not_armed_and_reports_changes() {
    let mut gate = gate();
    assert!(!gate.is_held() && !gate.hold(false), "it was not held");
    assert!(gate.hold(true) && gate.is_held());
    assert!(!gate.hold(true), "it is held already");
    assert!(!gate.should_arm(Time::ZERO));
    assert!(gate.hold(false) && !gate.is_held());
    assert!(!gate.hold(false));
    assert!(gate.should_arm(Time::ZERO));
}
