//! The `doorbell-load` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_load::cli::run(std::env::args_os()).into()
}
