//! A connection that may change from plain text to TLS.

use crate::connect::connector::Conn;
use crate::connect::tls::{Protocols, Tls, handshake};
use crate::finding::{CUT, Issue, Verdict, cause_of};
use crate::kinds::exchange::Stream;
use crate::kinds::materials::Materials;
#[cfg(any(feature = "mail", feature = "mysql", feature = "postgres", feature = "websocket"))]
use crate::options::CertificateRule;
use crate::options::ClientTls;
use crate::progress::{Progress, Stage};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_rustls::client::TlsStream;

/// Reason of a failure: the server needs the password in clear text, and
/// [`DatabaseAccess::is_private`] is false.
///
/// [`DatabaseAccess::is_private`]: crate::options::DatabaseAccess::is_private
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const CLEAR_TEXT: &str =
    "the server asks for the password in clear text, which needs `tls` with `verify`";

/// User name if no user of a database is configured. The server may refuse it.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const NOBODY: &str = "doorbell";

/// The verdict on a database server, by whether it accepts writes.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn evaluate_writable(wanted: bool, is_writable: bool) -> Verdict {
    match (wanted, is_writable) {
        (true, false) => Err(Issue::failure("the server is read-only")),
        (false, true) => Err(Issue::failure("the server accepts writes, expected read-only")),
        _ => Ok(()),
    }
}

/// TLS of the connections of one check.
#[derive(Debug)]
pub(crate) struct Security {
    tls: Tls,
    server_name: String,
}

impl Security {
    /// `None` without TLS. `protocols` are offered by ALPN.
    pub(crate) fn build(
        tls: Option<&ClientTls>,
        host: &str,
        protocols: Protocols,
        with: &mut Materials<'_>,
    ) -> Result<Option<Self>, String> {
        let Some(tls) = tls else { return Ok(None) };
        let server_name = tls.server_name.as_deref().unwrap_or(host).to_owned();
        Ok(Some(Self { tls: with.shared.tls.take(tls, protocols, true)?, server_name }))
    }

    /// Evaluates the remaining lifetime of the certificates of a completed handshake.
    #[cfg(any(feature = "mail", feature = "mysql", feature = "postgres", feature = "websocket"))]
    pub(crate) fn evaluate(security: Option<&Self>, progress: &Progress, rule: &CertificateRule) -> Verdict {
        security.map_or(Ok(()), |_| crate::kinds::tls::evaluate(progress, rule))
    }
}

/// A connection, with or without TLS.
#[derive(Debug)]
pub(crate) enum Session {
    Plain(Conn),
    Tls(Box<TlsStream<Conn>>),
}

impl Session {
    /// Starts a session on a connection, with TLS if `security` is given.
    pub(crate) async fn begin(
        conn: Conn,
        security: Option<&Security>,
        progress: &Progress,
    ) -> Result<Self, Issue> {
        let plain = Self::Plain(conn);
        let Some(security) = security else {
            progress.enter(Stage::Response);
            return Ok(plain);
        };
        plain.secure(security, progress).await
    }

    /// Performs a TLS handshake on the connection. Handshake bytes that the caller has already read
    /// would be lost.
    pub(crate) async fn secure(self, security: &Security, progress: &Progress) -> Result<Self, Issue> {
        let Self::Plain(conn) = self else { return Ok(self) };
        progress.enter(Stage::Handshake);
        let stream = handshake(&security.tls, &security.server_name, conn).await?;
        progress.see_tls(stream.get_ref().1, &security.tls);
        progress.enter(Stage::Response);
        Ok(Self::Tls(Box::new(stream)))
    }

    fn stream(&mut self) -> Pin<&mut dyn Stream> {
        match self {
            Self::Plain(conn) => Pin::new(conn),
            Self::Tls(stream) => Pin::new(stream),
        }
    }

    #[cfg(feature = "mysql")]
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Verdict {
        let sent = async {
            self.write_all(bytes).await?;
            self.flush().await
        };
        sent.await.map_err(broken)
    }

    /// Makes the connection close with FIN, as [`Conn::close_with_fin`] does.
    pub(crate) fn close_with_fin(&mut self) {
        match self {
            Self::Plain(conn) => conn.close_with_fin(),
            Self::Tls(stream) => stream.get_mut().0.close_with_fin(),
        }
    }
}

impl AsyncRead for Session {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Session {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().stream().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(conn) => conn.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_shutdown(cx)
    }
}

/// The failure of a connection.
pub(crate) fn broken(error: io::Error) -> Issue {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Issue::failure(CUT),
        _ => Issue::failure(cause_of(&error)),
    }
}
