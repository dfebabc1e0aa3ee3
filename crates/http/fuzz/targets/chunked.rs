//! Target: the chunked decoder. Its results are compared with those of a simple decoder that reads
//! whole bodies, and with its own results for split input.

use doorbell_http::Limits;
use doorbell_http::chunked::Chunked;

/// Runs the target. The first two bytes select the limits and the split point.
pub(crate) fn run(data: &[u8]) {
    let Some((&[choice, cut], input)) = data.split_first_chunk::<2>() else { return };
    let limits = match choice % 3 {
        0 => Limits { body_bytes_max: 64, tiny_chunks_max: 2, chunk_ext_bytes_max: 8, ..Limits::default() },
        1 => Limits { head_bytes_max: 32, fields_max: 2, chunk_ext_total_bytes_max: 8, ..Limits::default() },
        _ => Limits::default(),
    };
    let mut body = Vec::new();
    let verdict = Chunked::new().decode(input, &limits, Some(&mut body));
    if verdict.is_ok() {
        assert!(body.len() <= limits.body_bytes_max);
    }
    assert_eq!(Chunked::new().decode(input, &limits, None), verdict, "the sink does not affect the result");

    for pieces in [vec![usize::from(cut).min(input.len())], (1..input.len()).collect()] {
        let mut again = Vec::new();
        assert_eq!(in_pieces(input, &pieces, &limits, &mut again), verdict);
        assert_eq!(again, body);
    }
    if choice % 3 == 2 {
        match (verdict, plain(input)) {
            (Ok((used, true)), Plain::Complete(len, data)) => assert_eq!((used, &body), (len, &data)),
            (Ok((_, false)), Plain::Partial) | (Err(_), Plain::Refused) => {}
            (ours, plain) => panic!("{ours:?} against {plain:?}"),
        }
    }
}

type Verdict = Result<(usize, bool), doorbell_http::RequestError>;

fn in_pieces(input: &[u8], cuts: &[usize], limits: &Limits, body: &mut Vec<u8>) -> Verdict {
    let mut decoder = Chunked::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&input.len()]) {
        let (used, done) = decoder.decode(&input[from..cut], limits, Some(&mut *body))?;
        if done {
            return Ok((from + used, true));
        }
        assert_eq!(used, cut - from, "all input is used");
        from = cut;
    }
    Ok((from, false))
}

#[derive(Debug)]
enum Plain {
    Complete(usize, Vec<u8>),
    Partial,
    Refused,
}

/// Decodes line by line. Checks only those default limits that short inputs can reach.
fn plain(input: &[u8]) -> Plain {
    let (mut at, mut data, mut tiny, mut ext_total) = (0, Vec::new(), 0, 0);
    loop {
        let digits = input[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits > 16 || (digits == 0 && at < input.len()) {
            return Plain::Refused;
        }
        let Some(&after) = input.get(at + digits) else { return Plain::Partial };
        let text = std::str::from_utf8(&input[at..at + digits]).expect("digits");
        let size = u64::from_str_radix(text, 16).expect("at most 16 digits");
        tiny += u32::from(size > 0 && size < 16);
        if size > 65_536 - data.len() as u64 || tiny > 1024 || !matches!(after, b'\r' | b';') {
            return Plain::Refused;
        }
        at += digits;
        let ext = match extensions(&input[at..]) {
            Ok(len) => len,
            Err(refused) => return refused,
        };
        ext_total += ext;
        if ext_total > 4096 {
            return Plain::Refused;
        }
        at += ext;
        if let Err(verdict) = crlf(input, &mut at) {
            return verdict;
        }
        if size == 0 {
            return trailers(input, at, data);
        }
        let size = usize::try_from(size).expect("at most 64 KiB");
        let end = input.len().min(at + size);
        data.extend_from_slice(&input[at..end]);
        if end < at + size {
            return Plain::Partial;
        }
        at = end;
        if let Err(verdict) = crlf(input, &mut at) {
            return verdict;
        }
    }
}

fn crlf(input: &[u8], at: &mut usize) -> Result<(), Plain> {
    match &input[*at..] {
        [b'\r', b'\n', ..] => {
            *at += 2;
            Ok(())
        }
        [] | [b'\r'] => Err(Plain::Partial),
        _ => Err(Plain::Refused),
    }
}

/// Returns the length of `*( ";" name [ "=" ( token / quoted ) ] )`.
fn extensions(input: &[u8]) -> Result<usize, Plain> {
    let mut at = 0;
    let result = loop {
        if input.get(at) != Some(&b';') {
            break Ok(at);
        }
        at += 1;
        let name = token(&input[at..]);
        at += name;
        if name == 0 {
            break Err(if at == input.len() { Plain::Partial } else { Plain::Refused });
        }
        if input.get(at) != Some(&b'=') {
            continue;
        }
        at += 1;
        if input.get(at) == Some(&b'"') {
            match quoted(&input[at..]) {
                Ok(len) => at += len,
                Err((len, verdict)) => {
                    at += len;
                    break Err(verdict);
                }
            }
        } else {
            let value = token(&input[at..]);
            at += value;
            if value == 0 {
                break Err(if at == input.len() { Plain::Partial } else { Plain::Refused });
            }
        }
    };
    // If both limits are exceeded, this limit is exceeded at an earlier byte.
    if at > 256 {
        return Err(Plain::Refused);
    }
    match result {
        Ok(len) if len > 0 && !matches!(input.get(len), None | Some(b'\r')) => Err(Plain::Refused),
        other => other,
    }
}

fn token(input: &[u8]) -> usize {
    input.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)).count()
}

fn quoted(input: &[u8]) -> Result<usize, (usize, Plain)> {
    let mut at = 1;
    let visible = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    loop {
        match input.get(at) {
            None => return Err((at, Plain::Partial)),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match input.get(at + 1) {
                None => return Err((at + 1, Plain::Partial)),
                Some(&byte) if visible(byte) => at += 2,
                Some(_) => return Err((at + 1, Plain::Refused)),
            },
            Some(&byte) if visible(byte) => at += 1,
            Some(_) => return Err((at, Plain::Refused)),
        }
    }
}

fn trailers(input: &[u8], from: usize, data: Vec<u8>) -> Plain {
    let mut at = from;
    for field in 0.. {
        if at - from > 16_384 {
            return Plain::Refused;
        }
        match input.get(at) {
            None => return Plain::Partial,
            Some(b'\r') => {
                return match crlf(input, &mut at) {
                    Ok(()) if at - from <= 16_384 => Plain::Complete(at, data),
                    Ok(()) => Plain::Refused,
                    Err(verdict) => verdict,
                };
            }
            Some(_) if field == 100 => return Plain::Refused,
            Some(_) => {}
        }
        let name = token(&input[at..]);
        at += name;
        match input.get(at) {
            None if name > 0 => return Plain::Partial,
            Some(b':') if name > 0 => {}
            _ => return Plain::Refused,
        }
        at += 1;
        at += input[at..].iter().take_while(|&&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)).count();
        if let Err(verdict) = crlf(input, &mut at) {
            return verdict;
        }
    }
    Plain::Refused
}
