//! What is wrong with TLS material, where, and what to do about it.
//!
//! Does not know about: how errors are shown.

use std::io;

/// Material that cannot be used. Nothing is swapped then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate that is no X.509, or one whose key or signature kind is not supported.
    #[error(
        "{origin}: certificate {position} cannot be read: {why}; check it with `openssl x509 -in FILE -text`"
    )]
    BadCertificate {
        /// The file, or what the bytes were given as.
        origin: String,
        /// From 1, in the order of the file.
        position: usize,
        /// The parser's words.
        why: String,
    },
    /// A revocation list that cannot be used.
    #[error(
        "{origin}: the revocation list cannot be used: {why}; give PEM or DER, signed by the CA it belongs to"
    )]
    BadCrl {
        /// The file.
        origin: String,
        /// The parser's words.
        why: String,
    },
    /// A private key that cannot be used.
    #[error(
        "{origin}: the private key cannot be used: {why}; RSA from 2,048 bits, ECDSA P-256, P-384, P-521 and Ed25519 work"
    )]
    BadKey {
        /// The file.
        origin: String,
        /// The parser's words.
        why: String,
    },
    /// A file that is not PEM.
    #[error("{origin}: not valid PEM: {why}; DER is turned into PEM by `openssl x509 -inform der`")]
    BadPem {
        /// The file.
        origin: String,
        /// The parser's words.
        why: String,
    },
    /// The chain is not in the order in which each certificate signs the one before it.
    #[error(
        "{origin}: certificate {position} did not sign the one before it; put the server's certificate first, then each issuer after what it signed"
    )]
    ChainOrder {
        /// The file.
        origin: String,
        /// The first that is out of place, from 1.
        position: usize,
    },
    /// The private key has a passphrase.
    #[error("{origin}: the private key is encrypted; decrypt it with `openssl pkey -in FILE -out NEWFILE`")]
    EncryptedKey {
        /// The file.
        origin: String,
    },
    /// Key and certificate are not a pair.
    #[error(
        "{origin}: the key does not belong to the certificate in {certificate}; give the pair that was issued together"
    )]
    KeyMismatch {
        /// The key's file.
        origin: String,
        /// The certificate's file.
        certificate: String,
    },
    /// The key belongs to a certificate further down the chain.
    #[error("{origin}: the key belongs to certificate {position} of the chain; put that one first")]
    KeyOfLaterCertificate {
        /// The certificate's file.
        origin: String,
        /// From 1.
        position: usize,
    },
    /// A file without a certificate.
    #[error("{origin}: no certificate in it{hint}")]
    NoCertificate {
        /// The file.
        origin: String,
        /// What is in it instead, if that is known.
        hint: &'static str,
    },
    /// A file without a private key.
    #[error("{origin}: no private key in it{hint}")]
    NoKey {
        /// The file.
        origin: String,
        /// What is in it instead, if that is known.
        hint: &'static str,
    },
    /// The TLS library refused the whole.
    #[error("the TLS configuration cannot be used: {0}")]
    Refused(String),
    /// A file that cannot be read.
    #[error("{origin}: cannot be read: {error}")]
    Read {
        /// The file.
        origin: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// Material that works but should be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsWarning {
    /// An issuer's certificate in the chain ended: clients refuse the whole.
    #[error("{origin}: certificate {position} of the chain expired {ago_secs} s ago; renew the chain")]
    ChainExpired {
        /// The certificate's file.
        origin: String,
        /// From 1, in the order of the file; at least 2.
        position: usize,
        /// Seconds since its end.
        ago_secs: u64,
    },
    /// A revocation list is past its `nextUpdate`.
    #[error(
        "{origin}: the revocation list expired {ago_secs} s ago, {}; put a new one there",
        if *holds { "and is believed all the same" } else { "so no client with a certificate gets in" }
    )]
    CrlExpired {
        /// The list's file.
        origin: String,
        /// Seconds since its end.
        ago_secs: u64,
        /// As [`ClientCa::expired_crls_hold`](super::ClientCa::expired_crls_hold) says.
        holds: bool,
    },
    /// Clients refuse it.
    #[error("{origin}: the certificate expired {ago_secs} s ago; renew it")]
    Expired {
        /// The certificate's file.
        origin: String,
        /// Seconds since its end.
        ago_secs: u64,
    },
    /// Anyone on this machine can take it.
    #[error(
        "{origin}: every user of this machine can read the private key (mode {mode:o}); `chmod o-rwx` it"
    )]
    KeyReadableByOthers {
        /// The key's file.
        origin: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Clients refuse it until then.
    #[error("{origin}: the certificate is not valid for another {in_secs} s; check the clock")]
    NotYetValid {
        /// The certificate's file.
        origin: String,
        /// Seconds until its beginning.
        in_secs: u64,
    },
}
