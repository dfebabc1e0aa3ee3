//! Good and bad replies at every split point.

use super::*;

/// Parses `pieces` and the end of the stream. Returns the replies, and the result for the end.
fn read(pieces: &[&[u8]], expect: &Expect, id: Option<Id>) -> (Vec<Reply>, Result<(), FailureKind>) {
    let mut reader = Reader::default();
    let mut replies = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match reader.handle(rest, expect, id) {
                Ok(Progress::Done(reply, used)) => {
                    replies.push(reply);
                    rest = &rest[used..];
                }
                Ok(Progress::More) => rest = &[],
                Err(kind) => return (replies, Err(kind)),
            }
        }
    }
    if reader.is_between_replies() {
        return (replies, Ok(()));
    }
    let end = reader.handle_end(expect).map(|reply| replies.push(reply));
    (replies, end)
}

/// Parses the bytes unsplit, byte by byte, and split at every position, and asserts equal results.
fn read_all_ways(bytes: &[u8], expect: &Expect, id: Option<Id>) -> (Vec<Reply>, Result<(), FailureKind>) {
    let whole = read(&[bytes], expect, id);
    for split in 0..=bytes.len() {
        let cut = read(&[&bytes[..split], &bytes[split..]], expect, id);
        assert_eq!(cut, whole, "cut at {split} of {:?}", String::from_utf8_lossy(bytes));
    }
    let singles: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&singles, expect, id), whole, "byte by byte");
    whole
}

fn expect_like(level: CheckLevel, template: &str) -> Expect {
    let mut expect = Expect::new(level, None, false);
    expect.learn(template.as_bytes(), None).unwrap();
    expect
}

const GOOD: &str =
    "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: a\r\nContent-Length: 3\r\n\r\nok\n";

fn bad_of(outcome: &(Vec<Reply>, Result<(), FailureKind>)) -> Vec<Option<FailureKind>> {
    assert_eq!(outcome.1, Ok(()), "{outcome:?}");
    outcome.0.iter().map(|reply| reply.bad).collect()
}

#[test]
fn each_level_sees_what_it_should() {
    use CheckLevel::{Body, Complete, Exact, Status};
    use FailureKind as Kind;
    let with = |from: &str, to: &str| GOOD.replace(from, to);
    let none: [Option<Kind>; 4] = [None; 4];
    let wrong = Some(Kind::WrongBytes);
    let status = Some(Kind::Status);
    // The expected results for Complete, Status, Body and Exact.
    let table = [
        (GOOD.to_owned(), none),
        (with("Mon, 01", "Tue, 02"), none),
        (with("Mon, 01", "Tuesday, 2"), [None, None, None, wrong]),
        (with("Server: a", "Server: b"), [None, None, None, wrong]),
        (with("ok\n", "ko\n"), [None, None, wrong, wrong]),
        (with("3\r\n\r\nok\n", "2\r\n\r\nok"), [None, None, wrong, wrong]),
        (with("3\r\n\r\nok\n", "4\r\n\r\nok\n\n"), [None, None, wrong, wrong]),
        (with("3\r\n\r\nok\n", "0\r\n\r\n"), [None, None, wrong, wrong]),
        (with("200 OK", "503 OK"), [None, status, status, status]),
    ];
    for (text, wants) in table {
        for (level, want) in [Complete, Status, Body, Exact].into_iter().zip(wants) {
            let expect = expect_like(level, GOOD);
            assert_eq!(bad_of(&read_all_ways(text.as_bytes(), &expect, None)), [want], "{level:?} {text:?}");
        }
    }
}

#[test]
fn consecutive_replies_are_separated() {
    let expect = expect_like(CheckLevel::Body, GOOD);
    let bad = GOOD.replace("ok\n", "no\n");
    let row = [GOOD, &bad, "HTTP/1.1 100 Continue\r\n\r\n", GOOD, "HTTP/1.1 204 No\r\n\r\n", GOOD].concat();
    let outcome = read_all_ways(row.as_bytes(), &expect, None);
    let wrong = Some(FailureKind::WrongBytes);
    assert_eq!(bad_of(&outcome), [None, wrong, None, wrong, None]);
    let statuses: Vec<u16> = outcome.0.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 200, 200, 204, 200]);
}

