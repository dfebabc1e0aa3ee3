//! The first difference between two framings of one stream.
//!
//! Does not know about: accepted differences; see `reasons`.

use crate::framing::{End, Framing, Seen};

/// A server that doorbell is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// Go net/http.
    Go,
    /// hyper and httparse.
    Hyper,
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 2] = [Self::Go, Self::Hyper];

    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Hyper => "hyper",
        }
    }
}

/// Kinds of differences between two framings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Both accept the same request with different contents: method, target, host or body.
    Contents,
    /// doorbell sees a complete request or the end; the peer waits for more bytes.
    TheyWait,
    /// doorbell sees a complete request or the end; the peer sees an error.
    TheyRefuse,
    /// doorbell waits for more bytes; the peer sees a complete request or the end.
    WeWait,
    /// doorbell sees an error; the peer sees a complete request or the end.
    WeRefuse,
    /// doorbell sees the end; the peer sees one more request.
    WeEnd,
    /// doorbell sees one more request; the peer sees the end.
    TheyEnd,
}

/// The first difference between two framings of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of the difference.
    pub kind: Kind,
    /// The number of the request, from 0.
    pub request: usize,
}

/// Returns the first difference between `ours` and `theirs`, if there is one.
///
/// A refusal and a wait count as equal, because neither accepts anything. Two refusals are equal,
/// whatever their status.
pub fn difference(ours: &Framing, theirs: &Framing) -> Option<Difference> {
    let same =
        ours.requests.iter().zip(&theirs.requests).take_while(|(ours, theirs)| is_same(ours, theirs)).count();
    let kind = match (ours.requests.get(same), theirs.requests.get(same)) {
        (Some(_), Some(_)) => Kind::Contents,
        (Some(_), None) => match theirs.end {
            End::Between => Kind::TheyEnd,
            End::Inside => Kind::TheyWait,
            End::Refused(_) => Kind::TheyRefuse,
        },
        (None, Some(_)) => match ours.end {
            End::Between => Kind::WeEnd,
            End::Inside => Kind::WeWait,
            End::Refused(_) => Kind::WeRefuse,
        },
        (None, None) => match (ours.end, theirs.end) {
            (End::Between, End::Inside) => Kind::TheyWait,
            (End::Between, End::Refused(_)) => Kind::TheyRefuse,
            (End::Inside, End::Between) => Kind::WeWait,
            (End::Refused(_), End::Between) => Kind::WeRefuse,
            (End::Between, End::Between) | (End::Inside | End::Refused(_), End::Inside | End::Refused(_)) => {
                return None;
            }
        },
    };
    Some(Difference { kind, request: same })
}

/// Compares two requests. The case of host names does not matter.
fn is_same(ours: &Seen, theirs: &Seen) -> bool {
    ours.method == theirs.method
        && ours.target == theirs.target
        && ours.body == theirs.body
        && ours.host.eq_ignore_ascii_case(&theirs.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(bodies: &[&str], end: End) -> Framing {
        let request = |body: &&str| Seen {
            method: b"GET".to_vec(),
            target: b"/".to_vec(),
            host: b"h".to_vec(),
            body: body.as_bytes().to_vec(),
        };
        Framing { requests: bodies.iter().map(request).collect(), end }
    }

    #[test]
    fn every_kind() {
        let (between, inside, refused) = (End::Between, End::Inside, End::Refused(400));
        for (ours, theirs, expected) in [
            (framing(&["a"], between), framing(&["a"], between), None),
            (framing(&["a"], inside), framing(&["a"], refused), None),
            (framing(&["a"], refused), framing(&["a"], End::Refused(501)), None),
            (framing(&["a"], refused), framing(&["a"], inside), None),
            (framing(&["a"], between), framing(&["b"], between), Some((Kind::Contents, 0))),
            (framing(&["a", "b"], between), framing(&["a"], between), Some((Kind::TheyEnd, 1))),
            (framing(&["a", "b"], between), framing(&["a"], inside), Some((Kind::TheyWait, 1))),
            (framing(&["a", "b"], between), framing(&["a"], refused), Some((Kind::TheyRefuse, 1))),
            (framing(&["a"], between), framing(&["a", "b"], between), Some((Kind::WeEnd, 1))),
            (framing(&["a"], inside), framing(&["a", "b"], between), Some((Kind::WeWait, 1))),
            (framing(&[], refused), framing(&["a"], refused), Some((Kind::WeRefuse, 0))),
            (framing(&[], between), framing(&[], inside), Some((Kind::TheyWait, 0))),
            (framing(&[], between), framing(&[], refused), Some((Kind::TheyRefuse, 0))),
            (framing(&[], inside), framing(&[], between), Some((Kind::WeWait, 0))),
            (framing(&[], refused), framing(&[], between), Some((Kind::WeRefuse, 0))),
        ] {
            let found = difference(&ours, &theirs).map(|found| (found.kind, found.request));
            assert_eq!(found, expected, "{ours:?} {theirs:?}");
        }
    }
}
