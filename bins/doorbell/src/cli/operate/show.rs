//! Text output of the responses of a running instance.

use super::table::{Cell, Paint, Tone, plain, table};
use super::words::{count, latency, length, moment};
use doorbell_control::{
    AudienceWord, CheckView, CheckWord, EndpointView, Event, EventKind, Lifecycle, Look, ProberView, Status,
    WorkerView,
};
use std::fmt::Write as _;

/// `doorbell status`.
pub(super) fn status(status: &Status, wide: bool, paint: Paint) -> String {
    let mut out = head(status, paint);
    let mut fact = |name: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(out, "  {} {text}", paint.text(Tone::Quiet, &format!("{name:<11}")));
        }
    };
    let generation =
        if status.generation > 1 { format!(", loaded {} times", status.generation) } else { String::new() };
    fact("config", format!("{}{generation}", status.config));
    if let Some(refused) = &status.refused_reload {
        let text = format!(
            "failed {} ago: {}",
            length(refused.age_ms),
            refused.reason.lines().next().unwrap_or_default()
        );
        fact("reload", paint.text(Tone::Bad, &text));
    }
    if let Some(why) = &status.unsaved {
        let text = format!("drains and maintenance are lost at a restart: {why}");
        fact("state file", paint.text(Tone::Warn, &text));
    }
    fact("listens on", status.addresses.join("  "));
    for (name, addrs) in &status.ports {
        fact("", format!("{}  {name}", addrs.join("  ")));
    }
    for waiting in &status.waiting {
        let text = format!("{} for {}", waiting.listener, waiting.reason);
        fact("waiting", paint.text(Tone::Warn, &text));
    }
    fact("driver", driver(&status.workers));
    fact("traffic", traffic(status));
    fact("history", history(status, paint));
    fact("shared", shared(status, paint));
    fact("checks", checks_in_words(status, paint));
    let left = |left_ms: Option<u64>| {
        left_ms.map_or_else(|| "until ended".to_owned(), |left| format!("{} left", length(left)))
    };
    for drain in &status.drains {
        let reason = after_colon(&drain.reason);
        fact("drain", format!("{}{reason} ({})", drain.endpoint, left(drain.left_ms)));
    }
    for hold in &status.maintenance {
        let (left, reason) = (left(hold.left_ms), after_colon(&hold.reason));
        fact("maintenance", format!("{}{reason} ({}, {left})", hold.target, hold.source));
    }
    out.push('\n');
    out.push_str(&endpoints(&status.endpoints, wide, paint));
    if wide {
        out.push('\n');
        out.push_str(&workers(&status.workers, paint));
        out.push('\n');
        let counters = status.counters.iter().map(|(name, value)| vec![plain(name), plain(count(*value))]);
        out.push_str(&table(&["COUNTER", "VALUE"], &counters.collect::<Vec<_>>(), paint));
    }
    out
}

/// A colon and a reason; empty without a reason.
fn after_colon(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

fn head(status: &Status, paint: Paint) -> String {
    let tone = match status.lifecycle {
        Lifecycle::Ready => Tone::Good,
        Lifecycle::Draining | Lifecycle::Starting => Tone::Warn,
        Lifecycle::Stopping => Tone::Bad,
    };
    let name = paint.text(Tone::Head, &format!("doorbell {}", status.version));
    let state = paint.text(tone, status.lifecycle.as_str());
    let age = length(status.lifecycle_age_ms);
    let mut out = format!("{name}  {state} for {age}, up {}, pid {}", length(status.uptime_ms), status.pid);
    if !status.reason.is_empty() {
        let _ = write!(out, "; {}", status.reason);
    }
    if let Some(left) = status.stops_in_ms {
        let _ = write!(out, "; listeners close in {}", length(left));
    } else if let Some(left) = status.drain_ends_in_ms {
        let _ = write!(out, "; for {} more", length(left));
    }
    out.push('\n');
    out
}

/// Formats the drivers of the workers; groups workers with the same driver and reason.
fn driver(workers: &[WorkerView]) -> String {
    let mut kinds: Vec<(&WorkerView, usize)> = Vec::new();
    for worker in workers {
        let is_same = |known: &WorkerView| {
            (&known.driver, &known.why, known.has_failed) == (&worker.driver, &worker.why, worker.has_failed)
        };
        match kinds.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, count)) => *count += 1,
            None => kinds.push((worker, 1)),
        }
    }
    let kind = |(worker, count): &(&WorkerView, usize)| {
        let state = if worker.has_failed { "failed " } else { "" };
        let threads = if *count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
        format!("{state}{}, {threads} ({})", worker.driver, worker.why)
    };
    kinds.iter().map(kind).collect::<Vec<_>>().join("; ")
}

fn traffic(status: &Status) -> String {
    let several =
        |number: u64, what: &str| format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" });
    let open = several(status.conns_open(), "connection");
    let requests = several(status.requests(), "request");
    format!("{open} open, {} accepted, {requests}", count(status.counter("conns_accepted")))
}

