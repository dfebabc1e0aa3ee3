//! The status page: an overview in HTML that works without scripts.
//!
//! Every value is escaped, because it may be untrusted.

use super::html::{Ago, Esc, Took};
use doorbell_control::{
    CheckView, ClassWord, EndpointView, EndpointWord, Event, EventKind, Lifecycle, LinkMinuteView, LinkView,
    Look, ProberView, SeverityWord, Status,
};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The HTML frame with its style and script.
const FILE: &str = include_str!("page.html");

/// Maximum number of bars of a check's history.
const BARS_MAX: usize = 60;

/// Maximum number of failing checks to name at the top.
const NAMED_MAX: usize = 6;

/// Maximum number of events to show.
pub(super) const EVENTS_SHOWN: usize = 12;

/// The data of a page.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) status: Status,
    /// Checks with their last results.
    pub(super) checks: Vec<CheckView>,
    pub(super) links: Vec<LinkView>,
    pub(super) probers: Vec<ProberView>,
    /// Oldest first.
    pub(super) events: Vec<Event>,
}

/// Parts of [`FILE`]. Style and script are served as separate files, so that the content security
/// policy can forbid inline styles and scripts.
struct Parts {
    head: &'static str,
    before: String,
    after: String,
    style: &'static str,
    script: &'static str,
}

static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let (head, rest) = FILE.split_once("<style>").unwrap_or((FILE, ""));
    let (head, head_end) = head.split_once("<title>doorbell</title>").unwrap_or((head, ""));
    let (style, rest) = rest.split_once("</style>").unwrap_or_default();
    let (body, rest) = rest.split_once("<script>").unwrap_or_default();
    let (script, end) = rest.split_once("</script>").unwrap_or_default();
    let (main, main_end) = body.split_once("<!--live-->").unwrap_or_default();
    Parts {
        head,
        before: format!("{head_end}<link rel=\"stylesheet\" href=\"style.css\">{main}"),
        after: format!("{main_end}<script src=\"script.js\" defer></script>{end}"),
        style,
        script,
    }
});

pub(super) fn style() -> &'static str {
    PARTS.style
}

pub(super) fn script() -> &'static str {
    PARTS.script
}

/// The whole page.
pub(super) fn page(view: &View) -> String {
    let (headline, _, _) = headline(view);
    // The script updates the title in the same way.
    let title = format!("<title>{headline} \u{2013} doorbell</title>");
    [PARTS.head, &title, &PARTS.before, live(view).as_str(), &PARTS.after].concat()
}

/// The part of the page that changes.
pub(super) fn live(view: &View) -> String {
    let mut html = String::with_capacity(8 << 10);
    // Writing to a `String` cannot fail.
    let _always = write_live(&mut html, view);
    html
}

fn write_live(html: &mut String, view: &View) -> std::fmt::Result {
    hero(html, view)?;
    endpoints(html, &view.status)?;
    checks(html, &view.checks)?;
    links(html, &view.links)?;
    probers(html, &view.probers)?;
    events(html, view)?;
    write!(
        html,
        "<footer><a href=\"status\">status</a><a href=\"checks\">checks</a><a href=\"probers\">probers</a>\
         <a href=\"events?since=0\">events</a><a href=\"../metrics\">metrics</a><span>configuration {}, {}</span></footer>",
        view.status.generation,
        Esc(&view.status.config),
    )
}

