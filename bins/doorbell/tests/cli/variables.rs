//! Environment variables: overrides of keys, empty variables, and defaults without a file.

use super::serving::{Serving, ask};
use super::{doorbell, finish, scratch};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

fn run(args: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    finish(doorbell(args).envs(env.iter().copied()).output().unwrap())
}

fn dump(args: &[&str], env: &[(&str, &str)]) -> serde_json::Value {
    let args = [&["config", "dump", "-q", "-o", "json", "--with-defaults"], args].concat();
    let (code, out, err) = run(&args, env);
    assert_eq!((code, err.as_str()), (0, ""), "{env:?}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn any_key_with_one_value_can_be_a_variable() {
    let text = "version = 1\n[log]\nlevel = \"warn\"\n[listener.web-1]\nbind = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n\
                [health.readyz]\non_drain = { default = 200 }\n";
    let file = scratch("variables.toml", text);
    let file = ["-c", file.to_str().unwrap()];
    for (args, name, value, pointer, expected) in [
        (&[][..], "DOORBELL__RUNTIME__WORKERS", "7", "/runtime/workers", serde_json::json!(7)),
        (&[], "DOORBELL__RUNTIME__PIN_CPUS", "true", "/runtime/pin_cpus", true.into()),
        (&[], "DOORBELL__LIFECYCLE__DRAIN_DELAY", "3s", "/lifecycle/drain_delay", "3s".into()),
        (&[], "DOORBELL__CONTROL__GROUP", "1000", "/control/group", "1000".into()),
        (&[], "DOORBELL__LOG__LEVEL", "${WORD:-debug}", "/log/level", "debug".into()),
        (&file, "DOORBELL__LOG__LEVEL", "debug", "/log/level", "debug".into()),
        (&file, "DOORBELL__LOG__LEVEL", "", "/log/level", "warn".into()),
        (&file, "DOORBELL__LISTENER__WEB_1__BIND", ":99", "/listener/web-1/bind", "[::]:99".into()),
        (
            &file,
            "DOORBELL__HEALTH__READYZ__ON_DRAIN__DEFAULT",
            "418",
            "/health/readyz/on_drain/default",
            418.into(),
        ),
        (&file, "DOORBELL__CHECK__APP__TTL", "9s", "/check/app/ttl", "9s".into()),
        (&file, "DOORBELL__CHECK__APP__FLAP", "off", "/check/app/flap", "off".into()),
        (&file, "DOORBELL__listener__a__bind", "127.0.0.1:5", "/listener/a/bind", "127.0.0.1:5".into()),
    ] {
        let check = [("DOORBELL__CHECK__APP__TYPE", "ttl"), ("DOORBELL__CHECK__APP__TTL", "9s")];
        let more = if name.contains("CHECK") { &check[..] } else { &[] };
        let found = dump(args, &[&[(name, value)], more].concat());
        let found = found.pointer(pointer).unwrap_or_else(|| panic!("{name}: {pointer} is not in {found:#}"));
        let found = found.as_array().filter(|list| list.len() == 1).map_or(found, |list| &list[0]);
        assert_eq!(*found, expected, "{name}={value}");
    }
}

#[test]
fn an_invalid_variable_is_named_with_its_problem() {
    let file = scratch("variables_wrong.toml", "version = 1\n[listener.a]\nbind = \":8080\"\n");
    let file = file.to_str().unwrap();
    for (name, value, parts) in [
        ("DOORBELL__RUNTIME__WORKERS", "0", ["`workers` is out of range", "from 1 to 1024"]),
        ("DOORBELL__RUNTIME__WORKERS", "many", ["whole number", "auto"]),
        ("DOORBELL__RUNTIM__WORKERS", "7", ["unknown key \"runtim\"", "did you mean `runtime`?"]),
        ("DOORBELL__RUNTIME__WORKER", "7", ["unknown key \"worker\"", "did you mean `workers`?"]),
        ("DOORBELL__RUNTIME", "7", ["stands for more than one value", "name one key in it"]),
        ("DOORBELL__LISTENER__A__BIND__X", "7", ["is not a table", "as a table"]),
        ("DOORBELL__LOG____LEVEL", "info", ["names no key", "two underscores"]),
        ("DOORBELL__LIFECYCLE__DRAIN_DELAY", "5", ["is not a duration", "write"]),
    ] {
        for args in
            [&["validate", "-c", file][..], &["validate"], &["-c", file], &["--listen", "127.0.0.1:0"]]
        {
            let (code, _, err) = run(args, &[(name, value)]);
            assert!(
                code == 78 || code == 1 && args[0] == "validate",
                "{name}={value} {args:?}: {code} {err}"
            );
            assert!(err.contains(name) && err.contains("environment:1:"), "{name} {args:?}: {err}");
            if args.contains(&file) || !name.contains("LISTENER") {
                parts.iter().for_each(|part| assert!(err.contains(part), "{name}: {part}: {err}"));
            }
        }
        let (code, out, _) = run(&["validate", "-c", file, "-o", "json"], &[(name, value)]);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &report["problems"][0]["at"]["variable"]), (1, &name.into()), "{out}");
    }
    // A secret from the environment is never shown.
    let token = "0123456789abcdef0123456789abcdef";
    let secret = [("DOORBELL__ADMIN__TOKEN", token)];
    assert_eq!(run(&["validate", "-c", file], &secret).0, 0);
    let (code, out, err) = run(&["validate", "-c", file], &[secret[0], ("DOORBELL__ADMIN__TOKENS", token)]);
    assert!(code == 1 && !format!("{out}{err}").contains(token), "{out}{err}");
    let (_, out, err) = run(&["config", "dump", "-c", file], &secret);
    assert!(!format!("{out}{err}").contains(token), "{out}{err}");
    assert!(
        run(&["validate", "-o", "json", "-c", file], &[("DOORBELL__ADMIN__BIND", ":8080")])
            .1
            .contains("bound-twice")
    );
}