/// State of the history; empty if no history is configured.
fn history(status: &Status, paint: Paint) -> String {
    let counter = |name: &str| status.counters.get(name).copied();
    let Some(written) = counter("history_rows_written") else { return String::new() };
    let number = |name: &str| counter(name).unwrap_or(0);
    let (waiting, dropped) = (number("history_rows_live"), number("history_rows_dropped"));
    let text =
        format!("{} rows stored, {} waiting, {} dropped", count(written), count(waiting), count(dropped));
    match &status.history_failure {
        None => text,
        Some(why) => paint.text(Tone::Warn, &format!("{text}; the store cannot be used: {why}")),
    }
}

/// State of the store that instances share; empty if no store is configured.
fn shared(status: &Status, paint: Paint) -> String {
    let counter = |name: &str| status.counters.get(name).copied();
    let Some(commands) = counter("shared_commands") else { return String::new() };
    let number = |name: &str| counter(name).unwrap_or(0);
    let text = format!("{} commands, {} errors", count(commands), count(number("shared_errors")));
    match number("shared_failing_live") {
        0 => text,
        _ => paint.text(Tone::Warn, &format!("{text}; the store cannot be used")),
    }
}

fn checks_in_words(status: &Status, paint: Paint) -> String {
    let tone_of = |word: &str| {
        let state = CheckWord::ALL.into_iter().find(|known| known.as_str() == word);
        state.map_or(Tone::Plain, |state| tone(state.look()))
    };
    let words =
        status.checks.iter().map(|(word, count)| format!("{count} {}", paint.text(tone_of(word), word)));
    words.collect::<Vec<_>>().join(", ")
}

const fn tone(look: Look) -> Tone {
    match look {
        Look::Bad => Tone::Bad,
        Look::Good => Tone::Good,
        Look::Planned | Look::Warning => Tone::Warn,
        Look::Unknown => Tone::Quiet,
    }
}

fn endpoints(endpoints: &[EndpointView], wide: bool, paint: Paint) -> String {
    let code = |endpoint: &EndpointView, audience| {
        let answer = endpoint.answers.iter().find(|answer| answer.audience == audience);
        answer.map_or_else(|| plain(""), |answer| (tone(answer.state.look()), answer.code.to_string()))
    };
    let row = |endpoint: &EndpointView| {
        let cause =
            if endpoint.cause.as_str() == endpoint.state.as_str() { "" } else { endpoint.cause.as_str() };
        let mut why: Vec<String> = [cause, endpoint.note.as_str()].map(str::to_owned).into();
        let bad = endpoint.uses.iter().filter(|one| wide || one.class.as_str() != "up");
        why.extend(bad.map(|one| format!("{} {} ({})", one.check, one.class, one.severity)));
        why.retain(|word| !word.is_empty() && word != "checks");
        let mut row = vec![
            plain(&endpoint.name),
            (tone(endpoint.state.look()), endpoint.state.to_string()),
            plain(length(endpoint.age_ms)),
            code(endpoint, AudienceWord::Kubelet),
            code(endpoint, AudienceWord::LoadBalancer),
            code(endpoint, AudienceWord::Other),
        ];
        if wide {
            row.push(plain(endpoint.weight.map_or_else(String::new, |weight| weight.to_string())));
        }
        row.push(plain(why.join(", ")));
        row
    };
    let mut heads = vec!["ENDPOINT", "STATE", "FOR", "KUBELET", "BALANCER", "OTHERS"];
    heads.extend(wide.then_some("WEIGHT"));
    heads.push("WHY");
    table(&heads, &endpoints.iter().map(row).collect::<Vec<_>>(), paint)
}

fn workers(workers: &[WorkerView], paint: Paint) -> String {
    let row = |(number, worker): (usize, &WorkerView)| {
        let tone = match (worker.has_failed, worker.is_fallback) {
            (true, _) => Tone::Bad,
            (false, true) => Tone::Warn,
            (false, false) => Tone::Plain,
        };
        vec![
            plain(number.to_string()),
            (tone, worker.driver.clone()),
            plain(count(worker.conns_live)),
            plain(count(worker.requests)),
            plain(&worker.why),
        ]
    };
    let rows: Vec<_> = workers.iter().enumerate().map(row).collect();
    table(&["WORKER", "DRIVER", "OPEN", "REQUESTS", "WHY"], &rows, paint)
}

/// `doorbell checks`.
pub(super) fn checks(checks: &[CheckView], wide: bool, paint: Paint) -> String {
    if checks.is_empty() {
        return "no checks are configured\n".into();
    }
    let rows: Vec<_> = checks.iter().map(|check| check_row(check, wide)).collect();
    let mut heads = vec!["CHECK", "TYPE", "STATE", "FOR", "LAST", "AGO", "TOOK", "NEXT"];
    if wide {
        heads.extend(["EVERY", "IN A ROW", "LAST SUCCESS"]);
    }
    heads.push("WHY");
    table(&heads, &rows, paint)
}

/// Formats the time until the next run of a check, or what causes the run.
fn next(check: &CheckView) -> String {
    if let Some(from) = &check.from {
        return format!("by {from}");
    }
    match check.next_in_ms {
        Some(next) => format!("in {}", length(next)),
        None if check.kind == "link" => "on change".to_owned(),
        None if check.kind == "ttl" => "on push".to_owned(),
        None => "on demand".to_owned(),
    }
}

