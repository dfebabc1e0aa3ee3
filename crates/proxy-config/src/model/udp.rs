//! `[udp.NAME]`: replies to datagrams.

use super::super::bind::addresses;
use doorbell_checks::options::unhex;
use doorbell_config::{At, Link, Problem, Section, Table, Words};
use std::net::SocketAddr;

/// One datagram listener. No reply is longer than its request unless `amplification` is above 1.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check, useless = Self::useless)]
pub struct Udp {
    /// Named in logs, errors and metrics.
    #[key(table_name)]
    pub name: String,
    // Addresses only: a passed socket may have other owners, so closing it might not close the
    // port.
    /// Addresses and ports to receive at; one or a list. Required.
    #[key(name = "bind", required = "\"127.0.0.1:9133\"", filled, read = addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// Reply to each datagram: health (while the endpoint serves), fixed (always), or echo (the
    /// datagram itself).
    #[key(default = "health")]
    pub reply: UdpReply,
    /// With health: endpoint to follow.
    #[key(default = "readyz", shown)]
    pub health: At<Link>,
    /// With health: while the endpoint does not serve, silent (no reply) or unreachable (the port
    /// is closed, so that clients get an ICMP message).
    #[key(default = "silent")]
    pub when_down: UdpWhenDown,
    /// Text of the reply. Default with health: the datagram itself.
    pub text: Option<String>,
    /// Bytes of the reply in hexadecimal digits, instead of `text`.
    pub hex: Option<String>,
    /// Maximum size of a datagram; larger ones are dropped.
    #[key(default = "1500B", range = "1B..=65507B", size, nonzero)]
    pub max_size: u32,
    /// Maximum length of a reply as a multiple of its request; longer replies are not sent. Above
    /// 1, forged requests can multiply traffic to a victim.
    #[key(default = 1, range = 1..=100, nonzero)]
    pub amplification: u32,
    /// Maximum number of datagrams per second from a client address, or off; further ones are
    /// dropped.
    #[key(default = 1000, none = "off", range = 1..=1_000_000, nonzero)]
    pub per_ip_rate: Option<u32>,
    /// Bytes of datagrams that the kernel queues for each worker (SO_RCVBUF), or auto (the kernel's
    /// net.core.rmem_default); further datagrams are lost. The kernel caps the size at
    /// net.core.rmem_max.
    #[key(default = "auto", none = "auto", range = "4KiB..=64MiB", size)]
    pub receive_buffer: Option<u32>,
}

/// Source of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum UdpReply {
    /// The request.
    Echo,
    /// The configured bytes.
    Fixed,
    /// The configured bytes or the request, while the endpoint serves.
    Health,
}

/// Treatment of datagrams while the endpoint does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum UdpWhenDown {
    /// No reply.
    Silent,
    /// The kernel refuses the datagrams.
    Unreachable,
}

impl Udp {
    /// The endpoint to follow, with `reply = "health"`.
    #[must_use]
    pub fn follows(&self) -> Option<&At<Link>> {
        Some(&self.health).filter(|_| self.reply == UdpReply::Health)
    }

    /// The configured bytes of the reply.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match &self.hex {
            Some(hex) => unhex(hex),
            None => self.text.as_ref().map(|text| text.clone().into_bytes()),
        }
    }

    /// Keys without effect for this source of replies.
    fn useless(&self) -> &'static [&'static str] {
        match self.reply {
            UdpReply::Echo => &["health", "when_down", "text", "hex"],
            UdpReply::Fixed => &["health", "when_down"],
            UdpReply::Health => &[],
        }
    }

    fn check(&self, at: &Section<'_>) {
        for (key, place) in self.useless().iter().filter_map(|key| Some((key, at.right_place(key)?))) {
            let message = format!("`{key}` has no effect with `reply = \"{}\"`", self.reply.word());
            let problem = Problem::error("useless-key", place, message);
            at.problem(problem.help("remove it, or set `reply = \"health\"`"));
        }
        if let (Some(_), Some(place)) = (&self.text, at.right_place("hex")) {
            let message = "`text` and `hex` are two replies";
            at.problem(Problem::error("contradiction", place, message).help("remove one of them"));
        }
        if let (Some(hex), Some(place)) = (&self.hex, at.right_place("hex"))
            && unhex(hex).is_none()
        {
            let message = format!("{hex:?} is not a sequence of hexadecimal bytes");
            at.problem(
                Problem::error("bad-value", place, message).help("write two digits per byte: \"0a1b\""),
            );
        }
        if self.reply == UdpReply::Fixed && at.place("text").is_none() && at.place("hex").is_none() {
            let message = format!("udp listener `{}` has no reply", self.name);
            let problem = Problem::error("missing-key", at.span.clone(), message);
            at.problem(problem.help("add `text = \"pong\"` or `hex = \"706f6e67\"`"));
        }
    }
}
