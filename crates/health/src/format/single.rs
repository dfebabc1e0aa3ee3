//! The text for one check, as behind `/readyz/NAME` of the Kubernetes API server: `ok`, or what is wrong.
//!
//! Does not know about: endpoints. The code is theirs.

use crate::check::CheckState;

/// What everybody sees.
pub(crate) const fn hidden(state: CheckState) -> &'static [u8] {
    match state {
        CheckState::Degraded | CheckState::GoingDown | CheckState::Up => b"ok",
        CheckState::Down => b"down: reason withheld\n",
        CheckState::Flapping => b"flapping: reason withheld\n",
        CheckState::GoingUp => b"going_up: reason withheld\n",
        CheckState::Maintenance => b"maintenance: reason withheld\n",
        CheckState::Stale => b"stale: reason withheld\n",
        CheckState::Unknown => b"unknown: reason withheld\n",
    }
}

/// What the authenticated see. The reason is one line already.
pub(crate) fn render(out: &mut Vec<u8>, state: CheckState, reason: &str) {
    out.clear();
    if matches!(state, CheckState::Up) {
        out.extend_from_slice(b"ok");
        return;
    }
    out.extend_from_slice(state.as_str().as_bytes());
    if !reason.is_empty() {
        out.extend_from_slice(b": ");
        out.extend_from_slice(reason.as_bytes());
    }
    out.push(b'\n');
}
