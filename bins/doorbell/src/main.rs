//! The `doorbell` program.
//!
//! Does not know about: what the program does; the library contains all of it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_proxy::cli::run(std::env::args_os()).into()
}
