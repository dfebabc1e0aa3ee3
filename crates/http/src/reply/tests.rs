//! Exact bytes of replies, and the content rules for every status.

use super::write::COPIED_BYTES_MAX;
use super::*;
use crate::Misuses;
use bytes::Bytes;

fn render(
    persist: Persist,
    head_only: bool,
    reply: impl FnOnce(Responder<'_>) -> Replied<'_>,
) -> (String, Out, Outcome) {
    let (mut out, date) = (Out::new(), Date::new(784_111_777));
    let outcome = reply(Responder::new(&mut out, &date, persist, head_only)).outcome;
    (String::from_utf8(out.head.clone()).unwrap(), out, outcome)
}

const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

#[test]
fn exact_bytes() {
    let reply = StaticReply::new(Status::OK).header("X-A", "b").unwrap().body("text/plain", "ok\n").unwrap();
    let fields = [("X-A", "b"), ("Content-Type", "text/plain")];
    let at_once = StaticReply::whole(Status::OK, fields, "ok\n").unwrap();
    let start = "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n";
    for (persist, line, outcome) in [
        (Persist::Close, "Connection: close\r\n", Outcome::Last),
        (Persist::Implied, "", Outcome::Replied),
        (Persist::Stated, "Connection: keep-alive\r\n", Outcome::Replied),
    ] {
        for (head_only, content) in [(false, "ok\n"), (true, "")] {
            let expect = (format!("{start}{DATE}{line}\r\n{content}"), outcome);
            for reply in [&reply, &at_once] {
                let (text, _, outcome) = render(persist, head_only, |reply_to| reply_to.send(reply));
                assert_eq!((text, outcome), expect);
            }
            let (text, _, outcome) = render(persist, head_only, |reply_to| {
                reply_to
                    .status(Status::OK)
                    .header("X-A", "b")
                    .header("Content-Type", "text/plain")
                    .content("ok\n")
            });
            assert_eq!((text, outcome), expect);
        }
    }
}

/// The three kinds of replies have the same methods with the same results.
#[test]
fn a_reply_is_built_alike_everywhere() {
    let send = |reply: &dyn Fn(Responder<'_>) -> Replied<'_>| render(Persist::Implied, false, reply).0;
    let text = [
        send(&|to| to.status(Status::OK).text("a")),
        send(&|to| to.send_owned(Reply::text(Status::OK, "a"))),
        send(&|to| to.send(&StaticReply::text(Status::OK, "a"))),
    ];
    assert!(text[0].contains("Content-Type: text/plain; charset=utf-8\r\n"), "{}", text[0]);
    let (json, bytes) = ("application/json", Bytes::from_static(b"{}"));
    let body = [
        send(&|to| to.status(Status::OK).header("X-A", "b").body(json, "{}")),
        send(&|to| to.status(Status::OK).header("X-A", "b").body_bytes(json, bytes.clone())),
        send(&|to| to.send_owned(Reply::new(Status::OK).header("X-A", "b").body(json, "{}"))),
        send(&|to| {
            let reply = StaticReply::new(Status::OK).header("X-A", "b").unwrap();
            to.send(&reply.body(json, "{}").unwrap())
        }),
    ];
    for replies in [&text[..], &body[..]] {
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    }
}

#[test]
fn statuses_without_a_reason_keep_the_space() {
    let (text, ..) = render(Persist::Implied, false, |reply| reply.status(Status::new(551).unwrap()).empty());
    assert_eq!(text, format!("HTTP/1.1 551 \r\nContent-Length: 0\r\n{DATE}\r\n"));
}

#[test]
fn every_status_keeps_the_content_rules() {
    for code in 100..=599 {
        let status = Status::new(code).unwrap();
        let shared = StaticReply::text(status, "content");
        for head_only in [false, true] {
            let built = render(Persist::Implied, head_only, |reply| {
                reply.status(status).header("Content-Type", "text/plain; charset=utf-8").content("content")
            });
            let (text, mut out, _) = render(Persist::Implied, head_only, |reply| reply.send(&shared));
            assert_eq!(text, built.0);
            let (head, content) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("\r\nDate: "));
            assert!(!head.contains("Transfer-Encoding"));
            let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
            let expect = match code {
                100..=199 => {
                    assert!(head.starts_with("HTTP/1.1 500 "), "no informational reply is final");
                    assert_eq!(out.take_misuses(), Misuses::from(ApiMisuse::StatusInformational));
                    (Some("0"), "")
                }
                204 | 304 => (None, ""),
                205 => (Some("0"), ""),
                _ => (Some("7"), if head_only { "" } else { "content" }),
            };
            assert_eq!((length, content), expect, "{code}");
        }
    }
}

#[test]
fn wrong_headers_are_never_sent() {
    for (name, value, misuse) in [
        ("", "x", ApiMisuse::HeaderName),
        ("A b", "x", ApiMisuse::HeaderName),
        ("A:", "x", ApiMisuse::HeaderName),
        ("A\r\nB", "x", ApiMisuse::HeaderName),
        ("\u{e9}", "x", ApiMisuse::HeaderName),
        ("A", "x\r\nB: y", ApiMisuse::HeaderValue),
        ("A", "x\n", ApiMisuse::HeaderValue),
        ("A", "\0", ApiMisuse::HeaderValue),
        ("A", "a long enough value with a \x7f in it", ApiMisuse::HeaderValue),
        ("content-length", "1", ApiMisuse::HeaderReserved),
        ("Transfer-Encoding", "chunked", ApiMisuse::HeaderReserved),
        ("Connection", "close", ApiMisuse::HeaderReserved),
        ("DATE", "now", ApiMisuse::HeaderReserved),
        ("Upgrade", "h2c", ApiMisuse::HeaderReserved),
    ] {
        assert_eq!(StaticReply::new(Status::OK).header(name, value).err(), Some(misuse), "{name:?}");
        let at_once = StaticReply::whole(Status::OK, [("C", "d"), (name, value)], "secret");
        assert_eq!(at_once.err(), Some(misuse), "{name:?}");
        let (text, mut out, _) = render(Persist::Implied, false, |reply| {
            reply.status(Status::OK).header("C", "d").header(name, value).content("secret")
        });
        assert_eq!(text, format!("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n{DATE}\r\n"));
        assert_eq!(out.take_misuses(), Misuses::from(misuse), "{name:?}");
        assert_eq!(out.take_misuses(), Misuses::NONE);
    }
    assert_eq!(StaticReply::new(Status::OK).body("text/\nplain", "x").err(), Some(ApiMisuse::HeaderValue));
    assert!(StaticReply::new(Status::OK).header("A", b"\xc3\xa9\t ").is_ok());
}

#[test]
fn large_content_is_shared_not_copied() {
    let body = Bytes::from(vec![b'x'; COPIED_BYTES_MAX + 1]);
    let reply = StaticReply::text(Status::OK, body.clone());
    let (text, out, _) = render(Persist::Implied, false, |reply_to| reply_to.send(&reply));
    assert!(text.contains("Content-Length: 16385\r\n") && text.ends_with("\r\n\r\n"));
    assert_eq!(out.body.as_ptr(), body.as_ptr());
    assert_eq!(out.len(), text.len() + body.len());
    let (_, out, _) =
        render(Persist::Implied, false, |reply_to| reply_to.status(Status::OK).content_bytes(body.clone()));
    assert_eq!(out.body.as_ptr(), body.as_ptr());
    for head_only in [false, true] {
        let small = body.slice(..COPIED_BYTES_MAX);
        let (text, out, _) =
            render(Persist::Implied, head_only, |to| to.status(Status::OK).content_bytes(small));
        assert!(out.body.is_empty());
        assert_eq!(
            text.split_once("\r\n\r\n").unwrap().1.len(),
            if head_only { 0 } else { COPIED_BYTES_MAX }
        );
    }
    let (_, out, _) = render(Persist::Implied, true, |reply_to| reply_to.send(&reply));
    assert!(out.body.is_empty());
}

#[test]
fn not_allowed_says_what_is() {
    let (text, ..) = render(Persist::Implied, false, |reply| reply.method_not_allowed(b"GET, HEAD"));
    assert_eq!(
        text,
        format!("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n{DATE}\r\n")
    );
}

#[test]
fn an_unfinished_reply_can_be_taken_back() {
    let (mut out, date) = (Out::new(), Date::new(0));
    StaticReply::new(Status::OK).put_last(&mut out, &date);
    let whole = out.head.clone();
    let half = Responder::new(&mut out, &date, Persist::Implied, false).status(Status::OK).header("A", "b");
    drop(half);
    assert!(out.head.len() > whole.len());
    out.drop_unfinished();
    assert_eq!(out.head, whole);
}

#[test]
fn a_refused_reply_leaves_nothing_of_its_content() {
    let large = Bytes::from(vec![b'x'; COPIED_BYTES_MAX + 1]);
    let shared = StaticReply::text(Status::OK, large.clone());
    let owned = Reply::text(Status::OK, large.clone());
    type Answer<'a> = Box<dyn FnOnce(Responder<'_>) -> Replied<'_> + 'a>;
    let ways: [Answer<'_>; 3] = [
        Box::new(|to| to.send(&shared)),
        Box::new(|to| to.status(Status::OK).content_bytes(large.clone())),
        Box::new(|to| to.send_owned(owned)),
    ];
    for way in ways {
        let (text, mut out, _) =
            render(Persist::Implied, false, |reply| way(reply.header("Connection", "x")));
        assert_eq!(text, format!("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n{DATE}\r\n"));
        assert_eq!(out.take_misuses(), Misuses::from(ApiMisuse::HeaderReserved));
        assert!(out.body.is_empty(), "{} bytes after a reply without content", out.body.len());
    }
}

