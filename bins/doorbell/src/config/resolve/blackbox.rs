//! `[blackbox]` resolved: whoever may be probed must be written down.
//!
//! Does not know about: sockets.

use super::super::model::{Blackbox, Module};
use super::super::written;
use super::balancer::address;
use super::or;
use doorbell_config::{Problem, Problems};

pub(super) fn resolve(written: Option<&written::Blackbox>, problems: &Problems) -> Option<Blackbox> {
    let written = written?;
    if !written.has_bind {
        let problem = Problem::error("missing-key", written.header.clone(), "[blackbox] listens nowhere");
        problems.add(problem.help("add `bind = \"127.0.0.1:9115\"`"));
    }
    let targets = written.targets.as_ref().map(|at| &at.value);
    if targets.is_none_or(Vec::is_empty) {
        let message = "without `targets` whoever reaches the port could have any address asked";
        let problem = Problem::error("no-targets", written.header.clone(), message);
        problems.add(problem.help("add the networks that may be probed: `targets = [\"10.0.0.0/8\"]`"));
    }
    let targets = targets.into_iter().flatten();
    let find_all =
        targets.clone().find(|network| ["0.0.0.0/0", "::/0"].contains(&&*network.value.to_string()));
    if let Some(all) = find_all {
        let message =
            "every address may be probed, this machine's own and those of cloud metadata among them";
        let problem = Problem::warning("any-target", all.span.clone(), message);
        problems.add(problem.help("write the networks that are to be probed"));
    }
    Some(Blackbox {
        binds: written.binds.iter().filter_map(|at| address(at, "[blackbox]", problems)).collect(),
        targets: targets.map(|network| network.value).collect(),
        modules: or(&written.modules, Module::NAMES.map(|(_, module)| module).to_vec()),
        cache: or(&written.cache, Blackbox::CACHE),
        timeout: or(&written.timeout, Blackbox::TIMEOUT),
    })
}
