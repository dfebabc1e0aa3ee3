//! Transitions of a board as events for followers.
//!
//! Does not know about: who follows, when something changes.

use crate::wire::Happening;
use doorbell_health::{Board, Event};

/// One transition, with its names and why. `None` for what is not on the board.
pub(super) fn happening(event: &Event, board: &Board) -> Option<Happening> {
    Some(match *event {
        Event::Check { check, moved, .. } => Happening::Check {
            name: board.check_name(check)?.to_owned(),
            from: moved.from.into(),
            to: moved.to.into(),
            reason: board.check(check)?.reason().to_owned(),
        },
        Event::Endpoint { endpoint, from, to, .. } => {
            let endpoint = board.endpoint(endpoint)?;
            Happening::Endpoint {
                name: endpoint.config().name.clone(),
                from: from.state.into(),
                to: to.state.into(),
                cause: to.cause.into(),
                note: endpoint.note(to).to_owned(),
            }
        }
    })
}
