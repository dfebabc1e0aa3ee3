//! `doorbell fleet`: all announced instances in one view, read from the shared store.

use super::load;
use super::operate::table::{Cell, Paint, Tone, plain, table};
use super::operate::words::length;
use super::operate::{Form, watch};
use super::options::Global;
use super::output::colored;
use clap::Args;
use doorbell_control::{EndpointWord, Lifecycle};
use doorbell_link::State;
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::sharing;
use doorbell_proxy_server::{millis, time_of_day};
use doorbell_shared::redis::Redis;
use doorbell_shared::{Announcement, EndpointState, SharedStore as _, Status, StoreError};
use serde::Serialize;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

pub(super) const HELP: &str = "\
Examples:
  doorbell fleet -c doorbell.toml
  doorbell fleet --watch             refresh every second, until Ctrl-C
  doorbell fleet -o json | jq -r '.instances[] | select(.lifecycle != \"ready\") | .name'

The store is that of [shared]; instances with `announce = true` are listed until 15 s after their last announcement.

Exit codes: 0 done, 2 invalid command line, 69 the store refuses or does not reply, 78 invalid configuration";

/// Options of `fleet`.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Refresh every second
    #[arg(short, long)]
    watch: bool,

    /// Output format; json with --watch prints one line per update
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Form,
}

/// All announced instances.
#[derive(Debug, PartialEq, Serialize)]
struct FleetView {
    instances: Vec<InstanceView>,
    /// Names of instances whose announcement cannot be decoded, as after a change of its format.
    unreadable: Vec<String>,
}

/// One instance.
#[derive(Debug, PartialEq, Serialize)]
struct InstanceView {
    name: String,
    zone: String,
    version: String,
    lifecycle: String,
    started_unix_ms: u64,
    config_hash: String,
    endpoints: Vec<EndpointView>,
    endpoints_total: u64,
}

/// One endpoint of an instance.
#[derive(Debug, PartialEq, Serialize)]
struct EndpointView {
    name: String,
    state: &'static str,
    note: String,
}

/// The connection to the store.
struct Source {
    runtime: Runtime,
    redis: Redis,
    /// Changes of the state of the connection.
    states: mpsc::UnboundedReceiver<Result<(), StoreError>>,
    url: String,
}

pub(super) fn run(args: &FleetArgs, global: &Global) -> Result<Exit, Failure> {
    let mut source = Source::open(global)?;
    let paint = Paint { on: colored(global.color, &std::io::stdout()) };
    watch(&mut source, (args.watch, args.output), paint, Source::read, |fleet, wide| {
        shown(fleet, wide, millis(time_of_day()), paint)
    })
}

impl Source {
    fn open(global: &Global) -> Result<Self, Failure> {
        let config = load::for_command(global, "")?;
        let settings = config.shared.ok_or_else(|| load::no_table("shared", global))?;
        let client = sharing::client(&settings, std::process::id().into(), &Arc::<Status>::default());
        let (redis, commands) = client.map_err(|why| Failure::new(Exit::BadConfig, why))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        let (sender, states) = mpsc::unbounded_channel();
        runtime.spawn(commands.run(move |state| {
            let _ended = sender.send(state.map_err(StoreError::clone));
        }));
        Ok(Self { runtime, redis, states, url: settings.redis.to_string() })
    }

    fn read(&mut self) -> Result<FleetView, Failure> {
        let (redis, states) = (&self.redis, &mut self.states);
        let announced = self.runtime.block_on(async {
            while !redis.status().is_connected() {
                // The first failure is reported, because the command does not wait for a recovery.
                states.recv().await.unwrap_or_else(|| Err(StoreError("no connection".to_owned())))?;
            }
            redis.announced(sharing::ANNOUNCEMENT_LASTS).await
        });
        let announced =
            announced.map_err(|error| Failure::new(Exit::Unavailable, format!("{}: {error}", self.url)))?;
        Ok(FleetView::of(announced))
    }
}

impl FleetView {
    fn of(mut announced: Vec<(String, Vec<u8>)>) -> Self {
        announced.sort();
        let (mut instances, mut unreadable) = (Vec::new(), Vec::new());
        for (name, value) in announced {
            match Announcement::decode(&value) {
                Some(announcement) => instances.push(InstanceView::of(name, announcement)),
                None => unreadable.push(name),
            }
        }
        instances.sort_by(|a, b| (&a.zone, &a.name).cmp(&(&b.zone, &b.name)));
        Self { instances, unreadable }
    }
}

impl InstanceView {
    fn of(name: String, announcement: Announcement) -> Self {
        let Announcement { version, zone, lifecycle, started_unix_ms, config_hash, .. } = announcement;
        // An announcement has one state for drains and maintenance.
        let is_draining =
            [Lifecycle::Draining, Lifecycle::Stopping].iter().any(|at| at.as_str() == lifecycle);
        let word = |state: State| match state {
            State::Maintenance if is_draining => EndpointWord::Drain.as_str(),
            state => state.as_str(),
        };
        let endpoint = |EndpointState { name, state, note }| EndpointView { name, state: word(state), note };
        let endpoints = announcement.endpoints.into_iter().map(endpoint).collect();
        let endpoints_total = announcement.endpoints_total;
        Self { name, zone, version, lifecycle, started_unix_ms, config_hash, endpoints, endpoints_total }
    }

