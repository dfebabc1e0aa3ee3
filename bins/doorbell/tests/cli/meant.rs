//! Instance selection: with -c, a command never acts on an instance that uses another file. Also
//! the output of commands.
#![expect(clippy::disallowed_methods, reason = "other processes run in real time")]

use super::serving::{Serving, folder};
use super::{PATIENCE, doorbell, finish, run, scratch};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

const FILE: &str = "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[listener.a]\nbind = \"127.0.0.1:0\"\n";

#[test]
fn what_is_missing_is_named() {
    let file = scratch("no_tables.toml", FILE);
    let file = file.to_str().unwrap();
    for other in [file, env!("CARGO_TARGET_TMPDIR")] {
        let (code, _, err) = run(&["status", "--socket", other]);
        assert!(code == 69 && err.contains("is not a socket"), "{code} {err}");
    }
    for (command, table) in [(&["fleet"][..], "shared"), (&["history", "init"], "history.clickhouse")] {
        let (code, _, err) = run(&[command, &["-c", file]].concat());
        assert!(code == 78 && err.contains(&format!("{file} has no [{table}]")), "{code} {err}");
        let (code, _, err) = run(command);
        assert!(code == 78 && err.contains("name a file with -c"), "{code} {err}");
    }
}

#[test]
fn a_file_never_selects_another_instance() {
    let folder = folder("meant");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        at(name)
    };
    let env = [("RUNTIME_DIRECTORY", folder.to_str().unwrap())];
    let mine = write("mine.toml", FILE);
    let mut serving = Serving::start(&["-c", &mine], &env);
    let run = |args: &[&str]| finish(doorbell(args).envs(env).current_dir(&folder).output().unwrap());
    for (name, text, code, said) in [
        ("unknown.toml", format!("{FILE}[log]\nlevl = \"info\"\n"), 69, "no running instance uses"),
        ("good.toml", FILE.to_owned(), 69, "no running instance uses"),
        ("broken.toml", "version = 1\n[listener\n".to_owned(), 69, "no running instance uses"),
        ("bad.toml", format!("{FILE}[control]\nsocket = \"here\"\n"), 69, "no running instance uses"),
        ("off.toml", format!("{FILE}[control]\nsocket = \"off\"\n"), 2, "has no control socket"),
        (
            "gone.toml",
            format!("{FILE}[control]\nsocket = \"{}\"\n", at("no.sock")),
            69,
            "no control socket at",
        ),
        // Other errors in a file do not affect the selection.
        (
            "gone_and_wrong.toml",
            format!("{FILE}[log]\nlevl = 1\n[control]\nsocket = \"{}\"\n", at("no.sock")),
            69,
            "no control socket at",
        ),
    ] {
        let file = write(name, &text);
        for args in [&["quit", "--now"][..], &["drain"], &["reload"], &["status"]] {
            let (found, out, err) = run(&[args, &["-c", &file]].concat());
            assert_eq!(found, code, "{name} {args:?}: {out}{err}");
            assert!(err.contains(said), "{name} {args:?}: {err}");
        }
        if said.starts_with("no running") {
            let err = run(&["status", "-c", &file]).2;
            assert!(
                err.contains(&mine) && err.contains("--socket"),
                "the error must list the running instances: {err}"
            );
        }
        let output = doorbell(&["quit", "--now"]).envs(env).env("DOORBELL_CONFIG", &file).output().unwrap();
        assert_eq!(finish(output).0, code, "{name} through DOORBELL_CONFIG");
        assert!(serving.lives(), "{name}");
    }
    let (code, _, err) = run(&["quit", "--now", "-c", "nope.toml"]);
    assert!(code == 78 && err.contains("no such file"), "{code} {err}");

    // The file may be given by any path, even after it has become invalid.
    std::os::unix::fs::symlink(&mine, folder.join("link.toml")).unwrap();
    for file in [mine.as_str(), "mine.toml", "./../mine.toml", "link.toml"] {
        let file = file.replace("..", &format!("../{}", folder.file_name().unwrap().to_str().unwrap()));
        let (code, out, err) = run(&["status", "-c", &file]);
        assert!(code == 0 && out.contains(&mine), "{file}: {out}{err}");
    }
    fs::write(&mine, format!("{FILE}[log]\nlevl = 1\n")).unwrap();
    assert_eq!(run(&["status", "-c", &mine]).0, 0);
    fs::write(&mine, "version = 1\n[listener\n").unwrap();
    let (code, _, err) = run(&["reload", "-c", &mine]);
    assert!(code == 1 && err.contains("not TOML"), "the running instance reports the problem: {code} {err}");
    assert_eq!(run(&["quit", "--now", "-c", &mine]).0, 0);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn status_names_every_address() {
    let folder = folder("ports");
    let file = folder.join("a.toml");
    let gate = doorbell_testkit::peers::free_addr();
    let more = format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[tcp_gate.lb]\nbind = \"{gate}\"\n\
         [blackbox]\nbind = \"127.0.0.1:0\"\ntargets = [\"127.0.0.0/8\"]\n"
    );
    fs::write(&file, format!("{FILE}{more}")).unwrap();
    let env = [("RUNTIME_DIRECTORY", folder.to_str().unwrap())];
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &env);
    let socket = serving.ready["control"].as_str().unwrap().to_owned();
    let run = |args: &[&str]| finish(doorbell(&[args, &["--socket", &socket]].concat()).output().unwrap());
    let check = || {
        let (code, out, err) = run(&["status", "-o", "json"]);
        assert_eq!(code, 0, "{err}");
        let status: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(status["ports"]["admin"][0], serving.ready["admin"]);
        assert_eq!(status["ports"]["tcp_gate.lb"][0], gate.to_string());
        let blackbox = status["ports"]["blackbox"][0].as_str().unwrap();
        assert!(blackbox.starts_with("127.0.0.1:") && !blackbox.ends_with(":0"), "{out}");
        let (_, text, _) = run(&["status"]);
        assert!(text.contains(&format!("{gate}  tcp_gate.lb")) && text.contains("  admin\n"), "{text}");
    };
    check();
    fs::write(&file, format!("{FILE}{more}[log]\nlevel = \"debug\"\n")).unwrap();
    let (code, out, err) = run(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
    check();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_failed_write_is_a_failure() {
    let folder = folder("full");
    let file = folder.join("a.toml");
    fs::write(&file, FILE).unwrap();
    let env = [("RUNTIME_DIRECTORY", folder.to_str().unwrap())];
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &env);
    let socket = serving.ready["control"].as_str().unwrap();
    let file = file.to_str().unwrap();
    for args in [
        &["validate", "-c", file, "-o", "json"][..],
        &["validate", "-c", file],
        &["config", "dump", "-c", file],
        &["version"],
        &["status", "-o", "json", "--socket", socket],
        &["checks", "--socket", socket],
        &["events", "--socket", socket],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, _, err) = finish(doorbell(args).stdout(full).output().unwrap());
        assert!(code == 1 && err.contains("cannot write to standard output"), "{args:?}: {code} {err}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn watching_refreshes_until_the_reader_ends() {
    let folder = folder("watch");
    let file = folder.join("a.toml");
    fs::write(&file, FILE).unwrap();
    let env = [("RUNTIME_DIRECTORY", folder.to_str().unwrap())];
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &env);
    let socket = serving.ready["control"].as_str().unwrap();
    let run = |args: &[&str]| finish(doorbell(&[args, &["--socket", socket]].concat()).output().unwrap());

    let args = ["status", "--watch", "-o", "json", "--socket", socket];
    let mut child = doorbell(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut uptimes = [0, 0].map(|_: u64| {
        let status: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        status["uptime_ms"].as_u64().unwrap()
    });
    uptimes.sort_unstable();
    assert!(uptimes[1] - uptimes[0] >= 900, "updates must be a second apart: {uptimes:?}");
    drop(lines);
    let until = Instant::now() + PATIENCE;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        assert!(Instant::now() < until, "`status --watch` still runs after its reader closed the pipe");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(ended.code(), Some(0));

    run(&["maint", "--reason", "one"]);
    run(&["ready"]);
    let events = |args: &[&str]| {
        let (code, out, err) = run(&[&["events", "-o", "json"], args].concat());
        assert_eq!(code, 0, "{err}");
        let number =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["number"].as_u64().unwrap();
        out.lines().map(number).collect::<Vec<_>>()
    };
    let all = events(&[]);
    assert!(all.len() >= 3, "{all:?}");
    let middle = all[all.len() / 2];
    let later: Vec<u64> = all.iter().copied().filter(|number| *number > middle).collect();
    assert_eq!(events(&["--since", &middle.to_string()]), later);
    assert_eq!(events(&["--since", &all.last().unwrap().to_string()]), Vec::<u64>::new());
    assert_eq!(run(&["events", "--since", "x"]).0, 2);
    fs::remove_dir_all(&folder).unwrap();
}
