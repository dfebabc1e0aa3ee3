//! Monitoring programs, while the service behind a health endpoint goes down and comes back:
//! Apache's mod_proxy_hcheck, keepalived, the blackbox exporter, the monitoring plugins.
//!
//! The endpoint depends on a file.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::plain::get;
use crate::support::{
    Doorbell, LIMIT, Process, Scratch, binary, free_addr, free_port, on_auto, program, run, skipped,
};

on_auto! {
    apache_removes_and_restores_a_member
    keepalived_leaves_and_comes_back
    the_blackbox_exporter_measures
    the_monitoring_plugins_agree
}

/// A service whose `/readyz` is up while the file `alive` exists.
struct Service {
    scratch: Scratch,
    alive: PathBuf,
}

impl Service {
    fn new() -> Self {
        let scratch = Scratch::new();
        let alive = scratch.path("alive");
        fs::write(&alive, "").unwrap();
        Self { scratch, alive }
    }

    fn config(&self, addr: &str) -> String {
        format!(
            "version = 1\n[lifecycle]\ndrain_delay = \"20s\"\n[listener.web]\nbind = {addr:?}\n\
             [check.app]\ntype = \"file\"\npath = {:?}\ninterval = \"100ms\"\ndown_interval = \"100ms\"\nfast_interval = \"100ms\"\nrise = 1\nfall = 1\n\
             [health.readyz]\nrequire = [\"app\"]\n[route.readyz]\npath = \"/readyz\"\nhealth = \"readyz\"\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ status = 200, body = \"hello\\n\", content_type = \"text/plain\" }}\n",
            self.alive
        )
    }

    fn start(&self, engine: &str) -> Doorbell {
        let doorbell = Doorbell::start_with(engine, &self.config("127.0.0.1:0"));
        assert!(wait_until(LIMIT, || get(doorbell.addr, "/readyz", &[]).status == 200).is_some());
        doorbell
    }

    fn go_down(&self) {
        fs::remove_file(&self.alive).unwrap();
    }

    fn come_up(&self) {
        fs::write(&self.alive, "").unwrap();
    }

    fn folder(&self) -> String {
        self.scratch.path("").to_str().unwrap().trim_end_matches('/').to_owned()
    }
}

/// Waits until this condition holds, or fails with the output of the programs.
fn expect(what: &str, logs: &[&Process], holds: impl FnMut() -> bool) {
    let log = || logs.iter().map(|process| process.log()).collect::<Vec<_>>().join("\n---\n");
    assert!(wait_until(LIMIT, holds).is_some(), "{what}:\n{}", log());
}

const APACHE_MODULES: [&str; 8] = [
    "mpm_event",
    "authz_core",
    "proxy",
    "proxy_http",
    "proxy_balancer",
    "lbmethod_byrequests",
    "slotmem_shm",
    "proxy_hcheck",
];

/// The start of an Apache configuration that writes only into this folder.
pub(crate) fn apache_head(folder: &str, port: u16) -> String {
    let modules = APACHE_MODULES
        .map(|module| format!("LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so\n"));
    let user = if rustix::process::geteuid().is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    format!(
        "ServerRoot {folder}\nServerName localhost\nPidFile {folder}/pid\nDefaultRuntimeDir {folder}\nErrorLog /dev/stderr\n\
         Listen 127.0.0.1:{port}\n{user}{}",
        modules.concat()
    )
}

fn apache_removes_and_restores_a_member(engine: &str) {
    let Some(apache) = program("apache2") else { return };
    let service = Service::new();
    let doorbell = service.start(engine);
    let (folder, port) = (service.folder(), free_port());
    let config = format!(
        "{}ProxyHCExpr ready {{%{{REQUEST_STATUS}} =~ /^200/}}\n\
         <Proxy balancer://back>\n BalancerMember http://{} hcmethod=GET hcuri=/readyz hcexpr=ready hcinterval=200ms hcpasses=1 hcfails=1\n</Proxy>\n\
         ProxyPass / balancer://back/\n",
        apache_head(&folder, port),
        doorbell.addr,
    );
    let file = service.scratch.write("httpd.conf", &config);
    let process = Process::spawn(Command::new(&apache).args(["-X", "-f", &file]));
    let web: SocketAddr = ([127, 0, 0, 1], port).into();
    expect("Apache starts", &[&process], || TcpStream::connect(web).is_ok());
    let status = || get(web, "/hello", &[]).status;
    assert_eq!(status(), 200);
    for _ in 0..2 {
        service.go_down();
        expect("Apache removes the member", &[&process, &doorbell.process], || status() == 503);
        assert_eq!(get(doorbell.addr, "/hello", &[]).status, 200, "doorbell must still serve requests");
        service.come_up();
        expect("Apache adds the member again", &[&process, &doorbell.process], || status() == 200);
    }
    // The drain is visible while requests are still served.
    doorbell.process.signal(Signal::TERM);
    expect("Apache sees the drain", &[&process, &doorbell.process], || status() == 503);
    assert_eq!(get(doorbell.addr, "/hello", &[]).status, 200);
}

