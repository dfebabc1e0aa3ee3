//! The processes that hold connections: starting and ending them.
//!
//! Does not know about: the work of helpers (`helper`); results.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use doorbell_egress::Strategy;

use super::{Study, Transport, helper, server_addrs};
use crate::exit::{Exit, Failure};

/// A helper process, killed on drop.
#[derive(Debug)]
pub(super) struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // If the process has ended already, only its status is collected.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server's side: its socket and, for TCP, the helpers that accept from it and hold the
/// connections.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) addr: SocketAddr,
    holders: Vec<Helper>,
    /// The target socket, which keeps the port of this run reserved.
    _socket: OwnedFd,
}

impl Side {
    /// Opens the socket for one run, and starts the helpers.
    pub(super) fn serve(study: &Study, transport: Transport) -> Result<Self, Failure> {
        let opened = match transport {
            Transport::Tcp => listener(study),
            Transport::Udp => server_addrs(study).find_map(|addr| UdpSocket::bind(addr).ok()).map_or_else(
                || Err(io::ErrorKind::AddrInUse.into()),
                |socket| Ok((socket.local_addr()?, socket.into())),
            ),
        };
        let (addr, socket): (SocketAddr, OwnedFd) =
            opened.map_err(|error| failed(&format!("cannot listen on {}", study.target), &error))?;
        let mut side = Self { addr, holders: Vec::new(), _socket: socket };
        if transport == Transport::Tcp {
            for _ in 0..study.conns.div_ceil(study.conns_per_helper) {
                let listener = side._socket.try_clone().map_err(|error| failed("dup failed", &error))?;
                let mut command = helper_command()?;
                command.args([helper::HOLD, &study.conns_per_helper.to_string()]);
                command.stdin(Stdio::from(listener)).stdout(Stdio::null());
                side.holders.push(start(command)?);
            }
        }
        Ok(side)
    }

    pub(super) fn helpers(&self) -> usize {
        self.holders.len()
    }
}

/// Starts a helper that opens `conns` connections and holds them. The helper writes its
/// measurements to the returned pipe.
pub(super) fn dialer(
    study: &Study,
    transport: Transport,
    strategy: Strategy,
    target: SocketAddr,
    conns: u32,
) -> Result<(Helper, ChildStdout), Failure> {
    let sources: Vec<String> = study.sources.iter().map(IpAddr::to_string).collect();
    let mut command = helper_command()?;
    command.args([helper::DIAL, transport.name(), &strategy.to_string(), &target.to_string()]);
    command.args([conns.to_string(), sources.join(",")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut helper = start(command)?;
    let records = helper.0.stdout.take().expect("standard output is piped");
    Ok((helper, records))
}

fn listener(study: &Study) -> io::Result<(SocketAddr, OwnedFd)> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for addr in server_addrs(study) {
        // The backlog is the maximum of the system. Helpers accept from it while the next
        // connection is opened.
        match TcpListener::bind(addr) {
            Ok(listener) => {
                rustix::net::listen(&listener, i32::MAX)?;
                return Ok((listener.local_addr()?, listener.into()));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub(super) fn helper_command() -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| failed("cannot determine the path of this program", &error))?;
    let mut command = Command::new(program);
    command.arg(helper::NAME);
    Ok(command)
}

fn start(mut command: Command) -> Result<Helper, Failure> {
    command.spawn().map(Helper).map_err(|error| failed("a helper cannot be started", &error))
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Failures, format!("{what}: {error}"))
}