fn hero(html: &mut String, view: &View) -> std::fmt::Result {
    let status = &view.status;
    let (headline, tone, text) = headline(view);
    write!(
        html,
        "<div class=\"top\"><span class=\"bell\"></span><b>doorbell</b><span>{}</span><span class=\"live\"></span></div>\
         <div class=\"hero\"><h1 class=\"{tone}\">{headline}</h1><p>{}</p>",
        Esc(&status.version),
        Esc(text),
    )?;
    if let Some(refused) = &status.refused_reload {
        write!(
            html,
            "<p class=\"notice\"><span class=\"pill down\">reload failed</span> {} ago, the previous configuration stays in use:</p>\
             <pre class=\"notice\">{}</pre>",
            Ago(refused.age_ms),
            Esc(refused.reason.trim_end()),
        )?;
    }
    if let Some(why) = &status.unsaved {
        write!(
            html,
            "<p class=\"notice\"><span class=\"pill warn\">unsaved</span> drains and maintenance are lost at a restart:</p>\
             <pre class=\"notice\">{}</pre>",
            Esc(why),
        )?;
    }
    for waiting in &status.waiting {
        write!(
            html,
            "<p class=\"notice\"><span class=\"pill warn\">closed</span> listener {} is not open yet:</p>\
             <pre class=\"notice\">{}</pre>",
            Esc(&waiting.listener),
            Esc(&waiting.reason),
        )?;
    }
    html.write_str("<dl class=\"facts\">")?;
    let driver = status.workers.first().map(|worker| worker.driver.as_str()).unwrap_or("-");
    let facts: [(&str, String); 4] = [
        ("up for", Ago(status.uptime_ms).to_string()),
        ("driver", format!("{driver}, {} worker{}", status.workers.len(), plural(status.workers.len()))),
        ("requests", grouped(status.requests())),
        ("open connections", grouped(status.conns_open())),
    ];
    for (name, value) in facts {
        write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", Esc(value))?;
    }
    html.write_str("<div class=\"wide\"><dt>listening on</dt><dd>")?;
    let ports =
        status.ports.iter().flat_map(|(name, addrs)| addrs.iter().map(move |addr| (addr, name.as_str())));
    for (addr, name) in status.addresses.iter().map(|addr| (addr, "")).chain(ports) {
        write!(html, "<span>{} <small>{}</small></span>", Esc(addr), Esc(name))?;
    }
    html.write_str("</dd></div></dl></div>")
}

/// Returns the headline, its CSS class and an explanation.
fn headline(view: &View) -> (&'static str, &'static str, String) {
    let status = &view.status;
    let failed = status.workers.iter().filter(|worker| worker.has_failed).count();
    let not_up: Vec<&str> = status
        .endpoints
        .iter()
        .filter(|one| one.state == EndpointWord::Down)
        .map(|one| one.name.as_str())
        .collect();
    let because = |text: &str| {
        if status.reason.is_empty() { text.to_owned() } else { format!("{text}: {}", status.reason) }
    };
    match status.lifecycle {
        Lifecycle::Starting => return ("Starting", "calm", "Not serving yet.".to_owned()),
        Lifecycle::Stopping => {
            return ("Stopping", "calm", because("No new connections; open ones finish"));
        }
        Lifecycle::Draining => {
            let left =
                status.stops_in_ms.map(|ms| format!(" Listeners close in {}.", Ago(ms))).unwrap_or_default();
            let text = because("Not ready, but requests are still served");
            return ("Draining", "calm", format!("{text}.{left}"));
        }
        Lifecycle::Ready => {}
    }
    if failed > 0 {
        return ("Impaired", "down", format!("{failed} worker{} failed.", plural(failed)));
    }
    if !not_up.is_empty() {
        let because = failing(view);
        return ("Down", "down", format!("Endpoints that are down: {}.{because}", not_up.join(", ")));
    }
    if !status.drains.is_empty() {
        return ("Draining", "calm", drains_in_words(status));
    }
    if !status.maintenance.is_empty() {
        let targets: Vec<&str> = status.maintenance.iter().map(|hold| hold.target.as_str()).collect();
        return ("Maintenance", "calm", format!("In maintenance: {}.", targets.join(", ")));
    }
    if status.endpoints.iter().any(|one| one.state == EndpointWord::Degraded) {
        let because = failing(view);
        return ("Degraded", "warn", format!("All endpoints are up or degraded.{because}"));
    }
    ("Healthy", "up", "All endpoints are up.".to_owned())
}

