//! Metrics of links to other instances.

use doorbell_control::{LinkView, QuantilesView};
use doorbell_metrics::{Families, Filling, as_f64};

pub(super) fn gather(links: &[LinkView], families: &mut Families) {
    let help = "1 for a link with an open connection.";
    each(links, families.gauge("doorbell_link_up", help), |up, [link], view| {
        up.count([link], u64::from(view.connected_ms.is_some()));
    });
    counters(links, families);
    let help = "Transitions that the peer has not acknowledged.";
    each(links, families.gauge("doorbell_link_waiting", help), |waiting, [link], view| {
        waiting.count([link], view.waiting);
    });
    let help = "Checks and endpoints that the peer has stated.";
    each(links, families.gauge("doorbell_link_subjects", help), |subjects, [link], view| {
        subjects.count([link], view.subjects);
    });
    let help = "Round trips of frames in the last minute, by quantile; 1 is the maximum.";
    each(links, families.gauge("doorbell_link_round_trip_seconds", help), |family, link, view| {
        view.minute.iter().for_each(|minute| quantiles(family, link, minute.round_trip));
    });
    let help = "Latencies of frames to the peer in the last minute, by quantile; 1 is the maximum.";
    each(links, families.gauge("doorbell_link_one_way_seconds", help), |family, link, view| {
        view.minute.iter().for_each(|minute| quantiles(family, link, minute.one_way));
    });
    let help = "Maximum error of the estimated clock offset.";
    each(links, families.gauge("doorbell_link_clock_error_seconds", help), |family, [link], view| {
        if let Some(error) = view.clock_error_us {
            family.add([link], seconds(error));
        }
    });
    let help = "Estimated clock offset: the clock of the peer minus the clock of this instance.";
    each(links, families.gauge("doorbell_link_clock_offset_seconds", help), |family, [link], view| {
        if let Some(offset) = view.clock_offset_us {
            let seconds = seconds(offset.unsigned_abs());
            family.add([link], if offset < 0 { -seconds } else { seconds });
        }
    });
}

fn counters(links: &[LinkView], families: &mut Families) {
    let help = "Connections of a link.";
    each(links, families.counter("doorbell_link_connections", help), |family, [link], view| {
        family.count([link], view.count("connections"));
    });
    let help = "Frames of a link: received, sent, and lost with a connection after they were sent.";
    each(links, families.counter("doorbell_link_frames", help), |family, [link], view| {
        for result in ["lost", "received", "sent"] {
            family.count([link, ("result", result)], view.count(&format!("frames_{result}")));
        }
    });
    let help =
        "Transitions with a newer state, results and receipts that were dropped because too many waited.";
    each(links, families.counter("doorbell_link_dropped", help), |family, [link], view| {
        for (kind, name) in [
            ("receipt", "receipts_dropped"),
            ("result", "results_dropped"),
            ("transition", "transitions_superseded"),
        ] {
            family.count([link, ("kind", kind)], view.count(name));
        }
    });
}

type Label<'a> = [(&'static str, &'a str); 1];

fn each(
    links: &[LinkView],
    mut family: Filling<'_>,
    mut add: impl FnMut(&mut Filling<'_>, Label<'_>, &LinkView),
) {
    links.iter().for_each(|view| add(&mut family, [("link", &view.name)], view));
}

fn quantiles(family: &mut Filling<'_>, [link]: Label<'_>, of: QuantilesView) {
    for (quantile, us) in [("0.5", of.p50_us), ("0.9", of.p90_us), ("0.99", of.p99_us), ("1", of.max_us)] {
        family.add([link, ("quantile", quantile)], seconds(us));
    }
}

fn seconds(us: u64) -> f64 {
    as_f64(us) / 1e6
}
