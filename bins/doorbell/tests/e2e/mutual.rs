//! Mutual TLS with curl: requested and required certificates, exempt routes, revocation.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::pki::{Ca, Signed, ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto, program, run};

on_auto! {
    no_certificate_is_requested
    a_certificate_is_requested
    a_certificate_is_required
    a_probe_needs_no_certificate
    only_listed_names_are_admitted
    a_revoked_client_is_refused
    a_client_is_revoked_while_it_runs
    an_expired_list_is_reported
    an_expired_list_may_still_be_used
}

const PLAIN_ROUTES: &str = "[route.health]\npath = \"/livez\"\nhealth = \"livez\"\n\
                            [route.ops]\npath = \"/ops\"\nreply = { body = \"secret\\n\" }\n";

/// A server, and the certificates of its clients.
struct Setup {
    doorbell: Doorbell,
    scratch: Scratch,
    curl: PathBuf,
}

/// The result of a request: the status, or the negated exit code of curl.
type Got = i32;

/// Negated exit codes of curl for a handshake that the server ended: 35 during the handshake, 56 or
/// 98 if the alert arrives after it.
const REFUSED: [Got; 3] = [-35, -56, -98];

impl Setup {
    fn start(engine: &str, client_auth: &str, routes: &str) -> Option<Self> {
        let curl = program("curl")?;
        let scratch = Scratch::new();
        let (cert, key) = localhost().write(&scratch, "tls");
        let ca_file = scratch.write("ca.crt", &ca().pem());
        let crl = scratch.write("clients.crl", &ca().crl(&[22]));
        let old =
            scratch.write("old.crl", &ca().crl_until(&[22], SystemTime::now() - Duration::from_secs(60)));
        ca().client("alice", 21).write(&scratch, "alice");
        ca().client("bob", 22).write(&scratch, "bob");
        // A name that is too long is ignored.
        ca().client(&"n".repeat(300), 25).write(&scratch, "nameless");
        Ca::new("Other CA").client("mallory", 23).write(&scratch, "mallory");
        let client_auth = client_auth
            .replace("CA", &format!("{ca_file:?}"))
            .replace("CRL", &format!("{crl:?}"))
            .replace("OLD", &format!("{old:?}"));
        let config = format!(
            "version = 1\n[log]\naccess = \"all\"\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n\
             handshakes_per_ip = \"off\"\n{client_auth}\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n{routes}"
        );
        Some(Self { doorbell: Doorbell::start_with(engine, &config), scratch, curl })
    }

    /// Sends a request with one version of TLS, with the certificate of a client or without one.
    fn get(&self, version: &str, who: &str, path: &str) -> Got {
        let url = format!("https://localhost:{}{path}", self.doorbell.addr.port());
        let own = ["crt", "key"].map(|end| self.scratch.path(&format!("{who}.{end}")).display().to_string());
        let (ca_file, least) = (self.scratch.path("ca.crt"), format!("--tlsv{version}"));
        let mut args = vec!["-sS", "--cacert", ca_file.to_str().unwrap(), &least, "--tls-max", version];
        args.extend(["-o", "/dev/null", "-w", "%{http_code}", "--connect-to", "localhost::127.0.0.1:", &url]);
        if who != "nobody" {
            args.extend(["--cert", &own[0], "--key", &own[1]]);
        }
        let output = run(&self.curl, &args);
        match output.status.code() {
            Some(0) => String::from_utf8(output.stdout).unwrap().parse().unwrap(),
            code => -code.unwrap(),
        }
    }

    /// Sends each request with both TLS versions. An `expected` below 0 means any refusal of the
    /// handshake.
    fn expect(&self, table: &[(&str, &str, Got)]) {
        for version in ["1.2", "1.3"] {
            for (who, path, expected) in table {
                let got = self.get(version, who, path);
                let is_right = if *expected < 0 { REFUSED.contains(&got) } else { got == *expected };
                assert!(is_right, "TLS {version}, {who} {path}: {got}\n{}", self.doorbell.process.log());
            }
        }
    }
}

fn no_certificate_is_requested(engine: &str) {
    let Some(setup) = Setup::start(engine, "client_auth = { mode = \"none\" }", PLAIN_ROUTES) else { return };
    setup.expect(&[("nobody", "/ops", 200), ("alice", "/ops", 200), ("mallory", "/ops", 200)]);
}

fn a_certificate_is_requested(engine: &str) {
    let client_auth = "client_auth = { mode = \"request\", ca = CA }";
    let routes = PLAIN_ROUTES.replace("path = \"/ops\"", "path = \"/ops\"\nclient_cert = \"require\"");
    let Some(setup) = Setup::start(engine, client_auth, &routes) else { return };
    setup.expect(&[
        ("nobody", "/livez", 200),
        ("nobody", "/ops", 403),
        ("alice", "/livez", 200),
        ("alice", "/ops", 200),
        ("mallory", "/livez", -1),
    ]);
}

