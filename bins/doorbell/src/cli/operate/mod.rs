//! Commands for a running instance: sends requests over its control socket and prints the
//! responses.

mod args;
mod drain;
mod find;
mod links;
mod show;
pub(super) mod table;
#[cfg(test)]
mod tests;
pub(super) mod words;

pub use args::{InstanceArgs, OperateCommand};
pub(super) use find::only_instance;

use super::options::Global;
use super::output::{colored, print, print_more};
use super::report;
pub(super) use args::Form;
use args::{At, ChecksArgs, EventsArgs, LinksArgs, LinksCommand};
use doorbell_control::{CallError, Client};
use doorbell_control::{CheckView, Event, LinkView, ProberView, Refusal, Request, Response, Status};
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::millis;
use serde::Serialize;
use std::time::Duration;
use table::Paint;

/// Refresh interval of `--watch`.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(command: &OperateCommand, global: &Global) -> Result<Exit, Failure> {
    let paint = Paint { on: colored(global.color, &std::io::stdout()) };
    let connect = |instance: &InstanceArgs| find::connect(instance, global);
    match command {
        OperateCommand::Checks(At { args, instance }) => checks(&mut connect(instance)?, args, paint),
        OperateCommand::Drain(At { args, instance }) => drain::drain(&mut connect(instance)?, args),
        OperateCommand::Events(At { args, instance }) => events(&mut connect(instance)?, args, paint),
        OperateCommand::Links(LinksArgs { command: Some(LinksCommand::Report(args)), .. }) => {
            report::run(args, global)
        }
        OperateCommand::Links(LinksArgs { status: At { args, instance }, .. }) => {
            let table = |links: &Vec<LinkView>, wide| links::links(links, wide, paint);
            watch(&mut connect(instance)?, (args.watch, args.output), paint, fetch_links, table)
        }
        OperateCommand::Maint(At { args, instance }) => {
            let (target, reason) = (args.target.clone(), args.reason.clone());
            let for_ms = args.for_time.map(millis);
            act(&mut connect(instance)?, Request::Maintain { target, reason, for_ms })
        }
        OperateCommand::Prestop(At { args, instance }) => drain::prestop(&mut connect(instance)?, args),
        OperateCommand::Probers(At { args, instance }) => {
            let table = |probers: &Vec<ProberView>, _wide| show::probers(probers, paint);
            watch(&mut connect(instance)?, (false, args.output), paint, fetch_probers, table)
        }
        OperateCommand::Quit(At { args, instance }) => drain::quit(&mut connect(instance)?, args),
        OperateCommand::Ready(At { args, instance }) => {
            act(&mut connect(instance)?, Request::Ready { target: args.target.clone() })
        }
        OperateCommand::Reload(instance) => act(&mut connect(instance)?, Request::Reload),
        OperateCommand::Status(At { args, instance }) => {
            let table = |status: &Status, wide| show::status(status, wide, paint);
            watch(&mut connect(instance)?, (args.watch, args.output), paint, fetch_status, table)
        }
        OperateCommand::Undrain(At { args, instance }) => {
            act(&mut connect(instance)?, Request::Undrain { target: args.target.clone() })
        }
    }
}

/// Sends a request and prints the text of the response.
fn act(client: &mut Client, request: Request) -> Result<Exit, Failure> {
    match call(client, &request)? {
        Response::Done(text) => {
            // The request has taken effect even if the response cannot be printed.
            let _lost = print(&format!("{text}\n"));
            Ok(Exit::Success)
        }
        other => Err(unexpected(other)),
    }
}

fn call(client: &mut Client, request: &Request) -> Result<Response, Failure> {
    match client.call(request) {
        Ok(Response::Refused(refusal)) => Err(refused(&refusal)),
        Ok(response) => Ok(response),
        Err(error) => Err(no_reply(&error)),
    }
}

fn refused(refusal: &Refusal) -> Failure {
    Failure::new(Exit::Failure, refusal.text.clone())
}

