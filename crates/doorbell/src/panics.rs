//! Panics of code that the program brings: handlers, jobs, takers, observers. They are caught where that code is called, and go no further.
//!
//! Does not know about: what is called, how a panic is counted.
//!
//! What a panic carries is any value, and so is what a closure has captured: dropping either runs code of the program again, which may panic
//! again. [`caught`] and [`dispose`] are the only callers of `catch_unwind` in this crate.

use core::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

/// A panic that was caught. Dropping it never panics.
#[derive(Debug)]
pub(crate) struct Panic(Option<Box<dyn Any + Send>>);

/// Calls `f`.
///
/// # Errors
/// The panic, if it panicked.
#[inline]
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Panic(Some(payload)))
}

/// Drops what may panic when it is dropped.
pub(crate) fn dispose<T>(value: T) {
    let _contained = caught(|| drop(value));
}

impl Panic {
    /// What it said.
    pub(crate) fn message(&self) -> String {
        let payload = self.0.as_deref();
        let text = payload.and_then(|payload| payload.downcast_ref::<&str>().copied());
        let text = text.or_else(|| payload.and_then(|payload| payload.downcast_ref().map(String::as_str)));
        text.unwrap_or("without a message").to_owned()
    }

    /// Lets it go on.
    pub(crate) fn resume(mut self) -> ! {
        resume_unwind(self.0.take().unwrap_or_else(|| Box::new("a panic")))
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // It would go on for ever: better a leak.
            let _leaked = Box::leak(again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with another of its kind.
    struct Mine(u8);

    impl Drop for Mine {
        fn drop(&mut self) {
            panic_any(Self(self.0 + 1));
        }
    }

    #[test]
    fn whatever_a_panic_carries_it_goes_no_further() {
        let panic = caught(|| panic_any(Mine(0))).unwrap_err();
        assert_eq!(panic.message(), "without a message");
        drop(panic);
        dispose(Mine(0));
    }

    #[test]
    fn a_panic_has_its_message() {
        assert_eq!(caught(|| panic!("a text")).unwrap_err().message(), "a text");
        assert_eq!(caught(|| panic!("a number: {}", 7)).unwrap_err().message(), "a number: 7");
        assert_eq!(caught(|| 7).unwrap(), 7);
        assert_eq!(
            caught(|| caught(|| panic!("on its way")).unwrap_err().resume())
                .map(|()| 0)
                .unwrap_err()
                .message(),
            "on its way"
        );
    }
}