fn check_row(check: &CheckView, wide: bool) -> Vec<Cell> {
    let (outcome, ago, took) = check.last.map_or_else(
        || (plain("-"), "-".to_owned(), "-".to_owned()),
        |last| {
            (
                (tone(last.outcome.look()), last.outcome.to_string()),
                length(last.age_ms),
                latency(last.latency_us.into()),
            )
        },
    );
    let mut row = vec![
        plain(&check.name),
        plain(&check.kind),
        (tone(check.state.look()), check.state.to_string()),
        plain(length(check.age_ms)),
        outcome,
        plain(ago),
        plain(took),
        plain(next(check)),
    ];
    if wide {
        let in_a_row = match (check.successes, check.failures) {
            (0, 0) => "-".to_owned(),
            (0, failures) => format!("{failures} bad"),
            (successes, _) => format!("{successes} good"),
        };
        row.push(plain(length(check.interval_ms)));
        row.push(plain(in_a_row));
        row.push(plain(
            check
                .last_success_age_ms
                .map_or_else(|| "never".to_owned(), |age| format!("{} ago", length(age))),
        ));
    }
    row.push(plain(&check.reason));
    row
}

/// `doorbell checks --history`.
pub(super) fn histories(checks: &[CheckView], paint: Paint) -> String {
    let mut out = String::new();
    for check in checks {
        let state = paint.text(tone(check.state.look()), check.state.as_str());
        let reason = after_colon(&check.reason);
        let _ = writeln!(
            out,
            "{} ({}) {state} for {}{reason}",
            paint.text(Tone::Head, &check.name),
            check.kind,
            length(check.age_ms)
        );
        for result in &check.history {
            let outcome = paint.text(tone(result.outcome.look()), &format!("{:<11}", result.outcome));
            let _ = writeln!(
                out,
                "  {:>7} ago  {outcome}  {}",
                length(result.age_ms),
                latency(result.latency_us.into())
            );
        }
    }
    out
}

/// `doorbell probers`.
pub(super) fn probers(probers: &[ProberView], paint: Paint) -> String {
    if probers.is_empty() {
        return "no probes yet\n".into();
    }
    let row = |prober: &ProberView| {
        vec![
            plain(&prober.endpoint),
            plain(&prober.prober),
            plain(count(prober.count)),
            plain(format!("{} ago", length(prober.age_ms))),
            plain(prober.interval_ms.map_or_else(|| "-".to_owned(), length)),
            (tone(prober.verdict.look()), prober.verdict.to_string()),
            plain(prober.their_view.as_deref().unwrap_or_default()),
        ]
    };
    let heads = ["ENDPOINT", "PROBER", "PROBES", "LAST", "EVERY", "VERDICT", "THEIR VIEW"];
    table(&heads, &probers.iter().map(row).collect::<Vec<_>>(), paint)
}

/// `doorbell events`.
pub(super) fn events(events: &[Event], missed: u64, paint: Paint) -> String {
    let mut out = String::new();
    if missed > 0 {
        let _ =
            writeln!(out, "{}", paint.text(Tone::Warn, &format!("({missed} older events were discarded)")));
    }
    for event in events {
        let at = paint.text(Tone::Quiet, &moment(event.at_unix_ms));
        let _ = writeln!(out, "{at} {:>5}  {}", event.number, event_text(&event.what, paint));
    }
    out
}

fn event_text(what: &EventKind, paint: Paint) -> String {
    let because = |reason: &str| if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    match what {
        EventKind::Check { name, from, to, reason } => {
            format!("check {name}: {from} -> {}{}", paint.text(tone(to.look()), to.as_str()), because(reason))
        }
        EventKind::Drain { endpoint, on, reason, until_unix_ms } => {
            let until = until_unix_ms.map_or_else(String::new, |until| format!(" until {}", moment(until)));
            let state = if *on { "draining" } else { "drain ended" };
            format!("{endpoint}: {state}{until}{}", because(reason))
        }
        EventKind::Endpoint { name, from, to, cause, note } => {
            let why = if note.is_empty() { cause.as_str() } else { note };
            format!("health {name}: {from} -> {}{}", paint.text(tone(to.look()), to.as_str()), because(why))
        }
        EventKind::Lifecycle { from, to, reason } => format!("doorbell: {from} -> {to}{}", because(reason)),
        EventKind::Maintenance { target, source, on, reason, until_unix_ms } => {
            let until = until_unix_ms.map_or_else(String::new, |until| format!(" until {}", moment(until)));
            let state = if *on { "in maintenance" } else { "out of maintenance" };
            format!("{target}: {state} by {source}{until}{}", because(reason))
        }
        EventKind::Reload { ok: true, text } => format!("reload: {text}"),
        EventKind::Reload { ok: false, text } => {
            format!("{}: {text}", paint.text(Tone::Bad, "reload failed"))
        }
        EventKind::Worker { worker, text } => format!("{} {worker}: {text}", paint.text(Tone::Bad, "worker")),
    }
}
