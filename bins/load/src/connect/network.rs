//! A network namespace for a study, with a loopback interface and its own range of ports, created
//! without privileges.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use doorbell_egress::PortRange;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::{helper, holders};
use crate::exit::{Exit, Failure};

/// The range of local ports with `--own-network`: 56,512 ports.
pub const PORTS: (u32, u32) = (9_024, 65_535);

/// The program of util-linux that creates namespaces.
const UNSHARE: &str = "unshare";
const NAMESPACES: [&str; 3] = ["--user", "--map-root-user", "--net"];

/// Executes `doorbell-load connect` with these arguments in a network namespace of its own. Returns
/// only on failure, when `unshare` is missing or not permitted.
#[must_use]
pub fn enter(args: &[OsString]) -> Failure {
    let cannot = |why: String| {
        Failure::new(
            Exit::NoNetwork,
            format!(
                "--own-network needs `unshare` (util-linux) and user namespaces: {why}. Without it, widen net.ipv4.ip_local_port_range, or add \
                 addresses with --source"
            ),
        )
    };
    match Command::new(UNSHARE).args(NAMESPACES).arg("true").stdin(Stdio::null()).output() {
        Err(error) => return cannot(error.to_string()),
        Ok(tried) if !tried.status.success() => {
            return cannot(String::from_utf8_lossy(&tried.stderr).trim().to_owned());
        }
        Ok(_) => {}
    }
    let helper = match holders::helper_command() {
        Ok(helper) => helper,
        Err(failure) => return failure,
    };
    let mut command = Command::new(UNSHARE);
    command.args(NAMESPACES).arg(helper.get_program()).arg(helper::NAME).arg(helper::NETWORK);
    command.args([PORTS.0.to_string(), PORTS.1.to_string()]).args(args);
    // The command replaces this process, so that a signal to its process ID ends the study.
    cannot(command.exec().to_string())
}

/// Sets up the network namespace of this process.
pub(super) fn set_up(first: u32, last: u32) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Exit::NoNetwork, format!("cannot set up the separate network: {error}"))
    };
    let range = u16::try_from(first).ok().zip(u16::try_from(last).ok());
    let range = range.and_then(|(first, last)| PortRange::new(first, last));
    let range = range.ok_or_else(|| Failure::usage("no range of ports"))?;
    loopback_up().map_err(failed)?;
    let text = format!("{} {}\n", range.first(), range.last());
    fs::write("/proc/sys/net/ipv4/ip_local_port_range", text).map_err(failed)
}

/// Sets the loopback interface up (rtnetlink(7), `RTM_NEWLINK`).
fn loopback_up() -> io::Result<()> {
    const LEN: u32 = 32;
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 0x1 | 0x4;
    const LOOPBACK_INDEX: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = Vec::with_capacity(LEN as usize);
    message.extend(LEN.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    // Sequence number and port ID, then family and type, which are not used here.
    message.extend([0; 4 + 4 + 4]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    // The flags, and the mask of flags to change.
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());

    // The default protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // An error message (type 2) with number 0 is the acknowledgement.
    let errno = answer[..len].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match errno {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