#[test]
fn empty_variables_count_as_unset() {
    let empty = [
        ("DOORBELL_CONFIG", ""),
        ("DOORBELL_LOG", ""),
        ("DOORBELL_CONTROL", ""),
        ("DOORBELL_ADMIN", ""),
        ("DOORBELL__LOG__LEVEL", ""),
        ("NO_COLOR", ""),
    ];
    let (code, out, _) = run(&["validate"], &empty);
    assert!(code == 0 && out.contains("built-in defaults"), "{code} {out}");
    let args = ["serve", "--listen", "127.0.0.1:0"];
    let serving = Serving::start(&args, &empty);
    assert!(ask(serving.addr(), "GET /livez HTTP/1.0\r\n\r\n").contains(" 200 "));
    let socket = serving.ready["control"].as_str().unwrap();
    assert_eq!(run(&["status", "--socket", socket], &empty).0, 0);
}

#[test]
fn metrics_are_served_without_a_file() {
    let metrics = |addr: &str| ask(addr, "GET /metrics HTTP/1.0\r\n\r\n");
    for (args, env) in [
        (&["--admin", "127.0.0.1:0"][..], &[][..]),
        (&[], &[("DOORBELL_ADMIN", "127.0.0.1:0")]),
        (&["--admin", "127.0.0.1:0"], &[("DOORBELL_ADMIN", "off")]),
    ] {
        let serving = Serving::start(&[&["serve", "--listen", "127.0.0.1:0"], args].concat(), env);
        let admin = serving.ready["admin"].as_str().unwrap();
        assert!(metrics(admin).contains("doorbell_"), "{args:?} {env:?}");
        let drained = ask(admin, "POST /-/drain HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        assert!(drained.starts_with("HTTP/1.1 200 "), "{drained}");
    }
    for (args, env) in [(&["--admin", "off"][..], &[][..]), (&[], &[("DOORBELL_ADMIN", "off")])] {
        let serving = Serving::start(&[&["serve", "--listen", "127.0.0.1:0"], args].concat(), env);
        assert!(serving.ready["admin"].is_null());
    }
    let (code, _, err) = run(&["--listen", "127.0.0.1:0"], &[("DOORBELL_ADMIN", "9130")]);
    assert!(code == 2 && err.contains("DOORBELL_ADMIN") && err.contains("127.0.0.1:9130"), "{code} {err}");

    // By default the admin listener is read-only, and skipped if its address is in use.
    let args = ["serve", "--listen", "127.0.0.1:0"];
    let both = [Serving::start(&args, &[]), Serving::start(&args, &[])];
    assert!(both.iter().any(|one| one.ready["admin"].is_null()), "two instances cannot share an address");
    for one in &both {
        assert!(ask(one.addr(), "GET /readyz HTTP/1.0\r\n\r\n").contains(" 200 "));
        let Some(admin) = one.ready["admin"].as_str() else { continue };
        assert_eq!(admin, "127.0.0.1:9130");
        assert!(metrics(admin).contains("doorbell_"));
        let refused = ask(admin, "POST /-/drain HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("--admin"), "{refused}");
    }
    // With a file, the admin listener starts only if it is configured.
    let file = scratch("no_admin.toml", "version = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\n");
    let serving = Serving::start(&["-c", file.to_str().unwrap()], &[]);
    assert!(serving.ready["admin"].is_null());
}

#[test]
fn variables_of_serve_are_used_or_reported() {
    let at = |address: &'static str| [("DOORBELL_LISTEN", address)];
    let args = ["serve", "--admin", "off"];
    let serving = Serving::start(&args, &at("127.0.0.1:0, 127.0.0.2:0"));
    let addresses = serving.ready["addresses"].as_str().unwrap();
    assert!(addresses.starts_with("127.0.0.1:") && addresses.contains(" 127.0.0.2:"), "{addresses}");
    // `--listen` takes precedence over DOORBELL_LISTEN.
    let args = ["serve", "--admin", "off", "--listen", "127.0.0.3:0"];
    assert!(Serving::start(&args, &at("127.0.0.1:0")).addr().starts_with("127.0.0.3:"));
    for (name, value, fix) in [
        ("DOORBELL_LISTEN", "8080", "0.0.0.0:8080"),
        ("DOORBELL_LOG", "loud", "error, warn, info, debug, trace"),
    ] {
        let (code, _, err) = run(&["serve"], &[(name, value)]);
        assert!(code == 2 && err.contains(&format!("invalid value {value:?} of {name}")), "{code} {err}");
        assert!(err.contains(fix) && !err.contains("--log-level"), "{err}");
    }
    let mut child = doorbell(&["serve", "--listen", "127.0.0.1:0"])
        .env("DOORBELL_WORKERS", "3")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("DOORBELL_WORKERS")).unwrap();
    assert!(said.contains("has no effect") && said.contains("DOORBELL__RUNTIME__WORKERS"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
}