#[test]
fn what_is_taken_back_is_the_last_reply_with_its_content() {
    let large = Bytes::from(vec![b'x'; COPIED_BYTES_MAX + 1]);
    let (mut out, date) = (Out::new(), Date::new(0));
    let send = |out: &mut Out| {
        let _answered = Responder::new(out, &date, Persist::Implied, false)
            .status(Status::OK)
            .content_bytes(large.clone());
    };
    send(&mut out);
    let first = [&*out.head, &*large].concat();
    send(&mut out);
    out.drop_unfinished();
    assert!(out.head == first && out.body.is_empty(), "the earlier reply is complete");
}

#[test]
fn a_reply_has_nothing_of_one_that_was_begun_and_never_made() {
    let date = Date::new(0);
    for clears in [false, true] {
        let mut out = Out::new();
        drop(Responder::new(&mut out, &date, Persist::Implied, false).header("X-Of", "another request"));
        if clears {
            out.clear();
        }
        let _answered = Responder::new(&mut out, &date, Persist::Implied, false).status(Status::OK).empty();
        let head = String::from_utf8(out.head).unwrap();
        assert!(!head.contains("X-Of"), "{head}");
    }
}

/// A reply has exactly one content type, however often it is set. The handler's last value is used;
/// a layer's value is only a fallback.
#[test]
fn a_reply_has_one_content_type() {
    const CONTENT: &str = "Content-Type: no\r\nfield\n";
    let says = |expected: &str, reply: &str| {
        let (head, content) = reply.split_once("\r\n\r\n").unwrap();
        let is_type = |line: &&str| line.to_ascii_lowercase().starts_with("content-type");
        assert_eq!(head.lines().filter(is_type).collect::<Vec<_>>(), [expected], "{reply}");
        assert!(head.contains("X-A: b\r\n"), "{reply}");
        assert_eq!(content, CONTENT, "{reply}");
    };
    let (name, value) = ("content-TYPE", "application/json");
    let handlers = "content-TYPE: application/json";
    let shared =
        StaticReply::text(Status::OK, CONTENT).header("X-A", "b").unwrap().header(name, value).unwrap();
    let owned = || Reply::text(Status::OK, CONTENT).header("X-A", "b").header(name, value);
    fn built(responder: Responder<'_>) -> Replied<'_> {
        let builder = responder.status(Status::OK).header("Content-Type", "a/b").header("X-A", "b");
        builder.header("content-TYPE", "application/json").content(CONTENT)
    }
    fn untyped(responder: Responder<'_>) -> Replied<'_> {
        responder.status(Status::OK).header("X-A", "b").content(CONTENT)
    }
    fn layered(responder: Responder<'_>) -> Responder<'_> {
        responder.header("Content-Type", "a/b").header("X-B", "c").header("Content-Type", "c/d")
    }
    says(handlers, &render(Persist::Implied, false, |responder| responder.send(&shared)).0);
    says(handlers, &render(Persist::Implied, false, |responder| responder.send_owned(owned())).0);
    says(handlers, &render(Persist::Implied, false, built).0);
    says(handlers, &render(Persist::Implied, false, |responder| layered(responder).send(&shared)).0);
    says(handlers, &render(Persist::Implied, false, |responder| layered(responder).send_owned(owned())).0);
    says(handlers, &render(Persist::Implied, false, |responder| built(layered(responder))).0);
    says("Content-Type: c/d", &render(Persist::Implied, false, |responder| untyped(layered(responder))).0);
}

/// Every way to write a reply adds the default field if the field is absent, and leaves the content
/// as it is.
#[test]
fn a_default_field_is_in_every_reply_that_has_none_of_its_own() {
    const OURS: &str = "X-A: default\r\n";
    let shared = StaticReply::text(Status::OK, "X-A: content\n");
    let own = StaticReply::new(Status::OK).header("x-a", "own").unwrap();
    type Say = Box<dyn Fn(Responder<'_>) -> Replied<'_>>;
    let rows: Vec<(Say, usize)> = vec![
        (Box::new(move |reply| reply.send(&shared)), 1),
        (Box::new(|reply| reply.status(Status::OK).content("\r\nX-A: content\n")), 1),
        (Box::new(|reply| reply.send_owned(Reply::text(Status::OK, "ok\n"))), 1),
        (Box::new(|reply| reply.header("X-B", "1").method_not_allowed(b"GET")), 1),
        (Box::new(|reply| reply.status(Status::OK).content_bytes(Bytes::from(vec![b'x'; 20_000]))), 1),
        (Box::new(|reply| reply.status(Status::OK).header("Date", "mine").empty()), 1),
        (Box::new(|reply| reply.header("Date", "mine").status(Status::OK).empty()), 1),
        (Box::new(move |reply| reply.send(&own)), 0),
        (Box::new(|reply| reply.status(Status::OK).header("X-a", "own").empty()), 0),
    ];
    let (mut out, date) = (Out::new(), Date::new(0));
    out.set_default_field(Some(DefaultField::new("X-A", "default").unwrap()));
    for round in 0..2 {
        for (row, (say, expected)) in rows.iter().enumerate() {
            let answered = say(Responder::new(&mut out, &date, Persist::Implied, false));
            assert_eq!(answered.outcome, Outcome::Replied);
            let text = String::from_utf8(out.take_room()).unwrap();
            let (head, content) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(format!("{head}\r\n").matches(OURS).count(), *expected, "{round} {row}: {text}");
            assert!(!content.contains("default"), "{text}");
        }
    }
    put_failure(Status::BAD_REQUEST, &mut out, &date, Persist::Close);
    let text = String::from_utf8(out.take_room()).unwrap();
    assert!(text.starts_with(&format!("HTTP/1.1 400 Bad Request\r\n{OURS}")), "{text}");
    assert_eq!(DefaultField::new("Date", "x").unwrap_err(), ApiMisuse::HeaderReserved);
}

/// A deferred reply has the default field as well as the fields that layers added before.
#[test]
fn a_default_field_is_in_a_reply_that_comes_later() {
    let (mut out, date) = (Out::new(), Date::new(0));
    out.set_default_field(Some(DefaultField::new("X-A", "default").unwrap()));
    let reply = Responder::new(&mut out, &date, Persist::Implied, false);
    let answered = reply.header("X-B", "1").later(crate::Time::MAX, Box::new(()));
    assert!(answered.is_pending());
    let later = out.take_later().unwrap();
    let _answered = later.responder(&mut out, &date, false).status(Status::OK).empty();
    let text = String::from_utf8(out.take_room()).unwrap();
    assert_eq!(
        (text.matches("X-A: default\r\n").count(), text.matches("X-B: 1\r\n").count()),
        (1, 1),
        "{text}"
    );
}
