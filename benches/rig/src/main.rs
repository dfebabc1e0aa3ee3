//! The `doorbell-rig` program: builds an image, boots it, counts instructions, prints them. The
//! same program is the agent inside the guest.
//!
//! Does not know about: internals of doorbell or its peers; they are programs with a port.
#![forbid(unsafe_code)]

mod ablate;
mod chart;
mod cli;
mod error;
mod gate;
mod guest;
mod image;
mod load;
mod matrix;
mod native;
mod plan;
mod process;
mod report;
mod session;
mod tls;
mod tool;
mod variant;
mod vm;
mod wakes;

fn main() -> std::process::ExitCode {
    cli::run()
}
