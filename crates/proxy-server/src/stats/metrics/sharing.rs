//! Metrics of the store that instances share, and of shared checks.

use doorbell_metrics::Families;
use doorbell_shared::{ShareCounters, ShareView, StoreCounters};

/// State of the store, and of each shared check by name.
#[derive(Clone, Debug, Default)]
pub(super) struct SharingSample {
    pub(super) is_usable: bool,
    pub(super) store: StoreCounters,
    pub(super) checks: Vec<(String, ShareView)>,
    pub(super) dropped: u64,
}

pub(super) fn gather(sample: Option<&SharingSample>, families: &mut Families) {
    let Some(sample) = sample else { return };
    let help = "1 if the shared store is connected, and no command or subscription has failed for a minute.";
    families.gauge("doorbell_shared_up", help).count([], u64::from(sample.is_usable));
    let StoreCounters { commands, errors, refused, connections } = sample.store;
    let help = "Connections to the shared store that were opened.";
    families.counter("doorbell_shared_connections", help).count([], connections);
    let help = "Commands to the shared store: sent, and refused because there was no connection.";
    let mut family = families.counter("doorbell_shared_commands", help);
    family.count([("result", "refused")], refused);
    family.count([("result", "sent")], commands);
    let help = "Commands to the shared store without a usable reply, and failed connections.";
    families.counter("doorbell_shared_errors", help).count([], errors);
    let help = "Messages of other instances that were dropped because too many waited.";
    families.counter("doorbell_shared_dropped", help).count([], sample.dropped);
    let help = "1 if this instance runs the shared check for all.";
    let mut family = families.gauge("doorbell_shared_check_holder", help);
    for (check, view) in &sample.checks {
        family.count([("check", check)], u64::from(view.is_holder));
    }
    let help = "Runs of a shared check by this instance: for all, or for itself because there was no result.";
    let mut family = families.counter("doorbell_shared_check_runs", help);
    for (check, ShareView { counters: ShareCounters { runs, own_runs, .. }, .. }) in &sample.checks {
        family.count([("check", check.as_str()), ("for", "all")], *runs);
        family.count([("check", check.as_str()), ("for", "itself")], *own_runs);
    }
    let help = "Results of a shared check: taken from another instance, fenced by a newer token, or ignored \
                because of their format.";
    let mut family = families.counter("doorbell_shared_check_results", help);
    for (check, view) in &sample.checks {
        let ShareCounters { taken, fenced, ignored, .. } = view.counters;
        for (result, count) in [("fenced", fenced), ("ignored", ignored), ("taken", taken)] {
            family.count([("check", check.as_str()), ("result", result)], count);
        }
    }
}
