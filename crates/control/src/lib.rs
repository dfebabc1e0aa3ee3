//! The control protocol of a running `doorbell`: requests and responses as plain data, their frames,
//! and a client for the control socket.
//!
//! ```no_run
//! use doorbell_control::{CallError, Client, Request, Response, places};
//!
//! fn print_status() -> Result<(), CallError> {
//!     let directories = places::directories(|name| std::env::var_os(name));
//!     for socket in places::find_running(&directories).running {
//!         if let Response::Status(status) = Client::connect(&socket)?.call(&Request::Status)? {
//!             println!("{}: process {} is {:?}", socket.display(), status.pid, status.lifecycle);
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`Client`] | sends a [`Request`] and waits for its [`Response`] |
//! | [`places`] | where instances have their sockets |
//! | [`Status`], [`CheckView`], [`Event`], … | the content of responses |
//! | [`frame`] | the bytes on the socket ([bitcode](https://docs.rs/bitcode)), for programs of the same version |
//!
//! The same types are used for JSON output. Times are Unix milliseconds; durations have their unit
//! in their name. Enum values have the same names in logs, metric labels and reply bodies.
#![forbid(unsafe_code)]

mod client;
mod event;
pub mod frame;
mod link;
pub mod places;
mod request;
#[cfg(test)]
mod tests;
mod view;
mod word;

pub use client::{CallError, Client, Process};
pub use event::{Event, EventKind};
pub use link::{LinkMinuteView, LinkView, QuantilesView};
pub use request::{Refusal, RefusalKind, Request, Response};
pub use view::{
    AnswerView, CheckView, DrainView, EndpointView, HoldView, ProberView, RefusedReloadView, ResultView,
    Status, UseView, WaitingView, WorkerView,
};
pub use word::{
    AudienceWord, CauseWord, CheckWord, ClassWord, EndpointWord, HoldSource, Lifecycle, Look, OutcomeWord,
    SeverityWord,
};
