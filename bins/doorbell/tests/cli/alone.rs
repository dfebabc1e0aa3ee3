//! Commands that need no running instance: probe, await, doctor, config init, man.

#![expect(clippy::disallowed_methods, reason = "other processes run in real time")]

use super::{doorbell, finish, run, scratch};
use doorbell_testkit::peers::free_addr;
use doorbell_testkit::skip::{self, Need};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a server that sends one response to one client; the thread returns the request.
fn answering(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 1024];
        let len = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        // Closing a socket with unread data would reset the connection and might discard the
        // response.
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        request.truncate(len);
        String::from_utf8_lossy(&request).into_owned()
    };
    (addr, std::thread::spawn(serve))
}

#[test]
fn probes_end_with_the_codes_of_their_verdicts() {
    let nobody = free_addr();
    assert_eq!(run(&["probe", &format!("tcp://{nobody}")]).0, 2);
    for (answer, code) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", 4),
        ("220 mail\r\n", 3),
    ] {
        let (addr, server) = answering(answer);
        let (found, out, err) = run(&["probe", &format!("http://{addr}/x"), "--as", "kubelet", "-v"]);
        assert_eq!(found, code, "{answer:?}: {out}{err}");
        let request = server.join().unwrap();
        assert!(request.contains("User-Agent: kube-probe/"), "{request}");
        assert!(format!("{out}{err}").contains("> GET /x HTTP/1.1\\r\\n"), "{out}{err}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}/", silent.local_addr().unwrap());
    let (code, out, err) = run(&["probe", &target, "--timeout", "100ms", "--count", "2", "--interval", "0s"]);
    assert_eq!((code, out.as_str()), (124, "2 probes, 0 healthy\n"), "{err}");
    for wrong in [&["probe"][..], &["probe", "ftp://a"], &["probe", "tcp://a:1", "--as", "nagios"]] {
        assert_eq!(run(wrong).0, 1, "{wrong:?}");
    }
}

#[test]
fn a_probe_of_grpc_names_a_server_of_http1() {
    let (addr, server) = answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let (code, out, err) = run(&["probe", &format!("grpc://{addr}"), "--timeout", "60s"]);
    server.join().unwrap();
    assert!(code == 3 && format!("{out}{err}").contains("speaks HTTP/1 here"), "{code} {out}{err}");
}

#[test]
fn probes_report_as_json_and_metrics() {
    let (addr, server) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let (code, out, _) = run(&["probe", &format!("http://{addr}/"), "-o", "json", "--as", "haproxy"]);
    assert_eq!(server.join().unwrap(), "OPTIONS / HTTP/1.0\r\n\r\n");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["status"], &report["healthy"], &report["as"]),
        (0, &200.into(), &true.into(), &"haproxy".into()),
        "{out}"
    );
    let (addr, server) = answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let (code, out, _) = run(&["probe", &format!("http://{addr}/"), "-o", "prom"]);
    server.join().unwrap();
    assert!(
        code == 4 && out.contains("\nprobe_success 0\n") && out.contains("probe_http_status_code 503\n"),
        "{out}"
    );
    for line in [
        "probe_http_content_length 0",
        "probe_http_redirects 0",
        "probe_http_version 1.1",
        "probe_ip_protocol 4",
        "# HELP probe_timeout_seconds Timeout of the probe in seconds",
    ] {
        assert!(out.lines().any(|one| one == line), "{line}: {out}");
    }
    let helps = out.lines().filter(|line| line.starts_with("# HELP ")).count();
    assert_eq!(helps, out.lines().filter(|line| line.starts_with("# TYPE ")).count(), "{out}");
}

#[test]
fn await_becomes_the_command() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", open.local_addr().unwrap());
    let nobody = format!("tcp://{}", free_addr());
    let (code, out, err) = run(&["await", &target, "--", "/bin/sh", "-c", "echo $0 $1; exit 5", "a", "b c"]);
    assert_eq!((code, out.as_str(), err), (5, "a b c\n", format!("{target} is ready\n")));
    assert_eq!(run(&["await", &target]), (0, format!("{target} is ready\n"), String::new()));
    assert_eq!(run(&["await", &target, "-q"]), (0, String::new(), String::new()));
    let (code, out, err) = run(&["await", &target, "--", "/nonexistent"]);
    assert!(code == 71 && err.contains("cannot start /nonexistent"), "{code} {out}{err}");
    let late = &["--timeout", "300ms", "--backoff", "50ms"][..];
    let (code, out, err) = run(&[&["await", &target, &nobody], late, &["--", "/bin/echo", "no"]].concat());
    assert!(code == 69 && !out.contains("no\n"), "{code} {out}{err}");
    assert!(err.contains("not ready within 300ms"), "{err}");
    assert_eq!(run(&["await", &target, &nobody, "--any", "--timeout", "2m"]).0, 0);
    assert_eq!(run(&["await"]).0, 2);
}

