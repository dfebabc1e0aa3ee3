//! The requests and responses between operators and a running instance, as plain data.
//!
//! Does not know about: the origin of the data, transport, output.
//!
//! The same types are used on the control socket ([bitcode](https://docs.rs/bitcode), between
//! programs of the same version) and for JSON output. Times are Unix milliseconds; durations have
//! their unit in their name. Enum values have the same names in logs, metric labels and reply
//! bodies.

mod event;
pub mod frame;
mod link;
mod request;
#[cfg(test)]
mod tests;
mod view;
mod word;

pub use event::{Event, EventKind};
pub use link::{LinkMinuteView, LinkView, QuantilesView};
pub use request::{Refusal, RefusalKind, Request, Response};
pub use view::{
    AnswerView, CheckView, DrainView, EndpointView, HoldView, ProberView, RefusedReloadView, ResultView,
    Status, UseView, WaitingView, WorkerView,
};
pub use word::{
    AudienceWord, CauseWord, CheckWord, ClassWord, EndpointWord, HoldSource, Lifecycle, OutcomeWord,
    SeverityWord,
};
