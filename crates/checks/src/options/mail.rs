//! Options of `mail` checks.

use super::address::{Address, ClientTls, Resolve};
use super::latency::LatencyRule;
use super::remote::CertificateRule;
use super::target::target;
use doorbell_config::{Entry, Section, Table, Words};

/// The greeting of a mail server.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct MailCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"mail.internal:25\"")]
    pub address: Address,
    /// Protocol of the server. smtp includes submission, such as on port 587.
    #[key(default = "smtp")]
    pub protocol: MailProtocol,
    /// Begin TLS on the open connection, with STARTTLS (pop3: STLS). The server must support it.
    #[key(default = false)]
    pub starttls: bool,
    /// TLS from the first byte, as on port 465, 993 or 995; with `starttls`, TLS of the upgrade.
    /// Default: none; with `starttls`, the certificate authorities of the system.
    #[key(shown)]
    pub tls: Option<ClientTls>,
    /// Name in EHLO, only for smtp.
    #[key(default = "localhost", read = domain)]
    pub ehlo: String,
    /// Limits on the remaining lifetime of the certificates.
    #[key(flatten)]
    pub certificate: CertificateRule,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// Protocols of mail servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum MailProtocol {
    /// IMAP4rev1 and IMAP4rev2 (RFC 9051).
    Imap,
    /// POP3 (RFC 1939).
    Pop3,
    /// SMTP (RFC 5321).
    Smtp,
}

impl MailCheck {
    /// Expects a greeting, without TLS.
    #[must_use]
    pub fn new(protocol: MailProtocol, address: Address) -> Self {
        Self { protocol, address, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let help = "add `starttls = true` or `tls = {}`, or remove it";
        CertificateRule::needs_tls(at, self.starttls || self.tls.is_some(), help);
    }
}

target!(check: MailCheck, check.address.remote(), check.tls.as_ref());

/// Reads a domain or an address literal (RFC 5321 4.1.3).
fn domain(entry: &Entry<'_>) -> Option<String> {
    let text = entry.string()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]_".contains(&byte);
    if (1..=255).contains(&text.len()) && text.bytes().all(allowed) {
        return Some(text);
    }
    let help = "write a name, as in \"probe.example.com\", or \"[192.0.2.1]\"";
    entry.refuse("bad-value", format!("{text:?} is not a domain"), help)
}
