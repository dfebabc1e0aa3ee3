//! `[control]` and `[maintenance]` as they were written.
//!
//! Does not know about: what is the default.

use super::super::model::ControlSocket;
use super::super::schedule::{SCHEDULE_FORM, Schedule, system_zone};
use doorbell_config::{At, Problem, Section};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a path that fit into `sockaddr_un` with a NUL, less the name of the file that locks it (unix(7)).
const SOCKET_PATH_LEN_MAX: usize = 102;

#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) socket: Option<At<ControlSocket>>,
    pub(crate) group: Option<At<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    pub(crate) file_dir: Option<At<PathBuf>>,
    pub(crate) windows: Vec<Window>,
}

#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) cron: Option<At<Schedule>>,
    pub(crate) length: Option<At<Duration>>,
    pub(crate) endpoints: Option<At<Vec<At<String>>>>,
    pub(crate) reason: Option<At<String>>,
}

/// One that is open for longer can be written as several.
const WINDOW_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

impl Control {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let control = Self { socket: read_socket(&mut at), group: at.string("group") };
        if let Some(At { value, span }) = &control.group
            && (value.is_empty() || value.contains([':', '\n']))
        {
            let problem = Problem::error("bad-group", span.clone(), format!("{value:?} is not a group"));
            at.problem(problem.help("write its name or its number, as in group = \"adm\""));
        }
        at.finish();
        control
    }
}

fn read_socket(at: &mut Section<'_>) -> Option<At<ControlSocket>> {
    let At { value, span } = at.string("socket")?;
    let socket = match value.as_str() {
        "auto" => ControlSocket::Auto,
        "off" => ControlSocket::Off,
        path if path.starts_with('/') && path.len() <= SOCKET_PATH_LEN_MAX && !path.contains('\0') => {
            ControlSocket::Path(path.into())
        }
        other => {
            let problem =
                Problem::error("bad-path", span, format!("{other:?} cannot be the path of a socket"));
            at.problem(problem.help(format!(
                "write \"auto\", \"off\" or an absolute path of at most {SOCKET_PATH_LEN_MAX} bytes"
            )));
            return None;
        }
    };
    Some(At { value: socket, span })
}

impl Maintenance {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let windows = at.list("window").into_iter().map(Window::read).collect();
        let maintenance = Self { file_dir: at.path("file_dir"), windows };
        at.finish();
        maintenance
    }
}

impl Window {
    fn read(mut at: Section<'_>) -> Self {
        for key in ["cron", "for"] {
            if at.value(key).is_none() {
                let message = format!("a maintenance window without `{key}`");
                at.problem(Problem::error("missing-key", at.span.clone(), message).help(
                    "write when it begins and how long it lasts, as in cron = \"0 3 * * SUN\" and for = \"30m\"",
                ));
            }
        }
        let window = Self {
            cron: read_schedule(&mut at),
            length: at.duration("for", WINDOW_RANGE),
            endpoints: at.strings("endpoints"),
            reason: at.string("reason"),
        };
        at.finish();
        window
    }
}

fn read_schedule(at: &mut Section<'_>) -> Option<At<Schedule>> {
    let At { value, span } = at.string("cron")?;
    match Schedule::parse(&value) {
        Ok(schedule) => {
            if schedule.is_local()
                && let Err(zone) = system_zone()
            {
                let message = format!("TZ is {zone:?}, which is no time zone: this schedule is in UTC");
                let problem = Problem::warning("bad-time-zone", span.clone(), message);
                at.problem(
                    problem.help("set TZ to a name as in Europe/Berlin, or write it as the last word here"),
                );
            }
            Some(At { value: schedule, span })
        }
        Err(why) => {
            let problem = Problem::error("bad-cron", span, format!("{value:?} is not a schedule: {why}"));
            at.problem(problem.help(format!("write {SCHEDULE_FORM}")));
            None
        }
    }
}
