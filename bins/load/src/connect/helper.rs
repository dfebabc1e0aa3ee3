//! A helper process: accepts and holds connections, or opens, measures and holds connections.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use doorbell_egress::{Egress, EgressConfig, PortChoice, SpeaksFirst, Strategy};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::sample::Sample;
use super::{Transport, network, raise_open_files};
use crate::clock::{Clock, nanos};
use crate::exit::{Exit, Failure};
use crate::plan::parse_sources;

/// First argument of a helper. It is not a user interface and may change with each version.
pub(crate) const NAME: &str = "connect-helper";
/// `HOLD CONNS`: accept connections from the listener on standard input.
pub(super) const HOLD: &str = "hold";
/// `DIAL TRANSPORT STRATEGY TARGET CONNS SOURCES`: connect, and write a sample for each connection
/// to standard output.
pub(super) const DIAL: &str = "dial";
/// `NETWORK FIRST LAST ARGS...`: set up the current network namespace, with the local ports FIRST
/// to LAST, and run the study with ARGS there.
pub(super) const NETWORK: &str = "network";

/// Runs a helper with the arguments after its name. `study` runs `doorbell-load connect` once the
/// network namespace is set up.
pub(crate) fn run(args: &[OsString], study: fn(&[OsString]) -> Exit) -> Result<Exit, Failure> {
    let wrong = || Failure::usage("connect-helper is started by `doorbell-load connect` only");
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    if let [NETWORK, first, last, ..] = words[..] {
        let (first, last) = (number(first)?, number(last)?);
        network::set_up(first, last)?;
        return Ok(study(&args[3..]));
    }
    // A helper is killed when the process of its study ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| {
        Failure::new(Exit::Failures, format!("cannot set the parent-death signal of a helper: {error}"))
    })?;
    match words[..] {
        [HOLD, conns] => hold(number(conns)?),
        [DIAL, transport, strategy, target, conns, sources] => {
            let transport = if transport == "tcp" { Transport::Tcp } else { Transport::Udp };
            let strategy: Strategy = strategy.parse().map_err(|_| wrong())?;
            let target: SocketAddr = target.parse().map_err(|_| wrong())?;
            let sources =
                if sources.is_empty() { Vec::new() } else { parse_sources(sources).map_err(|_| wrong())? };
            let config = EgressConfig::new()
                .ports(PortChoice::Only(strategy))
                .sources(sources)
                // Without quick ACKs the last segment of the handshake waits for data. No data is
                // sent here, so the server would accept the connection late.
                .quickack(true)
                // The connections are reset when this process ends, so that no port stays in
                // TIME-WAIT for the next run.
                .linger(Some(Duration::ZERO));
            let egress = config.open().map_err(|error| Failure::usage(error.to_string()))?;
            dial(&egress, transport, target, number(conns)?)
        }
        _ => Err(wrong()),
    }
}

/// Accepts `conns` connections, and holds them until this process is killed.
fn hold(conns: u32) -> Result<Exit, Failure> {
    raise_open_files(conns);
    let failed =
        |error: io::Error| Failure::new(Exit::Failures, format!("cannot accept connections: {error}"));
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let mut held = Vec::with_capacity(conns as usize);
    while held.len() < conns as usize {
        match listener.accept() {
            Ok((conn, _)) => held.push(conn),
            // A client has disconnected before the accept, or a signal arrived.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
            // If this helper has no descriptors left, other helpers may continue, because the limit
            // applies to each process separately.
            Err(_) => break,
        }
    }
    wait_for_kill()
}

fn dial(egress: &Egress, transport: Transport, target: SocketAddr, conns: u32) -> Result<Exit, Failure> {
    raise_open_files(conns);
    let clock = Clock::start();
    let mut held: Vec<OwnedFd> = Vec::with_capacity(conns as usize);
    let mut out = io::BufWriter::with_capacity(64 * 1_024, io::stdout().lock());
    for _ in 0..conns {
        let sample = one(egress, transport, target, clock, &mut held);
        out.write_all(&sample.to_bytes()).map_err(write_failed)?;
    }
    out.flush().map_err(write_failed)?;
    wait_for_kill()
}

fn write_failed(error: io::Error) -> Failure {
    Failure::new(Exit::Failures, format!("cannot write the results: {error}"))
}

/// Makes one connection. The call blocks, so its time includes the handshake.
fn one(
    egress: &Egress,
    transport: Transport,
    target: SocketAddr,
    clock: Clock,
    held: &mut Vec<OwnedFd>,
) -> Sample {
    let transport = match transport {
        Transport::Tcp => doorbell_egress::Transport::Tcp(SpeaksFirst::We),
        Transport::Udp => doorbell_egress::Transport::Udp,
    };
    let retries_before = egress.counters().port_retries;
    let mut connect_ns = 0;
    let began = clock.now();
    let result = egress.dial(transport, target, |fd, target| {
        rustix::io::ioctl_fionbio(fd, false)?;
        let from = clock.now();
        let result = rustix::net::connect(fd, &target);
        connect_ns += clock.now() - from;
        Ok(result?)
    });
    let whole_ns = clock.now() - began;
    let mut sample = Sample {
        connect_ns: u32::try_from(connect_ns).unwrap_or(u32::MAX),
        whole_ns: u32::try_from(whole_ns).unwrap_or(u32::MAX),
        retries: u16::try_from(egress.counters().port_retries - retries_before).unwrap_or(u16::MAX),
        ..Sample::default()
    };
    let named = result.and_then(|fd| {
        let addr = rustix::net::getsockname(&fd)?;
        sample.port = SocketAddr::try_from(addr)?.port();
        held.push(fd);
        Ok(())
    });
    if let Err(error) = named {
        sample.errno = error.raw_os_error().unwrap_or(-1);
    }
    sample
}

/// Waits until the parent kills this process, or until the time limit if the parent fails to do so.
fn wait_for_kill() -> Result<Exit, Failure> {
    let clock = Clock::start();
    while clock.now() < nanos(Duration::from_secs(3_600)) {
        std::thread::park_timeout(Duration::from_secs(60));
    }
    Ok(Exit::Clean)
}
