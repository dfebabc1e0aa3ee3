//! Sockets of a .socket unit that no listener uses. Each causes a warning, because its clients are
//! never served. If such a socket is the reason why an address is in use, the error names it.
//!
//! Does not know about: how sockets are inherited ([`inherit`]).

use super::inherit::{self, Passed};
use super::{address, descriptor_store};
use doorbell_proxy_config::model::Config;
use doorbell_proxy_config::{Bind, BoundAddr};
use std::net::SocketAddr;

/// Warns of every passed socket that no `bind` names. systemd keeps it open, so clients can
/// connect, but are never served.
pub(crate) fn warn_of_unused(config: &Config) {
    let env = |name: &str| std::env::var(name).ok();
    let binds: Vec<&Bind> = binds(config).collect();
    for passed in unused(&inherit::list(&env), &binds) {
        let at = addr_of(passed).map(|bound| format!(" at {}", bound.addr)).unwrap_or_default();
        tracing::warn!(
            "unused socket {:?}{at} from systemd (descriptor {}): clients that connect there will wait; {}",
            passed.name,
            passed.fd,
            fix(passed)
        );
    }
}

/// Returns the holder of an address in use and the fix, if systemd has bound the address and passed
/// the socket to this process.
pub(crate) fn holder_of(addr: SocketAddr) -> Option<String> {
    let env = |name: &str| std::env::var(name).ok();
    let requested = BoundAddr { addr, v6_only: false };
    // Sockets of the descriptor store belong to no unit.
    let is_there = |passed: &Passed| {
        !descriptor_store::is_name(&passed.name)
            && addr_of(passed).is_some_and(|held| held.overlaps(requested))
    };
    let passed = inherit::list(&env).into_iter().find(is_there)?;
    Some(format!("systemd holds it for a .socket unit and passed it as {:?}; {}", passed.name, fix(&passed)))
}

fn fix(passed: &Passed) -> String {
    let bind =
        if passed.name.is_empty() { format!("fd:{}", passed.fd) } else { format!("systemd:{}", passed.name) };
    format!(
        "use `bind = \"{bind}\"`, or stop that unit, as in `systemctl disable --now doorbell.socket` (see `systemctl list-sockets`)"
    )
}

fn binds(config: &Config) -> impl Iterator<Item = &Bind> {
    let listeners = config.listeners.iter().flat_map(|listener| listener.addresses());
    listeners.chain(config.agents.iter().flat_map(|agent| &agent.binds).map(|bind| &bind.value))
}

fn unused<'a>(passed: &'a [Passed], binds: &[&Bind]) -> Vec<&'a Passed> {
    let is_named = |passed: &Passed| {
        binds.iter().any(|bind| match bind {
            Bind::Fd(fd) => *fd == passed.fd,
            Bind::Systemd(name) => *name == passed.name,
            Bind::Tcp(_) | Bind::Unix(_) => false,
        })
    };
    passed.iter().filter(|passed| !is_named(passed) && !descriptor_store::is_name(&passed.name)).collect()
}

fn addr_of(passed: &Passed) -> Option<BoundAddr> {
    address::of(&inherit::numbered(passed.fd).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_no_bind_names_is_unused() {
        let passed = |fd, name: &str| Passed { fd, name: name.to_owned() };
        let all = [
            passed(3, "probes"),
            passed(4, "doorbell.socket"),
            passed(5, "doorbell-listener-0.0.0.0_80"),
            passed(6, ""),
            passed(7, "probes"),
        ];
        let (named, numbered) = (Bind::Systemd("probes".to_owned()), Bind::Fd(6));
        let left = |binds: &[&Bind]| unused(&all, binds).iter().map(|passed| passed.fd).collect::<Vec<_>>();
        assert_eq!(left(&[]), [3, 4, 6, 7], "sockets of the descriptor store belong to no unit");
        assert_eq!(left(&[&named]), [4, 6]);
        assert_eq!(left(&[&named, &numbered]), [4]);
    }
}
