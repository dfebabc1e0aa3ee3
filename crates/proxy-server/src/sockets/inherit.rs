//! Listening sockets inherited from the parent process, by number, or by name with `LISTEN_FDS`
//! (sd_listen_fds(3)).

use crate::exit::Failure;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::os::fd::OwnedFd;

/// The first passed descriptor.
const FIRST: u32 = 3;

/// Returns the sockets with this name in `LISTEN_FDNAMES`.
pub(crate) fn named(name: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<OwnedFd>, Failure> {
    let count = count(env).unwrap_or(0);
    let names = env("LISTEN_FDNAMES").unwrap_or_default();
    let positions = (0..count).zip(names.split(':')).filter(|(_, known)| *known == name);
    let sockets: Vec<_> = positions.map(|(position, _)| take(FIRST + position)).collect::<Result<_, _>>()?;
    if sockets.is_empty() {
        let message = format!(
            "no socket named `{name}` was passed; start the .socket unit before the service (`systemctl enable --now doorbell.socket`) and set FileDescriptorName={name} in it (LISTEN_FDS is {count}, LISTEN_FDNAMES is {names:?})"
        );
        return Err(Failure::bad_config(message));
    }
    Ok(sockets)
}

/// Every named listening socket. Unusable ones are skipped.
pub(crate) fn all(env: &dyn Fn(&str) -> Option<String>) -> Vec<(String, OwnedFd)> {
    let names = env("LISTEN_FDNAMES").unwrap_or_default();
    let named = (0..count(env).unwrap_or(0)).zip(names.split(':'));
    named.filter_map(|(position, name)| Some((name.to_owned(), take(FIRST + position).ok()?))).collect()
}

/// Returns the listening socket with this number. `LISTEN_FDS` is not needed, because the number is
/// configured; the kernel reports whether the socket is listening.
pub(crate) fn numbered(fd: u32) -> Result<OwnedFd, Failure> {
    take(fd)
}

/// A passed descriptor with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) fd: u32,
    /// Value of `FileDescriptorName=`; by default the name of the .socket unit.
    pub(crate) name: String,
}

/// Every passed descriptor of any kind.
pub(crate) fn list(env: &dyn Fn(&str) -> Option<String>) -> Vec<Passed> {
    let names = env("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat(""));
    let fds = FIRST..FIRST + count(env).unwrap_or(0);
    fds.zip(names).map(|(fd, name)| Passed { fd, name: name.to_owned() }).collect()
}

/// Sets close-on-exec for every passed descriptor, also for unused ones: programs of checks and the
/// command of `doorbell run` must not keep a socket open.
pub fn set_close_on_exec(env: &dyn Fn(&str) -> Option<String>) {
    for Passed { fd, .. } in list(env) {
        close_on_exec(fd);
    }
}

/// Number of passed descriptors. Listeners use copies, so each of them stays open.
pub(crate) fn passed(env: &dyn Fn(&str) -> Option<String>) -> usize {
    count(env).unwrap_or(0) as usize
}

/// The number of passed descriptors, if they are for this process.
fn count(env: &dyn Fn(&str) -> Option<String>) -> Option<u32> {
    let pid: i32 = env("LISTEN_PID")?.parse().ok()?;
    if pid != getpid().as_raw_nonzero().get() {
        return None;
    }
    env("LISTEN_FDS")?.parse().ok().filter(|count| *count <= 1024)
}

/// Lets the kernel copy a descriptor by its number: owning a raw number would require unsafe code.
/// The original stays open, for this process only. The parent's descriptor keeps the address bound
/// during a restart.
fn take(fd: u32) -> Result<OwnedFd, Failure> {
    let failed = |error: rustix::io::Errno| {
        Failure::bad_config(format!("cannot use descriptor {fd}: {}", std::io::Error::from(error)))
    };
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    let raw = i32::try_from(fd).unwrap_or(i32::MAX);
    let socket = pidfd_getfd(this, raw, PidfdGetfdFlags::empty()).map_err(failed)?;
    match rustix::net::sockopt::socket_acceptconn(&socket) {
        Ok(true) => {
            close_on_exec(fd);
            Ok(socket)
        }
        Ok(false) => Err(Failure::bad_config(format!("descriptor {fd} is not a listening socket"))),
        Err(_) => Err(Failure::bad_config(format!("descriptor {fd} is not a socket"))),
    }
}

fn close_on_exec(fd: u32) {
    // Fails only if no such descriptor is open.
    let _closed = i32::try_from(fd).map(doorbell::set_cloexec);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, dup, fcntl_getfd};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    /// A copy that programs inherit, as a parent process passes it, and its number.
    fn passed(fd: impl std::os::fd::AsFd) -> (OwnedFd, u32) {
        let copy = dup(fd).unwrap();
        let number = copy.as_raw_fd().try_into().unwrap();
        assert!(!fcntl_getfd(&copy).unwrap().contains(FdFlags::CLOEXEC));
        (copy, number)
    }

    #[test]
    fn programs_do_not_inherit_passed_descriptors() {
        let (copy, number) = passed(std::fs::File::open("/dev/null").unwrap());
        let env = |name: &str| match name {
            "LISTEN_PID" => Some(std::process::id().to_string()),
            "LISTEN_FDS" => Some((number - FIRST + 1).to_string()),
            _ => None,
        };
        set_close_on_exec(&env);
        assert!(fcntl_getfd(&copy).unwrap().contains(FdFlags::CLOEXEC), "an unused descriptor");
        let (copy, number) = passed(TcpListener::bind("127.0.0.1:0").unwrap());
        numbered(number).unwrap();
        assert!(fcntl_getfd(&copy).unwrap().contains(FdFlags::CLOEXEC), "without LISTEN_FDS");
    }
}