#[test]
fn await_waits_for_late_targets() {
    let addr = free_addr();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        TcpListener::bind(addr).unwrap()
    });
    let (code, out, err) = run(&["await", &format!("tcp://{addr}"), "--backoff", "20ms", "--timeout", "2m"]);
    drop(late.join().unwrap());
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn the_doctor_changes_nothing() {
    let file = scratch("sysctl.conf", "");
    let path = file.to_str().unwrap();
    let before = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").ok();
    let (code, out, err) =
        run(&["doctor", "--link", "10Gbit", "--rtt", "20ms", "--write-sysctl", path, "-o", "json"]);
    assert!(code == 0 || code == 1, "{code} {out}{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let named = |name: &str| findings.iter().find(|finding| finding["name"] == name);
    assert!(named("io_uring").is_some() && named("open files").is_some(), "{out}");
    assert_eq!(named("bandwidth-delay product").unwrap()["value"], "25000000 bytes; buffers need 50000000");
    let written = std::fs::read_to_string(&file).unwrap();
    for change in report["sysctl"].as_array().unwrap() {
        let line = format!("{} = {}", change["key"].as_str().unwrap(), change["value"].as_str().unwrap());
        assert!(written.contains(&line), "{line} is not in {written}");
    }
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").ok(), before);
    let (_, out, err) = run(&["doctor", "--socket", "/nonexistent/control.sock", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let link = report["findings"].as_array().unwrap().iter().find(|finding| finding["topic"] == "link");
    let link = link.expect("missing measurements are reported");
    assert_eq!((&link["level"], &link["value"]), (&"ok".into(), &"not measured".into()));
    assert!(link["why"].as_str().unwrap().starts_with("no control socket at /nonexistent"), "{link}");
    for wrong in [&["doctor", "--link", "10Gbit"][..], &["doctor", "--link", "10", "--rtt", "1ms"]] {
        assert_eq!(run(wrong).0, 2, "{wrong:?}");
    }
    assert_eq!(run(&["doctor", "--write-sysctl", "/nonexistent/x"]).0, 1);
}

#[test]
fn starter_files_are_valid() {
    for place in ["docker", "haproxy", "k8s", "redirect", "systemd"] {
        let (code, out, _) = run(&["config", "init", place]);
        assert_eq!(code, 0);
        // A missing directory causes a warning, so an existing directory replaces it.
        let out = out.replace("/var/lib/acme/.well-known/acme-challenge", env!("CARGO_TARGET_TMPDIR"));
        let file = scratch(&format!("init-{place}.toml"), &out);
        let (code, out, err) = run(&["validate", "-c", file.to_str().unwrap()]);
        assert_eq!(code, 0, "{place}: {out}{err}");
        // With a file that has no `[admin]` section, metrics and the status page are off.
        let (_, dump, _) = run(&["config", "dump", "-c", file.to_str().unwrap(), "-o", "json"]);
        let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
        assert!(
            dump["admin"]["bind"].as_str().is_some_and(|bind| bind.ends_with(":9130")),
            "{place}: {dump}"
        );
    }
    assert_eq!(run(&["config", "init", "windows"]).0, 2);
}

#[test]
fn pages_completions_versions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = run(&["completions", shell]);
        assert!(code == 0 && err.is_empty() && out.contains("healthcheck"), "{shell}: {out}{err}");
    }
    let (code, page, _) = run(&["man"]);
    assert!(code == 0 && page.contains(".TH doorbell 1") && page.contains("Exit codes"), "{page}");
    for (name, expected) in [
        ("probe", concat!(".TH doorbell-probe 1  \"doorbell ", env!("CARGO_PKG_VERSION"))),
        ("doorbell-probe", ".TH doorbell-probe 1"),
        ("config-dump", ".TH doorbell-config-dump 1"),
        ("doorbell", ".TH doorbell 1"),
        ("doorbell.toml", ".TH doorbell.toml 5"),
    ] {
        let (code, page, err) = run(&["man", name]);
        assert!(code == 0 && page.contains(expected) && err.is_empty(), "{name}: {page}{err}");
    }
    let (code, out, err) = run(&["man", "prob"]);
    assert!(code == 2 && out.is_empty() && err.contains("unknown page \"prob\""), "{code} {out}{err}");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    // The output folder is created; if that fails, the error names the folder.
    let _old = std::fs::remove_dir_all(&folder);
    let (code, _, err) = run(&["man", "--folder", "/dev/null/man"]);
    assert!(code != 0 && err.contains("/dev/null/man"), "{err}");
    assert_eq!(run(&["man", "--folder", folder.to_str().unwrap()]).0, 0);
    assert_eq!(run(&["man", "probe", "--folder", folder.to_str().unwrap()]).0, 2);
    for name in ["doorbell.1", "doorbell-probe.1", "doorbell-config-init.1"] {
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        let title = format!(".TH {} 1  \"doorbell {}\"", &name[..name.len() - 2], env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&title), "{name}: {page}");
    }
    let (code, out, _) = run(&["version"]);
    assert_eq!((code, out.as_str()), (0, concat!("doorbell ", env!("CARGO_PKG_VERSION"), "\n")));
    let (_, out, _) = run(&["version", "--verbose"]);
    for word in ["target", "tls", "drivers"] {
        assert!(out.contains(word), "{out}");
    }
    let revision = env!("DOORBELL_REVISION");
    assert!(out.contains(&format!("revision  {revision}\n")), "{out}");
    let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
    assert!(revision != "unknown" || !checkout.exists(), "{out}");
}

