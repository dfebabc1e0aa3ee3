//! Checks, drains and the stop do not depend on the reader of the log or on load. Also the duties
//! of process 1.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::{process, wait_until};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::control::Controlled;
use crate::plain::get;
use crate::support::{
    Doorbell, LIMIT, Process, Scratch, binary, free_addr, on_auto, on_both_engines, skipped,
};

on_auto! {
    a_hung_reader_of_the_log_blocks_nothing
    unread_lines_are_counted
    a_stop_does_not_wait_for_a_reload
    reloads_leave_no_replies_behind
}

on_both_engines! { sigusr1_logs_the_state }

/// A child process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Standard output and standard error are a full pipe that nothing reads.
fn a_hung_reader_of_the_log_blocks_nothing(engine: &str) {
    let scratch = Scratch::new();
    let (watched, addr) = (scratch.write("watched", ""), free_addr());
    let socket = scratch.path("control.sock");
    let config = scratch.write(
        "doorbell.toml",
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[log]\nlevel = \"debug\"\n[lifecycle]\ndrain_delay = \"300ms\"\n\
             [control]\nsocket = {socket:?}\n[listener.web]\nbind = \"{addr}\"\n[check.file]\ntype = \"file\"\npath = {watched:?}\n\
             interval = \"100ms\"\ntimeout = \"50ms\"\nrise = 1\nfall = 1\n[health.readyz]\nrequire = [\"file\"]\n\
             [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n"
        ),
    );
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let _at_least_a_page = fcntl_setpipe_size(&writer, 1).unwrap();
    writer.write_all(&vec![b'\n'; fcntl_getpipe_size(&writer).unwrap()]).unwrap();
    let mut command = Command::new(binary());
    command.args(["serve", "-c", &config, "--driver", engine]).stdin(Stdio::null());
    let child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    let mut child = Killed(child);
    let answers = |status| {
        let is_so =
            || std::net::TcpStream::connect(addr).is_ok() && get(addr, "/readyz", &[]).status == status;
        wait_until(LIMIT, is_so).unwrap_or_else(|| panic!("{engine}: never {status}"));
    };
    answers(200);
    for _ in 0..5 {
        fs::remove_file(&watched).unwrap();
        answers(503);
        fs::write(&watched, "").unwrap();
        answers(200);
    }
    let say = |args: &[&str]| {
        let output = Command::new(binary()).args(args).arg("--socket").arg(&socket).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    say(&["drain", "--reason", "a test"]);
    answers(503);
    say(&["undrain"]);
    answers(200);
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    // The drain takes a moment, and the log gets up to one second.
    wait_until(LIMIT, || child.0.try_wait().unwrap().is_some()).expect("doorbell must exit");
    assert!(child.0.wait().unwrap().success());
}

/// Metrics and status count the lines of a log that is not read. SIGUSR1 logs the whole state,
/// which soon fills the pipe.
fn unread_lines_are_counted(engine: &str) {
    let scratch = Scratch::new();
    let (addr, admin) = (free_addr(), free_addr());
    let socket = scratch.path("control.sock");
    let checks: String = (0..500).map(|n| format!("[check.c{n}]\ntype = \"ttl\"\nttl = \"1h\"\n")).collect();
    let text = format!(
        "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[control]\nsocket = {socket:?}\n[admin]\nbind = \"{admin}\"\n\
         [listener.web]\nbind = \"{addr}\"\n{checks}"
    );
    let config = scratch.write("doorbell.toml", &text);
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let _at_least_a_page = fcntl_setpipe_size(&writer, 1).unwrap();
    writer.write_all(&vec![b'\n'; fcntl_getpipe_size(&writer).unwrap()]).unwrap();
    let mut command = Command::new(binary());
    command.args(["serve", "-c", &config, "--driver", engine]).stdin(Stdio::null());
    let child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    let mut child = Killed(child);
    wait_until(LIMIT, || std::net::TcpStream::connect(admin).is_ok()).expect("it serves");
    let lost = || {
        let text = String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix("doorbell_log_lost_total ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{text}")).parse::<f64>().unwrap()
    };
    assert!(lost() < 0.5, "the first lines must fit into the pipe");
    let fills = || {
        kill_process(Pid::from_child(&child.0), Signal::USR1).unwrap();
        lost() > 0.5
    };
    wait_until(LIMIT, fills).expect("the pipe must become full");
    let output =
        Command::new(binary()).args(["status", "-o", "json", "--socket"]).arg(&socket).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(status["counters"]["log_lost"].as_u64().unwrap() > 0, "{status}");
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    wait_until(LIMIT, || child.0.try_wait().unwrap().is_some()).expect("it ends");
}

