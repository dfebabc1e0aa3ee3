//! A new connection for each run: AUTH if configured, PING, and a query for the key that signals
//! maintenance. All commands (RESP, since Redis 1.2) are sent together, so that a run takes one
//! round trip.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::{Lines, server_text, shown};
use crate::kinds::materials::Materials;
use crate::kinds::session::{Security, Session};
use crate::options::RedisCheck;
use crate::progress::Progress;
use doorbell_health::Outcome;
use tokio::time::Instant;

/// Maximum length of a reply; all expected replies are short.
const REPLY_LEN_MAX: usize = 512;

/// Checks one server.
pub(crate) struct RedisRunner {
    check: RedisCheck,
    dialer: Dialer,
    security: Option<Security>,
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
        let security = Security::build(check.tls.as_ref(), check.address.host(), &[], with)?;
        Ok(Self { check: check.clone(), dialer, security, commands })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        let mut session = Session::begin(conn, self.security.as_ref(), progress).await?;
        self.exchange(&mut session).await?;
        session.close_with_fin();
        in_time(start.elapsed(), self.check.latency)
    }

    async fn exchange(&self, session: &mut Session) -> Verdict {
        session.send(&self.commands).await?;
        let mut lines = Lines::new(session, REPLY_LEN_MAX);
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
