//! The start of a PostgreSQL session (protocol 3.0, since PostgreSQL 7.4). If a user is configured,
//! a login and a query follow; otherwise the server's authentication request is enough.
//!
//! The messages are those of `postgres-protocol`, on which `tokio-postgres` is based. A complete
//! client would not limit the length of a message, and would take twice as long to compile.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::server_text;
use crate::kinds::materials::Materials;
use crate::kinds::session::{CLEAR_TEXT, NOBODY, Security, Session, broken, evaluate_writable};
use crate::options::PostgresCheck;
use crate::progress::Progress;
use bytes::BytesMut;
use doorbell_config::Secret;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{DataRowBody, ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

/// Maximum length of a message; all expected messages are short.
const MESSAGE_LEN_MAX: i32 = 64 << 10;

/// Checks one server.
#[derive(Debug)]
pub(crate) struct PostgresRunner {
    check: PostgresCheck,
    dialer: Dialer,
    security: Option<Security>,
    startup: BytesMut,
}

impl_kind_runner!(PostgresRunner, blocks: |postgres| postgres.check.access.password.is_some());

impl PostgresRunner {
    pub(crate) fn build(check: &PostgresCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.access.resolve);
        let user = check.username.as_deref().unwrap_or(NOBODY);
        let named = [("user", Some(user)), ("database", check.database.as_deref())];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut startup = BytesMut::new();
        frontend::startup_message(named.chain([("application_name", "doorbell")]), &mut startup)
            .map_err(|error| error.to_string())?;
        let security = Security::build(check.access.tls.as_ref(), check.address.host(), &[], with)?;
        Ok(Self { check: check.clone(), dialer, security, startup })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        let mut session = Session::begin(conn, None, progress).await?;
        if let Some(security) = &self.security {
            request_tls(&mut session).await?;
            session = session.secure(security, progress).await?;
        }
        let mut server = Server { session, read: BytesMut::new() };
        server.session.send(&self.startup).await?;
        let has_session = self.start(&mut server).await?;
        let met = match &self.check.username {
            Some(_) => self.query(&mut server).await?,
            None => Ok(()),
        };
        let latency = start.elapsed();
        if has_session {
            let mut goodbye = BytesMut::new();
            frontend::terminate(&mut goodbye);
            let _gone = server.session.send(&goodbye).await;
            progress.leave(server.session);
        } else {
            let _gone = server.session.shutdown().await;
            server.session.close_with_fin();
        }
        let access = &self.check.access;
        let certificate = Security::evaluate(self.security.as_ref(), progress, &access.certificate);
        worse(worse(met, certificate), in_time(latency, access.latency))
    }

    /// Waits for the start of the session, and returns whether it has started. Without a configured
    /// login, the server's authentication request or refusal also ends the wait; the result is then
    /// `false`, which is no failure.
    async fn start(&self, server: &mut Server) -> Result<bool, Issue> {
        let user = self.check.username.as_deref();
        let mut scram = None;
        loop {
            match server.next().await? {
                // The server has not proved that it knows the password (RFC 5802 5).
                Message::AuthenticationOk if scram.is_some() => return Err(unexpected()),
                Message::AuthenticationOk
                | Message::BackendKeyData(_)
                | Message::NoticeResponse(_)
                | Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(_) => return Ok(true),
                Message::ErrorResponse(body) => {
                    let refusal = Refusal::of(&body);
                    return match user.is_none() && refusal.is_of_login() {
                        true => Ok(false),
                        false => Err(self.issue(&refusal)),
                    };
                }
                request if is_login_request(&request) => {
                    let Some(user) = user else { return Ok(false) };
                    let answer = self.answer(request, user, &mut scram).await?;
                    server.session.send(&answer).await?;
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// The reply to an authentication request.
    async fn answer(
        &self,
        request: Message,
        user: &str,
        scram: &mut Option<ScramSha256>,
    ) -> Result<BytesMut, Issue> {
        let Some(password) = self.check.access.password.as_ref().map(Secret::reveal) else {
            return Err(Issue::failure("the server asks for a password"));
        };
        let mut out = BytesMut::new();
        let written = match request {
            Message::AuthenticationCleartextPassword
                if !self.check.access.is_private(&self.check.address) =>
            {
                return Err(Issue::failure(CLEAR_TEXT));
            }
            Message::AuthenticationCleartextPassword => {
                frontend::password_message(password.as_bytes(), &mut out)
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(user.as_bytes(), password.as_bytes(), body.salt());
                frontend::password_message(hash.as_bytes(), &mut out)
            }
            // Only one SCRAM exchange per session: each costs CPU time, and the server is not yet
            // authenticated.
            Message::AuthenticationSasl(_) if scram.is_some() => return Err(unexpected()),
            Message::AuthenticationSasl(body) => {
                let mut mechanisms = body.mechanisms();
                if !mechanisms.any(|name| Ok(name == SCRAM_SHA_256)).unwrap_or(false) {
                    return Err(unsupported());
                }
                let begun = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                let written = frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut out);
                *scram = Some(begun);
                written
            }
            Message::AuthenticationSaslContinue(body) => {
                let mut begun = scram.take().ok_or_else(unexpected)?;
                // Milliseconds of computation: the server chooses the number of iterations.
                let updated = tokio::task::spawn_blocking(move || {
                    begun.update(body.data())?;
                    Ok(begun)
                });
                let updated = updated.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                let begun = scram.insert(updated.map_err(|error| self.failed(&error))?);
                frontend::sasl_response(begun.message(), &mut out)
            }
            Message::AuthenticationSaslFinal(body) => {
                let mut begun = scram.take().ok_or_else(unexpected)?;
                begun.finish(body.data())
            }
            _ => return Err(unsupported()),
        };
        written.map(|()| out).map_err(|error| self.failed(&error))
    }

    /// Runs a query, which yields one value.
    async fn query(&self, server: &mut Server) -> Result<Verdict, Issue> {
        let text = match self.check.access.writable {
            Some(_) => "SHOW transaction_read_only",
            None => "SELECT 1",
        };
        let mut out = BytesMut::new();
        frontend::query(text, &mut out).map_err(broken)?;
        server.session.send(&out).await?;
        let mut value = None;
        loop {
            match server.next().await? {
                Message::DataRow(body) => value = first_value(&body),
                Message::ErrorResponse(body) => return Err(self.issue(&Refusal::of(&body))),
                Message::CommandComplete(_)
                | Message::NoticeResponse(_)
                | Message::ParameterStatus(_)
                | Message::RowDescription(_) => {}
                Message::ReadyForQuery(_) => break,
                _ => return Err(unexpected()),
            }
        }
        let value = value.ok_or_else(|| Issue::failure("the server returned no row"))?;
        Ok(self.check.access.writable.map_or(Ok(()), |wanted| evaluate_writable(wanted, value == "off")))
    }

    fn issue(&self, refusal: &Refusal) -> Issue {
        let text = server_text(&refusal.text, self.check.access.password.as_ref());
        Issue::failure(format!("{text} ({})", refusal.code))
    }

    fn failed(&self, error: &io::Error) -> Issue {
        Issue::failure(format!(
            "login: {}",
            server_text(&error.to_string(), self.check.access.password.as_ref())
        ))
    }
}

/// Requests TLS. Exactly one byte is read: any further byte belongs to the handshake.
async fn request_tls(session: &mut Session) -> Verdict {
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    session.send(&out).await?;
    match session.read_u8().await.map_err(broken)? {
        b'S' => Ok(()),
        // The server may reply with an error instead of `S` or `N`. The error arrives before TLS
        // and is not authenticated, so its text is not shown.
        b'N' | b'E' => Err(Issue::failure("the server refuses TLS")),
        _ => Err(unexpected()),
    }
}

/// A server, and the part of its next message that is already read.
struct Server {
    session: Session,
    read: BytesMut,
}

impl Server {
    async fn next(&mut self) -> Result<Message, Issue> {
        loop {
            let header = Header::parse(&self.read).map_err(|_| unexpected())?;
            if header.is_some_and(|header| header.len() > MESSAGE_LEN_MAX) {
                return Err(unexpected());
            }
            if let Some(message) = Message::parse(&mut self.read).map_err(|_| unexpected())? {
                return Ok(message);
            }
            if self.session.read_buf(&mut self.read).await.map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// An error of the server.
struct Refusal {
    /// SQLSTATE.
    code: String,
    text: String,
}

impl Refusal {
    fn of(body: &ErrorResponseBody) -> Self {
        let (mut fields, mut refusal) = (body.fields(), Self { code: String::new(), text: String::new() });
        while let Ok(Some(field)) = fields.next() {
            let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => refusal.code = value().chars().filter(char::is_ascii_alphanumeric).take(5).collect(),
                b'M' => refusal.text = value(),
                _ => {}
            }
        }
        refusal
    }

    /// Whether the server refuses only the user or the database: classes 28 (invalid authorization
    /// specification) and 3D (invalid catalog name).
    fn is_of_login(&self) -> bool {
        self.code.starts_with("28") || self.code.starts_with("3D")
    }
}

const fn is_login_request(message: &Message) -> bool {
    matches!(
        message,
        Message::AuthenticationCleartextPassword
            | Message::AuthenticationGss
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationMd5Password(_)
            | Message::AuthenticationSasl(_)
            | Message::AuthenticationSaslContinue(_)
            | Message::AuthenticationSaslFinal(_)
            | Message::AuthenticationScmCredential
            | Message::AuthenticationSspi
    )
}

fn first_value(body: &DataRowBody) -> Option<String> {
    let range = body.ranges().next().ok()???;
    Some(String::from_utf8_lossy(body.buffer().get(range)?).into_owned())
}

fn unsupported() -> Issue {
    Issue::failure("the server asks for a login method that is not supported")
}

fn unexpected() -> Issue {
    Issue::failure("the response is not PostgreSQL")
}
