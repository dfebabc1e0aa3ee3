//! The real blackbox_exporter and doorbell: for the same target both export the same names, labels
//! and values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use doorbell_testkit::peers::{exchange, wait_until};

use crate::pki::{ca, localhost};
use crate::support::{Doorbell, LIMIT, Process, Scratch, binary, free_addr, program, run, skipped, stdout};

/// Metrics and labels of doorbell that version 0.23 of the exporter lacks. Later versions have
/// them.
const LATER: [&str; 2] = ["probe_timeout_seconds", "serialnumber"];

/// Metrics whose values vary between probes.
const TIMES: [&str; 6] = [
    "probe_dns_duration_seconds",
    "probe_dns_lookup_time_seconds",
    "probe_duration_seconds",
    "probe_grpc_duration_seconds",
    "probe_http_duration_seconds",
    "probe_icmp_duration_seconds",
];

/// Differs, because `doorbell probe` does not use HTTP/2.
const HTTP_2: &str = "probe_http_version";

const MODULES: &str = "modules:
  http_2xx: { prober: http, timeout: 1s, http: { preferred_ip_protocol: ip4 } }
  http_post_2xx: { prober: http, timeout: 1s, http: { method: POST, preferred_ip_protocol: ip4 } }
  tcp_connect: { prober: tcp, timeout: 1s }
  tls_connect: { prober: tcp, timeout: 1s, tcp: { tls: true } }
  grpc: { prober: grpc, timeout: 1s, grpc: { tls: true, preferred_ip_protocol: ip4 } }
  grpc_plain: { prober: grpc, timeout: 1s, grpc: { tls: false, preferred_ip_protocol: ip4 } }
";

/// Both exporters, and their targets.
struct Both {
    doorbell: Doorbell,
    theirs: SocketAddr,
    ca: String,
    _process: Process,
    _scratch: Scratch,
}

impl Both {
    /// Starts both, or returns `None` if the real exporter is not installed.
    fn start() -> Option<Self> {
        Self::start_with(MODULES, "")
    }

    /// Starts both programs: the exporter with this `blackbox.yml`, doorbell with these modules.
    fn start_with(theirs: &str, ours: &str) -> Option<Self> {
        let exporter = program("prometheus-blackbox-exporter")?;
        let scratch = Scratch::new();
        let ca = scratch.write("ca.pem", &ca().pem());
        let (cert, key) = localhost().write(&scratch, "server");
        let plain = free_addr();
        let config = format!(
            "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [tls.t]\ncert = \"{cert}\"\nkey = \"{key}\"\n\
             [listener.plain]\nbind = \"{plain}\"\nhttp2 = true\n\
             [listener.secured]\nbind = \"127.0.0.1:0\"\nhttp2 = true\ntls = \"t\"\n\
             [route.ok]\nlistener = [\"plain\", \"secured\"]\npath = \"/ok\"\nmethods = [\"GET\", \"POST\"]\nreply = {{ body = \"ok\\n\" }}\n\
             [route.moved]\nlistener = \"plain\"\npath = \"/moved\"\nredirect = {{ scheme = \"http\", host = \"127.0.0.1\", path = \"/ok\", port = {} }}\n\
             [blackbox]\nbind = \"127.0.0.1:0\"\ntargets = [\"127.0.0.0/8\", \"::1/128\"]\ncache = \"0s\"\ntimeout = \"1s\"\n{ours}",
            plain.port(),
        );
        let file = scratch.write("doorbell.toml", &config);
        // Both programs read this configuration.
        let command = |program| {
            let mut command = Command::new(program);
            command.env("SSL_CERT_FILE", &ca).env("SSL_CERT_DIR", "/nonexistent");
            command
        };
        let serve = ["serve", "-c", &file, "--driver", "epoll"];
        let doorbell = Doorbell::try_start_command(command(binary()).args(serve)).unwrap();
        let (modules, theirs) = (scratch.write("blackbox.yml", theirs), free_addr());
        let args = [format!("--config.file={modules}"), format!("--web.listen-address={theirs}")];
        let process = Process::spawn(command(exporter).args(args));
        let is_open = || TcpStream::connect(theirs).is_ok();
        assert!(wait_until(LIMIT, is_open).is_some(), "{}", process.log());
        Some(Self { doorbell, theirs, ca, _process: process, _scratch: scratch })
    }

