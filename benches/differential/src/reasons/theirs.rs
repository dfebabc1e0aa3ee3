//! Cases in which another server refuses or closes, and doorbell accepts or continues.

use super::Reason;
use super::look::has_hidden_word;
use crate::compare::{Kind, Peer};
use crate::framing::End;

pub(super) const THEIRS: &[Reason] = &[
    Reason {
        name: "hyper knows the versions 1.0 and 1.1 only (9110 2.5: a minor version may be higher)",
        holds: |case| {
            let version = case.start_line().last().copied().unwrap_or_default();
            case.kind == Kind::TheyRefuse
                && case.peer == Peer::Hyper
                && matches!(version, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'])
        },
    },
    Reason {
        name: "Go refuses an empty line before a request (9112 2.2: SHOULD ignore)",
        holds: |case| {
            case.kind == Kind::TheyRefuse && case.peer == Peer::Go && case.request.starts_with(b"\r\n")
        },
    },
    Reason {
        name: "Go answers Expect in HTTP/1.0 (9110 10.1.1: MUST ignore)",
        holds: |case| {
            case.kind == Kind::TheyRefuse
                && case.their_end == End::Refused(417)
                && case.has_version("HTTP/1.0")
                && !case.values("expect").is_empty()
        },
    },
    Reason {
        name: "Go refuses `%` without two digits (RFC 3986 2.1: doorbell leaves targets unchanged)",
        holds: |case| {
            let digits =
                |part: &[u8]| part.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            case.kind == Kind::TheyRefuse
                && case.peer == Peer::Go
                && case.target().split(|&byte| byte == b'%').skip(1).any(|part| !digits(part))
        },
    },
    Reason {
        name: "Go treats a request as begun only after four bytes",
        holds: |case| {
            matches!(case.kind, Kind::WeWait | Kind::WeRefuse)
                && case.peer == Peer::Go
                && case.request.len() < 4
        },
    },
    Reason {
        name: "Go reads only the first Connection field of HTTP/1.0 (9112 9.6: any close closes)",
        holds: |case| case.peer == Peer::Go && case.comes_behind("HTTP/1.0", 2),
    },
    Reason {
        name: "hyper refuses visible bytes outside RFC 3986 in a target (9112 3.2: doorbell leaves targets unchanged)",
        holds: |case| {
            case.kind == Kind::TheyRefuse
                && case.peer == Peer::Hyper
                && case.target().iter().any(|byte| b"\"<>\\^`{|}".contains(byte))
        },
    },
    Reason {
        name: "OPTIONS of a whole server has the path `*` (9112 3.2.4)",
        holds: |case| {
            case.kind == Kind::Contents
                && case.method() == b"OPTIONS"
                && case.target().splitn(4, |&byte| byte == b'/').nth(3).is_none()
        },
    },
    Reason {
        name: "Go also splits Connection at spaces (9110 5.6.1: commas separate elements)",
        holds: |case| {
            case.peer == Peer::Go && case.connection_before().iter().any(|value| has_hidden_word(value))
        },
    },
    Reason {
        name: "hyper does not read Connection with bytes outside ASCII (9110 5.5: obs-text is opaque, the rest is not)",
        holds: |case| {
            case.peer == Peer::Hyper && case.connection_before().iter().any(|value| !value.is_ascii())
        },
    },
];
