//! The greeting of a mail server: SMTP with EHLO, IMAP with NOOP, POP3. TLS starts with the
//! connection, or later by STARTTLS.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::{Lines, server_text, shown};
use crate::kinds::materials::Materials;
use crate::kinds::session::{Security, Session};
use crate::options::{MailCheck, MailProtocol};
use crate::progress::Progress;
use tokio::time::Instant;

/// Maximum length of a line; an IMAP server lists its capabilities in one line.
const LINE_LEN_MAX: usize = 8 << 10;

/// Maximum number of lines of a reply.
const LINES_MAX: usize = 128;

/// Checks one server.
#[derive(Debug)]
pub(crate) struct MailRunner {
    check: MailCheck,
    dialer: Dialer,
    security: Option<Security>,
}

impl_kind_runner!(MailRunner);

impl MailRunner {
    pub(crate) fn build(check: &MailCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.resolve);
        let tls = check.tls.clone().or_else(|| check.starttls.then(Default::default));
        let security = Security::build(tls.as_ref(), check.address.host(), &[], with)?;
        let sends_first = security.is_some() && !check.starttls;
        let dialer = if sends_first { dialer } else { dialer.peer_sends_first() };
        Ok(Self { check: check.clone(), dialer, security })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        let at_once = self.security.as_ref().filter(|_| !self.check.starttls);
        let mut session = Session::begin(conn, at_once, progress).await?;
        self.reply(&mut session, None).await?;
        self.hello(&mut session).await?;
        if let Some(security) = self.security.as_ref().filter(|_| self.check.starttls) {
            let command = if self.check.protocol == MailProtocol::Pop3 { "STLS" } else { "STARTTLS" };
            self.command(&mut session, command).await?;
            session = session.secure(security, progress).await?;
            self.hello(&mut session).await?;
        }
        let latency = start.elapsed();
        let goodbye = match self.check.protocol {
            MailProtocol::Imap => "a LOGOUT\r\n",
            MailProtocol::Pop3 | MailProtocol::Smtp => "QUIT\r\n",
        };
        let _gone = session.send(goodbye.as_bytes()).await;
        progress.leave(session);
        let certificate = Security::evaluate(self.security.as_ref(), progress, &self.check.certificate);
        worse(certificate, in_time(latency, self.check.latency))
    }

    /// Sends a command that a server accepts before a login; with POP3, the greeting is enough.
    async fn hello(&self, session: &mut Session) -> Verdict {
        match self.check.protocol {
            MailProtocol::Imap => self.command(session, "NOOP").await,
            MailProtocol::Pop3 => Ok(()),
            MailProtocol::Smtp => self.command(session, &format!("EHLO {}", self.check.ehlo)).await,
        }
    }

    async fn command(&self, session: &mut Session, command: &str) -> Verdict {
        let tag = if self.check.protocol == MailProtocol::Imap { "a " } else { "" };
        session.send(format!("{tag}{command}\r\n").as_bytes()).await?;
        self.reply(session, Some(command)).await
    }

    /// Reads the reply to a command, or the greeting. Nothing may follow: plain text after the
    /// reply to STARTTLS would count as sent within TLS.
    async fn reply(&self, session: &mut Session, command: Option<&str>) -> Verdict {
        let mut lines = Lines::new(session, LINE_LEN_MAX);
        for _line in 0..LINES_MAX {
            let line = lines.next().await?.to_vec();
            match Line::of(self.check.protocol, command.is_none(), &line) {
                Some(Line::Continued) => {}
                Some(Line::Accepted) if lines.is_drained() => return Ok(()),
                Some(Line::Accepted) => return Err(Issue::failure("the server sent more than one reply")),
                Some(Line::Refused) => {
                    let text = server_text(&String::from_utf8_lossy(&line), None);
                    let verb = command.and_then(|command| command.split(' ').next());
                    return Err(Issue::failure(match verb {
                        Some(verb) => format!("{verb}: {text}"),
                        None => text,
                    }));
                }
                None => {
                    let protocol = match self.check.protocol {
                        MailProtocol::Imap => "IMAP",
                        MailProtocol::Pop3 => "POP3",
                        MailProtocol::Smtp => "SMTP",
                    };
                    let reason = format!("the response is not {protocol}: {}", shown(&line));
                    return Err(Issue::failure(reason));
                }
            }
        }
        Err(Issue::failure(format!("a reply of more than {LINES_MAX} lines")))
    }
}

/// Meaning of a line of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Further lines of the reply follow.
    Continued,
    Accepted,
    Refused,
}

impl Line {
    /// Classifies a line; `None` for a line of another protocol.
    fn of(protocol: MailProtocol, is_greeting: bool, line: &[u8]) -> Option<Self> {
        let begins = |word: &str| {
            let is_word =
                line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
            is_word && line.get(word.len()).is_none_or(|byte| *byte == b' ')
        };
        let begins_any = |words: &[&str]| words.iter().any(|word| begins(word));
        let is_code = |code: &[u8; 3]| code.iter().all(u8::is_ascii_digit);
        match protocol {
            MailProtocol::Smtp => match line.split_first_chunk::<3>().filter(|(code, _)| is_code(code))? {
                (_, [b'-', ..]) => Some(Self::Continued),
                ([b'2', ..], [] | [b' ', ..]) => Some(Self::Accepted),
                (_, [] | [b' ', ..]) => Some(Self::Refused),
                _ => None,
            },
            MailProtocol::Pop3 if begins("+OK") => Some(Self::Accepted),
            MailProtocol::Pop3 => begins("-ERR").then_some(Self::Refused),
            MailProtocol::Imap if begins("* BYE") => Some(Self::Refused),
            MailProtocol::Imap if is_greeting => begins_any(&["* OK", "* PREAUTH"]).then_some(Self::Accepted),
            MailProtocol::Imap if begins("a OK") => Some(Self::Accepted),
            MailProtocol::Imap if begins_any(&["a NO", "a BAD"]) => Some(Self::Refused),
            MailProtocol::Imap => begins("*").then_some(Self::Continued),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_protocol() {
        use Line::{Accepted, Continued, Refused};
        use MailProtocol::{Imap, Pop3, Smtp};
        for (protocol, is_greeting, line, expected) in [
            (Smtp, true, "220 mail ESMTP", Some(Accepted)),
            (Smtp, true, "220", Some(Accepted)),
            (Smtp, true, "220-mail", Some(Continued)),
            (Smtp, true, "421 too many", Some(Refused)),
            (Smtp, false, "354 go on", Some(Refused)),
            (Smtp, true, "2200 x", None),
            (Smtp, true, "22", None),
            (Smtp, true, "+OK", None),
            (Pop3, true, "+OK ready", Some(Accepted)),
            (Pop3, false, "-ERR", Some(Refused)),
            (Pop3, true, "+OKAY", None),
            (Imap, true, "* OK [CAPABILITY IMAP4rev1] ready", Some(Accepted)),
            (Imap, true, "* preauth x", Some(Accepted)),
            (Imap, true, "* BYE busy", Some(Refused)),
            (Imap, true, "* NO", None),
            (Imap, false, "* 3 EXISTS", Some(Continued)),
            (Imap, false, "a OK done", Some(Accepted)),
            (Imap, false, "a BAD what", Some(Refused)),
            (Imap, false, "b OK done", None),
            (Imap, true, "HTTP/1.1 400 Bad Request", None),
        ] {
            assert_eq!(Line::of(protocol, is_greeting, line.as_bytes()), expected, "{protocol:?} {line}");
        }
    }
}