    fn theirs(&self, module: &str, target: &str) -> BTreeMap<String, String> {
        probe(self.theirs, module, target)
    }

    fn ours(&self, module: &str, target: &str) -> BTreeMap<String, String> {
        probe(self.doorbell.addr_of(2), module, target)
    }
}

fn probe(addr: SocketAddr, module: &str, target: &str) -> BTreeMap<String, String> {
    // HTTP/1.0, so that the response is not chunked.
    let request = format!("GET /probe?module={module}&target={target} HTTP/1.0\r\nHost: {addr}\r\n\r\n");
    let answer = String::from_utf8(exchange(addr, request.as_bytes()).unwrap().bytes).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 "), "{module} {target}: {answer}");
    series(text)
}

/// The comparable series of a scrape, by name and sorted labels.
fn series(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let all = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let labels =
            labels.strip_suffix('}').unwrap().split_inclusive("\",").map(|one| one.trim_end_matches(','));
        let mut labels: Vec<&str> =
            labels.filter(|one| !LATER.iter().any(|later| one.starts_with(later))).collect();
        labels.sort_unstable();
        let value = if TIMES.contains(&name) { "some time".to_owned() } else { number(value) };
        (!LATER.contains(&name)).then(|| (format!("{name}{{{}}}", labels.join(",")), value))
    });
    all.collect()
}

/// Normalizes a number to one notation.
fn number(text: &str) -> String {
    text.parse::<f64>().unwrap().to_string()
}

#[test]
fn names_labels_and_values_are_the_same() {
    let Some(both) = Both::start() else { return };
    let (plain, secured) = (both.doorbell.addr_of(0), both.doorbell.addr_of(1));
    let nobody = free_addr();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let mut differences = String::new();
    for (module, target) in [
        ("http_2xx", format!("http://{plain}/ok")),
        ("http_2xx", format!("{plain}/ok")),
        ("http_2xx", format!("http://{plain}/moved")),
        ("http_2xx", format!("http://{plain}/nothing")),
        ("http_2xx", format!("http://{nobody}/")),
        ("http_2xx", "http://nowhere.invalid/".to_owned()),
        ("http_2xx", format!("https://{secured}/ok")),
        ("http_2xx", format!("https://{plain}/ok")),
        ("http_post_2xx", format!("http://{plain}/ok")),
        ("http_post_2xx", format!("https://{secured}/ok")),
        ("tcp_connect", plain.to_string()),
        ("tcp_connect", nobody.to_string()),
        ("tcp_connect", "nowhere.invalid:1".to_owned()),
        ("tls_connect", secured.to_string()),
        ("tls_connect", plain.to_string()),
        ("grpc", secured.to_string()),
        ("grpc", plain.to_string()),
        ("grpc_plain", plain.to_string()),
        ("grpc_plain", nobody.to_string()),
        ("grpc_plain", "nowhere.invalid:1".to_owned()),
        ("http_2xx", format!("http://{silent}/")),
        ("http_2xx", format!("https://{silent}/")),
        ("tcp_connect", silent.to_string()),
        ("tls_connect", silent.to_string()),
        // The real exporter hangs here with gRPC.
        ("tls_connect", "nowhere.invalid:1".to_owned()),
    ] {
        let (theirs, ours) = (both.theirs(module, &target), both.ours(module, &target));
        differ(&mut differences, &format!("{module} {target}"), &ours, &theirs);
    }
    assert!(differences.is_empty(), "{differences}");
}

/// A server that sends this line on each connection and closes it.
fn greets(line: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _gone = stream.write_all(line.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
            let _end = stream.read(&mut [0; 64]);
        }
    });
    addr
}

