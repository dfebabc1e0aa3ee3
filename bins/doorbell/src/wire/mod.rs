//! What an operator sees of a running doorbell and asks of it, as plain data.
//!
//! Does not know about: where it comes from, how it is carried or shown.
//!
//! The same types go over the control socket ([bitcode](https://docs.rs/bitcode), between two programs of one version) and out as
//! JSON. Times are Unix milliseconds, so that a follower on the same machine needs nothing else; lengths of time have their unit in
//! their name. Words are those of logs, labels and bodies.

mod ask;
mod event;
pub mod frame;
#[cfg(test)]
mod tests;
mod view;
mod word;

pub use ask::{Refusal, RefusalKind, Request, Response};
pub use event::{Event, Happening};
pub use view::{
    AnswerView, CheckView, DrainView, EndpointView, HoldView, ProberView, RefusedReloadView, ResultView,
    Status, UseView, WaitingView, WorkerView,
};
pub use word::{
    AudienceWord, CauseWord, CheckWord, ClassWord, EndpointWord, HoldSource, Lifecycle, OutcomeWord,
    SeverityWord,
};
