//! Errors and warnings about TLS files: the problem, its location and the remedy.

use std::io;

/// TLS files or settings that cannot be used. The previous configuration stays in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate that is not X.509, or has an unsupported key or signature type.
    #[error(
        "{origin}: certificate {position} cannot be read: {why}; check it with `openssl x509 -in FILE -text`"
    )]
    BadCertificate {
        /// The file, or the name given to the bytes.
        origin: String,
        /// Position in the file, counted from 1.
        position: usize,
        /// Message of the parser.
        why: String,
    },
    /// A revocation list that cannot be used.
    #[error(
        "{origin}: the revocation list cannot be used: {why}; use a PEM or DER list that the CA has signed"
    )]
    BadCrl {
        /// The file.
        origin: String,
        /// Message of the parser.
        why: String,
    },
    /// A private key that cannot be used.
    #[error(
        "{origin}: the private key cannot be used: {why}; supported are RSA from 2,048 bits, ECDSA P-256, P-384, P-521 and Ed25519"
    )]
    BadKey {
        /// The file.
        origin: String,
        /// Message of the parser.
        why: String,
    },
    /// A file that is not PEM.
    #[error("{origin}: not valid PEM: {why}; convert DER with `openssl x509 -inform der`")]
    BadPem {
        /// The file.
        origin: String,
        /// Message of the parser.
        why: String,
    },
    /// The order of the chain is wrong: a certificate did not sign the one before it.
    #[error(
        "{origin}: certificate {position} did not sign the one before it; put the server's certificate first, then each certificate's issuer"
    )]
    ChainOrder {
        /// The file.
        origin: String,
        /// Position of the first certificate that is out of order, counted from 1.
        position: usize,
    },
    /// The private key has a passphrase.
    #[error("{origin}: the private key is encrypted; decrypt it with `openssl pkey -in FILE -out NEWFILE`")]
    EncryptedKey {
        /// The file.
        origin: String,
    },
    /// Key and certificate do not match.
    #[error(
        "{origin}: the key does not belong to the certificate in {certificate}; use a key and a certificate that were issued together"
    )]
    KeyMismatch {
        /// The key's file.
        origin: String,
        /// The certificate's file.
        certificate: String,
    },
    /// The key matches a certificate further down the chain.
    #[error("{origin}: the key belongs to certificate {position} of the chain; put that certificate first")]
    KeyOfLaterCertificate {
        /// The certificate's file.
        origin: String,
        /// Position in the chain, counted from 1.
        position: usize,
    },
    /// A file without a certificate.
    #[error("{origin}: contains no certificate{hint}")]
    NoCertificate {
        /// The file.
        origin: String,
        /// A hint about the actual contents of the file, if known.
        hint: &'static str,
    },
    /// A file without a private key.
    #[error("{origin}: contains no private key{hint}")]
    NoKey {
        /// The file.
        origin: String,
        /// A hint about the actual contents of the file, if known.
        hint: &'static str,
    },
    /// The TLS library refused the configuration.
    #[error("the TLS configuration cannot be used: {0}")]
    Refused(String),
    /// A file that could not be read.
    #[error("{origin}: cannot be read: {error}")]
    Read {
        /// The file.
        origin: String,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
}

/// A condition that needs attention although the files can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsWarning {
    /// A certificate of an issuer in the chain expired: clients refuse the chain.
    #[error("{origin}: certificate {position} of the chain expired {ago_secs} s ago; renew the chain")]
    ChainExpired {
        /// The certificate's file.
        origin: String,
        /// Position in the file, counted from the server's certificate, which is 1.
        position: usize,
        /// Seconds since its expiry.
        ago_secs: u64,
    },
    /// A revocation list is past its `nextUpdate`.
    #[error(
        "{origin}: the revocation list expired {ago_secs} s ago, {}; replace it",
        if *holds { "but is still used" } else { "so clients with a certificate are refused" }
    )]
    CrlExpired {
        /// The list's file.
        origin: String,
        /// Seconds since its expiry.
        ago_secs: u64,
        /// Value of [`ClientCa::expired_crls_hold`](super::ClientCa::expired_crls_hold).
        holds: bool,
    },
    /// The certificate expired: clients refuse it.
    #[error("{origin}: the certificate expired {ago_secs} s ago; renew it")]
    Expired {
        /// The certificate's file.
        origin: String,
        /// Seconds since its expiry.
        ago_secs: u64,
    },
    /// Every user of this machine can read the private key.
    #[error(
        "{origin}: every user of this machine can read the private key (mode {mode:o}); run `chmod o-rwx` on it"
    )]
    KeyReadableByOthers {
        /// The key's file.
        origin: String,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The certificate is not valid yet: clients refuse it.
    #[error("{origin}: the certificate is not valid for another {in_secs} s; check the clock")]
    NotYetValid {
        /// The certificate's file.
        origin: String,
        /// Seconds until its validity begins.
        in_secs: u64,
    },
}
