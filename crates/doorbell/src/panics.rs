//! Catches panics of the application's code: handlers, jobs, hand-over receivers, observers.
//!
//! A panic payload and the captures of a closure are arbitrary values. Dropping them runs code of
//! the application, which may panic again. Only this file calls `catch_unwind`.

use core::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

/// A caught panic. Dropping it never panics.
#[derive(Debug)]
pub struct Panic(Option<Box<dyn Any + Send>>);

/// Calls `f` and catches its panic. A program that drives a [`Protocol`](crate::protocol::Protocol)
/// without a worker passes the panic of a handler to
/// [`handle_panic`](crate::protocol::Protocol::handle_panic).
///
/// # Errors
/// The panic, if `f` panicked.
#[inline]
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Panic(Some(payload)))
}

/// Drops a value whose destructor may panic.
pub(crate) fn dispose<T>(value: T) {
    let _contained = caught(|| drop(value));
}

impl Panic {
    /// The message of the panic.
    pub(crate) fn message(&self) -> String {
        let payload = self.0.as_deref();
        let text = payload.and_then(|payload| payload.downcast_ref::<&str>().copied());
        let text = text.or_else(|| payload.and_then(|payload| payload.downcast_ref().map(String::as_str)));
        text.unwrap_or("without a message").to_owned()
    }

    /// Resumes the panic.
    pub(crate) fn resume(mut self) -> ! {
        resume_unwind(self.0.take().unwrap_or_else(|| Box::new("a panic")))
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // Dropping the payload panicked. Dropping the payload of that panic may also panic, so
            // it is leaked.
            let _leaked = Box::leak(again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// A value that panics when dropped, with another value of this type as the payload.
    struct Mine(u8);

    impl Drop for Mine {
        fn drop(&mut self) {
            panic_any(Self(self.0 + 1));
        }
    }

    #[test]
    fn a_panic_with_any_payload_is_caught() {
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
