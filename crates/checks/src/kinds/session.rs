//! A connection that may change from plain text to TLS.
//!
//! Does not know about: the protocols.

use crate::connect::connector::Conn;
use crate::connect::tls::{Protocols, Tls, handshake};
use crate::finding::{CUT, Issue, Verdict, cause_of};
use crate::kinds::materials::Materials;
use crate::kinds::tls;
use crate::options::{CertificateRule, ClientTls};
use crate::progress::{Progress, Stage};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
#[cfg(any(feature = "mail", feature = "mysql", feature = "postgres"))]
use tokio::io::AsyncWriteExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

/// Reason of a failure: the server needs the password in clear text, and
/// [`DatabaseAccess::is_private`] is false.
///
/// [`DatabaseAccess::is_private`]: crate::options::DatabaseAccess::is_private
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const CLEAR_TEXT: &str =
    "the server asks for the password in clear text, which needs `tls` with `verify`";

/// TLS of the connections of one check, and limits on the remaining lifetime of the certificates.
#[derive(Debug)]
pub(crate) struct Security {
    tls: Tls,
    server_name: String,
    certificate: CertificateRule,
}

impl Security {
    /// `None` without TLS. `protocols` are offered by ALPN.
    pub(crate) fn build(
        tls: Option<&ClientTls>,
        host: &str,
        certificate: CertificateRule,
        protocols: Protocols,
        with: &mut Materials<'_>,
    ) -> Result<Option<Self>, String> {
        let Some(tls) = tls else { return Ok(None) };
        let server_name = tls.server_name.as_deref().unwrap_or(host).to_owned();
        Ok(Some(Self { tls: with.shared.tls.take(tls, protocols, true)?, server_name, certificate }))
    }

    /// Evaluates the remaining lifetime of the certificates of a completed handshake.
    pub(crate) fn evaluate(security: Option<&Self>, progress: &Progress) -> Verdict {
        security.map_or(Ok(()), |security| tls::evaluate(progress, &security.certificate))
    }
}

/// A connection, with or without TLS.
#[derive(Debug)]
pub(crate) enum Session {
    Plain(Conn),
    Tls(Box<TlsStream<Conn>>),
}

impl Session {
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

    #[cfg(feature = "mysql")]
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    #[cfg(any(feature = "mail", feature = "mysql", feature = "postgres"))]
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Verdict {
        let sent = async {
            self.write_all(bytes).await?;
            self.flush().await
        };
        sent.await.map_err(broken)
    }

    /// Makes the connection close with FIN, as [`Conn::close_with_fin`] does, and ends the TLS
    /// session.
    #[cfg(feature = "postgres")]
    pub(crate) async fn close(mut self) {
        let _gone = self.shutdown().await;
        match &mut self {
            Self::Plain(conn) => conn.close_with_fin(),
            Self::Tls(stream) => stream.get_mut().0.close_with_fin(),
        }
    }
}

impl AsyncRead for Session {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(conn) => Pin::new(conn).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Session {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(conn) => Pin::new(conn).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(conn) => Pin::new(conn).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(conn) => Pin::new(conn).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The failure of a connection.
pub(crate) fn broken(error: io::Error) -> Issue {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Issue::failure(CUT),
        _ => Issue::failure(cause_of(&error)),
    }
}