fn a_certificate_is_required(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA }";
    let Some(setup) = Setup::start(engine, client_auth, PLAIN_ROUTES) else { return };
    setup.expect(&[
        ("nobody", "/livez", -1),
        ("nobody", "/ops", -1),
        ("alice", "/livez", 200),
        ("alice", "/ops", 200),
        ("mallory", "/ops", -1),
    ]);
    let log = || setup.doorbell.process.log();
    let named = wait_until(LIMIT, || {
        log().lines().any(|line| line.contains(" - alice [") && line.contains("\"GET /ops "))
    });
    assert!(named.is_some(), "the log names the client: {}", log());
}

fn a_probe_needs_no_certificate(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA }";
    let routes = PLAIN_ROUTES.replace("health = \"livez\"", "health = \"livez\"\nclient_cert = \"exempt\"");
    let Some(setup) = Setup::start(engine, client_auth, &routes) else { return };
    setup.expect(&[
        ("nobody", "/livez", 200),
        ("nobody", "/ops", 403),
        ("alice", "/livez", 200),
        ("alice", "/ops", 200),
        ("nameless", "/ops", 200),
        ("mallory", "/livez", -1),
    ]);
}

fn only_listed_names_are_admitted(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA }";
    let routes =
        PLAIN_ROUTES.replace("path = \"/ops\"", "path = \"/ops\"\nclient_names = [\"carol\", \"alice\"]");
    let Some(setup) = Setup::start(engine, client_auth, &routes) else { return };
    setup.expect(&[
        ("alice", "/ops", 200),
        ("bob", "/ops", 403),
        ("bob", "/livez", 200),
        ("nameless", "/ops", 403),
        ("nobody", "/ops", -1),
    ]);
}

fn a_revoked_client_is_refused(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA, crl = CRL }";
    let Some(setup) = Setup::start(engine, client_auth, PLAIN_ROUTES) else { return };
    setup.expect(&[("alice", "/ops", 200), ("bob", "/ops", -1)]);
}

fn a_client_is_revoked_while_it_runs(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA, crl = [CRL] }";
    let Some(setup) = Setup::start(engine, client_auth, PLAIN_ROUTES) else { return };
    setup.expect(&[("alice", "/ops", 200), ("bob", "/ops", -1)]);
    let fresh: Signed = ca().client("alice again", 24);
    fresh.write(&setup.scratch, "again");
    setup.scratch.write("clients.crl", &ca().crl(&[21, 22]));
    setup.doorbell.process.signal(Signal::HUP);
    let refused = wait_until(LIMIT, || REFUSED.contains(&setup.get("1.3", "alice", "/ops")));
    assert!(refused.is_some(), "{}", setup.doorbell.process.log());
    setup.expect(&[("alice", "/ops", -1), ("bob", "/ops", -1), ("again", "/ops", 200)]);
}

/// The list may be expired at the start, or expire while the server runs. Until a valid list is
/// loaded, clients with a certificate are refused.
fn an_expired_list_is_reported(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA, crl = OLD }";
    let Some(setup) = Setup::start(engine, client_auth, PLAIN_ROUTES) else { return };
    let reports =
        || setup.doorbell.process.log().matches("so clients with a certificate are refused").count();
    assert!(wait_until(LIMIT, || reports() > 0).is_some(), "{}", setup.doorbell.process.log());
    setup.expect(&[("alice", "/ops", -1), ("bob", "/ops", -1)]);
    let before = reports();
    let fresh =
        setup.scratch.write("fresh.crl", &ca().crl_until(&[22], SystemTime::now() + Duration::from_secs(8)));
    fs::rename(fresh, setup.scratch.path("old.crl")).unwrap();
    let gets_in = || setup.get("1.3", "alice", "/ops") == 200;
    assert!(wait_until(LIMIT, gets_in).is_some(), "{}", setup.doorbell.process.log());
    assert_eq!(reports(), before);
    assert!(wait_until(LIMIT, || reports() > before).is_some(), "{}", setup.doorbell.process.log());
    setup.expect(&[("alice", "/ops", -1)]);
}

fn an_expired_list_may_still_be_used(engine: &str) {
    let client_auth = "client_auth = { mode = \"require\", ca = CA, crl = OLD, expired_crls_hold = true }";
    let Some(setup) = Setup::start(engine, client_auth, PLAIN_ROUTES) else { return };
    setup.expect(&[("alice", "/ops", 200), ("bob", "/ops", -1)]);
    assert!(setup.doorbell.process.log().contains("but is still used"), "{}", setup.doorbell.process.log());
}
