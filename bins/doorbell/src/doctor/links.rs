//! Settings of the kernel that limit links to other instances, derived from the measurements of a
//! running instance.

use super::network::{Change, Path, RMEM, WMEM, merge, shown, sizes, value};
use super::{Finding, Level, Read};

/// Bytes that a sender may have in flight on a new connection and after an idle time: 10 segments
/// (RFC 6928) on Ethernet.
const INITIAL_WINDOW: u64 = 10 * 1460;

const AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";
const CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";

/// A link of a running instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) measured: Option<Measured>,
}

/// Rates in the busiest 100 ms of the last minute, with the median round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) sending: Path,
    pub(crate) receiving: Path,
}

/// The settings that limit one connection; `None` or empty if they cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) rmem: Option<[u64; 3]>,
    pub(super) wmem: Option<[u64; 3]>,
    pub(super) slow_start_after_idle: bool,
    pub(super) congestion_control: String,
    pub(super) has_bbr: bool,
}

/// A finding, and its change for the sysctl file; `None` if the change has a cost for other
/// connections, or if the examination of the network already recommends it.
type Advice = (Finding, Option<Change>);

/// Examines the settings for each link. `links` is an error text if the links are unknown.
pub(super) fn findings(
    read: Read<'_>,
    links: &Result<Vec<Link>, String>,
    changes: &mut Vec<Change>,
) -> Vec<Finding> {
    let unknown = |name: &str, why: &str| {
        let found = Finding::ok("link", name, "not measured");
        vec![Finding { why: why.to_owned(), ..found }]
    };
    let links = match links {
        Ok(links) => links,
        Err(why) => return unknown("all", why),
    };
    let settings = Settings::read(read);
    let mut all = Vec::new();
    for Link { name, measured } in links {
        let Some(measured) = measured else {
            all.extend(unknown(name, "no frame of this link has a receipt yet"));
            continue;
        };
        all.push(summary(name, *measured));
        for (finding, change) in advise(name, *measured, &settings) {
            all.push(finding);
            change.into_iter().for_each(|change| merge(changes, change));
        }
    }
    all
}

impl Settings {
    fn read(read: Read<'_>) -> Self {
        let text = |key| value(read, key).unwrap_or_default();
        Self {
            rmem: sizes(read, RMEM.0),
            wmem: sizes(read, WMEM.0),
            slow_start_after_idle: text(AFTER_IDLE) == "1",
            congestion_control: text(CONTROL),
            has_bbr: text(AVAILABLE).split_whitespace().any(|name| name == "bbr"),
        }
    }
}

fn summary(link: &str, Measured { sending, receiving }: Measured) -> Finding {
    let value = format!(
        "round trip {}, in which {} bytes are sent and {} received",
        millis(sending.rtt_us),
        sending.product(),
        receiving.product(),
    );
    Finding::ok("link", link, value)
}

/// Returns advice about the settings that limit a link; none if the bytes in flight fit into the
/// buffers and the initial window.
pub(super) fn advise(link: &str, measured: Measured, settings: &Settings) -> Vec<Advice> {
    let Measured { sending, receiving } = measured;
    let mut all = Vec::new();
    if let Some(rmem) = settings.rmem {
        all.extend(receive_buffer(link, receiving, rmem));
    }
    // The kernel enlarges a send buffer with the congestion window, so its default has no effect.
    if let Some(wmem @ [least, start, _]) = settings.wmem.filter(|[.., most]| *most < sending.buffer()) {
        let why = format!("{} bytes are sent in a round trip; {}", sending.product(), WMEM.1);
        all.push(buffer(link, WMEM, wmem, why, [least, start, sending.buffer()]));
    }
    if sending.product() > INITIAL_WINDOW {
        all.extend(after_idle(link, sending, settings));
        all.extend(congestion(link, sending, settings));
    }
    all
}

fn receive_buffer(link: &str, receiving: Path, rmem: [u64; 3]) -> Vec<Advice> {
    let ([least, start, most], wanted) = (rmem, receiving.buffer());
    let arrive = format!("{} bytes arrive in a round trip", receiving.product());
    let mut all = Vec::new();
    if most < wanted {
        all.push(buffer(link, RMEM, rmem, format!("{arrive}; {}", RMEM.1), [least, start, wanted]));
    }
    if start < wanted {
        let why = format!(
            "{arrive}; the second number limits the first round trips of a connection, later ones are not affected; it applies \
             to every connection of this system"
        );
        let (finding, _) = buffer(link, RMEM, rmem, why, [least, wanted, most.max(wanted)]);
        all.push((finding, None));
    }
    all
}

fn after_idle(link: &str, sending: Path, settings: &Settings) -> Option<Advice> {
    // The window doubles with each round trip, so n round trips carry 2^n - 1 initial windows.
    let rounds = u64::from(sending.product().div_ceil(INITIAL_WINDOW).ilog2());
    let why = format!(
        "{} bytes are sent in a round trip, but {INITIAL_WINDOW} after an idle time: a burst takes up to {} longer; no effect \
         on a link that sends without pauses",
        sending.product(),
        millis(rounds.saturating_mul(sending.rtt_us)),
    );
    // The examination of the network recommends this change regardless of links.
    settings.slow_start_after_idle.then(|| (hint(link, AFTER_IDLE, "1", why, "0"), None))
}

fn congestion(link: &str, sending: Path, settings: &Settings) -> Option<Advice> {
    let control = &settings.congestion_control;
    if control.is_empty() || control.starts_with("bbr") {
        return None;
    }
    let why = format!(
        "after a lost packet the window grows by few packets in each round trip of {}; no effect on a path without losses \
         (`retrans` in `ss -ti`); {}",
        millis(sending.rtt_us),
        if settings.has_bbr { "bbr is available" } else { "bbr is not loaded: `modprobe tcp_bbr` first" },
    );
    Some((hint(link, CONTROL, control, why, "bbr"), None))
}

fn buffer(
    link: &str,
    (key, why_most): (&'static str, &'static str),
    found: [u64; 3],
    why: String,
    wanted: [u64; 3],
) -> Advice {
    let wanted = shown(wanted);
    let finding = hint(link, key, &shown(found), why, &wanted);
    (finding, Some(Change { key, value: wanted, why: why_most }))
}

fn hint(link: &str, key: &str, found: &str, why: String, wanted: &str) -> Finding {
    let fix = format!("sysctl -w {key}='{wanted}'");
    Finding::ok("link", format!("{link}: {key}"), found).because(Level::Hint, why, fix)
}

fn millis(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}