/// Describes the draining endpoints: those that report the drain to at least one audience, and
/// those that report it to none.
fn drains_in_words(status: &Status) -> String {
    let reports = |name: &str| status.endpoints.iter().any(|one| one.name == name && reports_drain(one));
    let (reported, ignored): (Vec<&str>, Vec<&str>) =
        status.drains.iter().map(|drain| drain.endpoint.as_str()).partition(|name| reports(name));
    let mut text = Vec::new();
    if !reported.is_empty() {
        let reported = reported.join(", ");
        text.push(format!("{reported}: draining, requests are still served."));
    }
    if !ignored.is_empty() {
        text.push(format!("{}: draining, but on_drain ignores it for every prober.", ignored.join(", ")));
    }
    text.join(" ")
}

fn reports_drain(one: &EndpointView) -> bool {
    one.answers.iter().any(|answer| answer.state == EndpointWord::Drain)
}

/// A sentence with the names of at most [`NAMED_MAX`] checks that make an endpoint degraded or down;
/// empty if there are none.
fn failing(view: &View) -> String {
    let not_up = view
        .status
        .endpoints
        .iter()
        .filter(|one| matches!(one.state, EndpointWord::Degraded | EndpointWord::Down));
    let used = not_up
        .flat_map(|one| &one.uses)
        .filter(|used| matches!(used.class, ClassWord::Degraded | ClassWord::Down | ClassWord::Unknown));
    let mut names: Vec<&str> = Vec::new();
    for used in used.filter(|used| used.severity != SeverityWord::Info) {
        if !names.contains(&used.check.as_str()) {
            names.push(&used.check);
        }
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    match (names.join(", "), more) {
        (names, _) if names.is_empty() => names,
        (names, 0) => format!(" Failing: {names}."),
        (names, more) => format!(" Failing: {names} and {more} more."),
    }
}

fn endpoints(html: &mut String, status: &Status) -> std::fmt::Result {
    let count = status.endpoints.len();
    write!(html, "<section><h2>Endpoints <small>{count}</small></h2><div class=\"cards\">")?;
    let mut worst_first: Vec<&EndpointView> = status.endpoints.iter().collect();
    worst_first.sort_by_key(|one| one.state.look());
    for one in worst_first {
        endpoint(html, one)?;
    }
    html.write_str("</div></section>")
}

fn endpoint(html: &mut String, one: &EndpointView) -> std::fmt::Result {
    write!(
        html,
        "<article class=\"card\"><header><h3>{}</h3><span class=\"pill {}\">{}</span></header><p>for {}, by {}",
        Esc(&one.name),
        css_class(one.state.look()),
        one.state,
        Ago(one.age_ms),
        Esc(one.cause.as_str().replace('_', " ")),
    )?;
    if let Some(weight) = one.weight {
        write!(html, ", weight {weight}")?;
    }
    html.write_str("</p>")?;
    if !one.note.is_empty() {
        write!(html, "<p class=\"why\">{}</p>", Esc(&one.note))?;
    }
    if one.state == EndpointWord::Drain && !reports_drain(one) {
        html.write_str("<p>No prober sees the drain: <code>on_drain</code> ignores it.</p>")?;
    }
    html.write_str("<div class=\"replies\">")?;
    let same = one.answers.iter().all(|answer| answer.code == one.answers[0].code);
    for answer in one.answers.iter().take(if same { 1 } else { usize::MAX }) {
        let audience =
            if same { "all probers".to_owned() } else { answer.audience.as_str().replace('_', " ") };
        let tone = css_class(answer.state.look());
        let state = if answer.state == one.state { String::new() } else { format!("{} ", answer.state) };
        let code = answer.code;
        write!(
            html,
            "<span class=\"chip {tone}\">{} <b class=\"num\">{state}{code}</b></span>",
            Esc(audience)
        )?;
    }
    html.write_str("</div>")?;
    if !one.uses.is_empty() {
        html.write_str("<div class=\"uses\">")?;
        for used in &one.uses {
            write!(
                html,
                "<span class=\"chip {}\">{} <small>{}</small></span>",
                css_class(used.class.look()),
                Esc(&used.check),
                used.severity
            )?;
        }
        html.write_str("</div>")?;
    }
    html.write_str("</article>")
}

fn checks(html: &mut String, checks: &[CheckView]) -> std::fmt::Result {
    write!(html, "<section><h2>Checks <small>{}</small></h2><ul class=\"rows checks\">", checks.len())?;
    if checks.is_empty() {
        html.write_str("<li class=\"none\">No check is configured.</li>")?;
    }
    let mut worst_first: Vec<&CheckView> = checks.iter().collect();
    worst_first.sort_by_key(|one| one.state.look());
    for one in worst_first {
        let state = one.state.as_str().replace('_', " ");
        write!(
            html,
            "<li><span class=\"name\">{}<small>{}</small></span><span class=\"pill {}\">{state}</span><span class=\"meta num\">",
            Esc(&one.name),
            Esc(&one.kind),
            css_class(one.state.look()),
        )?;
        match &one.last {
            Some(last) => write!(html, "{} · {} ago", Took(last.latency_us.into()), Ago(last.age_ms))?,
            None => html.write_str("no result yet")?,
        }
        if let Some(next) = one.next_in_ms {
            write!(html, " · next in {}", Ago(next))?;
        }
        html.write_str("</span>")?;
        sparkline(html, one)?;
        if !one.reason.is_empty() {
            write!(html, "<span class=\"why\">{}</span>", Esc(&one.reason))?;
        }
        html.write_str("</li>")?;
    }
    html.write_str("</ul></section>")
}

/// Draws a bar for each of the last results; the height of a bar shows the latency.
fn sparkline(html: &mut String, check: &CheckView) -> std::fmt::Result {
    let shown = &check.history[check.history.len().saturating_sub(BARS_MAX)..];
    if shown.is_empty() {
        return Ok(());
    }
    let longest = shown.iter().map(|result| result.latency_us).max().unwrap_or(1).max(1);
    write!(
        html,
        "<svg class=\"spark\" viewBox=\"0 0 {} 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"the last {} results, at most {}\">",
        BARS_MAX * 4,
        shown.len(),
        Took(longest.into()),
    )?;
    for (at, result) in (BARS_MAX - shown.len()..).zip(shown) {
        let height = 3 + u64::from(result.latency_us) * 17 / u64::from(longest);
        write!(
            html,
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"3\" height=\"{height}\"/>",
            css_class(result.outcome.look()),
            at * 4,
            20 - height
        )?;
    }
    html.write_str("</svg>")
}

/// Writes the section of links, unless there are none, as in most instances.
fn links(html: &mut String, links: &[LinkView]) -> std::fmt::Result {
    if links.is_empty() {
        return Ok(());
    }
    write!(html, "<section><h2>Links <small>{}</small></h2><ul class=\"rows links\">", links.len())?;
    let mut worst_first: Vec<&LinkView> = links.iter().collect();
    worst_first.sort_by_key(|one| one.connected_ms.is_some());
    for one in worst_first {
        link(html, one)?;
    }
    html.write_str("</ul></section>")
}

fn link(html: &mut String, one: &LinkView) -> std::fmt::Result {
    let (tone, state) = if one.connected_ms.is_some() { ("up", "up") } else { ("down", "down") };
    let peer = if one.peer.is_empty() { "accepted" } else { &one.peer };
    write!(
        html,
        "<li><span class=\"name\">{}<small>{}</small></span><span class=\"pill {tone}\">{state}</span><span class=\"meta num\">",
        Esc(&one.name),
        Esc(peer),
    )?;
    match &one.minute {
        Some(LinkMinuteView { round_trip, one_way, one_way_error_us, .. }) => write!(
            html,
            "round trip {}, p99 {} · one way {} ± {}",
            Took(round_trip.p50_us),
            Took(round_trip.p99_us),
            Took(one_way.p50_us),
            Took(*one_way_error_us),
        )?,
        None => html.write_str("not measured yet")?,
    }
    write!(html, " · {} lost · {} waiting", grouped(one.count("frames_lost")), grouped(one.waiting))?;
    if let Some(age) = one.connected_ms {
        write!(html, " · for {}", Ago(age))?;
    }
    html.write_str("</span>")?;
    if !one.last_end.is_empty() {
        write!(html, "<span class=\"why\">{}</span>", Esc(&one.last_end))?;
    }
    html.write_str("</li>")
}

fn probers(html: &mut String, probers: &[ProberView]) -> std::fmt::Result {
    html.write_str("<section><h2>Probers</h2><ul class=\"rows probers\">")?;
    if probers.is_empty() {
        html.write_str("<li class=\"none\">No probes yet.</li>")?;
    }
    for one in probers {
        write!(
            html,
            "<li><span class=\"name\">{}<small>{}</small></span><span class=\"pill {}\">{}</span><span class=\"meta num\">{} · {} ago",
            Esc(&one.prober),
            Esc(&one.endpoint),
            css_class(one.verdict.look()),
            one.verdict,
            grouped(one.count),
            Ago(one.age_ms),
        )?;
        if let Some(interval) = one.interval_ms {
            write!(html, " · every {}", Ago(interval))?;
        }
        html.write_str("</span>")?;
        if let Some(theirs) = &one.their_view {
            write!(html, "<span class=\"meta theirs\">their view: {}</span>", Esc(theirs))?;
        }
        html.write_str("</li>")?;
    }
    html.write_str("</ul></section>")
}

fn events(html: &mut String, view: &View) -> std::fmt::Result {
    html.write_str("<section><h2>Events</h2><ul class=\"rows events\">")?;
    if view.events.is_empty() {
        html.write_str("<li class=\"none\">No events since the start.</li>")?;
    }
    for event in view.events.iter().rev().take(EVENTS_SHOWN) {
        let age = view.status.uptime_ms.saturating_sub(event.at_uptime_ms);
        write!(html, "<li><time>{}</time><span>{}</span></li>", Ago(age), event_kind(&event.what))?;
    }
    html.write_str("</ul></section>")
}

/// An event as HTML.
fn event_kind(what: &EventKind) -> String {
    let pill =
        |tone: &str, word: &str| format!("<span class=\"pill {tone}\">{}</span>", word.replace('_', " "));
    match what {
        EventKind::Check { name, to, reason, .. } => {
            format!("{} {} {}", Esc(name), pill(css_class(to.look()), to.as_str()), Esc(reason))
        }
        EventKind::Drain { endpoint, on, reason, .. } => {
            let word = if *on { "drain" } else { "drain ended" };
            format!("{} {} {}", Esc(endpoint), pill("calm", word), Esc(reason))
        }
        EventKind::Endpoint { name, to, note, .. } => {
            format!("<b>{}</b> {} {}", Esc(name), pill(css_class(to.look()), to.as_str()), Esc(note))
        }
        EventKind::Lifecycle { to, reason, .. } => {
            let tone = if *to == Lifecycle::Ready { "up" } else { "calm" };
            format!("doorbell {} {}", pill(tone, to.as_str()), Esc(reason))
        }
        EventKind::Maintenance { target, on, reason, .. } => {
            let word = if *on { "maintenance" } else { "maintenance ended" };
            format!("{} {} {}", Esc(target), pill("calm", word), Esc(reason))
        }
        EventKind::Reload { ok, text } => {
            let (tone, word) = if *ok { ("up", "reloaded") } else { ("down", "reload failed") };
            format!("configuration {} {}", pill(tone, word), Esc(text))
        }
        EventKind::Worker { worker, text } => format!("worker {worker} {}", Esc(text)),
    }
}

/// The class in the style sheet.
const fn css_class(look: Look) -> &'static str {
    match look {
        Look::Bad => "down",
        Look::Good => "up",
        Look::Planned => "calm",
        Look::Unknown => "idle",
        Look::Warning => "warn",
    }
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A number with separated thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
