//! Packets of the MySQL protocol: the greeting, the login, errors.

use crate::finding::Issue;
use aws_lc_rs::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// Capabilities of a client (CLIENT_LONG_PASSWORD, CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION and
/// CLIENT_PLUGIN_AUTH), and the capability TLS (CLIENT_SSL).
const CAPABILITIES: u32 = 1 | 0x200 | 0x8000 | 0x8_0000;
const CAPABILITY_TLS: u32 = 0x800;

/// Maximum length of a packet that the server may send.
const ANSWER_LEN_MAX: u32 = 1 << 16;

/// utf8mb4_general_ci, of both MySQL and MariaDB.
const CHARSET: u8 = 45;

pub(super) const NATIVE: &str = "mysql_native_password";
pub(super) const CACHING_SHA2: &str = "caching_sha2_password";

/// The first packet of the server (protocol version 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) has_tls: bool,
    /// Random bytes with which the password is hashed.
    pub(super) salt: Vec<u8>,
    /// Method by which the server expects the password.
    pub(super) method: String,
}

impl Greeting {
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let (&version, rest) = packet.split_first()?;
        let (_server_version, rest) = rest.split_at(rest.iter().position(|byte| *byte == 0)? + 1);
        let (_thread, rest) = rest.split_at_checked(4)?;
        let (first_salt, rest) = rest.split_at_checked(8)?;
        // A zero, capabilities, character set, status, capabilities, length of the salt, zeros.
        let (fixed, rest) = rest.split_at_checked(19)?;
        let capabilities = u32::from_le_bytes([fixed[1], fixed[2], fixed[6], fixed[7]]);
        let salt_len = usize::from(fixed[8]).saturating_sub(8).max(13);
        let (second_salt, method) = rest.split_at(salt_len.min(rest.len()));
        let second_salt = second_salt.strip_suffix(&[0]).unwrap_or(second_salt);
        (version == 10 && capabilities & 0x200 != 0).then(|| Self {
            has_tls: capabilities & CAPABILITY_TLS != 0,
            salt: [first_salt, second_salt].concat(),
            method: text_until_zero(method),
        })
    }
}

/// An error of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) text: String,
}

impl Refusal {
    /// Errors by which a server refuses only the user: ER_DBACCESS_DENIED_ERROR,
    /// ER_ACCESS_DENIED_ERROR and ER_ACCESS_DENIED_NO_PASSWORD_ERROR.
    const OF_LOGIN: [u16; 3] = [1044, 1045, 1698];

    /// Parses an error packet.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let (&code, rest) = packet.strip_prefix(&[0xff])?.split_first_chunk()?;
        // The SQL state is absent before the login.
        let text = match rest {
            [b'#', rest @ ..] => rest.get(5..)?,
            _ => rest,
        };
        Some(Self { code: u16::from_le_bytes(code), text: String::from_utf8_lossy(text).into_owned() })
    }

    pub(super) fn is_of_login(&self) -> bool {
        Self::OF_LOGIN.contains(&self.code)
    }
}

/// Parses a request for another authentication method (`AuthSwitchRequest`) into the method and its
/// salt.
pub(super) fn parse_switch(packet: &[u8]) -> Option<(String, Vec<u8>)> {
    let rest = packet.strip_prefix(&[0xfe])?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let salt = &rest[end + 1..];
    let salt = salt.strip_suffix(&[0]).unwrap_or(salt);
    Some((text_until_zero(rest), salt.to_vec()))
}

/// The content of a packet that requests TLS.
pub(super) fn tls_request() -> Vec<u8> {
    head(CAPABILITY_TLS)
}

/// The content of a login packet.
pub(super) fn login(is_tls: bool, user: &str, hashed: &[u8], method: &str) -> Vec<u8> {
    let mut out = head(if is_tls { CAPABILITY_TLS } else { 0 });
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    // The length fits: a hash has 20 or 32 bytes, and is empty for an empty password.
    out.push(u8::try_from(hashed.len()).unwrap_or_default());
    out.extend_from_slice(hashed);
    out.extend_from_slice(method.as_bytes());
    out.push(0);
    out
}

fn head(more_capabilities: u32) -> Vec<u8> {
    let mut out = (CAPABILITIES | more_capabilities).to_le_bytes().to_vec();
    out.extend_from_slice(&ANSWER_LEN_MAX.to_le_bytes());
    out.push(CHARSET);
    out.extend_from_slice(&[0; 23]);
    out
}

