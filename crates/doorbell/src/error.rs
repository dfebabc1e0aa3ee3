//! Everything that can go wrong, sorted by who can do something about it.
//!
//! Does not know about: how errors are shown.

use core::fmt;

/// Who caused a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// Us: a limit, a drain, a fault.
    Local,
    /// Nobody: it was finished.
    Nobody,
    /// The client.
    Peer,
}

macro_rules! close_reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $blame:ident;)*) => {
        /// Why a connection ended. The labels are the same in statistics, logs and metrics.
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

            /// Who caused it.
            pub const fn blame(self) -> Blame {
                match self { $(Self::$name => Blame::$blame,)* }
            }
        }
    };
}

close_reasons! {
    /// The peer closed or reset a connection that had not sent a byte: a TCP-only probe.
    Empty = "empty", Nobody;
    /// Everything asked was answered and the close was due.
    Done = "done", Nobody;
    /// The peer closed in the middle of a request.
    ClientGone = "client_gone", Peer;
    /// The peer reset the connection in the middle of a request, or before all of a reply was taken.
    ClientReset = "client_reset", Peer;
    /// The peer closed between requests.
    ClientFin = "client_fin", Nobody;
    /// The peer reset the connection after a complete reply, as HAProxy's checks do.
    ResetAfterReply = "reset_after_reply", Nobody;
    /// A handler asked for the close.
    Handler = "handler", Local;
    /// A handler panicked.
    HandlerPanic = "handler_panic", Local;
    /// Time ran out before a request began, the first one or the next.
    IdleTimeout = "idle_timeout", Peer;
    /// Time ran out in the head of a request.
    HeaderTimeout = "header_timeout", Peer;
    /// Time ran out in the body of a request.
    BodyTimeout = "body_timeout", Peer;
    /// A TLS handshake was not done in time.
    HandshakeTimeout = "handshake_timeout", Peer;
    /// The peer took no bytes of a reply for too long.
    WriteTimeout = "write_timeout", Peer;
    /// A send failed before the whole reply was taken.
    SendFailed = "send_failed", Peer;
    /// The request broke a rule or a limit of the protocol and was answered with an error.
    Refused = "protocol_error", Peer;
    /// It goes on with somebody else.
    HandedOver = "handed_over", Nobody;
    /// It was to be handed over and nobody took it: as many are out as may be, or there is nobody.
    NotTaken = "not_taken", Local;
    /// Too many connections held from one address.
    PerIpCap = "per_ip_cap", Peer;
    /// It answered as many requests as a connection may have.
    RequestsMax = "requests_max", Local;
    /// It was as old as a connection may be.
    AgeMax = "age_max", Local;
    /// No memory was left for requests that arrive in parts.
    InputMemory = "input_memory", Local;
    /// The server is draining or stopping.
    Drain = "drain", Local;
    /// A PROXY protocol header that is wrong, late, missing, or from a peer that is not believed.
    ProxyHeader = "proxy_header", Peer;
    /// A request that was left for another thread was not answered in time.
    JobTimeout = "job_timeout", Local;
    /// Too many TLS handshakes were in progress.
    HandshakeCap = "handshake_cap", Local;
    /// A TLS handshake or record that cannot be used, or no TLS on a TLS port.
    Tls = "tls_error", Peer;
    /// The ring or the worker that had it failed.
    Lost = "lost", Local;
}

impl CloseReason {
    /// Its index in [`CloseReason::ALL`].
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
