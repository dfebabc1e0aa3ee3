//! The `doorbell` program.
//!
//! Does not know about: anything but its library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_proxy::cli::run(std::env::args_os()).into()
}
