//! The `doorbell` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_proxy::cli::run(std::env::args_os()).into()
}
