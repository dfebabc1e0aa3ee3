//! `deny [--later] ERRNO -- COMMAND ARGS...`: runs a command with io_uring refused, as a container
//! run-time would.
//!
//! With `--later` a ring can be set up, but every use of it fails. The command gets the errno in
//! the variable `DOORBELL_URING_DENIED`, for tests.
#![expect(clippy::print_stderr, reason = "a program for the terminal")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use doorbell_ring::Errno;
use doorbell_ring::sandbox::{Denial, deny};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let later = args.next_if(|arg| arg == "--later").is_some();
    let errno = args.next().and_then(|name| errno(&name));
    let (Some(errno), Some("--"), Some(command)) = (errno, args.next().as_deref(), args.next()) else {
        eprintln!("usage: deny [--later] EPERM|ENOSYS|ENOMEM|EINVAL|NUMBER -- COMMAND ARGS...");
        return ExitCode::from(2);
    };
    let denial = if later { Denial::later(errno) } else { Denial::at_setup(errno) };
    if let Err(errno) = deny(&denial) {
        eprintln!("deny: seccomp returned {errno}");
        return ExitCode::from(125);
    }
    let error = Command::new(&command).args(args).env("DOORBELL_URING_DENIED", errno.to_string()).exec();
    eprintln!("deny: {command}: {error}");
    ExitCode::from(127)
}

fn errno(name: &str) -> Option<Errno> {
    let named = ["EINVAL", "ENOMEM", "ENOSYS", "EPERM"].contains(&name);
    let known = named.then(|| (1..256).map(Errno).find(|errno| errno.name() == name)).flatten();
    known.or_else(|| name.parse().ok().filter(|number| (1..4_096).contains(number)).map(Errno))
}
