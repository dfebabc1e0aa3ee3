//! The `doorbell-load` program.
//!
//! Does not know about: loads; the library does all the work.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_load::cli::run(std::env::args_os()).into()
}
