//! One probe of one target, as a given prober sends it, and its result: status, phases,
//! certificate, and the bytes of both sides.
//!
//! ```no_run
//! use doorbell_prober::{Probe, Prober, Target, Verdict};
//!
//! let target = Target::parse("http://127.0.0.1:8080/readyz").expect("a target");
//! let report = Probe::of(target, Prober::Kubelet).run();
//! if report.verdict != Verdict::Healthy {
//!     println!("the kubelet would say: {}", report.reason);
//! }
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`Target`], [`Prober`] | what is probed, and whose request is sent |
//! | [`Probe`] | all parameters; [`Probe::run`] sends it once |
//! | [`Problem`] | why a probe cannot be run, as [`Probe::problem`] finds it |
//! | [`Report`], [`Verdict`] | the result; [`Report::exported`] has the metrics of blackbox_exporter |
#![forbid(unsafe_code)]

mod checked;
mod exchange;
mod exported;
mod probe;
mod prober;
mod problem;
mod report;
mod response;
mod run;
mod target;
#[cfg(test)]
mod tests;

pub use exported::{Exported, Kind};
pub use probe::Probe;
pub use prober::Prober;
pub use problem::{Parameter, Problem};
pub use report::{Report, Verdict};
pub use target::{TARGET_FORM, Target};
