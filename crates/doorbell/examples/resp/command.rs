//! Commands of the Redis protocol (RESP2): arrays of bulk strings, or words on a line.

/// Arguments of a command that are kept; further ones are only counted.
const ARGS_KEPT: usize = 3;
const ARGS_MAX: usize = 1024;
const BULK_LEN_MAX: usize = 512 * 1024;

pub(crate) enum Command<'a> {
    Get(&'a [u8]),
    Ping(Option<&'a [u8]>),
    Set(&'a [u8], &'a [u8]),
    Unknown,
}

/// Result of parsing the beginning of the input.
pub(crate) enum Parsed<'a> {
    /// A command of `len` bytes.
    Complete {
        command: Command<'a>,
        len: usize,
    },
    Incomplete,
    Invalid(&'static str),
}

pub(crate) fn parse(input: &[u8]) -> Parsed<'_> {
    let Some((line, mut at)) = line(input) else {
        return if input.len() > BULK_LEN_MAX {
            Parsed::Invalid("too big inline request")
        } else {
            Parsed::Incomplete
        };
    };
    let mut args = [&[][..]; ARGS_KEPT];
    let Some(count) = line.strip_prefix(b"*") else {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let count = words.clone().count();
        args.iter_mut().zip(words).for_each(|(arg, word)| *arg = word);
        return Parsed::Complete { command: command(&args, count), len: at };
    };
    let Some(count) = number(count, ARGS_MAX) else { return Parsed::Invalid("invalid multibulk length") };
    for index in 0..count {
        let Some((header, len)) = input.get(at..).and_then(self::line) else { return Parsed::Incomplete };
        at += len;
        let Some(len) = header.strip_prefix(b"$").and_then(|len| number(len, BULK_LEN_MAX)) else {
            return Parsed::Invalid("invalid bulk length");
        };
        let Some(bulk) = input.get(at..at + len + 2) else { return Parsed::Incomplete };
        if let Some(arg) = args.get_mut(index) {
            *arg = &bulk[..len];
        }
        at += len + 2;
    }
    Parsed::Complete { command: command(&args, count), len: at }
}

/// The first line without its end, and its length with its end.
fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn number(digits: &[u8], max: usize) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number <= max)
}

fn command<'a>(args: &[&'a [u8]; ARGS_KEPT], count: usize) -> Command<'a> {
    let [name, first, second] = *args;
    match count {
        1 if name.eq_ignore_ascii_case(b"PING") => Command::Ping(None),
        2 if name.eq_ignore_ascii_case(b"PING") => Command::Ping(Some(first)),
        2 if name.eq_ignore_ascii_case(b"GET") => Command::Get(first),
        3 if name.eq_ignore_ascii_case(b"SET") => Command::Set(first, second),
        _ => Command::Unknown,
    }
}
