//! The guard that requires a verified client certificate.

use super::{Guard, identified};
use crate::{Replied, Request, Responder, StaticReply, Status};

/// Passes requests with a verified certificate. If names are listed, the certificate must have one
/// of these names. Other requests get 403.
///
/// The status is 403, because a certificate cannot be requested again on this connection.
#[derive(Clone, Debug)]
pub struct RequireClientCert {
    /// The allowed names; empty means that no name is required.
    names: Vec<String>,
    without_certificate: StaticReply,
    wrong_name: StaticReply,
}

impl RequireClientCert {
    /// Accepts any certificate verified by the listener's CA, with or without a name.
    pub fn any() -> Self {
        Self::named(Vec::new())
    }

    /// Accepts only certificates with one of these names among
    /// [`TlsInfo::client_names`](crate::TlsInfo::client_names).
    pub fn named(names: Vec<String>) -> Self {
        let reply = |text: &'static str| StaticReply::text(Status::FORBIDDEN, text);
        Self {
            names,
            without_certificate: reply("a client certificate is needed\n"),
            wrong_name: reply("the client certificate has none of the names that are allowed here\n"),
        }
    }

    /// Whether the guard passes this request.
    #[inline]
    pub fn allows(&self, request: &Request<'_>) -> bool {
        self.admitted(request).is_some()
    }

    /// Returns the name under which the guard passes this request: the first allowed name of the
    /// certificate or, if every name is allowed, its first name. The outer `None` refuses the
    /// request; the inner one is a certificate without a name.
    fn admitted<'r>(&self, request: &Request<'r>) -> Option<Option<&'r str>> {
        let tls = request.client().tls.filter(|tls| tls.client_verified)?;
        let mut names = tls.client_names.iter().map(String::as_str);
        if self.names.is_empty() {
            return Some(names.next());
        }
        names.find(|name| self.names.iter().any(|allowed| allowed == name)).map(Some)
    }

    /// Writes the reply to a refused request.
    #[cold]
    pub fn refuse<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let is_verified = request.client().tls.is_some_and(|tls| tls.client_verified);
        reply.send(if is_verified { &self.wrong_name } else { &self.without_certificate })
    }
}

impl Guard for RequireClientCert {
    #[inline]
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        if self.allows(request) { Ok(reply) } else { Err(self.refuse(request, reply)) }
    }

    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a> {
        match self.admitted(request) {
            Some(Some(name)) => identified(request, name, reply, answer),
            Some(None) => answer(request, reply),
            None => self.refuse(request, reply),
        }
    }
}
