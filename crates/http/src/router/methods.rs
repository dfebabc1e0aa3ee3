//! A set of request methods and its `Allow` header value.

use crate::Method;
use std::fmt;

/// Number of methods.
pub(super) const METHODS: usize = 9;

/// The methods in the order of `Allow`.
const ORDER: [(Method, &str); METHODS] = [
    (Method::Get, "GET"),
    (Method::Head, "HEAD"),
    (Method::Options, "OPTIONS"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Patch, "PATCH"),
    (Method::Delete, "DELETE"),
    (Method::Connect, "CONNECT"),
    (Method::Trace, "TRACE"),
];

/// A set of request methods.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MethodSet(u16);

impl MethodSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The default methods of a route: all except CONNECT, which needs a tunnel, and TRACE (see the
    /// warning in RFC 9110 section 9.3.8).
    pub const ANY: Self = Self(0b0_0111_1111);

    /// A set of exactly these methods.
    #[must_use]
    pub fn of(methods: &[Method]) -> Self {
        methods.iter().fold(Self::EMPTY, |set, &method| set.with(method))
    }

    /// This set with one more method.
    #[must_use]
    pub const fn with(self, method: Method) -> Self {
        Self(self.0 | (1 << index(method)))
    }

    /// Whether the set contains the method.
    #[must_use]
    pub const fn contains(self, method: Method) -> bool {
        self.0 & (1 << index(method)) != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Methods in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Methods in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The methods of this set that `other` does not have.
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The methods of the set, in the order of `Allow`.
    pub fn iter(self) -> impl Iterator<Item = Method> {
        ORDER.into_iter().map(|(method, _)| method).filter(move |&method| self.contains(method))
    }

    /// The index of a method in arrays by method.
    pub(super) const fn position(method: Method) -> usize {
        method as usize
    }
}

impl fmt::Display for MethodSet {
    /// Writes the value of `Allow`, such as `GET, HEAD, OPTIONS`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (method, name) in ORDER {
            if self.contains(method) {
                f.write_str(if first { "" } else { ", " })?;
                f.write_str(name)?;
                first = false;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for MethodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromIterator<Method> for MethodSet {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Self {
        methods.into_iter().fold(Self::EMPTY, Self::with)
    }
}

const fn index(method: Method) -> usize {
    match method {
        Method::Get => 0,
        Method::Head => 1,
        Method::Options => 2,
        Method::Post => 3,
        Method::Put => 4,
        Method::Patch => 5,
        Method::Delete => 6,
        Method::Connect => 7,
        Method::Trace => 8,
    }
}
