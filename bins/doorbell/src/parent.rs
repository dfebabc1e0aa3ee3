//! What the `doorbell run` that started this process hears of it: that listeners close, or that an end was called off.
//!
//! Does not know about: what it does with that.
//!
//! A server has no use for its standard input, so that is where `run` listens: one byte a word.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// Says to a server whose child it is.
pub(crate) const PARENT: &str = "DOORBELL_RUN_PARENT";

static PARENTS: OnceLock<UnixStream> = OnceLock::new();

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// From now on there are no new connections, and no way back.
    Closes,
    /// An end that had begun was called off.
    GoesOn,
}

impl Word {
    const fn byte(self) -> u8 {
        match self {
            Self::Closes => b'c',
            Self::GoesOn => b'g',
        }
    }

    pub(crate) fn of(byte: u8) -> Option<Self> {
        [Self::Closes, Self::GoesOn].into_iter().find(|word| word.byte() == byte)
    }
}

/// Ends with the process that started this one, however that ends: nobody else would tell it to.
pub(crate) fn follow() {
    let Ok(parent) = std::env::var(PARENT) else { return };
    let ours = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if set_parent_process_death_signal(Some(Signal::TERM)).is_err() || ours.as_ref() != Some(&parent) {
        tracing::warn!("the process that started this one cannot be followed; it will not be ended with it");
        return;
    }
    let stream = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    // Nobody who does not read holds this process up.
    if let Ok(stream) = stream
        && stream.set_nonblocking(true).is_ok()
    {
        let _only_once = PARENTS.set(stream);
    }
}

/// Tells the parent, if there is one.
pub(crate) fn tell(word: Word) {
    if let Some(mut stream) = PARENTS.get()
        && let Err(error) = stream.write_all(&[word.byte()])
    {
        tracing::warn!(%error, "the process that started this one was not told");
    }
}
