//! `doorbell healthcheck` without arguments, as in the container image.
//!
//! The test mounts empty file systems over /etc and /run.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{CONFIG, Doorbell, Scratch, binary, free_addr, skipped};

/// Runs doorbell in a mount namespace whose /etc contains only this file.
fn ask(file: &Path, more: &[&str]) -> Option<Output> {
    let script = "mount -t tmpfs tmpfs /etc && mount -t tmpfs tmpfs /run && mkdir /etc/doorbell && cp \"$1\" /etc/doorbell/doorbell.toml && echo mounted && shift && exec \"$@\"";
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    ways.into_iter().find_map(|way| {
        let mut command = Command::new("unshare");
        command.args(way).args(["sh", "-c", script, "sh"]).arg(file).arg(binary()).arg("healthcheck");
        let output = command.args(more).env_remove("DOORBELL_CONFIG").output().ok()?;
        output.stdout.starts_with(b"mounted\n").then_some(output)
    })
}

#[test]
fn the_usual_file_gives_the_address() {
    let doorbell = Doorbell::start("auto");
    let (scratch, nobody) = (Scratch::new(), free_addr().to_string());
    let file = |addr: &str| scratch.write("doorbell.toml", &CONFIG.replacen("127.0.0.1:0", addr, 1));
    let own = doorbell.addr.to_string();
    for (in_file, more, expected) in [
        (&own, &[][..], 0),
        (&nobody, &[], 1),
        (&nobody, &["--address", &own], 0),
        (&own, &["--address", &nobody], 1),
    ] {
        let Some(output) = ask(file(in_file).as_ref(), more) else {
            return skipped("mounting is not permitted; the default file was not tested");
        };
        assert_eq!(output.status.code(), Some(expected), "{in_file} {more:?}: {output:?}");
    }
}
