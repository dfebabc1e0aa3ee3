//! `[admin]` as it was written.
//!
//! Does not know about: what is the default.

use super::super::bind::{Bind, BindError};
use super::super::model::Secret;
use doorbell_config::{At, Problem, Section};
use std::net::SocketAddr;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) bind: Option<At<SocketAddr>>,
    pub(crate) hosts: Option<At<Vec<At<String>>>>,
    pub(crate) token: Option<At<Secret>>,
    pub(crate) open: Option<At<bool>>,
}

impl Admin {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let header = at.span.clone();
        let has_bind = at.value("bind").is_some();
        let (bind, hosts) = (read_bind(&mut at), at.strings("hosts"));
        let admin = Self { header, has_bind, bind, hosts, token: at.secret("token"), open: at.bool("open") };
        at.finish();
        admin
    }
}

fn read_bind(at: &mut Section<'_>) -> Option<At<SocketAddr>> {
    let At { value: text, span } = at.string("bind")?;
    let why = match text.parse() {
        Ok(Bind::Tcp(value)) => return Some(At { value, span }),
        Ok(Bind::Fd(_) | Bind::Systemd(_) | Bind::Unix(_)) => "it is no IP address and port".to_owned(),
        Err(error @ (BindError::HostName | BindError::NoPort | BindError::Other)) => error.to_string(),
    };
    let message = format!("{text:?} cannot be listened on: {why}");
    at.problem(Problem::error("bad-address", span, message).help("as in bind = \"127.0.0.1:9130\""));
    None
}
