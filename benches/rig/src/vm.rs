//! A boot in QEMU, where one instruction takes one nanosecond, and the lines of its console.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::error::RigError;
use crate::image::Image;
use crate::plan::{Event, MARK};
use crate::tool;

/// The QEMU program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The Debian package of QEMU.
pub(crate) const QEMU_PACKAGE: &str = "qemu-system-x86";

/// Maximum silence of a guest. One load takes seconds, so a guest that is silent for this time has
/// stopped.
const SILENCE_MAX: Duration = Duration::from_secs(300);
const POWER_OFF_MAX: Duration = Duration::from_secs(20);
/// Capacity of the channel for console lines.
const LINES_MAX: usize = 1024;

/// Arguments of the kernel. `cryptomgr.notests` disables the self-tests of the kernel's ciphers,
/// which would run during the first measurements. `nokaslr` (and `-rtc base`) makes each boot the
/// same. With `panic=-1` a guest whose init exits reboots at once, and `-no-reboot` makes QEMU
/// exit.
const KERNEL_ARGS: &str =
    "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off cryptomgr.notests nokaslr random.trust_cpu=on";

/// Boots `image` with a CPU model of QEMU's `-cpu`, and calls `on_event` for each event of the
/// guest until the plan is done. QEMU is killed in every case.
pub(crate) fn boot(
    image: &Image,
    cpu: &str,
    memory_mib: u32,
    mut on_event: impl FnMut(Event),
) -> Result<(), RigError> {
    let guest = Guest::start(image, cpu, memory_mib)?;
    let mut console = Vec::new();
    loop {
        let line = match guest.lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ended(&console, "stopped before the end of the plan"));
            }
            Err(RecvTimeoutError::Timeout) => return Err(ended(&console, "is silent")),
        };
        match event(&line) {
            Some(Event::Done) => {
                // The console closes with the power-off, which follows the last line.
                while guest.lines.recv_timeout(POWER_OFF_MAX).is_ok() {}
                return Ok(());
            }
            Some(event) => on_event(event),
            None => console.push(line),
        }
    }
}

/// The output of `QEMU --version`, for the report.
pub(crate) fn version() -> Result<String, RigError> {
    let text = tool::capture(QEMU, QEMU_PACKAGE, &["--version"], std::path::Path::new("/"))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The event in a console line, if there is one. Kernel messages may precede the mark.
fn event(line: &str) -> Option<Event> {
    let (_, json) = line.split_once(MARK)?;
    serde_json::from_str(json.trim()).ok()
}

fn ended(console: &[String], what: &str) -> RigError {
    RigError::Guest { detail: format!("{what}; its console ends with:\n{}", tool::tail(&console.join("\n"))) }
}

struct Guest {
    qemu: Child,
    lines: Receiver<String>,
}

impl Guest {
    fn start(image: &Image, cpu: &str, memory_mib: u32) -> Result<Self, RigError> {
        let mut command = Command::new(tool::find("nice", "coreutils")?);
        // The guest ends with this process in every case.
        command.args(["-n", "15"]).arg(tool::find("setpriv", "util-linux")?).args(["--pdeathsig", "KILL"]);
        command.arg(tool::find(QEMU, QEMU_PACKAGE)?);
        command.args(["-machine", "pc,accel=tcg", "-smp", "1", "-icount", "shift=0,sleep=off"]);
        command.args(["-cpu", cpu, "-m", &memory_mib.to_string()]);
        command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm", "-append", KERNEL_ARGS]);
        command.arg("-kernel").arg(&image.kernel.file).arg("-initrd").arg(&image.initrd);
        command.args(["-nodefaults", "-no-user-config", "-nic", "none", "-display", "none"]);
        command.args(["-serial", "stdio", "-monitor", "none", "-no-reboot"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut qemu = command.spawn().map_err(|error| RigError::command(QEMU, error))?;
        let output = qemu.stdout.take().expect("the output is piped");
        let (sender, lines) = sync_channel(LINES_MAX);
        thread::spawn(move || forward(BufReader::new(output), &sender));
        Ok(Self { qemu, lines })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // QEMU may have exited already; otherwise it is killed.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Forwards lines until the console closes or the receiver is dropped.
fn forward(mut console: impl BufRead, sender: &SyncSender<String>) {
    let mut bytes = Vec::new();
    while console.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if sender.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_marked_lines_are_events() {
        assert_eq!(event("@rig \"done\""), Some(Event::Done));
        assert_eq!(
            event("[    1.2] noise@rig {\"up\":{\"kernel\":\"6.1\"}}\r"),
            Some(Event::Up { kernel: "6.1".into() })
        );
        for noise in ["", "done", "@rig", "@rig {\"up\":", "\"done\""] {
            assert_eq!(event(noise), None, "{noise}");
        }
    }

    #[test]
    fn lines_are_forwarded_until_the_end() {
        let (sender, lines) = sync_channel(8);
        forward(&b"one\r\n\xfftwo\nthree"[..], &sender);
        drop(sender);
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["one", "\u{fffd}two", "three"]);
    }

    #[test]
    fn a_guest_that_stopped_shows_its_console() {
        let text = ended(&["Kernel panic".to_owned()], "stopped").to_string();
        assert_eq!(text, "the guest stopped; its console ends with:\nKernel panic");
    }
}