/// A name server. Each name has a response code, and a number of records in each section. Questions
/// for `silent.test` get no answer.
fn names() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let question = &bytes[..len];
            let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let (code, counts) = match &question[13..] {
                [b'a', ..] => (0, [2, 1, 1]),
                [b'n', b'x', ..] => (3, [0, 1, 0]),
                [b's', b'i', ..] => continue,
                _ => (0, [0; 3]),
            };
            let is_soa = question[end - 3] == 6;
            let record: &[u8] = match is_soa {
                // Two names, the serial number 7, and four times.
                true => b"\xc0\x0c\0\x06\0\x01\0\0\0\x3c\0\x18\xc0\x0c\xc0\x0c\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                false => b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x07",
            };
            // An OPT record of the question requires one in the answer (RFC 6891 6.1.1).
            let opt: &[u8] = if question[11] == 1 { b"\0\0\x29\x04\xd0\0\0\0\0\0\0" } else { b"" };
            let mut answer = question[..end].to_vec();
            answer[2..6].copy_from_slice(&[0x81, 0x80 | code, 0, 1]);
            for (at, count) in [7, 9, 11].into_iter().zip(counts) {
                (answer[at - 1], answer[at]) = (0, count);
                answer.extend(record.repeat(usize::from(count)));
            }
            answer[11] += question[11];
            answer.extend_from_slice(opt);
            let _gone = socket.send_to(&answer, from);
        }
    });
    addr
}

const EXAMPLE: &str = "/etc/prometheus/blackbox.yml";

/// The example configuration of the Debian package with more modules, and its conversion.
fn example_and(more: &str) -> Option<(String, String)> {
    let Ok(example) = std::fs::read_to_string(EXAMPLE) else {
        skipped(&format!("{EXAMPLE} is missing; the conversion of it was not tested"));
        return None;
    };
    let scratch = Scratch::new();
    let theirs = format!("{}\n{}", example.trim_end(), more.trim_start_matches('\n'));
    let file = scratch.write("blackbox.yml", &theirs);
    let converted = run(&binary(), &["config", "convert", "blackbox", &file]);
    let notes = String::from_utf8(converted.stderr).unwrap();
    assert_eq!(converted.status.code(), Some(1), "{notes}");
    let mut keys: Vec<&str> = notes.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    keys.retain(|key| key.starts_with("modules."));
    let expected = [
        "modules.pop3s_banner.tcp.tls",
        // A text that the exporter sends after it has read, which does not change the result.
        "modules.ssh_banner.tcp.query_response.send",
        "modules.irc_banner.tcp.query_response.send",
        "modules.irc_banner.tcp.query_response.expect",
    ];
    assert_eq!(keys, expected, "{notes}");
    Some((theirs, String::from_utf8(converted.stdout).unwrap()))
}

