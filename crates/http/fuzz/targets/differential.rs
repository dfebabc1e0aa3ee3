//! Target: the head parser, compared with httparse and a strict pass.

#[path = "oracle.rs"]
mod oracle;

use doorbell_http::Limits;
use doorbell_http::parse::Head;
use oracle::Verdict;

/// Runs the target. All of `data` is the head.
pub(crate) fn run(data: &[u8]) {
    let limits = Limits { head_bytes_max: 1 << 20, request_line_bytes_max: 1 << 20, ..Limits::default() };
    let mut head = Head::new();
    let ours = head.parse(data, &limits);
    match (ours, oracle::parse(data, limits.fields_max as usize)) {
        (Ok(Some(len)), Verdict::Complete(facts)) => {
            let bytes = &data[..len];
            assert_eq!(len, facts.len);
            assert_eq!(head.method().map(|method| method.as_str()), Some(facts.method));
            assert_eq!(head.target(bytes), facts.target);
            assert_eq!(head.minor().min(1), facts.minor);
            assert_eq!(head.framing(), facts.framing);
            assert_eq!(head.host(bytes), facts.host);
            assert_eq!(head.keeps_alive(), facts.keeps_alive);
            assert_eq!(head.expects_continue(), facts.expects_continue);
            check_fields(&head, bytes, limits.fields_max as usize);
        }
        // httparse detects some errors only at the end of the head.
        (Ok(None) | Err(_), Verdict::Partial) | (Err(_), Verdict::Refused) => {}
        // httparse knows two versions and ignores the bytes after another version, but the parser
        // under test examines the whole line.
        (Ok(done), Verdict::Version) => {
            let line_ended = data.trim_ascii_start().contains(&b'\n');
            assert!(head.minor() > 1 || (done.is_none() && !line_ended), "{ours:?}");
        }
        (Err(_), Verdict::Version) => {}
        (ours, theirs) => panic!("{ours:?} against {theirs:?}"),
    }
}

fn check_fields(head: &Head, bytes: &[u8], fields_max: usize) {
    let mut headers = vec![httparse::EMPTY_HEADER; fields_max];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(bytes).expect("the bytes were parsed before");
    let theirs = request.headers.iter().map(|header| (header.name.as_bytes(), header.value.trim_ascii()));
    assert!(head.fields(bytes).iter().eq(theirs));
}