fn no_reply(error: &CallError) -> Failure {
    let text = match error.is_end() {
        true => "doorbell exited before it replied".to_owned(),
        false => format!("no reply from doorbell: {error}"),
    };
    Failure::new(Exit::Unavailable, text)
}

fn unexpected(response: Response) -> Failure {
    match response {
        Response::Refused(refusal) => refused(&refusal),
        _ => Failure::new(Exit::Failure, "unexpected reply from doorbell: this is a bug"),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("all keys of views are strings")
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("all keys of views are strings")
}

fn checks(client: &mut Client, args: &ChecksArgs, paint: Paint) -> Result<Exit, Failure> {
    let request = match (&args.name, args.run) {
        (Some(name), true) => Request::RunCheck { name: name.clone() },
        (name, _) => Request::Checks { name: name.clone(), history: args.history },
    };
    let fetch = |client: &mut Client| match call(client, &request)? {
        Response::Checks(mut checks) => {
            if !args.history {
                checks.iter_mut().for_each(|check| check.history.clear());
            }
            Ok(checks)
        }
        other => Err(unexpected(other)),
    };
    watch(client, (false, args.output), paint, fetch, |checks: &Vec<CheckView>, wide| match args.history {
        true => show::histories(checks, paint),
        false => show::checks(checks, wide, paint),
    })
}

/// The links of a running instance.
pub(super) fn links_at(instance: &InstanceArgs, global: &Global) -> Result<Vec<LinkView>, Failure> {
    fetch_links(&mut find::connect(instance, global)?)
}

fn fetch_links(client: &mut Client) -> Result<Vec<LinkView>, Failure> {
    match call(client, &Request::Links)? {
        Response::Links(links) => Ok(links),
        other => Err(unexpected(other)),
    }
}

/// Reads and prints a value once, or repeatedly with `--watch`.
#[expect(clippy::disallowed_methods, reason = "the display is refreshed in real time")]
pub(super) fn watch<S, T: Serialize>(
    source: &mut S,
    (watches, output): (bool, Form),
    paint: Paint,
    read: impl Fn(&mut S) -> Result<T, Failure>,
    table: impl Fn(&T, bool) -> String,
) -> Result<Exit, Failure> {
    loop {
        let value = read(source)?;
        let text = match output {
            Form::Json if watches => format!("{}\n", line(&value)),
            Form::Json => format!("{}\n", json(&value)),
            Form::Text | Form::Wide => table(&value, output == Form::Wide),
        };
        // Cursor home, then erase to the end of each line and of the screen: no flicker, and the
        // scrollback is preserved.
        let is_screen = watches && paint.on && output != Form::Json;
        let is_read = print_more(&if is_screen {
            format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"))
        } else {
            text
        })?;
        if !watches || !is_read {
            return Ok(Exit::Success);
        }
        std::thread::sleep(REFRESH_EVERY);
    }
}

fn fetch_probers(client: &mut Client) -> Result<Vec<ProberView>, Failure> {
    match call(client, &Request::Probers)? {
        Response::Probers(probers) => Ok(probers),
        other => Err(unexpected(other)),
    }
}

fn fetch_status(client: &mut Client) -> Result<Status, Failure> {
    match call(client, &Request::Status)? {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(other)),
    }
}

fn events(client: &mut Client, args: &EventsArgs, paint: Paint) -> Result<Exit, Failure> {
    let print_events = |events: &[Event], missed: u64| match args.output {
        Form::Json => print_more(&events.iter().map(|event| line(event) + "\n").collect::<String>()),
        Form::Text | Form::Wide => print_more(&show::events(events, missed, paint)),
    };
    if args.follow {
        client.wait_forever().map_err(|error| no_reply(&error))?;
    }
    let mut response = call(client, &Request::Events { since: args.since, follow: args.follow })?;
    loop {
        let Response::Events { events, missed } = response else { return Err(unexpected(response)) };
        if !print_events(&events, missed)? || !args.follow {
            return Ok(Exit::Success);
        }
        response = match client.next_response() {
            Ok(response) => response,
            Err(error) if error.is_end() => return Ok(Exit::Success),
            Err(error) => return Err(no_reply(&error)),
        };
    }
}
