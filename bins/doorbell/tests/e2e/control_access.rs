//! Permissions of the control socket: mode, user, group.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::control::config;
use crate::plain::get;
use crate::support::{Doorbell, Scratch, binary, program, skipped};

/// User ID of `nobody`.
const STRANGER: u32 = 65534;
const GROUP: u32 = 4242;

/// Runs the program as another user, if the test runs as root.
struct Others {
    setpriv: PathBuf,
    binary: PathBuf,
    scratch: Scratch,
}

impl Others {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("only root can act as another user; access to the control socket was not tested");
            return None;
        }
        let setpriv = program("setpriv")?;
        let scratch = Scratch::new();
        // Other users may not have access to the build folder.
        let copy = scratch.path("doorbell");
        if fs::hard_link(binary(), &copy).is_err() {
            fs::copy(binary(), &copy).unwrap();
        }
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { setpriv, binary: copy, scratch })
    }

    /// A command that runs with this user, group and supplementary groups.
    fn command(&self, uid: u32, gid: u32, groups: &[u32]) -> Command {
        let mut command = Command::new(&self.setpriv);
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}"));
        match groups {
            [] => command.arg("--clear-groups"),
            groups => {
                let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
                command.arg(format!("--groups={}", groups.join(",")))
            }
        };
        command.arg(&self.binary);
        command
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path("control.sock")
    }

    fn status(&self, uid: u32, gid: u32, groups: &[u32]) -> Output {
        self.command(uid, gid, groups).args(["status", "--socket"]).arg(self.socket()).output().unwrap()
    }

    #[track_caller]
    fn is_refused(&self, uid: u32, gid: u32, groups: &[u32], why: &str) {
        let output = self.status(uid, gid, groups);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{uid} {gid} {groups:?}: {output:?}");
    }

    #[track_caller]
    fn is_let_in(&self, uid: u32, gid: u32, groups: &[u32]) {
        let output = self.status(uid, gid, groups);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("ready for"), "{uid} {gid} {groups:?}: {output:?}");
    }
}

fn access_of(path: &Path) -> (u32, u32, u32) {
    let meta = fs::metadata(path).unwrap();
    (meta.mode() & 0o777, meta.uid(), meta.gid())
}

#[test]
fn without_a_group_only_root_and_the_same_user_may_connect() {
    let Some(others) = Others::new() else { return };
    let _doorbell = Doorbell::start_with("epoll", &config(&others.scratch, ""));
    assert_eq!(access_of(&others.socket()), (0o600, 0, 0));
    let belongs = "permission denied; use sudo, or set `control.group`";
    others.is_let_in(0, 0, &[]);
    others.is_refused(STRANGER, STRANGER, &[], belongs);
    others.is_refused(STRANGER, 0, &[], belongs);
    // doorbell checks the user of the peer even if the mode of the socket was changed by hand.
    fs::set_permissions(others.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    others.is_refused(
        STRANGER,
        STRANGER,
        &[],
        "permission denied: user 65534 is not user 0 of this process; use sudo, or allow a group with `control.group`",
    );
    others.is_let_in(0, 0, &[]);
}

#[test]
fn only_members_of_the_group_may_connect() {
    let Some(others) = Others::new() else { return };
    let text =
        config(&others.scratch, "").replace("[control]\n", &format!("[control]\ngroup = \"{GROUP}\"\n"));
    let _doorbell = Doorbell::start_with("epoll", &text);
    assert_eq!(access_of(&others.socket()), (0o660, 0, GROUP));
    others.is_let_in(STRANGER, GROUP, &[]);
    others.is_let_in(STRANGER, STRANGER, &[7, GROUP]);
    others.is_let_in(0, 0, &[]);
    let belongs = "permission denied";
    others.is_refused(STRANGER, STRANGER, &[], belongs);
    others.is_refused(STRANGER, STRANGER, &[GROUP + 1], belongs);
}

#[test]
fn the_user_need_not_be_root() {
    let Some(others) = Others::new() else { return };
    let own = 1234;
    chown(others.scratch.path(""), Some(own), Some(own)).unwrap();
    let file = others.scratch.write("doorbell.toml", &config(&others.scratch, ""));
    let start = |file: &str| {
        let mut command = others.command(own, own, &[]);
        Doorbell::try_start_command(command.args(["serve", "--driver", "epoll", "-c", file])).unwrap()
    };
    let doorbell = start(&file);
    assert_eq!(access_of(&others.socket()), (0o600, own, own));
    others.is_let_in(own, own, &[]);
    others.is_let_in(0, 0, &[]);
    others.is_refused(own + 1, own, &[], "permission denied");
    drop(doorbell);
    // A user outside the group cannot give the socket to it. The instance still serves, and its own
    // user still has access.
    let text =
        config(&others.scratch, "").replace("[control]\n", &format!("[control]\ngroup = \"{GROUP}\"\n"));
    let file = others.scratch.write("doorbell.toml", &text);
    let doorbell = start(&file);
    assert_eq!(get(doorbell.addr, "/livez", &[]).status, 200);
    let log = doorbell.process.log();
    assert!(
        log.contains("cannot change the group of ") && log.contains("as root, as a member of the group"),
        "{log}"
    );
    assert_eq!(access_of(&others.socket()), (0o600, own, own));
    others.is_let_in(own, own, &[]);
    others.is_refused(STRANGER, GROUP, &[], "permission denied");
}

/// The shipped unit denies chown(2). In this test new files get the group of their folder, and
/// their owner may not change it.
#[test]
fn a_file_with_the_right_group_needs_no_chown() {
    let Some(others) = Others::new() else { return };
    let own = 1234;
    chown(others.scratch.path(""), Some(own), Some(GROUP)).unwrap();
    fs::set_permissions(others.scratch.path(""), fs::Permissions::from_mode(0o2755)).unwrap();
    let text =
        config(&others.scratch, "").replace("[control]\n", &format!("[control]\ngroup = \"{GROUP}\"\n"));
    let file = others.scratch.write("doorbell.toml", &text);
    let mut command = others.command(own, own, &[]);
    let _doorbell =
        Doorbell::try_start_command(command.args(["serve", "--driver", "epoll", "-c", &file])).unwrap();
    assert_eq!(access_of(&others.socket()), (0o660, own, GROUP));
    others.is_let_in(STRANGER, GROUP, &[]);
}
