//! What stands before a route, resolved: limits, tokens, client certificates.
//!
//! Does not know about: what a route answers.

use super::super::model::{ClientAuthMode, ClientCert, Guard};
use super::super::written;
use super::route::Resolver;
use doorbell_config::{At, Problem};
use std::ops::Range;

/// A name that is longer is not used (see the TLS of the engine).
const CLIENT_NAME_LEN_MAX: usize = 256;

impl Resolver<'_> {
    pub(super) fn guard(&self, written: &written::Route, listeners: &[usize]) -> Guard {
        self.check_client_cert(written, listeners);
        let mut auth = Vec::new();
        if let Some(names) = &written.auth {
            if names.value.is_empty() {
                let problem =
                    Problem::error("empty-list", names.span.clone(), "a list of auth rules without one");
                self.problems.add(problem.help("leave `auth` out to let everybody in, or name a rule"));
            }
            for position in names.value.iter().filter_map(|name| self.auth.position(name)) {
                if !auth.contains(&position) {
                    auth.push(position);
                }
            }
        }
        Guard {
            limit: written.limit.as_ref().and_then(|name| self.limits.position(name)),
            concurrent: written.concurrent.as_ref().map(|at| at.value),
            client_cert: written.client_cert.as_ref().map(|at| at.value),
            client_names: self.client_names(written),
            auth,
        }
    }

    fn client_names(&self, written: &written::Route) -> Vec<String> {
        let Some(names) = &written.client_names else { return Vec::new() };
        if names.value.is_empty() {
            let problem = Problem::error("empty-list", names.span.clone(), "a list of names without one");
            self.problems.add(problem.help("leave `client_names` out to let every verified certificate in"));
        }
        for At { value: name, span } in &names.value {
            let good =
                !name.is_empty() && name.len() <= CLIENT_NAME_LEN_MAX && !name.chars().any(char::is_control);
            let help = match name.contains('*') {
                true => "wildcards are not supported; list every name",
                false => "write an alternative name of the certificate, or its common name if it has none",
            };
            if !good || name.contains('*') {
                let message = format!("{name:?} is not the name of a client");
                self.problems.add(Problem::error("bad-value", span.clone(), message).help(help));
            }
        }
        names.value.iter().map(|at| at.value.clone()).collect()
    }

    /// A client can only be asked for a certificate where its listener speaks TLS and asks.
    fn check_client_cert(&self, written: &written::Route, listeners: &[usize]) {
        let asks = |&position: &usize| {
            let tls = self
                .listeners
                .get(position)
                .and_then(|listener| self.tls.get(listener.tls.as_ref()?.position));
            tls.is_some_and(|tls| tls.client_auth.mode != ClientAuthMode::None)
        };
        let cert = written.client_cert.as_ref();
        let exempt = cert.filter(|at| at.value == ClientCert::Exempt);
        if let (Some(exempt), Some(names)) = (exempt, &written.client_names) {
            let message = "a route that needs no certificate cannot ask for its name";
            self.problems.add(
                Problem::error("contradiction", names.span.clone(), message)
                    .also(exempt.span.clone(), "no certificate needed")
                    .help("remove one of the two"),
            );
            return;
        }
        // After another error there is nothing to compare with.
        if listeners.is_empty() {
            return;
        }
        let wanted: Option<(&str, Range<usize>)> = match (cert, &written.client_names) {
            (Some(at), _) => Some(("client_cert", at.span.clone())),
            (None, Some(names)) => Some(("client_names", names.span.clone())),
            (None, None) => None,
        };
        let Some((key, span)) = wanted else { return };
        let silent = match exempt {
            // Elsewhere nobody is asked anyway.
            Some(_) if listeners.iter().any(asks) => None,
            _ => listeners.iter().find(|position| !asks(position)),
        };
        if let Some(listener) = silent.and_then(|&position| self.listeners.get(position)) {
            let message =
                format!("`{key}`, but listener `{}` asks no client for a certificate", listener.name);
            let help = match listener.tls.as_ref().and_then(|link| self.tls.get(link.position)) {
                Some(tls) => format!(
                    "add `client_auth = {{ mode = \"require\", ca = \"CA.crt\" }}` to [tls.{}]",
                    tls.name
                ),
                None => format!("name a TLS table with `client_auth` in [listener.{}]", listener.name),
            };
            self.problems.add(Problem::error("no-client-auth", span, message).help(help));
        }
    }
}