#[test]
fn a_reply_may_end_with_the_connection() {
    let text = "HTTP/1.1 200 OK\r\n\r\nok\n";
    let expect = expect_like(CheckLevel::Exact, text);
    let outcome = read_all_ways(text.as_bytes(), &expect, None);
    assert_eq!(bad_of(&outcome), [None]);
    assert!(outcome.0[0].close);
    for (other, want) in [("ok", Some(FailureKind::WrongBytes)), ("ok\n\n", Some(FailureKind::WrongBytes))] {
        let text = text.replace("ok\n", other);
        assert_eq!(bad_of(&read_all_ways(text.as_bytes(), &expect, None)), [want], "{other:?}");
    }
}

#[test]
fn a_reply_cut_short_is_short_wherever() {
    let expect = expect_like(CheckLevel::Body, GOOD);
    for len in 1..GOOD.len() {
        let (replies, end) = read(&[&GOOD.as_bytes()[..len]], &expect, None);
        assert_eq!((replies.len(), end), (0, Err(FailureKind::Short)), "after {len}");
    }
}

#[test]
fn invalid_replies_are_malformed_or_unsupported() {
    let expect = expect_like(CheckLevel::Body, GOOD);
    for (text, want) in [
        ("SSH-2.0-x\r\n", FailureKind::Malformed),
        ("HTTP/1.1 abc\r\n\r\n", FailureKind::Malformed),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", FailureKind::Unsupported),
    ] {
        assert_eq!(read_all_ways(text.as_bytes(), &expect, None), (vec![], Err(want)), "{text:?}");
    }
    let mut endless = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
    endless.resize(HEAD_LEN_MAX + 1, b'x');
    assert_eq!(read(&[&endless], &expect, None).1, Err(FailureKind::Unsupported));
    let pieces: Vec<&[u8]> = endless.chunks(1_000).collect();
    assert_eq!(read(&pieces, &expect, None).1, Err(FailureKind::Unsupported));
    assert_eq!(
        read(&[&endless[..HEAD_LEN_MAX]], &expect, None).1,
        Err(FailureKind::Short),
        "not too long yet"
    );
}

#[test]
fn ids_are_compared_in_head_and_body() {
    let (mine, other) = (Id::new(3, 1), Id::new(3, 2));
    let text = |head: Id, body: Id| {
        let digits = |id: Id| String::from_utf8(id.as_bytes().to_vec()).unwrap();
        format!("HTTP/1.1 200 OK\r\nX-Id: {}\r\nContent-Length: 16\r\n\r\n{}", digits(head), digits(body))
    };
    let mut expect = Expect::new(CheckLevel::Body, None, false);
    expect.learn(text(other, other).as_bytes(), Some(other)).unwrap();
    assert!(expect.echoes_id());
    let foreign = |head, body| {
        let outcome = read_all_ways(text(head, body).as_bytes(), &expect, Some(mine));
        assert_eq!(outcome.1, Ok(()));
        (outcome.0[0].bad, outcome.0[0].foreign)
    };
    let difference = mine.as_bytes().iter().zip(other.as_bytes()).filter(|(a, b)| a != b).count() as u64;
    let bad = Some(FailureKind::Foreign);
    assert_eq!(foreign(mine, mine), (None, 0));
    assert_eq!(foreign(mine, other), (bad, difference));
    assert_eq!(foreign(other, mine), (bad, difference));
    assert_eq!(foreign(other, other), (bad, 2 * difference));

    let longer = text(other, mine).replace("X-Id", "X-Other: 1\r\nX-Id");
    let outcome = read_all_ways(longer.as_bytes(), &expect, Some(mine));
    assert_eq!((outcome.0[0].bad, outcome.0[0].foreign), (bad, Id::LEN as u64), "a head of another form");
}

#[test]
fn templates_must_be_whole() {
    for (text, want) in [
        ("HTTP/1.1 200 OK\r\n", Err(FailureKind::Short)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", Err(FailureKind::Short)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\nx", Err(FailureKind::WrongBytes)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", Ok(200)),
    ] {
        let learnt = Expect::new(CheckLevel::Body, None, false).learn(text.as_bytes(), None);
        assert_eq!(learnt.map(|head| head.status), want, "{text:?}");
    }
}