/// keepalived with VRRP only, in its own network namespace. It runs `check_http`, because its own
/// HTTP_GET needs IPVS, which few test machines have.
fn keepalived_leaves_and_comes_back(engine: &str) {
    let programs = ["keepalived", "unshare", "ip", "check_http"].map(program);
    let [Some(keepalived), Some(unshare), Some(ip), Some(check_http)] = programs else { return };
    let made = run(
        &unshare,
        &["-n", ip.to_str().unwrap(), "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
    );
    if !made.status.success() {
        return skipped("no network namespace can be created; keepalived was not tested");
    }
    let service = Service::new();
    let folder = service.folder();
    let doorbell = service.scratch.write("doorbell.toml", &service.config("127.0.0.1:8080"));
    let notify = service.scratch.write("notify.sh", &format!("#!/bin/sh\necho \"$3\" >>{folder}/states\n"));
    fs::set_permissions(&notify, fs::Permissions::from_mode(0o700)).unwrap();
    let keepalived_config = service.scratch.write(
        "keepalived.conf",
        &format!(
            "global_defs {{\n script_user root\n enable_script_security\n}}\n\
             vrrp_script ready {{\n script \"{} -I 127.0.0.1 -p 8080 -u /readyz\"\n interval 1\n fall 1\n rise 1\n}}\n\
             vrrp_instance web {{\n state BACKUP\n interface v0\n virtual_router_id 51\n priority 100\n advert_int 0.2\n\
             \x20unicast_src_ip 192.0.2.1\n unicast_peer {{\n 192.0.2.2\n }}\n track_script {{\n ready\n }}\n notify \"{notify}\"\n}}\n",
            check_http.display()
        ),
    );
    let commands = format!(
        "set -e\nip() {{ {ip} \"$@\"; }}\nip link set lo up\nip link add v0 type veth peer name v1\nip addr add 192.0.2.1/24 dev v0\n\
         ip link set v1 up\nip link set v0 up\n{doorbell} serve --driver {engine} -c {file} &\n\
         exec {keepalived} -n -l -D -G -f {keepalived_config} -p {folder}/k.pid -r {folder}/v.pid --vrrp\n",
        ip = ip.display(),
        doorbell = binary().display(),
        file = doorbell,
        keepalived = keepalived.display(),
    );
    let script = service.scratch.write("start.sh", &commands);
    // The processes in the namespace end with the namespace.
    let process =
        Process::spawn(Command::new(&unshare).args(["-n", "-p", "-f", "--kill-child", "sh", &script]));
    let last = || {
        let states = fs::read_to_string(Path::new(&folder).join("states")).unwrap_or_default();
        states.lines().last().unwrap_or_default().to_owned()
    };
    expect("keepalived becomes master", &[&process], || last() == "MASTER");
    service.go_down();
    expect("keepalived leaves", &[&process], || last() == "FAULT");
    service.come_up();
    expect("keepalived comes back", &[&process], || last() == "MASTER");
}

fn the_blackbox_exporter_measures(engine: &str) {
    let Some(exporter) = program("prometheus-blackbox-exporter") else { return };
    let service = Service::new();
    let doorbell = service.start(engine);
    let modules = service.scratch.write(
        "blackbox.yml",
        "modules:\n  http_2xx:\n    prober: http\n    timeout: 5s\n  tcp_connect:\n    prober: tcp\n    timeout: 5s\n",
    );
    let addr = free_addr();
    let process = Process::spawn(
        Command::new(&exporter)
            .args([&format!("--config.file={modules}"), &format!("--web.listen-address={addr}")]),
    );
    expect("the exporter starts", &[&process], || TcpStream::connect(addr).is_ok());
    let probe = |module: &str, target: &str| {
        let reply = get(addr, &format!("/probe?module={module}&target={target}"), &[]);
        String::from_utf8(reply.body).unwrap()
    };
    let has = |text: &str, line: &str| text.lines().any(|own| own == line);
    let ready = format!("http://{}/readyz", doorbell.addr);
    let up = probe("http_2xx", &ready);
    assert!(has(&up, "probe_success 1") && has(&up, "probe_http_status_code 200"), "{up}");
    assert!(has(&up, "probe_http_content_length 3") && has(&up, "probe_http_version 1.1"), "{up}");
    let tcp = probe("tcp_connect", &doorbell.addr.to_string());
    assert!(has(&tcp, "probe_success 1"), "{tcp}");
    service.go_down();
    expect("the exporter sees it down", &[&process, &doorbell.process], || {
        let down = probe("http_2xx", &ready);
        has(&down, "probe_success 0") && has(&down, "probe_http_status_code 503")
    });
}

fn the_monitoring_plugins_agree(engine: &str) {
    let [Some(check_http), Some(check_tcp)] = ["check_http", "check_tcp"].map(program) else { return };
    let service = Service::new();
    let doorbell = service.start(engine);
    let (host, port) = (doorbell.addr.ip().to_string(), doorbell.addr.port().to_string());
    let ask = |program: &Path, more: &[&str]| {
        let args = [&["-H", &host, "-p", &port, "-t", "5"], more].concat();
        let output = run(program, &args);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    // Exit codes: 0 ok, 1 warning, 2 critical.
    let (code, said) = ask(&check_http, &["-u", "/readyz", "-s", "up"]);
    assert!(code == Some(0) && said.starts_with("HTTP OK: HTTP/1.1 200 OK"), "{said}");
    assert_eq!(ask(&check_http, &["-u", "/missing"]).0, Some(1));
    assert_eq!(ask(&check_http, &["-j", "HEAD", "-u", "/readyz"]).0, Some(0));
    assert_eq!(ask(&check_http, &["-j", "OPTIONS", "-u", "/readyz"]).0, Some(0));
    assert_eq!(ask(&check_tcp, &[]).0, Some(0));
    service.go_down();
    expect("check_http sees it", &[&doorbell.process], || {
        let (code, said) = ask(&check_http, &["-u", "/readyz"]);
        code == Some(2) && said.starts_with("HTTP CRITICAL: HTTP/1.1 503 Service Unavailable")
    });
    assert_eq!(ask(&check_tcp, &[]).0, Some(0), "the port must stay open");
}