fn sigusr1_logs_the_state(engine: &str) {
    let check = "[check.app]\ntype = \"ttl\"\nttl = \"1h\"\n[health.readyz]\nrequire = [\"app\"]\n";
    let control = Controlled::start(engine, check);
    control.say(&["maint", "readyz", "--reason", "new disk"]);
    control.doorbell.process.signal(Signal::USR1);
    let line = |wanted: &str| {
        let log = control.doorbell.process.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"].as_str().is_some_and(|message| message.starts_with(wanted)))
    };
    wait_until(LIMIT, || line("state: maintenance of").is_some())
        .unwrap_or_else(|| panic!("{}", control.doorbell.process.log()));
    assert_eq!(line("state: ready for").unwrap()["addresses"], control.doorbell.addr.to_string());
    assert_eq!(line("state: worker 0: ").unwrap()["message"], format!("state: worker 0: {engine}"));
    assert!(line("state: health readyz: maintenance").unwrap()["answers"].as_str().unwrap().contains("=503"));
    assert_eq!(line("state: check app: unknown").unwrap()["kind"], "ttl");
    assert_eq!(line("state: maintenance of readyz").unwrap()["reason"], "new disk");
    let whole = line("state in JSON").unwrap();
    let whole: Value = serde_json::from_str(whole["json"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&whole["status"]["lifecycle"], &whole["checks"][0]["name"]),
        (&"ready".into(), &"app".into())
    );
    assert_eq!(control.probe("/livez").0, 200, "SIGUSR1 must not change the state");
    // SIGUSR1 logs at any level, because an operator requested it.
    let addr = free_addr().to_string();
    let args = ["serve", "--listen", &addr, "--driver", engine, "--quiet"];
    let quiet = Process::spawn(Command::new(binary()).args(args));
    wait_until(LIMIT, || std::net::TcpStream::connect(&addr).is_ok()).unwrap();
    quiet.signal(Signal::USR1);
    wait_until(LIMIT, || quiet.log().contains("state: health livez: up"))
        .expect("SIGUSR1 must log with --quiet");
}

/// The configuration file is a FIFO without a writer, so the reload never ends.
fn a_stop_does_not_wait_for_a_reload(engine: &str) {
    let scratch = Scratch::new();
    let text = format!(
        "version = 1\n[control]\nsocket = {:?}\n[lifecycle]\ndrain_delay = \"0s\"\nreload = \"SIGHUP\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n",
        scratch.path("control.sock")
    );
    let file = scratch.write("doorbell.toml", &text);
    let mut doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap();
    // The file is read again until signals are handled.
    doorbell.process.signal(Signal::USR1);
    wait_until(LIMIT, || doorbell.process.log().contains("state: ")).expect("signals are handled");
    fs::remove_file(&file).unwrap();
    mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
    // More signals than the queue of the supervisor holds.
    for _ in 0..70 {
        doorbell.process.signal(Signal::HUP);
    }
    doorbell.process.signal(Signal::TERM);
    let (status, _) = doorbell.process.wait();
    assert!(status.success(), "{}", doorbell.process.log());
}

