//! Parameters of a probe that are invalid, or that would be ignored.

use super::probe::Probe;
use super::target::{TARGET_FORM, Target};
use clap::ValueEnum as _;
use doorbell_checks::options::CheckKind;
use std::fmt;

/// Why a probe cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The target, or a value that cannot be sent.
    Invalid(String),
    /// A parameter has no effect on the target.
    NoEffect(Parameter, Target),
    /// The prober has no such parameter: [`Probe::send_state`] is a feature of HAProxy.
    NotOfProber(Parameter),
    /// The prober does not support the protocol of the target.
    Unsupported(String),
}

/// A field of [`Probe`] that does not apply to every target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// [`Probe::headers`]
    Headers,
    /// [`Probe::host`]
    Host,
    /// [`Probe::proxy_header`]
    ProxyHeader,
    /// [`Probe::send_state`]
    SendState,
    /// [`Probe::statuses`]
    Statuses,
}

impl Probe {
    /// The first reason why [`Self::run`] would send nothing; `None` if the probe can be run.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.invalid_target()
            .or_else(|| self.unsupported())
            .or_else(|| self.without_effect())
            .or_else(|| self.invalid_field())
    }

    fn invalid_target(&self) -> Option<Problem> {
        let is_valid = match &self.target {
            Target::Check(text) => CheckKind::parse(text).is_some(),
            // A program may write the fields of a URL itself.
            Target::Http(url) => url.to_string().bytes().all(|byte| byte.is_ascii_graphic()),
            _ => true,
        };
        let text = self.target.to_string();
        (!is_valid).then(|| Problem::Invalid(format!("invalid target {text:?}: {TARGET_FORM}")))
    }

    fn unsupported(&self) -> Option<Problem> {
        let is_grpc = matches!(self.target, Target::Grpc { .. });
        if !self.prober.speaks_http() && !is_grpc {
            let why = "grpc_health_probe supports gRPC only: use grpc://HOST:PORT/SERVICE";
            return Some(Problem::Unsupported(why.into()));
        }
        let name = self.prober.to_possible_value();
        let name = name.as_ref().map_or("the prober", |value| value.get_name());
        (is_grpc && self.prober.grpc_agent().is_none())
            .then(|| Problem::Unsupported(format!("{name} does not support gRPC")))
    }

    fn without_effect(&self) -> Option<Problem> {
        let (is_http, is_grpc) =
            (matches!(self.target, Target::Http(_)), matches!(self.target, Target::Grpc { .. }));
        let is_tcp = matches!(self.target, Target::Redis(_) | Target::Tcp(_) | Target::Tls(_));
        let given = [
            (Parameter::Statuses, self.statuses.is_some(), is_http),
            (Parameter::Headers, !self.headers.is_empty(), is_http || is_grpc),
            (Parameter::Host, self.host.is_some(), is_http || is_grpc),
            (Parameter::ProxyHeader, self.proxy_header.is_some(), is_http || is_tcp),
            (Parameter::SendState, self.send_state, is_http),
        ];
        let unused = given.into_iter().find(|(_, is_given, applies)| *is_given && !applies);
        if let Some((parameter, ..)) = unused {
            return Some(Problem::NoEffect(parameter, self.target.clone()));
        }
        let has_state = !self.send_state || self.prober.has_state();
        (!has_state).then_some(Problem::NotOfProber(Parameter::SendState))
    }

    /// A line end in a value would begin another field.
    fn invalid_field(&self) -> Option<Problem> {
        if let Some(host) = self.host.as_ref().filter(|host| !is_field_value(host)) {
            return Some(Problem::Invalid(format!("invalid host {host:?}: expected printable ASCII")));
        }
        let is_valid = |(name, value): &&(String, String)| is_field_name(name) && is_field_value(value);
        // The value may be a credential.
        let (name, _) = self.headers.iter().find(|field| !is_valid(field))?;
        Some(Problem::Invalid(format!("invalid header field {name:?}: expected printable ASCII")))
    }
}

/// Whether a text is a token (RFC 9110 5.6.2).
fn is_field_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

fn is_field_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) | Self::Unsupported(why) => f.write_str(why),
            Self::NoEffect(parameter, target) => write!(f, "{parameter} has no effect on {target}"),
            Self::NotOfProber(parameter) => write!(f, "{parameter} is a feature of HAProxy"),
        }
    }
}

/// The name of the field.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Headers => "headers",
            Self::Host => "host",
            Self::ProxyHeader => "proxy_header",
            Self::SendState => "send_state",
            Self::Statuses => "statuses",
        })
    }
}
