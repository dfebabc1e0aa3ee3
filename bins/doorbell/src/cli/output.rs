//! Output of commands to standard output and standard error.

use super::options::ColorWhen;
use doorbell_proxy_config::{Problem, Source};
use doorbell_proxy_server::exit::{Exit, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// Maximum time to wait for a reader of standard error that does not read.
const READER_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Prints to standard output. A failed write is an error, because truncated output could pass for
/// complete output. A closed pipe, as with `head`, is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_more(text).map(|_| ())
}

/// Prints to standard output as [`print`] does; returns false if the reader has closed the pipe.
pub(super) fn print_more(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Exit::Failure, format!("cannot write to standard output: {error}"))),
    }
}

/// Prints to standard error. Drops the remaining output if a write fails, or if the reader does not
/// read for [`READER_TIMEOUT`].
pub(super) fn print_error(text: &str) {
    let mut stderr = std::io::stderr().lock();
    for piece in text.as_bytes().chunks(doorbell_proxy_server::log::PIECE_LEN) {
        let ready = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&READER_TIMEOUT));
        if ready == Ok(0) || stderr.write_all(piece).is_err() {
            return;
        }
    }
}

pub(super) fn colored(when: ColorWhen, stream: &impl IsTerminal) -> bool {
    is_colored(when, stream.is_terminal(), |name| std::env::var_os(name))
}

/// Whether to print colors. With `auto`, any non-empty value of `NO_COLOR` disables colors
/// (<https://no-color.org>), as does `TERM=dumb`, because a dumb terminal prints color codes as
/// text.
fn is_colored(when: ColorWhen, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_off = || env("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = || env("TERM").is_some_and(|value| value == "dumb");
    match when {
        ColorWhen::Always => true,
        ColorWhen::Auto => is_terminal && !is_off() && !is_dumb(),
        ColorWhen::Never => false,
    }
}

pub(super) fn print_problems(source: &Source, problems: &[Problem], color: ColorWhen) {
    print_error(&source.render(problems, colored(color, &std::io::stderr())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_colors_are() {
        use ColorWhen::{Always, Auto, Never};
        for (when, is_terminal, name, value, expected) in [
            (Auto, true, "TERM", "xterm", true),
            (Auto, false, "TERM", "xterm", false),
            (Auto, true, "NO_COLOR", "1", false),
            (Auto, true, "NO_COLOR", "", true),
            (Auto, true, "TERM", "dumb", false),
            (Always, false, "NO_COLOR", "1", true),
            (Always, true, "TERM", "dumb", true),
            (Never, true, "TERM", "xterm", false),
        ] {
            let found = is_colored(when, is_terminal, |asked| (asked == name).then(|| value.into()));
            assert_eq!(found, expected, "{when:?} {is_terminal} {name}={value}");
        }
    }
}