/// Each reload starts new threads. Their predecessors must not leave cached replies behind.
fn reloads_leave_no_replies_behind(engine: &str) {
    let reloads = if std::env::var_os("DOORBELL_FULL").is_some() { 200 } else { 60 };
    let scratch = Scratch::new();
    let file = scratch.path("doorbell.toml");
    let write = |round: usize| {
        let mut text = "version = 1\n[control]\nsocket = \"off\"\n[runtime]\nworkers = 2\n[lifecycle]\nreload = \"SIGHUP\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\n"
            .to_owned();
        for n in 0..20 {
            text.push_str(&format!(
                "[check.c{n}]\ntype = \"ttl\"\nttl = \"1h\"\n[health.h{n}]\nrequire = [\"c{n}\"]\n\
                 [route.h{n}]\npath = \"/h{n}\"\nhealth = \"h{n}\"\ndetails = \"always\"\n"
            ));
        }
        text.push_str(&format!("[route.round]\npath = \"/round\"\nreply = {{ body = \"{round}\" }}\n"));
        fs::write(&file, text).unwrap();
    };
    write(0);
    let doorbell = Doorbell::try_start(&["serve", "-c", file.to_str().unwrap(), "--driver", engine]).unwrap();
    let anonymous = || process::rss_anon_bytes(&doorbell.process.pid()).unwrap();
    let mut begin = 0;
    for round in 1..=reloads {
        // With enough requests both workers get some.
        for n in (0..20).cycle().take(60) {
            assert_eq!(get(doorbell.addr, &format!("/h{n}"), &[]).status, 503);
        }
        write(round);
        doorbell.process.signal(Signal::HUP);
        let body = round.to_string().into_bytes();
        wait_until(LIMIT, || get(doorbell.addr, "/round", &[]).body == body)
            .unwrap_or_else(|| panic!("{}", doorbell.process.log()));
        if round == reloads / 3 {
            begin = anonymous();
        }
    }
    let grown = anonymous().saturating_sub(begin);
    let counted = reloads - reloads / 3;
    eprintln!(
        "{engine}: {counted} reloads, {} KiB more, {} bytes each",
        grown / 1024,
        grown / counted as u64
    );
    assert!(grown < 40 * 1024 * counted as u64, "{grown} bytes of growth after {counted} reloads");
}

/// The children of a process, each with a flag for zombies.
fn children(pid: &str) -> Vec<(String, bool)> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let child = |name: String| {
        let stat = fs::read_to_string(Path::new("/proc").join(&name).join("stat")).ok()?;
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let is_dead = words.next()? == "Z";
        (words.next()? == pid).then_some((name, is_dead))
    };
    names.filter_map(child).collect()
}

/// The program of a check leaves orphans, which become children of process 1.
#[test]
fn process_1_reaps_orphans() {
    let alone = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let as_user = [&["--user", "--map-root-user"][..], &alone].concat();
    let works = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(args).arg("true").output().is_ok_and(|output| output.status.success())
    };
    let Some(args) = [&alone[..], &as_user].into_iter().find(|args| works(args)) else {
        return skipped("unshare cannot create a PID namespace; process 1 was not tested");
    };
    let scratch = Scratch::new();
    let config = scratch.write(
        "doorbell.toml",
        "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n[check.app]\ntype = \"exec\"\n\
         command = [\"/bin/sh\", \"-c\", \"setsid sleep 0.05 & sleep 100 & exit 0\"]\ninterval = \"100ms\"\ntimeout = \"90ms\"\nrise = 1\n\
         [health.readyz]\nrequire = [\"app\"]\n[route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n",
    );
    let mut command = Command::new("unshare");
    command.args(args).arg(binary()).args(["serve", "--allow-exec", "-c", &config]);
    let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"));
    let own = children(&doorbell.process.pid());
    let [(pid, false)] = own.as_slice() else { panic!("{own:?}") };
    let is_up = || get(doorbell.addr, "/readyz", &[]).status == 200;
    wait_until(LIMIT, is_up).unwrap_or_else(|| panic!("{}", doorbell.process.log()));
    let mut most = 0;
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(100));
        most = most.max(children(pid).iter().filter(|(_, is_dead)| *is_dead).count());
    }
    // Two orphans per run and ten runs a second; each zombie exists only for moments.
    assert!(most <= 15, "{most} dead children at once");
    let log = doorbell.process.log();
    assert!(is_up() && !log.contains("No child process") && !log.contains("check app: down"), "{log}");
}
