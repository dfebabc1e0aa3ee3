//! RESP2, the protocol of Redis: commands as arrays of strings, and replies.
//!
//! Does not know about: connections, the meaning of commands.

use thiserror::Error;

/// Maximum size of a reply; sufficient for a view of many thousand instances.
pub const REPLY_LEN_MAX: usize = 64 << 20;

/// Maximum length of a line: a length, a number or an error.
const LINE_LEN_MAX: usize = 4 << 10;

/// Maximum number of values in a reply: two for each instance in the view of all.
const VALUES_MAX: usize = 1 << 17;

/// Maximum depth of arrays in a reply.
const DEPTH_MAX: u32 = 4;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Elements in order.
    Array(Vec<Self>),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// The command failed.
    Error(String),
    /// A number.
    Integer(i64),
    /// No value, for example because the key does not exist.
    Nil,
    /// A short text, such as `OK`.
    Simple(String),
}

/// Error: the bytes are not a valid reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are not a reply of Redis")]
pub struct NotReply;

impl Value {
    /// The number.
    #[must_use]
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes of a string.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The elements of an array.
    #[must_use]
    pub fn array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }
}

/// Appends a command.
pub(super) fn write(command: &[Vec<u8>], to: &mut Vec<u8>) {
    to.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        to.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

/// Decodes the first reply of `input`, and returns it with its length; `None` if it is incomplete.
pub(super) fn read(input: &[u8]) -> Result<Option<(Value, usize)>, NotReply> {
    let mut reader = Reader { input, at: 0, values_left: VALUES_MAX };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Incomplete) if input.len() <= REPLY_LEN_MAX => Ok(None),
        Err(_) => Err(NotReply),
    }
}

enum Stop {
    Incomplete,
    NotReply,
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    /// A value takes more memory than its bytes, so their number is limited, too.
    values_left: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        self.values_left = self.values_left.checked_sub(1).ok_or(Stop::NotReply)?;
        let (kind, text) = self.line()?;
        Ok(match kind {
            b'+' => Value::Simple(shown(text)),
            b'-' => Value::Error(shown(text)),
            b':' => Value::Integer(number(text)?),
            b'$' => match number(text)? {
                -1 => Value::Nil,
                len => Value::Bulk(self.bulk(len)?),
            },
            b'*' if depth < DEPTH_MAX => match number(text)? {
                -1 => Value::Nil,
                // The length that the peer declares does not reserve memory.
                len => {
                    Value::Array((0..limited(len)?).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?)
                }
            },
            _ => return Err(Stop::NotReply),
        })
    }

    /// Returns the first byte of the next line, and the rest of the line.
    fn line(&mut self) -> Result<(u8, &[u8]), Stop> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        if rest.first().is_some_and(|kind| !b"+-:$*".contains(kind)) {
            return Err(Stop::NotReply);
        }
        let end = rest.windows(2).take(LINE_LEN_MAX).position(|two| two == b"\r\n");
        let end = end.ok_or(if rest.len() > LINE_LEN_MAX { Stop::NotReply } else { Stop::Incomplete })?;
        self.at += end + 2;
        let (kind, text) = rest[..end].split_first().ok_or(Stop::NotReply)?;
        Ok((*kind, text))
    }

    fn bulk(&mut self, len: i64) -> Result<Vec<u8>, Stop> {
        let end = self.at + limited(len)?;
        let bytes = self.input.get(self.at..end).ok_or(Stop::Incomplete)?.to_vec();
        match self.input.get(end..end + 2) {
            None => Err(Stop::Incomplete),
            Some(b"\r\n") => {
                self.at = end + 2;
                Ok(bytes)
            }
            Some(_) => Err(Stop::NotReply),
        }
    }
}

fn limited(len: i64) -> Result<usize, Stop> {
    usize::try_from(len).ok().filter(|len| *len <= REPLY_LEN_MAX).ok_or(Stop::NotReply)
}

fn number(text: &[u8]) -> Result<i64, Stop> {
    str::from_utf8(text).ok().and_then(|digits| digits.parse().ok()).ok_or(Stop::NotReply)
}

/// A text that is shown in terminals and logs.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let mut out = Vec::new();
        write(&[b"SET".to_vec(), b"a\r\nb".to_vec(), Vec::new()], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_and_each_incomplete_beginning() {
        let bulk = |bytes: &[u8]| Value::Bulk(bytes.to_vec());
        for (input, expected) in [
            (&b"+OK\r\n"[..], Value::Simple("OK".into())),
            (b"-ERR no\r\n", Value::Error("ERR no".into())),
            (b":-7\r\n", Value::Integer(-7)),
            (b"$-1\r\n", Value::Nil),
            (b"*-1\r\n", Value::Nil),
            (b"$4\r\na\r\nb\r\n", bulk(b"a\r\nb")),
            (b"$0\r\n\r\n", bulk(b"")),
            (b"*0\r\n", Value::Array(vec![])),
            (
                b"*3\r\n*1\r\n:1\r\n$1\r\n\xff\r\n$-1\r\n",
                Value::Array(vec![Value::Array(vec![Value::Integer(1)]), bulk(b"\xff"), Value::Nil]),
            ),
        ] {
            let mut more = input.to_vec();
            more.extend_from_slice(b"+next");
            assert_eq!(read(&more), Ok(Some((expected, input.len()))));
            for len in 0..input.len() {
                assert_eq!(read(&input[..len]), Ok(None), "{len} bytes of {input:?}");
            }
        }
    }

    #[test]
    fn values_are_limited() {
        let reply = |count: usize| [format!("*{count}\r\n").as_bytes(), &b":1\r\n".repeat(count)].concat();
        assert!(matches!(read(&reply(VALUES_MAX - 1)), Ok(Some(_))));
        assert!(read(&reply(VALUES_MAX)).is_err());
        assert!(read(&reply(2 * VALUES_MAX)[..5 * VALUES_MAX]).is_err(), "also if incomplete");
    }

    /// Texts of the server are shown in terminals and logs.
    #[test]
    fn texts_have_no_control_characters() {
        let error = Value::Error("ERR a [31m b c".into());
        assert_eq!(read(b"-ERR a\x1b[31m b\nc\r\n"), Ok(Some((error, 17))));
    }

    #[test]
    fn nonsense_is_refused() {
        for input in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"\0",
            b":\r\n",
            b":1x\r\n",
            b"$-2\r\n",
            b"$1\r\nab\r\n",
            b"$99999999999\r\n",
            b"*99999999999\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        ] {
            assert_eq!(read(input), Err(NotReply), "{:?}", String::from_utf8_lossy(input));
        }
    }
}
