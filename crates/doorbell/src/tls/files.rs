//! Reads TLS files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{CertPair, ClientCa, TlsError};

/// Paths of a certificate chain and its key, both PEM; they may be the same file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertFiles {
    /// The chain, the server's certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl CertFiles {
    /// Creates a pair of paths.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// Reads and checks the files. [`CertPair::warnings`] reports further problems.
    ///
    /// # Errors
    /// A file cannot be read or used. The error names the file and a remedy.
    pub fn load(&self) -> Result<CertPair, TlsError> {
        let certificates = read(&self.certificate)?;
        let key = read(&self.key)?;
        let key_origin = self.key.display().to_string();
        let mut pair = CertPair::from_named_pem(
            &certificates,
            &self.certificate.display().to_string(),
            &key,
            &key_origin,
        )?;
        let mode = fs::metadata(&self.key).map(|metadata| metadata.permissions().mode() & 0o777);
        pair.key_mode = mode.ok().map(|mode| (key_origin, mode));
        Ok(pair)
    }
}

/// Reads a CA bundle and revocation lists for [`super::ClientAuth`].
///
/// # Errors
/// A file cannot be read or used. The error names the file and a remedy.
pub fn read_client_ca(bundle: &Path, crls: &[PathBuf]) -> Result<ClientCa, TlsError> {
    let mut ca = ClientCa::from_named_pem(&read(bundle)?, &bundle.display().to_string())?;
    for crl in crls {
        ca = ca.named_crl(&read(crl)?, &crl.display().to_string())?;
    }
    Ok(ca)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read { origin: path.display().to_string(), error })
}