    /// The names and states of the endpoints that are not up, the number of those that are up, and
    /// the number of those that the announcement does not list.
    fn summary(&self) -> Cell {
        let is_up = |one: &&EndpointView| one.state == State::Up.as_str();
        let up = self.endpoints.iter().filter(is_up).count();
        let others = self.endpoints.iter().filter(|one| !is_up(one)).map(|one| match one.note.as_str() {
            "" => format!("{} {}", one.name, one.state),
            note => format!("{} {} ({note})", one.name, one.state),
        });
        let listed = u64::try_from(self.endpoints.len()).unwrap_or(u64::MAX);
        let unlisted = self.endpoints_total.saturating_sub(listed);
        let unlisted = (unlisted > 0).then(|| format!("{unlisted} not listed"));
        let all: Vec<String> = others.chain([format!("{up} up")]).chain(unlisted).collect();
        let is_down = |one: &EndpointView| one.state == State::Down.as_str();
        let tone = match &self.endpoints {
            all if all.iter().any(is_down) => Tone::Bad,
            all if up < all.len() => Tone::Warn,
            _ => Tone::Good,
        };
        (tone, all.join(", "))
    }
}

fn shown(fleet: &FleetView, wide: bool, now_ms: u64, paint: Paint) -> String {
    if fleet.instances.is_empty() && fleet.unreadable.is_empty() {
        return "no instance is announced\n".to_owned();
    }
    let row = |one: &InstanceView| {
        let tone = if one.lifecycle == "ready" { Tone::Good } else { Tone::Warn };
        let or_none = |text: &str| plain(if text.is_empty() { "-" } else { text });
        let mut row = vec![
            plain(&one.name),
            or_none(&one.zone),
            plain(&one.version),
            (tone, one.lifecycle.clone()),
            plain(length(now_ms.saturating_sub(one.started_unix_ms))),
        ];
        if wide {
            row.push(plain(&one.config_hash));
        }
        row.push(one.summary());
        row
    };
    let mut heads = vec!["INSTANCE", "ZONE", "VERSION", "STATE", "SINCE"];
    if wide {
        heads.push("CONFIG");
    }
    heads.push("ENDPOINTS");
    let mut text = table(&heads, &fleet.instances.iter().map(row).collect::<Vec<_>>(), paint);
    if !fleet.unreadable.is_empty() {
        text.push_str(&format!(
            "unreadable, of another version: {}\n",
            fleet.unreadable.join(", ").replace(char::is_control, " ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(
        name: &str,
        zone: &str,
        lifecycle: &str,
        states: &[(&str, State, &str)],
    ) -> (String, Vec<u8>) {
        let endpoint = |(name, state, note): &(&str, State, &str)| EndpointState {
            name: (*name).to_owned(),
            state: *state,
            note: (*note).to_owned(),
        };
        let announcement = Announcement {
            version: "0.1.0".to_owned(),
            zone: zone.to_owned(),
            lifecycle: lifecycle.to_owned(),
            started_unix_ms: 1_000,
            config_hash: "c0ffee".to_owned(),
            endpoints: states.iter().map(endpoint).collect(),
            endpoints_total: states.len() as u64,
        };
        (name.to_owned(), announcement.encode())
    }

    #[test]
    fn endpoints_beyond_the_maximum_are_counted() {
        let states = [("e", State::Up, ""); 71].into_iter().chain([("readyz", State::Down, "")]);
        let fleet = FleetView::of(vec![announced("web-1", "", "ready", &states.collect::<Vec<_>>())]);
        let text = shown(&fleet, false, 61_000, Paint { on: false });
        assert!(text.contains("  readyz down, 63 up, 8 not listed\n"), "{text}");
    }

    #[test]
    fn one_view_of_all_instances() {
        let fleet = FleetView::of(vec![
            ("web-0".to_owned(), b"\x09nonsense".to_vec()),
            announced("web-2", "eu-2", "ready", &[("livez", State::Up, ""), ("readyz", State::Up, "")]),
            announced(
                "web-1",
                "",
                "draining",
                &[("livez", State::Up, ""), ("readyz", State::Maintenance, "upgrade")],
            ),
            announced("web-3", "eu-1", "ready", &[("readyz", State::Degraded, "")]),
            announced("web-4", "eu-3", "ready", &[("readyz", State::Maintenance, "")]),
        ]);
        let expected = "\
INSTANCE  ZONE  VERSION  STATE     SINCE  ENDPOINTS
web-1     -     0.1.0    draining  1m     readyz drain (upgrade), 1 up
web-3     eu-1  0.1.0    ready     1m     readyz degraded, 0 up
web-2     eu-2  0.1.0    ready     1m     2 up
web-4     eu-3  0.1.0    ready     1m     readyz maintenance, 0 up
unreadable, of another version: web-0
";
        assert_eq!(shown(&fleet, false, 61_000, Paint { on: false }), expected);
        let hostile = FleetView::of(vec![
            ("a\x1b[2J".to_owned(), b"\x09nonsense".to_vec()),
            announced("b\n", "\x1b[31m", "ready", &[("readyz", State::Down, "\x1b]0;title\x07")]),
        ]);
        let text = shown(&hostile, true, 61_000, Paint { on: false });
        assert!(
            text.lines().all(|line| !line.contains(char::is_control)) && text.lines().count() == 3,
            "{text:?}"
        );
        assert!(shown(&fleet, true, 61_000, Paint { on: false }).contains("  c0ffee  "));
        let none = FleetView::of(Vec::new());
        assert_eq!(shown(&none, false, 0, Paint { on: false }), "no instance is announced\n");
    }
}
