//! A new connection for each run: AUTH if configured, PING, and a query for the key that signals
//! maintenance. All commands (RESP, since Redis 1.2) are sent together, so that a run takes one
//! round trip.
//!
//! Does not know about: the values of keys.

use crate::connect::dialer::Dialer;
use crate::connect::tls::{Tls, handshake};
use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::{Lines, server_text, shown};
use crate::kinds::materials::Materials;
use crate::options::RedisCheck;
use crate::progress::{Progress, Stage};
use doorbell_health::Outcome;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

/// Maximum length of a reply; all expected replies are short.
const REPLY_LEN_MAX: usize = 512;

/// Checks one server.
pub(crate) struct RedisRunner {
    check: RedisCheck,
    dialer: Dialer,
    tls: Tls,
    /// All commands, including the password.
    commands: Vec<u8>,
}

impl std::fmt::Debug for RedisRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisRunner").field("check", &self.check).finish_non_exhaustive()
    }
}

impl_kind_runner!(RedisRunner);

impl RedisRunner {
    pub(crate) fn build(check: &RedisCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.resolve);
        let mut commands = Vec::new();
        if let Some(password) = &check.password {
            let password = password.reveal();
            match &check.username {
                Some(name) => command(&mut commands, &["AUTH", name, password]),
                None => command(&mut commands, &["AUTH", password]),
            }
        }
        command(&mut commands, &["PING"]);
        if let Some(key) = &check.maintenance_key {
            command(&mut commands, &["EXISTS", key]);
        }
        let tls = match &check.tls {
            Some(tls) => with.shared.tls.take(tls, &[], true)?,
            None => Tls::None,
        };
        Ok(Self { check: check.clone(), dialer, tls, commands })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let mut conn = self.dialer.connect(progress).await?;
        match &self.check.tls {
            Some(tls) => {
                progress.enter(Stage::Handshake);
                let name = tls.server_name.as_deref().unwrap_or_else(|| self.check.address.host());
                let mut stream = handshake(&self.tls, name, conn).await?;
                progress.see_tls(stream.get_ref().1, &self.tls);
                progress.enter(Stage::Response);
                self.exchange(&mut stream).await?;
                stream.get_mut().0.close_with_fin();
            }
            None => {
                progress.enter(Stage::Response);
                self.exchange(&mut conn).await?;
                conn.close_with_fin();
            }
        }
        in_time(start.elapsed(), self.check.latency)
    }

    async fn exchange(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Verdict {
        let broken = |error: std::io::Error| Issue::failure(cause_of(&error));
        stream.write_all(&self.commands).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut lines = Lines::new(stream, REPLY_LEN_MAX);
        if self.check.password.is_some() {
            match read(lines.next().await?)? {
                Reply::Error(text) => return Err(Issue::failure(format!("AUTH: {}", self.reason(&text)))),
                Reply::Number(_) | Reply::Text(_) => {}
            }
        }
        match read(lines.next().await?)? {
            Reply::Text(text) if *text == *self.check.reply => {}
            Reply::Text(text) => {
                let reason =
                    format!("the answer is {}, expected {:?}", shown(text.as_bytes()), self.check.reply);
                return Err(Issue::failure(reason));
            }
            Reply::Error(text) => return Err(Issue::failure(self.reason(&text))),
            Reply::Number(_) => return Err(unexpected()),
        }
        let Some(key) = &self.check.maintenance_key else { return Ok(()) };
        match read(lines.next().await?)? {
            Reply::Number(0) => Ok(()),
            Reply::Number(_) => {
                Err(Issue { outcome: Outcome::Maintenance, reason: format!("key {key:?} exists") })
            }
            Reply::Error(text) => Err(Issue::failure(self.reason(&text))),
            Reply::Text(_) => Err(unexpected()),
        }
    }

    fn reason(&self, error: &str) -> String {
        server_text(error, self.check.password.as_ref())
    }
}

/// A single-line reply.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Error(String),
    Number(u64),
    Text(String),
}

fn read(line: &[u8]) -> Result<Reply, Issue> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match line {
        [b'-', rest @ ..] => Ok(Reply::Error(text(rest))),
        [b'+', rest @ ..] => Ok(Reply::Text(text(rest))),
        [b':', rest @ ..] => {
            let number = str::from_utf8(rest).ok().and_then(|digits| digits.parse().ok());
            number.map(Reply::Number).ok_or_else(unexpected)
        }
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Issue {
    Issue::failure("the response is not a Redis reply")
}

/// Encodes a command as an array of strings.
fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        let text = |text: &str| Reply::Text(text.to_owned());
        for (line, expected) in [
            (&b"+PONG"[..], Ok(text("PONG"))),
            (b"+", Ok(text(""))),
            (b":12", Ok(Reply::Number(12))),
            (b"-LOADING x", Ok(Reply::Error("LOADING x".to_owned()))),
            (b":-1", Err(unexpected())),
            (b":", Err(unexpected())),
            (b"HTTP/1.1 400 Bad Request", Err(unexpected())),
            (b"", Err(unexpected())),
            (b"$4", Err(unexpected())),
        ] {
            assert_eq!(read(line), expected, "{:?}", String::from_utf8_lossy(line));
        }
        assert_eq!(read(&[b'-'; 600]), Ok(Reply::Error("-".repeat(599))));
    }

    #[test]
    fn commands() {
        let mut out = Vec::new();
        command(&mut out, &["AUTH", "p\r\nw"]);
        assert_eq!(out, b"*2\r\n$4\r\nAUTH\r\n$4\r\np\r\nw\r\n");
    }
}
