//! The `doorbell-load` program.
//!
//! Does not know about: anything but its library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_load::cli::run(std::env::args_os()).into()
}
