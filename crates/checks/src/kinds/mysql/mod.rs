//! The start of a MySQL session (protocol 10, since MySQL 3.21.0; the login needs 4.1), and a ping
//! or a query.
//!
//! This module encodes and parses the packets itself: `mysql_async` and `sqlx` open connections of
//! their own, and the packets of `mysql_common` would take more time to compile than all other
//! kinds of checks together.
//!
//! The login is always completed: a server blocks a host after max_connect_errors connections (100)
//! that end before their login. A refused login does not count as such a connection.

mod packet;

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::server_text;
use crate::kinds::materials::Materials;
use crate::kinds::session::{CLEAR_TEXT, NOBODY, Security, Session, broken, evaluate_writable};
use crate::options::MysqlCheck;
use crate::progress::Progress;
use doorbell_config::Secret;
use packet::{Greeting, NATIVE, Refusal, hashed, parse_row, parse_switch, unexpected};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

/// Maximum length of a packet; all expected packets are short.
const PACKET_LEN_MAX: usize = 8 << 10;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;

/// Checks one server.
#[derive(Debug)]
pub(crate) struct MysqlRunner {
    check: MysqlCheck,
    dialer: Dialer,
    security: Option<Security>,
}

impl_kind_runner!(MysqlRunner);

impl MysqlRunner {
    pub(crate) fn build(check: &MysqlCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.access.resolve);
        if check.username.as_ref().is_some_and(|user| user.contains('\0')) {
            return Err("a user name contains no zero byte".to_owned());
        }
        let security = Security::build(check.access.tls.as_ref(), check.address.host(), &[], with)?;
        Ok(Self { check: check.clone(), dialer: dialer.peer_sends_first(), security })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        let mut server = Server { session: Session::begin(conn, None, progress).await?, next: 0 };
        let greeting = server.read().await?;
        let greeting = match Refusal::parse(&greeting) {
            Some(refusal) => return Err(self.issue(&refusal)),
            None => Greeting::parse(&greeting).ok_or_else(unexpected)?,
        };
        if let Some(security) = &self.security {
            if !greeting.has_tls {
                return Err(Issue::failure("the server does not support TLS"));
            }
            server.write(&packet::tls_request()).await?;
            server.session = server.session.secure(security, progress).await?;
        }
        let has_session = self.log_in(&mut server, greeting).await?;
        let met = match (&self.check.username, self.check.access.writable) {
            (None, _) => Ok(()),
            (Some(_), None) => Ok(self.command(&mut server, &[COM_PING]).await?),
            (Some(_), Some(wanted)) => self.query(&mut server, wanted).await?,
        };
        let latency = start.elapsed();
        if has_session {
            let _gone = server.command(&[COM_QUIT]).await;
        }
        progress.leave(server.session);
        let access = &self.check.access;
        let certificate = Security::evaluate(self.security.as_ref(), progress, &access.certificate);
        worse(worse(met, certificate), in_time(latency, access.latency))
    }

    /// Logs in. The result is false if no user is configured and the server refuses the login.
    async fn log_in(&self, server: &mut Server, greeting: Greeting) -> Result<bool, Issue> {
        let Greeting { mut method, mut salt, .. } = greeting;
        let user = self.check.username.as_deref().unwrap_or(NOBODY);
        // If the server's default authentication method is not supported, begin with
        // `mysql_native_password`; the server then requests the method of the account
        // (AuthSwitchRequest).
        if self.hashed(&method, &salt).is_none() {
            method = NATIVE.to_owned();
        }
        let answer = self.hashed(&method, &salt).unwrap_or_default();
        server.write(&packet::login(server.session.is_tls(), user, &answer, &method)).await?;
        loop {
            let packet = server.read().await?;
            match *packet {
                [0x00, ..] => return Ok(true),
                [0xff, ..] => {
                    let refusal = Refusal::parse(&packet).ok_or_else(unexpected)?;
                    return match self.check.username.is_none() && refusal.is_of_login() {
                        true => Ok(false),
                        false => Err(self.issue(&refusal)),
                    };
                }
                [0xfe, ..] => {
                    (method, salt) = parse_switch(&packet).ok_or_else(unexpected)?;
                    let answer = self.hashed(&method, &salt).ok_or_else(|| {
                        let method = server_text(&method, self.check.access.password.as_ref());
                        Issue::failure(format!("the login method {method:?} is not supported"))
                    })?;
                    server.write(&answer).await?;
                }
                // caching_sha2_password: 3 if the hash was in the cache, 4 if the server needs the
                // password itself.
                [0x01, 0x03] => {}
                [0x01, 0x04] => {
                    if !self.check.access.is_private(&self.check.address) {
                        return Err(Issue::failure(CLEAR_TEXT));
                    }
                    server.write(&[self.password().as_bytes(), &[0]].concat()).await?;
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// Reads a variable of the server. The response consists of five packets: the number of
    /// columns, a column, the end of the columns, the row, the end of the rows.
    async fn query(&self, server: &mut Server, wanted: bool) -> Result<Verdict, Issue> {
        self.command(server, &[&[COM_QUERY], &b"SELECT @@global.read_only"[..]].concat()).await?;
        for _column_and_mark in 0..2 {
            server.read().await?;
        }
        let row = server.read().await?;
        let value = parse_row(&row).ok_or_else(unexpected)?;
        let is_writable = matches!(value, b"0" | b"OFF");
        server.read().await?;
        Ok(evaluate_writable(wanted, is_writable))
    }

    /// Sends a command, and reads the first packet of the response, which may be an error.
    async fn command(&self, server: &mut Server, content: &[u8]) -> Verdict {
        server.command(content).await?;
        let packet = server.read().await?;
        Refusal::parse(&packet).map_or(Ok(()), |refusal| Err(self.issue(&refusal)))
    }

    fn password(&self) -> &str {
        self.check.access.password.as_ref().map_or("", Secret::reveal)
    }

    fn hashed(&self, method: &str, salt: &[u8]) -> Option<Vec<u8>> {
        hashed(method, self.password(), salt)
    }

    fn issue(&self, refusal: &Refusal) -> Issue {
        let text = server_text(&refusal.text, self.check.access.password.as_ref());
        Issue::failure(format!("{text} ({})", refusal.code))
    }
}

/// A server, and the number of the next packet.
struct Server {
    session: Session,
    next: u8,
}

impl Server {
    /// Reads the content of one packet, and nothing beyond this packet, because TLS may follow.
    async fn read(&mut self) -> Result<Vec<u8>, Issue> {
        let mut head = [0; 4];
        self.session.read_exact(&mut head).await.map_err(broken)?;
        let [low, middle, high, number] = head;
        let len = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        if len > PACKET_LEN_MAX || number != self.next {
            return Err(unexpected());
        }
        let mut content = vec![0; len];
        self.session.read_exact(&mut content).await.map_err(broken)?;
        self.next = number.wrapping_add(1);
        Ok(content)
    }

    async fn write(&mut self, content: &[u8]) -> Verdict {
        let [low, middle, high, ..] = u32::try_from(content.len()).unwrap_or_default().to_le_bytes();
        let head = [low, middle, high, self.next];
        self.next = self.next.wrapping_add(1);
        self.session.send(&[&head, content].concat()).await
    }

    /// Sends a command, which begins a new sequence of packets.
    async fn command(&mut self, content: &[u8]) -> Verdict {
        self.next = 0;
        self.write(content).await
    }
}
