//! Reasons for the end of a connection, grouped by the side that caused the end.

use core::fmt;

/// The side that caused a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The server: a limit, a drain, a fault.
    Local,
    /// Neither side: the connection ended normally.
    Neither,
    /// The client.
    Peer,
}

macro_rules! close_reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $blame:ident;)*) => {
        /// The reason why a connection ended. The labels are the same in statistics, logs and
        /// metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum CloseReason {
            $($(#[$doc])* $name,)*
        }

        impl CloseReason {
            /// Every reason, in the order of its index.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The label in statistics, logs and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// The side that caused the connection to end.
            pub const fn blame(self) -> Blame {
                match self { $(Self::$name => Blame::$blame,)* }
            }
        }
    };
}

close_reasons! {
    /// The peer closed or reset the connection before it sent a byte: a TCP-only probe.
    Empty = "empty", Neither;
    /// All requests were served, and the connection was closed as announced.
    Done = "done", Neither;
    /// The peer closed in the middle of a request.
    ClientGone = "client_gone", Peer;
    /// The peer reset the connection in the middle of a request, or before it received a whole
    /// reply.
    ClientReset = "client_reset", Peer;
    /// The peer closed between requests.
    ClientFin = "client_fin", Neither;
    /// The peer reset the connection after a complete reply, as HAProxy's checks do.
    ResetAfterReply = "reset_after_reply", Neither;
    /// A handler panicked.
    HandlerPanic = "handler_panic", Local;
    /// The idle timeout: the first or the next request did not begin in time.
    IdleTimeout = "idle_timeout", Peer;
    /// The head of a request did not arrive in time.
    HeaderTimeout = "header_timeout", Peer;
    /// The body of a request did not arrive in time.
    BodyTimeout = "body_timeout", Peer;
    /// A TLS handshake did not finish in time.
    HandshakeTimeout = "handshake_timeout", Peer;
    /// The write timeout: the peer accepted no bytes of a reply for too long.
    WriteTimeout = "write_timeout", Peer;
    /// A send failed before the whole reply was sent.
    SendFailed = "send_failed", Peer;
    /// The request violated a rule or a limit of the protocol; in HTTP it got an error reply.
    Refused = "protocol_error", Peer;
    /// The connection was handed over to another owner.
    HandedOver = "handed_over", Neither;
    /// The hand-over was refused: limit reached or no receiver.
    NotTaken = "not_taken", Local;
    /// Too many open connections from one address.
    PerIpCap = "per_ip_cap", Peer;
    /// The maximum number of requests per connection was reached.
    RequestsMax = "requests_max", Local;
    /// The maximum age of a connection was reached.
    AgeMax = "age_max", Local;
    /// The memory limit for requests that arrive in parts was reached.
    InputMemory = "input_memory", Local;
    /// The server is draining or stopping.
    Drain = "drain", Local;
    /// A PROXY protocol header was invalid, late, missing, or from an untrusted peer.
    ProxyHeader = "proxy_header", Peer;
    /// A job of a request did not finish in time.
    JobTimeout = "job_timeout", Local;
    /// Too many TLS handshakes were in progress.
    HandshakeCap = "handshake_cap", Local;
    /// An invalid TLS handshake or record, or no TLS on a TLS port.
    Tls = "tls_error", Peer;
    /// The driver or the worker of the connection failed.
    Lost = "lost", Local;
}

impl CloseReason {
    /// The index in [`CloseReason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::CloseReason;

    #[test]
    fn indexes_and_labels_are_unique() {
        for (index, reason) in CloseReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            let same = CloseReason::ALL.iter().filter(|other| other.as_str() == reason.as_str()).count();
            assert_eq!(same, 1, "{reason}");
        }
    }
}
