//! Target: the head parser, whose result is determined at one byte, however the input is split.
//!
//! Does not know about: correct results; see the target `differential`.

use doorbell_http::parse::Head;
use doorbell_http::{Limits, Request};

/// Runs the target. The first two bytes select the limits.
pub(crate) fn run(data: &[u8]) {
    let Some((&[choice, cut], input)) = data.split_first_chunk::<2>() else { return };
    let limits = match choice % 4 {
        0 => Limits { head_bytes_max: 64, request_line_bytes_max: 32, ..Limits::default() },
        1 => Limits { fields_max: 2, leading_empty_lines_max: 0, ..Limits::default() },
        _ => Limits::default(),
    };
    let mut whole = Head::new();
    let verdict = whole.parse(input, &limits);

    // Byte by byte: the parser requests input until the byte that determines the result arrives.
    let mut dripped = Head::new();
    let decided = (0..=input.len()).find_map(|end| match dripped.parse(&input[..end], &limits) {
        Ok(None) => None,
        verdict => Some((end, verdict)),
    });
    match decided {
        None => assert_eq!(verdict, Ok(None)),
        Some((end, dripped)) => {
            assert_eq!(dripped, verdict);
            assert_eq!(
                Head::new().parse(&input[..end], &limits),
                verdict,
                "input after the head has no effect"
            );
            assert_eq!(verdict.unwrap_or(Some(end)), Some(end), "a head ends with its last byte");
        }
    }

    // In two pieces.
    let mut halved = Head::new();
    let cut = usize::from(cut).min(input.len());
    let mut again = halved.parse(&input[..cut], &limits);
    if again == Ok(None) {
        again = halved.parse(input, &limits);
    }
    assert_eq!(again, verdict);

    if let Ok(Some(len)) = verdict {
        assert_eq!(format!("{halved:?}"), format!("{whole:?}"));
        assert_eq!(format!("{dripped:?}"), format!("{whole:?}"));
        check_facts(&Request::new(&input[..len], &whole, b""), len, &limits);
    }
}

fn check_facts(request: &Request<'_>, len: usize, limits: &Limits) {
    assert!(len <= limits.head_bytes_max);
    assert!(request.headers().iter().count() <= limits.fields_max as usize);
    assert!(request.path() == "*" || request.path().starts_with('/'));
    assert!(request.target().contains(request.path()) || matches!(request.path(), "/" | "*"));
    assert!(request.query().is_none_or(|query| request.target().ends_with(query)));
    for (name, value) in request.headers() {
        assert!(!name.is_empty() && name.is_ascii());
        assert!(value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)));
        assert_eq!(value, value.trim_ascii());
    }
    if let Some(host) = request.host() {
        assert!(!host.is_empty() && !host.contains(['/', '@', ',', ' ', '\\']));
    }
}