/// `doorbell config convert` converts the example configuration of the Debian package, and a
/// configuration with expectations.
#[test]
fn converted_modules_export_the_same() {
    const OWN: &str = "
  strict:
    prober: http
    timeout: 1s
    http: { valid_status_codes: [200], fail_if_body_not_matches_regexp: ['^ok$'], preferred_ip_protocol: ip4 }
  refused:
    prober: http
    timeout: 1s
    http: { fail_if_body_matches_regexp: ['o', 'x'], preferred_ip_protocol: ip4 }
  stays:
    prober: http
    timeout: 1s
    http: { follow_redirects: false, valid_status_codes: [301, 302, 307, 308], preferred_ip_protocol: ip4 }
  dns_a:
    prober: dns
    timeout: 1s
    dns: { query_name: a.test, query_type: A, preferred_ip_protocol: ip4 }
  dns_soa:
    prober: dns
    dns: { query_name: a.test, query_type: SOA }
  dns_none:
    prober: dns
    dns: { query_name: none.test, query_type: SOA }
  dns_missing:
    prober: dns
    dns: { query_name: nx.test, query_type: A, valid_rcodes: [NXDOMAIN] }
  dns_found:
    prober: dns
    dns: { query_name: nx.test, query_type: A }
  dns_silent:
    prober: dns
    timeout: 1s
    dns: { query_name: silent.test, query_type: A }
";
    let Some((theirs, ours)) = example_and(OWN) else { return };
    let Some(both) = Both::start_with(&theirs, &ours) else { return };
    let plain = both.doorbell.addr_of(0);
    let (ssh, other, nobody) = (greets("SSH-2.0-x\r\n"), greets("220 mail\r\n"), free_addr());
    let names = names();
    let mut differences = String::new();
    for (module, target) in [
        ("http_2xx", format!("http://{plain}/ok")),
        ("http_2xx", format!("http://{plain}/moved")),
        ("http_post_2xx", format!("http://{plain}/ok")),
        ("tcp_connect", plain.to_string()),
        ("tcp_connect", nobody.to_string()),
        ("grpc_plain", plain.to_string()),
        ("ssh_banner", ssh.to_string()),
        ("ssh_banner", other.to_string()),
        ("strict", format!("http://{plain}/ok")),
        ("strict", format!("http://{plain}/livez")),
        ("refused", format!("http://{plain}/ok")),
        ("stays", format!("http://{plain}/moved")),
        ("dns_a", names.to_string()),
        ("dns_a", nobody.to_string()),
        ("dns_a", "nowhere.invalid".to_owned()),
        ("dns_soa", names.to_string()),
        ("dns_none", names.to_string()),
        ("dns_missing", names.to_string()),
        ("dns_found", names.to_string()),
        ("dns_silent", names.to_string()),
    ] {
        let (theirs, ours) = (both.theirs(module, &target), both.ours(module, &target));
        differ(&mut differences, &format!("{module} {target}"), &ours, &theirs);
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Environment variable that is set for the run in a network namespace.
const INSIDE: &str = "DOORBELL_EXPORTER_NAMESPACE";

/// Echoes of both programs, in a network namespace of its own, where they are permitted.
#[test]
fn echoes_export_the_same() {
    if std::env::var_os(INSIDE).is_some() {
        return echoes();
    }
    let script = "ip link set lo up && echo 0 0 >/proc/sys/net/ipv4/ping_group_range || exit 99
                  exec \"$0\" --exact --nocapture exporter::echoes_export_the_same";
    let this = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net", "sh", "-c", script]).arg(this).env(INSIDE, "1");
    let done = match inside.output() {
        Ok(done) => done,
        Err(error) => return skipped(&format!("`unshare`: {error}; echoes were not compared")),
    };
    let log = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(101) => panic!("{log}"),
        _ => skipped(&format!("a network namespace: {log}; echoes were not compared")),
    }
}

fn echoes() {
    let Some((theirs, ours)) = example_and("") else { return };
    let Some(both) = Both::start_with(&theirs, &ours) else { return };
    let mut differences = String::new();
    for (module, target) in [
        ("icmp", "127.0.0.1"),
        ("icmp", "::1"),
        ("icmp", "localhost"),
        ("icmp_ttl5", "127.0.0.2"),
        ("icmp_ttl5", "::1"),
        ("icmp", "nowhere.invalid"),
    ] {
        let (theirs, ours) = (both.theirs(module, target), both.ours(module, target));
        differ(&mut differences, &format!("{module} {target}"), &ours, &theirs);
    }
    let by_hand = stdout(&binary(), &["probe", "icmp://127.0.0.1", "-o", "prom"]);
    differ(&mut differences, "by hand", &series(&by_hand), &both.theirs("icmp", "127.0.0.1"));
    assert!(differences.is_empty(), "{differences}");
}

/// Appends a line for each series that differs.
fn differ(all: &mut String, what: &str, ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name)) {
        writeln!(all, "{what}: {name}: ours {:?}, theirs {:?}", ours.get(name), theirs.get(name)).unwrap();
    }
}

/// `doorbell probe -o prom` exports the same metrics.
#[test]
fn a_probe_by_hand_has_the_same_names() {
    let Some(both) = Both::start() else { return };
    let (plain, secured) = (both.doorbell.addr_of(0), both.doorbell.addr_of(1));
    let mut differences = String::new();
    for (module, target, by_hand) in [
        ("http_2xx", format!("http://{plain}/ok"), format!("http://{plain}/ok")),
        ("http_2xx", format!("https://{secured}/ok"), format!("https://{secured}/ok")),
        ("tcp_connect", plain.to_string(), format!("tcp://{plain}")),
        ("tls_connect", secured.to_string(), format!("tls://{secured}")),
        ("grpc", secured.to_string(), format!("grpcs://{secured}")),
        ("grpc_plain", plain.to_string(), format!("grpc://{plain}")),
    ] {
        let trusts: &[&str] = if by_hand.contains("s://") { &["--tls-ca-cert", &both.ca] } else { &[] };
        let text = stdout(&binary(), &[&["probe", &by_hand, "-o", "prom"], trusts].concat());
        let mut ours = series(&text);
        let mut theirs = both.theirs(module, &target);
        for all in [&mut ours, &mut theirs] {
            all.remove(&format!("{HTTP_2}{{}}"));
        }
        differ(&mut differences, &by_hand, &ours, &theirs);
    }
    assert!(differences.is_empty(), "{differences}");
}
