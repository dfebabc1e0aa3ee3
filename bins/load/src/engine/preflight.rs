//! One request before the run. It shows whether there is a server, and its reply becomes the
//! template of a good reply.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::clock::{Clock, nanos};
use crate::exit::{Exit, Failure};
use crate::plan::Plan;
use crate::reply::{Expect, Id, Progress, Reader, Reply};
use crate::stats::FailureKind;

/// A worker number that no thread uses.
const WORKER: u16 = u16::MAX;
/// Maximum length of a template.
const REPLY_LEN_MAX: usize = 64 << 20;

/// Sends a request to the first target and makes its reply the template.
pub(super) fn run(plan: &Plan, clock: Clock) -> Result<Expect, Failure> {
    let target = plan.targets[0];
    let id = plan.ids.then(|| Id::new(WORKER, 0));
    let mut request = plan.request.as_bytes().to_vec();
    if let Some(id) = id {
        plan.request.set_id(&mut request, id);
    }
    let (bytes, reply) = exchange(plan, clock, target, &request, id).map_err(|problem| {
        Failure::new(Exit::Failures, format!("the first request to {target} failed: {problem}"))
    })?;
    let mut expect = plan.expect.clone();
    expect.learn(&bytes, id).map_err(|kind| {
        Failure::new(
            Exit::Failures,
            format!("the first reply of {target} cannot be the template: {}", kind.sentence()),
        )
    })?;
    check_reply(plan, &expect, target, &reply)?;
    Ok(expect)
}

fn check_reply(plan: &Plan, expect: &Expect, target: SocketAddr, reply: &Reply) -> Result<(), Failure> {
    let what = match reply.bad {
        Some(FailureKind::Status) => format!(
            "has the status {}; if that is right, use --expect-status {0} or --check none",
            reply.status
        ),
        Some(FailureKind::WrongBytes) => "does not have the body of --expect-body".to_owned(),
        Some(kind) => kind.sentence().to_owned(),
        None if plan.ids && !expect.echoes_id() => {
            "does not carry the unique id of its request; does the server echo it?".to_owned()
        }
        None => return Ok(()),
    };
    Err(Failure::new(Exit::Failures, format!("the first reply of {target} {what}")))
}

/// Sends a request, and returns the bytes of the reply and the result of parsing them.
fn exchange(
    plan: &Plan,
    clock: Clock,
    target: SocketAddr,
    request: &[u8],
    id: Option<Id>,
) -> Result<(Vec<u8>, Reply), String> {
    let give_up = clock.now().saturating_add(nanos(plan.timeout));
    let mut stream =
        TcpStream::connect_timeout(&target, plan.timeout).map_err(|error| connect_text(&error))?;
    stream
        .set_read_timeout(Some(plan.timeout))
        .and_then(|()| stream.set_write_timeout(Some(plan.timeout)))
        .and_then(|()| stream.write_all(request))
        .map_err(|error| io_text(&error))?;

    let mut reader = Reader::default();
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1_024];
    loop {
        if clock.now() > give_up {
            return Err("no complete reply in time; see --timeout".to_owned());
        }
        let len = match stream.read(&mut piece) {
            // The ring that `worker::try_ring` opened and closed on this thread may still interrupt
            // the read.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result.map_err(|error| io_text(&error))?,
        };
        if len == 0 {
            let reply = reader.handle_end(&plan.expect).map_err(|kind| kind.sentence().to_owned())?;
            return Ok((bytes, reply));
        }
        if bytes.len() + len > REPLY_LEN_MAX {
            return Err("the reply is larger than 64 MiB".to_owned());
        }
        match reader.handle(&piece[..len], &plan.expect, id).map_err(|kind| kind.sentence().to_owned())? {
            Progress::More => bytes.extend(&piece[..len]),
            Progress::Done(reply, used) => {
                bytes.extend(&piece[..used]);
                return Ok((bytes, reply));
            }
        }
    }
}

fn connect_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused; is the server running?".to_owned(),
        io::ErrorKind::TimedOut => "no answer to the attempt to connect; see --timeout".to_owned(),
        _ => error.to_string(),
    }
}

fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "no complete reply in time; see --timeout".to_owned()
        }
        io::ErrorKind::ConnectionReset => FailureKind::Reset.sentence().to_owned(),
        _ => error.to_string(),
    }
}
