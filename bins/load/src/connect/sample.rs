//! Measurements of one connection, and their encoding for the pipe of a helper.

/// Encoded length of a sample.
pub const RECORD_LEN: usize = 16;

/// Measurements of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds in `connect(2)`, summed over all attempts.
    pub connect_ns: u32,
    /// Nanoseconds to a connected socket, including `socket(2)`, options, binding, and every
    /// attempt.
    pub whole_ns: u32,
    /// The local port. 0 if the connection failed.
    pub port: u16,
    /// Number of attempts that were repeated with other candidate ports, because no candidate was
    /// free.
    pub retries: u16,
    /// The error of a failed connection, otherwise 0.
    pub errno: i32,
}

impl Sample {
    /// Encodes the sample for a pipe on this machine.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..4].copy_from_slice(&self.connect_ns.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.whole_ns.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.port.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.retries.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.errno.to_ne_bytes());
        bytes
    }

    /// Decodes the output of [`to_bytes`](Self::to_bytes).
    #[must_use]
    pub const fn from_bytes(bytes: [u8; RECORD_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            connect_ns: u32::from_ne_bytes([a, b, c, d]),
            whole_ns: u32::from_ne_bytes([e, f, g, h]),
            port: u16::from_ne_bytes([i, j]),
            retries: u16::from_ne_bytes([k, l]),
            errno: i32::from_ne_bytes([m, n, o, p]),
        }
    }

    /// Whether the connection succeeded.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.errno == 0
    }

    /// Whether the local port is odd.
    #[must_use]
    pub const fn is_odd(&self) -> bool {
        self.port % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let sample =
            Sample { connect_ns: 1 << 31, whole_ns: u32::MAX, port: 60_999, retries: 300, errno: -1 };
        assert_eq!(Sample::from_bytes(sample.to_bytes()), sample);
        assert!(sample.is_odd() && !sample.is_connected() && Sample::default().is_connected());
    }
}