/// The form in which an authentication method sends the password; empty for an empty password.
/// `None` for an unknown method.
pub(super) fn hashed(method: &str, password: &str, salt: &[u8]) -> Option<Vec<u8>> {
    let hash = |algorithm: &'static Algorithm, parts: &[&[u8]]| {
        let mut context = Context::new(algorithm);
        parts.iter().for_each(|part| context.update(part));
        context.finish()
    };
    let (once, mask) = match method {
        _ if password.is_empty() => return Some(Vec::new()),
        // SHA1(password) XOR SHA1(salt, SHA1(SHA1(password)))
        NATIVE => {
            let algorithm = &SHA1_FOR_LEGACY_USE_ONLY;
            let once = hash(algorithm, &[password.as_bytes()]);
            let twice = hash(algorithm, &[once.as_ref()]);
            (once, hash(algorithm, &[salt, twice.as_ref()]))
        }
        // SHA256(password) XOR SHA256(SHA256(SHA256(password)), salt)
        CACHING_SHA2 => {
            let once = hash(&SHA256, &[password.as_bytes()]);
            let twice = hash(&SHA256, &[once.as_ref()]);
            (once, hash(&SHA256, &[twice.as_ref(), salt]))
        }
        _ => return None,
    };
    Some(once.as_ref().iter().zip(mask.as_ref()).map(|(byte, mask)| byte ^ mask).collect())
}

/// The only value of a row.
pub(super) fn parse_row(packet: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = packet.split_first()?;
    rest.get(..usize::from(len)).filter(|_| len < 251)
}

fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub(super) fn unexpected() -> Issue {
    Issue::failure("the response is not MySQL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(capabilities: u32, method: &str) -> Vec<u8> {
        let [low, high, more_low, more_high] = capabilities.to_le_bytes();
        let mut packet = b"\x0a8.4.0\0\x01\0\0\0abcdefgh\0".to_vec();
        packet.extend_from_slice(&[low, high, 45, 2, 0, more_low, more_high, 21]);
        packet.extend_from_slice(&[0; 10]);
        packet.extend_from_slice(b"ijklmnopqrst\0");
        packet.extend_from_slice(method.as_bytes());
        packet.push(0);
        packet
    }

    #[test]
    fn greetings_of_any_length() {
        let salt = b"abcdefghijklmnopqrst".to_vec();
        let packet = greeting(CAPABILITIES | CAPABILITY_TLS, CACHING_SHA2);
        let expected = Greeting { has_tls: true, salt, method: CACHING_SHA2.to_owned() };
        assert_eq!(Greeting::parse(&packet), Some(expected));
        assert!(!Greeting::parse(&greeting(CAPABILITIES, NATIVE)).unwrap().has_tls);
        assert_eq!(Greeting::parse(&greeting(0, NATIVE)), None, "older than MySQL 4.1");
        for end in 0..38 {
            assert_eq!(Greeting::parse(&packet[..end]), None, "{end}");
        }
        for end in 38..packet.len() {
            assert!(Greeting::parse(&packet[..end]).is_some(), "{end}");
        }
        assert_eq!(Greeting::parse(b"HTTP/1.1 400 Bad Request\r\n\r\n"), None);
    }

    #[test]
    fn errors_with_and_without_a_state() {
        let refusal = |code, text: &str| Some(Refusal { code, text: text.to_owned() });
        assert_eq!(Refusal::parse(b"\xff\x10\x04Too many"), refusal(1040, "Too many"));
        assert_eq!(Refusal::parse(b"\xff\x15\x04#28000Access denied"), refusal(1045, "Access denied"));
        for bad in [&b""[..], b"\xff", b"\xff\x10", b"\xff\x10\x04#28", b"\x00\x10\x04x"] {
            assert_eq!(Refusal::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn switches_and_rows() {
        let switch = parse_switch(b"\xfemysql_native_password\0abcdefghijklmnopqrst\0");
        assert_eq!(switch, Some((NATIVE.to_owned(), b"abcdefghijklmnopqrst".to_vec())));
        assert_eq!(parse_switch(b"\xfe"), None);
        assert_eq!(parse_row(b"\x01\x30"), Some(&b"0"[..]));
        assert_eq!((parse_row(b"\xfb"), parse_row(b"\x02\x30"), parse_row(b"")), (None, None, None));
    }

    /// Computed with Python's hashlib.
    #[test]
    fn passwords_are_hashed() {
        let hashed = |method, password| {
            let hash = hashed(method, password, b"abcdefghijklmnopqrst")?;
            Some(hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(hashed(NATIVE, ""), text(""));
        assert_eq!(hashed(NATIVE, "secret"), text("8817c50fa779daef010ee7577825b0847df9842e"));
        let sha256 = "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809";
        assert_eq!(hashed(CACHING_SHA2, "secret"), text(sha256));
        assert_eq!(hashed("client_ed25519", "x"), None);
    }
}
