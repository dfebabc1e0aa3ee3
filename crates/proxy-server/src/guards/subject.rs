//! The name of a token's holder, stored from the verification of the token until the request is
//! logged.

use std::sync::{Arc, OnceLock};

/// Maximum length of a stored name. Longer than the field of the access log, so that the log marks
/// a truncated name.
const LEN_MAX: usize = 64;

/// Name of a token's holder, from the configuration or from the token. A copy, because tokens
/// may be replaced meanwhile.
#[derive(Debug)]
pub(crate) struct Subject {
    text: [u8; LEN_MAX],
    len: usize,
    promised: Option<Promise>,
}

/// Handle for the name of the holder of a token that is being verified.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promise(Arc<OnceLock<Box<str>>>);

impl Subject {
    /// Creates a subject without a name.
    pub(crate) const fn new() -> Self {
        Self { text: [0; LEN_MAX], len: 0, promised: None }
    }

    /// Stores the name, truncated to [`LEN_MAX`].
    pub(crate) fn set(&mut self, name: &str) {
        let name = &name.as_bytes()[..name.floor_char_boundary(LEN_MAX)];
        self.text[..name.len()].copy_from_slice(name);
        self.len = name.len();
    }

    /// Defers the name: it will be set through the returned handle.
    pub(crate) fn promise(&mut self) -> Promise {
        self.promised.insert(Promise::default()).clone()
    }

    /// Takes the handle of [`Self::promise`].
    pub(crate) const fn take_promised(&mut self) -> Option<Promise> {
        self.promised.take()
    }

    /// The name, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let name = str::from_utf8(&self.text[..self.len]).ok()?;
        (!name.is_empty()).then_some(name)
    }
}

impl Promise {
    /// Sets the name.
    pub(crate) fn set(&self, name: Box<str>) {
        let _first = self.0.set(name);
    }

    /// The name, if a request with a named token was admitted.
    pub(crate) fn name(&self) -> Option<Box<str>> {
        self.0.get().filter(|name| !name.is_empty()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_far_as_it_fits() {
        let mut subject = Subject::new();
        assert_eq!(subject.name(), None);
        let exact = "x".repeat(LEN_MAX);
        let (longer, split) = (format!("{exact}y"), format!("{}\u{e9}", &exact[1..]));
        for (name, kept) in [
            ("alice", "alice"),
            (&exact, &exact),
            (&longer, &exact),
            (&split, &exact[1..]),
            ("b\u{e9}", "b\u{e9}"),
        ] {
            subject.set(name);
            assert_eq!(subject.name(), Some(kept), "{name}");
        }
        subject.set("");
        assert_eq!(subject.name(), None, "a token need not have a name");
    }
}
