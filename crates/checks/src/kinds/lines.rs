//! Lines sent by a server, each of bounded length, and how they are quoted in the reason of a result.

use crate::finding::{Issue, cause_of};
use doorbell_config::Secret;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum length of a server's text in a reason.
const TEXT_CHARS_MAX: usize = 128;

/// Number of characters at the start of a password by which the password is found in a server's
/// text, because the text may be cut within the password.
const PASSWORD_START_CHARS: usize = 16;

/// Maximum number of bytes that a reason quotes.
const SHOWN_MAX: usize = 32;

/// Reader of lines.
#[derive(Debug)]
pub(crate) struct Lines<'s, S> {
    stream: &'s mut S,
    read: Vec<u8>,
    /// Number of bytes of `read` that belong to lines already returned.
    taken: usize,
    len_max: usize,
}

impl<'s, S: AsyncRead + Unpin> Lines<'s, S> {
    /// Creates a reader that limits a line and its terminator, and the buffer, to `len_max` + 2
    /// bytes.
    pub(crate) const fn new(stream: &'s mut S, len_max: usize) -> Self {
        Self { stream, read: Vec::new(), taken: 0, len_max }
    }

    /// Whether nothing has been received so far after the last returned line.
    #[cfg(feature = "mail")]
    pub(crate) const fn is_drained(&self) -> bool {
        self.taken == self.read.len()
    }

    /// The next line without its terminator.
    pub(crate) async fn next(&mut self) -> Result<&[u8], Issue> {
        self.read.drain(..std::mem::take(&mut self.taken));
        let mut looked_at = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.read[looked_at..]) {
                let end = looked_at + end;
                self.taken = end + 1;
                let line = &self.read[..end];
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            looked_at = self.read.len();
            if looked_at > self.len_max {
                let reason = format!(
                    "more than {} bytes without a line end, starting with {}",
                    self.len_max,
                    shown(&self.read)
                );
                return Err(Issue::failure(reason));
            }
            let room = (self.len_max + 2 - looked_at) as u64;
            let read = (&mut *self.stream).take(room).read_buf(&mut self.read).await;
            match read {
                Ok(0) if self.read.is_empty() => {
                    return Err(Issue::failure("the connection ended without a response"));
                }
                Ok(0) => {
                    let reason = format!("the connection ended within a line, after {}", shown(&self.read));
                    return Err(Issue::failure(reason));
                }
                Ok(_) => {}
                Err(error) => return Err(Issue::failure(cause_of(&error))),
            }
        }
    }
}

/// The start of `bytes` in printable form.
pub(crate) fn shown(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let more = if bytes.len() > SHOWN_MAX { ".." } else { "" };
    format!("\"{}\"{more}", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}

/// A server's text, shortened to fit a log line, without control characters. Some servers repeat
/// their input, so the text ends where the password begins.
pub(crate) fn server_text(text: &str, password: Option<&Secret>) -> String {
    let password = password.map_or("", Secret::reveal);
    let start: String = password.chars().take(PASSWORD_START_CHARS).collect();
    let (text, end) = match text.find(&start).filter(|_| !start.is_empty()) {
        Some(at) => (&text[..at], Secret::MASK),
        None => (text, ""),
    };
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    let short: String = text.trim_end().chars().map(plain).take(TEXT_CHARS_MAX).collect();
    short + end
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[test]
    fn texts_are_short_and_without_the_password() {
        let secret = Secret::new("p w 0123456789abcdef".to_owned());
        for (text, expected) in [
            ("Access denied\r\n", "Access denied"),
            ("a\nb\u{7}", "a b "),
            ("unknown 'p w 0123456789abc'", "unknown '***"),
            ("p w 01234", "p w 01234"),
        ] {
            assert_eq!(server_text(text, Some(&secret)), expected, "{text:?}");
        }
        assert_eq!(server_text(&"x".repeat(200), None), "x".repeat(128));
        assert_eq!(server_text("a", Some(&Secret::new(String::new()))), "a");
    }

    #[test]
    fn bytes_are_shown_short_and_plain() {
        assert_eq!(shown(b""), "nothing");
        assert_eq!(shown(b"PO\x00\"NG\n"), "\"PO\\x00\\\"NG\\n\"");
        assert_eq!(shown(&[b'x'; 33]), format!("\"{}\"..", "x".repeat(32)));
    }

    /// The result does not depend on how the bytes are split.
    #[test]
    fn lines_come_in_any_pieces() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all = b"+OK\r\n:0\n\r\nrest";
        for split in 0..=all.len() {
            let lines = runtime.block_on(async {
                let (mut ours, mut theirs) = tokio::io::duplex(64);
                tokio::spawn(async move {
                    theirs.write_all(&all[..split]).await.unwrap();
                    tokio::task::yield_now().await;
                    theirs.write_all(&all[split..]).await.unwrap();
                });
                let mut lines = Lines::new(&mut ours, 8);
                let mut read = Vec::new();
                loop {
                    match lines.next().await {
                        Ok(line) => read.push(String::from_utf8(line.to_vec()).unwrap()),
                        Err(issue) => break read.push(issue.reason),
                    }
                }
                read
            });
            let end = "the connection ended within a line, after \"rest\"";
            assert_eq!(lines, ["+OK", ":0", "", end], "split at {split}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let issue = runtime.block_on(async {
            let mut endless = tokio::io::repeat(b'x');
            let mut lines = Lines::new(&mut endless, 100);
            let issue = lines.next().await.unwrap_err();
            assert!(lines.read.len() <= 102);
            issue
        });
        assert!(issue.reason.starts_with("more than 100 bytes without"), "{}", issue.reason);
    }
}