#[test]
fn a_shell_takes_the_completions() {
    let (_, script, _) = run(&["completions", "bash"]);
    let file = scratch("completions.bash", &script);
    let script = format!(
        "source {}; COMP_WORDS=(doorbell pro); COMP_CWORD=1; _doorbell doorbell pro doorbell; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let mut bash = std::process::Command::new("bash");
    let output = match bash.args(["-c", &script]).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip::skipped(Need::Clients, "bash is not installed; the completions were not tried");
            return;
        }
        output => output.unwrap(),
    };
    let (code, out, err) = finish(output);
    assert!(code == 0 && out.split_whitespace().any(|word| word == "probe"), "{out}{err}");
}

#[test]
fn modules_of_the_exporter_are_converted() {
    let convert = |name: &str, text: &str| {
        let file = scratch(name, text).display().to_string();
        let (code, out, err) = run(&["config", "convert", "blackbox", &file]);
        (code, out, err.replace(&file, "FILE"))
    };
    let all =
        "modules:\n  web:\n    prober: http\n    timeout: 2s\n    http:\n      valid_status_codes: [204]\n";
    let (code, out, err) = convert("all.yml", all);
    assert_eq!((code, err.as_str()), (0, ""));
    let own =
        format!("version = 1\n[blackbox]\nbind = \"127.0.0.1:9115\"\ntargets = [\"10.0.0.0/8\"]\n\n{out}");
    let file = scratch("converted.toml", &own).display().to_string();
    let (code, dumped, err) = run(&["config", "dump", "-c", &file]);
    assert!(code == 0 && dumped.contains("[blackbox.module.web]"), "{code} {err}\n{own}");
    let (code, out, err) = convert("some.yml", &format!("{all}  ping: {{ prober: unix }}\n"));
    assert!(code == 1 && out.contains("[blackbox.module.web]"), "{code} {out}");
    assert_eq!(
        err,
        "FILE:7: modules.ping.prober: doorbell has no such prober; keep the exporter for this module\n"
    );
    let login = "  login: { prober: http, http: { basic_auth: { username: \"a${B}\" } } }\n";
    let (code, out, err) = convert("login.yml", &format!("{all}{login}"));
    assert!(code == 1 && out.contains("[blackbox.module.web]") && out.contains("a$${B}"), "{code} {out}");
    assert!(err.contains("there is no `password`"), "{err}");
    let (code, out, err) = convert("none.yml", "modules:\n  - a\n");
    assert!(code == 1 && out.is_empty() && err.contains("FILE:2: "), "{code} {out} {err}");
    for (text, expected) in [("a: [\n", "FILE is invalid: line "), ("a: 1\n", "there is no table `modules`")]
    {
        let (code, out, err) = convert("bad.yml", text);
        assert!(code == 78 && out.is_empty() && err.contains(expected), "{code} {err}");
    }
    assert_eq!(run(&["config", "convert"]).0, 2);
}

/// No stack of this size can be mapped, so no thread starts, as without a free process slot.
#[test]
fn commands_that_cannot_start_a_thread_end_with_their_exit_codes() {
    for (args, expected) in [
        (&["healthcheck", "--address", "127.0.0.1:1"][..], 1),
        (&["probe", "tcp://localhost:1"], 2),
        (&["await", "tcp://127.0.0.1:1"], 71),
    ] {
        let (code, out, err) =
            finish(doorbell(args).env("RUST_MIN_STACK", "1152921504606846976").output().unwrap());
        assert!(code == expected && err.contains("cannot start a thread: "), "{args:?}: {code} {out}{err}");
    }
}
