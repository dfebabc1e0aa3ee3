//! Link maps: valid lines, every error with its line, and maps of every size compared with a linear
//! search.

use super::*;
use RedirectStatus::{Found, MovedPermanently, PermanentRedirect, SeeOther, TemporaryRedirect};

#[test]
fn good_lines() {
    let map = LinkMap::parse(
        "# links\n\n/a https://a.example\r\n  /b\t\thttp://b:8080/x?y=1#z \t 301  \n/c /d 302\n/e HTTPS://[::1]/ 303\n\
         \t# indented\n/%20;x,y https://h/?a=/b?c 307\n/ /x 308\n/a/ /y",
    )
    .unwrap();
    assert_eq!(map.len(), 7);
    for (path, location, status) in [
        ("/a", "https://a.example", PermanentRedirect),
        ("/b", "http://b:8080/x?y=1#z", MovedPermanently),
        ("/c", "/d", Found),
        ("/e", "HTTPS://[::1]/", SeeOther),
        ("/%20;x,y", "https://h/?a=/b?c", TemporaryRedirect),
        ("/", "/x", PermanentRedirect),
        ("/a/", "/y", PermanentRedirect),
    ] {
        assert_eq!(map.find(path.as_bytes()), Some(Link { location: location.as_bytes(), status }), "{path}");
    }
    for path in ["", "a", "/A", "/a//", "/b ", "#", "/f", "/%20;x,", "/\0"] {
        assert_eq!(map.find(path.as_bytes()), None, "{path}");
    }
    assert!(LinkMap::parse("").unwrap().is_empty() && LinkMap::parse("#\n \n").unwrap().find(b"/").is_none());
}

#[test]
fn every_mistake_has_its_line_and_a_fix() {
    let long = format!("/{}", "x".repeat(LINK_BYTES_MAX));
    for (line, problem) in [
        ("/a", LinkProblem::NoLocation),
        ("a https://h", LinkProblem::BadPath),
        ("https://h https://i", LinkProblem::BadPath),
        ("/a?b https://h", LinkProblem::BadPath),
        ("/a#b https://h", LinkProblem::BadPath),
        ("/\u{e9} https://h", LinkProblem::BadPath),
        ("/a\u{b} https://h", LinkProblem::BadPath),
        ("/a h", LinkProblem::BadLocation),
        ("/a //evil", LinkProblem::BadLocation),
        ("/a /\\evil", LinkProblem::BadLocation),
        ("/a https://", LinkProblem::BadLocation),
        ("/a https:///x", LinkProblem::BadLocation),
        ("/a https://u@h/", LinkProblem::BadLocation),
        ("/a https://h:99999/", LinkProblem::BadLocation),
        ("/a ftp://h/", LinkProblem::BadLocation),
        ("/a javascript:alert(1)", LinkProblem::BadLocation),
        ("/a https://\u{e9}", LinkProblem::BadLocation),
        ("/a https://h/\"", LinkProblem::BadLocation),
        ("/a https://h 200", LinkProblem::BadStatus),
        ("/a https://h 304", LinkProblem::BadStatus),
        ("/a https://h 0302", LinkProblem::BadStatus),
        ("/a https://h # why", LinkProblem::TooManyWords),
        ("/a https://h 302 x", LinkProblem::TooManyWords),
        (&format!("{long} https://h"), LinkProblem::TooLong),
        (&format!("/a {long}"), LinkProblem::TooLong),
        ("/first https://h", LinkProblem::Duplicate { path: "/first".into(), first: 2 }),
    ] {
        let text = format!("# one\n/first https://h\n\n{line}\n/last https://h\n");
        let errors = LinkMap::parse(&text).unwrap_err();
        assert_eq!(errors, [LinkError { line: 4, problem }], "{line}");
        assert!(errors[0].to_string().starts_with("line 4: "), "{}", errors[0]);
        assert!(!errors[0].problem.help().is_empty());
    }
}

#[test]
fn mistakes_are_reported_together_up_to_a_limit() {
    let errors = LinkMap::parse("/a\nb c\n/d /e 1\n").unwrap_err();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(LinkMap::parse(&"/a\n".repeat(1000)).unwrap_err().len(), ERRORS_MAX);
    assert_eq!(LinkMap::parse(&"/a /b\n".repeat(1000)).unwrap_err().len(), ERRORS_MAX);
}

#[test]
fn maps_of_every_size() {
    let path = |n: usize| format!("/{}{n}", "p".repeat(n % 23));
    for len in [1, 2, 3, 4, 5, 100, 1000, 100_000] {
        let text: String = (0..len).map(|n| format!("{} https://h/{n}\n", path(n))).collect();
        let map = LinkMap::parse(&text).unwrap();
        assert_eq!(map.len(), len);
        for n in 0..len {
            let found = map.find(path(n).as_bytes()).unwrap();
            assert_eq!(
                (found.location, found.status),
                (format!("https://h/{n}").as_bytes(), PermanentRedirect)
            );
            assert_eq!(map.find(path(n + len).as_bytes()), None);
        }
        // The table has two to four slots per link, and at least four slots.
        assert!(map.memory_bytes() <= text.len() + len * (6 + 32) + 33, "{len}: {}", map.memory_bytes());
    }
}

#[test]
fn there_is_an_end_to_links() {
    let text: String = (0..=LINKS_MAX).map(|n| format!("/{n} /\n")).collect();
    let errors = LinkMap::parse(&text).unwrap_err();
    assert_eq!(errors, [LinkError { line: LINKS_MAX + 1, problem: LinkProblem::TooManyLinks }]);
}
