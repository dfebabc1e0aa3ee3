//! Generates `reference/metrics.md`: every metric family, from the exposition text.
//!
//! The text is a made-up scrape that has a sample of every family.

use crate::page::{GENERATED, cell};
use std::fmt::Write as _;

const SCRAPE: &str = include_str!("../../../../crates/proxy-server/src/stats/metrics/golden/metrics.txt");

const INTRODUCTION: &str = "\
# Metrics

Every metric family of `GET /metrics` on the [admin listener](keys.md#admin), in the Prometheus text
format (OpenMetrics on request). A family appears once there is something to report. Counters belong to
the process and survive reloads. Alerting rules and a dashboard are in `deploy/prometheus` and
`deploy/grafana`.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
";

struct Family<'t> {
    name: &'t str,
    kind: &'t str,
    help: &'t str,
    labels: Vec<&'t str>,
}

pub(crate) fn page() -> String {
    let families = families();
    assert!(families.len() > 90, "{}", families.len());
    let mut page = format!("{GENERATED}{INTRODUCTION}");
    for Family { name, kind, help, labels } in families {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _infallible = writeln!(page, "| `{name}` | {kind} | {} | {} |", labels.join(", "), cell(help));
    }
    page
}

fn families() -> Vec<Family<'static>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in SCRAPE.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            families.push(Family { name, kind: "", help, labels: Vec::new() });
        } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            families.last_mut().unwrap().kind = kind;
        } else if let Some((_, labels)) = line.split_once('{') {
            let known = &mut families.last_mut().unwrap().labels;
            // The name of a label precedes `="` and follows a quote, a comma or a brace.
            for part in labels.split("=\"").filter(|part| !part.contains('}')) {
                let name = part.rsplit(['"', ',']).next().unwrap_or_default();
                if !name.is_empty() && !known.contains(&name) {
                    known.push(name);
                }
            }
        }
    }
    for family in &mut families {
        // `le` is the bound of a histogram bucket, not a label that doorbell defines.
        family.labels.retain(|label| *label != "le");
    }
    families
}
