//! The `doorbell-rig` program: builds an image, boots it, counts instructions, prints them. The same program is the agent
//! inside the guest.
//!
//! Does not know about: the inside of doorbell or of its peers; they are programs with a port.
#![forbid(unsafe_code)]

mod cli;
mod error;
mod guest;
mod image;
mod plan;
mod report;
mod tool;
mod vm;

fn main() -> std::process::ExitCode {
    cli::run()
}
