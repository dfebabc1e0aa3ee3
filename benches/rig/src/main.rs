//! The `doorbell-rig` program. It builds an image, boots it, counts instructions and prints them.
//! The same program runs the measurements inside the guest.
#![forbid(unsafe_code)]

mod ablate;
mod chart;
mod cli;
mod error;
mod gate;
mod guest;
mod guest_program;
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

fn main() -> std::process::ExitCode {
    cli::run()
}
