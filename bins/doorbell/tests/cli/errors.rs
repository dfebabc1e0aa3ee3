//! Errors in arguments, files and targets, and the listener that `healthcheck` and `probe` choose.

use super::serving::{Serving, folder};
use super::{doorbell, finish, fixture, run, scratch};
use doorbell_testkit::peers::free_port;
use doorbell_testkit::skip::{self, Need};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn with(args: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    finish(doorbell(args).envs(env.iter().copied()).output().unwrap())
}

/// Writes `ca.pem`, and `door.pem` with `door.key` for `door.example`.
fn certificates(folder: &Path) {
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let door =
        CertificateParams::new(vec!["door.example".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    fs::write(folder.join("door.pem"), door.pem()).unwrap();
    fs::write(folder.join("door.key"), key.serialize_pem()).unwrap();
    fs::set_permissions(folder.join("door.key"), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_healthcheck_asks_where_the_file_listens() {
    let folder = folder("door");
    certificates(&folder);
    let place = folder.to_str().unwrap();
    let tls = format!("[tls.t]\ncert = \"{place}/door.pem\"\nkey = \"{place}/door.key\"\n");
    let asks = format!("{tls}client_auth = {{ mode = \"require\", ca = \"{place}/ca.pem\" }}\n");
    let listener = |name: &str, more: &str| {
        let port = free_port();
        (format!("[listener.{name}]\nbind = \"[::]:{port}\"\n{more}\n"), format!("127.0.0.1:{port}"))
    };
    let (plain, plain_at) = listener("plain", "");
    let (secured, secured_at) = listener("secured", "tls = \"t\"");
    let (proxied, proxied_at) =
        listener("proxied", "proxy_protocol = \"require\"\ntrusted_proxies = [\"127.0.0.0/8\"]");
    let (stranger, _) =
        listener("stranger", "proxy_protocol = \"require\"\ntrusted_proxies = [\"192.0.2.0/24\"]");
    let (raw, _) = listener("raw", "protocol = \"raw\"\nreply = \"x\"");
    let socket = format!("unix:{place}/door.sock");
    let unix = format!("[listener.unix]\nbind = \"{socket}\"\n");
    let named =
        |hosts: &str| format!("[route.readyz]\npath = \"/readyz\"\nhosts = [{hosts}]\nhealth = \"readyz\"\n");
    let wrong = "[log]\nlevl = \"info\"\n";
    for (number, (text, expected)) in [
        (plain.clone(), &plain_at),
        (format!("{tls}{secured}{plain}"), &secured_at),
        (format!("{asks}{secured}{plain}"), &plain_at),
        (format!("{raw}{stranger}{proxied}"), &proxied_at),
        (unix, &socket),
        (format!("{plain}{}", named("'door.example'")), &plain_at),
        (format!("{plain}{}", named("'*.door.example'")), &plain_at),
        (format!("{tls}{secured}{}", named("'*.door.example', 'door.example'")), &secured_at),
        (format!("{tls}{secured}{}", named("'*.door.example'")), &secured_at),
        (format!("{tls}{secured}{}", named("'[::1]'")), &secured_at),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("version = 1\n{text}");
        let file = folder.join(format!("{number}.toml"));
        fs::write(&file, &text).unwrap();
        let file = file.to_str().unwrap();
        let _serving = Serving::start(&["-c", file], &[]);
        let healthy = (0, format!("{expected}/readyz: 200\n"), String::new());
        assert_eq!(run(&["healthcheck", "-c", file]), healthy, "{text}");
        assert_eq!(with(&["healthcheck"], &[("DOORBELL_CONFIG", file)]), healthy);
        // `healthcheck` still queries the running instance when the file has become invalid.
        fs::write(file, format!("{text}{wrong}")).unwrap();
        assert_eq!(run(&["healthcheck", "-c", file]), healthy);
        if text.contains("plain") && number == 0 {
            let port = expected.rsplit(':').next().unwrap();
            let address = format!("localhost:{port}");
            assert_eq!(run(&["healthcheck", "--address", &address]).0, 0);
            let bind = format!("127.0.0.1:{port}");
            let env = [("DOORBELL__LISTENER__A__BIND", bind.as_str())];
            assert_eq!(with(&["healthcheck"], &env).1, format!("{bind}/readyz: 200\n"));
        }
    }
    for (text, said) in [
        ("[listener.a]\nbind = \"systemd:a\"\n", "give the address with --address"),
        ("[listener.a]\nbind = \"127.0.0.1:0\"\n", "give the address with --address"),
        ("[listener\n", "is not valid TOML"),
    ] {
        let file = scratch("no_door.toml", &format!("version = 1\n{text}"));
        let (code, _, err) = run(&["healthcheck", "-c", file.to_str().unwrap()]);
        assert!(code == 1 && err.contains(said), "{code} {err}");
    }
    let (code, _, err) = run(&["healthcheck", "-c", "/nonexistent/a.toml"]);
    assert!(code == 1 && err.contains("no such file"), "{code} {err}");
    fs::remove_dir_all(&folder).unwrap();
}

/// Runs in its own mount namespace without other instances, as in a container.
#[test]
fn a_healthcheck_without_arguments_queries_the_running_instance() {
    let port = free_port();
    let (elsewhere, taken) = (format!("127.0.0.1:{port}"), "mount -t tmpfs tmpfs /run");
    let file = scratch("by_itself.toml", "version = 1\n[listener.a]\nbind = \"127.0.0.1:1\"\n");
    for args in [format!("serve --listen {elsewhere}"), format!("-c {} --listen {elsewhere}", file.display())]
    {
        // A healthcheck fails until the server has started.
        let script = format!(
            "{taken} && mkdir /run/doorbell || exit 99; \"$0\" {args} >/dev/null & while kill -0 $!; do \
             \"$0\" healthcheck --timeout 60s && kill $! && exit 0; sleep 0.05; done; exit 1"
        );
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        let output =
            command.arg(env!("CARGO_BIN_EXE_doorbell")).env_clear().env("PATH", "/usr/bin:/bin").output();
        let (code, out, err) = finish(output.unwrap());
        if code == 99 || err.contains("unshare") {
            return skip::skipped(
                Need::Clients,
                "mounting is not permitted; healthcheck without arguments was not tested",
            );
        }
        assert_eq!((code, out), (0, format!("{elsewhere}/readyz: 200\n")), "{args}: {err}");
    }
}

#[test]
fn a_probe_verifies_with_the_given_ca() {
    let folder = folder("trust");
    certificates(&folder);
    let place = folder.to_str().unwrap();
    let text = format!(
        "version = 1\n[tls.t]\ncert = \"{place}/door.pem\"\nkey = \"{place}/door.key\"\n\
         [listener.a]\nbind = \"127.0.0.1:0\"\ntls = \"t\"\nhttp2 = true\n"
    );
    let file = folder.join("a.toml");
    fs::write(&file, text).unwrap();
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &[]);
    let ca = format!("{place}/ca.pem");
    let (trusted, named) = (["--tls-ca-cert", &ca], ["--tls-server-name", "door.example"]);
    for scheme in ["https", "tls", "grpcs"] {
        let target = format!("{scheme}://{}", serving.addr());
        for (args, code) in [
            (&[&trusted[..], &named].concat()[..], 0),
            (&trusted, 3),
            (&named, 3),
            (&[], 3),
            (&["--tls-no-verify"], 0),
            (&["--tls-ca-cert", "/nonexistent/ca.pem"], 3),
        ] {
            let (found, out, err) = run(&[&["probe", &target], args].concat());
            assert_eq!(found, code, "{target} {args:?}: {out}{err}");
            assert!(code == 0 || err.contains("TLS: "), "{err}");
        }
    }
    let grpc = format!("grpc://{}", serving.addr());
    assert_eq!(run(&["probe", &grpc]).0, 3, "plain text");
    let by_tls = [&["--tls"][..], &trusted, &named].concat();
    let (code, out, err) = run(&[&["probe", &grpc, "-o", "prom"], &by_tls[..]].concat());
    assert_eq!(code, 0, "{out}{err}");
    for line in [
        "probe_success 1",
        "probe_grpc_ssl 1",
        "probe_grpc_status_code 0",
        "probe_grpc_healthcheck_response{serving_status=\"SERVING\"} 1",
    ] {
        assert!(out.lines().any(|one| one == line), "{line}: {out}");
    }
    let https = format!("https://{}/livez", serving.addr());
    let (code, out, err) = run(&[&["await", &grpc, &https, "--timeout", "5s"], &by_tls[..]].concat());
    assert_eq!(code, 0, "{out}{err}");
    let target = format!("tls://{}", serving.addr());
    // The first handshake may take longer than a short timeout.
    let named = ["300ms", "3s", "30s"].into_iter().any(|timeout| {
        let (code, out, err) = run(&["await", &target, "--timeout", timeout, "--backoff", "50ms"]);
        assert_eq!(code, 69, "{out}{err}");
        err.contains(&target) && err.contains("TLS")
    });
    assert!(named, "the target and the reason must be named");
    assert_eq!(run(&["probe", &format!("tls://127.0.0.1:{}", free_port())]).0, 2);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_probe_shows_its_certificate() {
    let folder = folder("shows");
    certificates(&folder);
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (ca, cert, key) = (at("ca.pem"), at("door.pem"), at("door.key"));
    let text = format!(
        "version = 1\n[tls.t]\ncert = \"{cert}\"\nkey = \"{key}\"\nclient_auth = {{ mode = \"require\", ca = \"{ca}\" }}\n\
         [listener.a]\nbind = \"127.0.0.1:0\"\ntls = \"t\"\nhttp2 = true\n"
    );
    let file = folder.join("a.toml");
    fs::write(&file, text).unwrap();
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &[]);
    let trusts = ["--tls-ca-cert", &ca, "--tls-server-name", "door.example"];
    let shows = ["--tls-client-cert", &cert, "--tls-client-key", &key];
    for target in [format!("https://{}/livez", serving.addr()), format!("grpcs://{}", serving.addr())] {
        let ask = |more: &[&str]| run(&[&["probe", &target], &trusts[..], more].concat());
        let (code, out, err) = ask(&shows);
        assert_eq!(code, 0, "{target}: {out}{err}");
        assert_eq!(ask(&[]).0, 3, "{target}");
        let (code, out, err) = ask(&["--tls-client-cert", "/nonexistent/a.pem", "--tls-client-key", &key]);
        assert!(code == 3 && err.contains("TLS: /nonexistent/a.pem: "), "{target}: {out}{err}");
        assert_eq!(ask(&["--tls-client-cert", &cert]).0, 1, "{target}: without its key");
        let all = [&["await", &target, "--timeout", "5s"], &trusts[..], &shows].concat();
        assert_eq!(run(&all).0, 0, "{target}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Options without effect are errors; they are not ignored silently.
#[test]
fn options_without_effect_on_a_target_are_refused() {
    for (args, said) in [
        (
            &["grpc://127.0.0.1:1", "--tls-no-verify"][..],
            "--tls-no-verify has no effect without TLS: use grpcs:// or --tls",
        ),
        (
            &["http://127.0.0.1:1", "--tls-ca-cert", "a"],
            "--tls-ca-cert has no effect on http://127.0.0.1:1/: it does not use TLS",
        ),
        (
            &["http://127.0.0.1:1", "--tls"],
            "--tls applies to grpc:// only: use https:// or tls:// for other targets",
        ),
        (
            &["tcp://127.0.0.1:1", "--tls-server-name", "a"],
            "--tls-server-name has no effect on tcp://127.0.0.1:1: ",
        ),
        (&["tcp://127.0.0.1:1", "--header", "a: b"], "--header has no effect on tcp://127.0.0.1:1"),
        (&["redis://127.0.0.1:1", "--host", "a"], "--host has no effect on redis://127.0.0.1:1"),
        (
            &["grpc://127.0.0.1:1", "--expect-status", "200"],
            "--expect-status has no effect on grpc://127.0.0.1:1",
        ),
        (&["grpc://127.0.0.1:1", "--send-proxy", "v1"], "--send-proxy has no effect on grpc://127.0.0.1:1"),
        (&["unix:/a", "--send-proxy", "v2"], "--send-proxy has no effect on unix:/a"),
        (
            &["tcp://127.0.0.1:1", "--send-state", "--as", "haproxy"],
            "--send-state has no effect on tcp://127.0.0.1:1",
        ),
        (&["http://127.0.0.1:1", "--send-state"], "--send-state is a feature of HAProxy: add --as haproxy"),
        (&["grpc://127.0.0.1:1", "--as", "haproxy"], "haproxy does not support gRPC"),
        (&["tcp://127.0.0.1:1", "--as", "grpc-health-probe"], "grpc_health_probe supports gRPC only"),
    ] {
        let (code, out, err) = run(&[&["probe"], args].concat());
        assert!(code == 1 && out.is_empty() && err.contains(said), "{args:?}: {code} {err}");
    }
    // TLS options are accepted because a followed redirect may use TLS.
    let kubelet = ["probe", "http://127.0.0.1:1", "--as", "kubelet", "--tls-no-verify"];
    assert_eq!(run(&kubelet).0, 2);
    for (args, said) in [
        (
            &["tcp://127.0.0.1:1", "redis://127.0.0.1:1", "--tls-no-verify"][..],
            "none of the targets uses TLS",
        ),
        (&["https://127.0.0.1:1", "--tls"], "--tls applies to grpc:// only"),
    ] {
        let (code, _, err) = run(&[&["await"], args].concat());
        assert!(code == 2 && err.contains(said), "{args:?}: {code} {err}");
    }
}

#[test]
fn invalid_targets_list_every_form() {
    for args in [
        &["--check", "foo://x"][..],
        &["run", "--check", "foo://x", "--", "/bin/true"],
        &["probe", "foo://x"],
        &["await", "foo://x"],
    ] {
        let (code, _, err) = run(args);
        assert!(code == 2 || code == 1 && args[0] == "probe", "{code} {err}");
        for form in [
            "http://", "https://", "tcp://", "tls://", "grpc://", "grpcs://", "redis://", "udp://",
            "icmp://", "unix:/",
        ] {
            assert!(err.contains(form), "{args:?} {form}: {err}");
        }
    }
}

#[test]
fn a_file_without_its_option_gets_a_suggestion() {
    let (good, bad) = (fixture("good_minimal.toml"), fixture("routes.toml"));
    assert_eq!(run(&["validate", &good]), run(&["validate", "-c", &good]));
    assert_eq!(run(&["validate", &bad]), run(&["validate", "-c", &bad]));
    assert_eq!(with(&["validate", &good], &[("DOORBELL_CONFIG", &bad)]).0, 0);
    for args in [&["config", "dump", &good][..], &[&good], &["serve", &good], &["status", "doorbell.toml"]] {
        let (code, _, err) = run(args);
        assert!(code == 2 && err.contains(&format!("-c {}", args.last().unwrap())), "{args:?}: {code} {err}");
    }
    let (code, out, err) = run(&["validate"]);
    assert!(
        code == 0 && out.contains("built-in defaults") && err.contains("no file given"),
        "{code} {out}{err}"
    );
}

#[test]
fn a_report_is_printed_for_every_error() {
    for form in ["json", "sarif"] {
        let (code, out, err) = run(&["validate", "-c", "/nonexistent/a.toml", "-o", form]);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(code == 1 && err.contains("no such file"), "{code} {err}");
        assert!(report.to_string().contains("no such file: /nonexistent/a.toml"), "{report}");
    }
    let (_, out, _) = run(&["validate", "-c", "/nonexistent/a.toml", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["valid"], &report["problems"][0]["code"]), (&false.into(), &"unreadable".into()));

    let [json, sarif] = ["json", "sarif"].map(|form| {
        let (code, out, _) = run(&["validate", "-c", &fixture("redirects.toml"), "-o", form]);
        assert_eq!(code, 1);
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    });
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let problems = json["problems"].as_array().unwrap();
    assert_eq!((&sarif["version"], results.len()), (&"2.1.0".into(), problems.len()));
    assert_eq!(results[0]["ruleId"], "redirect-without-hosts");
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 8);
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("redirects.toml"));
}

#[test]
fn two_files_are_compared_by_their_effective_values() {
    let old = scratch("old.toml", "version = 1\n[log]\nlevel = \"info\"\n[listener.a]\nbind = \":8080\"\n");
    let same = scratch("same.toml", "version = 1\nlistener.a.bind = [\"[::]:8080\"]   # the same\n");
    let new = scratch(
        "new.toml",
        "version = 1\n[log]\nlevel = \"debug\"\n[listener.a]\nbind = \":8080\"\n[check.b]\ntype = \"ttl\"\nttl = \"1m\"\n",
    );
    let [old, same, new] = [&old, &same, &new].map(|path| path.to_str().unwrap());
    assert_eq!(run(&["config", "diff", old, same]), (0, String::new(), String::new()));
    let (code, out, err) = run(&["config", "diff", old, new]);
    assert_eq!((code, err.as_str()), (1, ""));
    for line in ["- log.level = \"info\"", "+ log.level = \"debug\"", "+ check.b.ttl = \"1m\""] {
        assert!(out.lines().any(|found| found == line), "{line}: {out}");
    }
    assert!(!out.contains("bind"), "{out}");
    // For secrets only the fact that they differ is reported.
    let [one, other] = ["one", "other"].map(|token| {
        let text =
            format!("version = 1\n[admin]\nbind = \"127.0.0.1:0\"\ntoken = \"hunter-{token}-0123456789\"\n");
        scratch(&format!("secret_{token}.toml"), &text)
    });
    let [one, other] = [&one, &other].map(|path| path.to_str().unwrap());
    assert_eq!(run(&["config", "diff", one, one]), (0, String::new(), String::new()));
    let (code, out, _) = run(&["config", "diff", one, other]);
    assert!(code == 1 && out.contains("a secret differs") && !out.contains("hunter"), "{code}: {out}");
    // A dump has the same tables in another order.
    let unsorted = "version = 1\n[listener.b]\nbind = \"127.0.0.1:1\"\n[listener.a]\nbind = \"127.0.0.1:2\"\n\
        [check.z]\ntype = \"tcp\"\naddress = \"127.0.0.1:5\"\n[check.y]\ntype = \"tcp\"\naddress = \"127.0.0.1:6\"\n\
        [health.readyz]\nrequire = [\"z\", \"y\"]\n[log]\nlevel = \"debug\"\n";
    let unsorted = scratch("unsorted.toml", unsorted);
    let unsorted = unsorted.to_str().unwrap();
    for more in [&[][..], &["--with-defaults"]] {
        let (_, dump, _) = run(&[&["config", "dump", "-c", unsorted], more].concat());
        let dump = scratch("sorted.toml", &dump);
        let equal = (0, String::new(), String::new());
        assert_eq!(run(&["config", "diff", unsorted, dump.to_str().unwrap()]), equal, "{more:?}");
        assert_eq!(run(&["config", "diff", dump.to_str().unwrap(), unsorted]), equal, "{more:?}");
    }
    let colored = run(&["config", "diff", "--color", "always", old, &fixture("routes.toml")]).2;
    assert!(colored.contains('\u{1b}'), "{colored}");
    let (code, _, err) = run(&["config", "diff", old, &fixture("routes.toml")]);
    assert!(code == 78 && err.contains("routes.toml:43:8"), "{code} {err}");
    assert_eq!(run(&["config", "diff", old]).0, 2);
}

#[test]
fn color_applies_to_every_output() {
    let forced = [("CLICOLOR_FORCE", "1")];
    for args in [&["--help"][..], &["validate", "--help"], &["--nope"], &["validate", "-o", "xml"]] {
        let has_color = |color: &[&str], env: &[(&str, &str)]| {
            let (_, out, err) = with(&[color, args].concat(), env);
            format!("{out}{err}").contains('\u{1b}')
        };
        assert!(has_color(&[], &forced), "color must be possible for this test: {args:?}");
        assert!(
            !has_color(&["--color", "never"], &forced) && !has_color(&["--color=never"], &forced),
            "{args:?}"
        );
        assert!(has_color(&["--color", "always"], &[]) && has_color(&["--color=always"], &[]), "{args:?}");
        assert!(!has_color(&[], &[]), "no terminal: {args:?}");
    }
}

#[test]
fn an_address_of_another_machine_is_reported() {
    for listen in ["203.0.113.7:0", "[2001:db8::7]:0"] {
        let (code, _, err) = run(&["--listen", listen, "--admin", "off"]);
        assert!(
            code == 1 && err.contains("not an address of this machine") && err.contains("[::]:PORT"),
            "{code} {err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn commands_without_a_configuration_refuse_one() {
    for args in [
        &["completions", "bash"][..],
        &["config", "init", "k8s"],
        &["config", "schema"],
        &["doctor"],
        &["man"],
        &["version"],
        &["redirect", "--host", "a.example"],
    ] {
        let (_, help, _) = run(&[args, &["--help"]].concat());
        assert!(!help.contains("--config"), "{args:?}: {help}");
        let (code, _, err) = run(&[args, &["-c", "a.toml"]].concat());
        assert!(code == 2 && err.contains("reads no configuration"), "{args:?}: {code} {err}");
        if args[0] != "redirect" && args[0] != "doctor" {
            assert_eq!(with(args, &[("DOORBELL_CONFIG", "/nonexistent")]).0, 0, "{args:?}");
        }
    }
    for args in [
        &["validate", "--help"][..],
        &["healthcheck", "--help"],
        &["status", "--help"],
        &["config", "dump", "--help"],
    ] {
        assert!(run(args).1.contains("--config"), "{args:?}");
    }
}

#[test]
fn the_starter_file_for_kubernetes_sets_no_defaults() {
    let (_, text, _) = run(&["config", "init", "k8s"]);
    let plain = |line: &&str| !line.trim_start().starts_with('#');
    assert!(!text.lines().filter(plain).any(|line| line.contains("on_drain")), "{text}");
    assert!(text.contains("kubelet = \"ignore\""), "{text}");
}

/// A header field counts as a credential because of its name.
#[test]
fn a_credential_in_a_header_field_is_never_shown() {
    let file = |name: &str, secret: &str| {
        let text = format!(
            "version = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\n[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\n\
             [check.a.headers]\nAuthorization = \"Bearer {secret}\"\nProxy-Authorization = \"Basic {secret}\"\nCookie = \"id={secret}\"\n\
             X-Api-Key = \"{secret}\"\nX-Team = \"orders\"\n"
        );
        scratch(name, &text).to_str().unwrap().to_owned()
    };
    let (clear, kept) =
        (file("credential_clear.toml", "hunter2"), file("credential_kept.toml", "${CREDENTIAL}"));
    let env = [("CREDENTIAL", "hunter2")];
    for args in [
        &["validate", "-c", &clear][..],
        &["validate", "-c", &clear, "-o", "json"],
        &["validate", "-c", &clear, "-o", "sarif"],
        &["config", "dump", "-c", &clear],
        &["config", "dump", "-c", &clear, "-o", "json"],
        &["config", "dump", "-c", &kept, "--with-defaults"],
        &["config", "diff", &clear, &kept],
    ] {
        let (code, out, err) = with(args, &env);
        // Exit code 3 of `validate` means valid with warnings.
        let is_valid = code == 0 || (code, args[0]) == (3, "validate");
        assert!(is_valid && !format!("{out}{err}").contains("hunter2"), "{args:?} {code}: {out}{err}");
        if args[1] == "dump" {
            assert!(out.matches("***").count() == 4 && out.contains("orders"), "{args:?}: {out}");
        }
    }
    let clear_secrets =
        |file: &str| with(&["validate", "-c", file], &env).2.matches("a secret in clear text").count();
    assert_eq!((clear_secrets(&clear), clear_secrets(&kept)), (4, 0));
    let dump = scratch("credential_dump.toml", &with(&["config", "dump", "-c", &kept], &env).1);
    let (code, _, err) = run(&["validate", "-c", dump.to_str().unwrap()]);
    assert!(code != 0 && err.matches("masked-secret").count() == 4, "masked values are rejected: {err}");
}

/// A misspelt key is reported without its value, so that no secret reaches a terminal, a log or the
/// output of CI.
#[test]
fn the_value_of_a_misspelt_key_of_a_secret_is_never_shown() {
    let good = "version = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\n";
    let same = scratch("no_secret.toml", good);
    for (number, more) in [
        "[admin]\npasswrod = \"hunter2\"\n",
        "[admin]\npin = \"hunter2\"\n",
        "admin = \"hunter2\"\n",
        "[check.a]\ntype = \"redis\"\naddress = \"127.0.0.1:6379\"\npasword = \"hunter2\"\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nbasic = { username = \"u\", passwd = \"hunter2\" }\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nbearer = \"hunter2\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nbaerer = hunter2\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { X-Api-Token = \"hunter2\", Accept = 1 }\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { Cookie = \"hunter2\", Accept = 1 }\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { X-Api-Key = \"hunter2\\n\" }\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { Cookie = \"hunter2 }\n",
        "[check.a]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheader = { Cookie = \"hunter2\" }\n",
        "[atuh.a]\ntokens = { alice = \"hunter2\" }\n",
        "[auth.a]\ntoknes = { alice = \"hunter2\" }\n",
        "[auth.a]\ntokens = [\n\"hunter2,\n]\n",
    ]
    .into_iter()
    .enumerate()
    {
        // Keys go before the first table of the file; a whole table is appended.
        let text = if more.starts_with('[') { format!("{good}{more}") } else { good.replacen('[', &format!("{more}["), 1) };
        let file = scratch(&format!("misspelt_{number}.toml"), &text);
        let (file, same) = (file.to_str().unwrap(), same.to_str().unwrap());
        for args in [
            &["validate", "-c", file][..],
            &["validate", "-c", file, "-o", "json"],
            &["validate", "-c", file, "-o", "sarif"],
            &["config", "dump", "-c", file],
            &["config", "dump", "-c", file, "-o", "json"],
            &["config", "diff", same, file],
            &["config", "diff", file, same],
            &["serve", "-c", file],
        ] {
            let (code, out, err) = run(args);
            assert!(code != 0 && !format!("{out}{err}").contains("hunter2"), "{args:?} {code}: {out}{err}");
            assert!(format!("{out}{err}").contains("error"), "{args:?}: {out}{err}");
        }
        let (_, _, err) = run(&["validate", "-c", file]);
        // For an unknown table only the line of its header is shown.
        assert!(err.contains("****") || err.contains("[atuh.a]"), "the line is shown masked: {err}");
    }
    for name in [
        "DOORBELL__CHECK__A__PASSWROD",
        "DOORBELL__ADMIN__PIN",
        "DOORBELL__LOG__TOKNE",
        "DOORBELL__LOG__HEADERS__COOKIE",
    ] {
        let (code, out, err) = with(&["validate", "-c", same.to_str().unwrap()], &[(name, "hunter2")]);
        assert!(
            code == 1 && err.contains(name) && !format!("{out}{err}").contains("hunter2"),
            "{code} {out}{err}"
        );
    }
}
