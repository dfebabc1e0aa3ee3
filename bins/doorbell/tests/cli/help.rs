//! Help texts, and suggestions for unknown arguments.

use super::{fixture, run};

/// Every command with its path, from the lists in the help texts.
fn commands() -> Vec<Vec<String>> {
    fn below(path: &[String], found: &mut Vec<Vec<String>>) {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("-h");
        let (code, out, err) = run(&args);
        assert_eq!((code, err.as_str()), (0, ""), "{path:?}");
        let lines = out.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in lines.take_while(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
                let path = [path, &[name.split(' ').next().unwrap().to_owned()]].concat();
                below(&path, found);
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(&[], &mut found);
    assert!(found.len() >= 26, "{found:?}");
    found
}

fn help_of(path: &[String]) -> String {
    let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let (code, out, err) = run(&args);
    assert_eq!((code, err.as_str()), (0, ""), "{path:?}");
    out
}

#[test]
fn every_command_has_examples_on_lines_of_their_own() {
    for path in commands().iter().chain([&Vec::new()]).filter(|path| path.join(" ") != "config") {
        let help = help_of(path);
        let examples: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .collect();
        assert!(!examples.is_empty(), "{path:?} has no examples:\n{help}");
        for line in examples {
            let words = [
                "doorbell",
                "DOORBELL",
                "ENTRYPOINT",
                "HEALTHCHECK",
                "preStop: ",
                "cat ",
                "curl ",
                "git ",
                "jq ",
            ];
            let is_whole =
                line.strip_prefix("  ").is_some_and(|line| words.iter().any(|word| line.starts_with(word)));
            assert!(is_whole, "{path:?} is wrapped: {line}");
        }
        // Paragraphs are wrapped at 100 columns.
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{path:?}:\n{help}");
    }
}

#[test]
fn options_are_shown_where_they_have_an_effect() {
    for path in commands() {
        let (name, help) = (path.join(" "), help_of(&path));
        let writes_log = ["redirect", "run", "serve"].contains(&&*name);
        assert_eq!(
            help.contains("--log-level") && help.contains("--log-format"),
            writes_log,
            "{name}:\n{help}"
        );
        assert!(help.contains("--color") && help.contains("--quiet"), "{name}:\n{help}");
        let page = (name != "config").then(|| run(&["man", &path.join("-")]));
        if let Some((code, page, err)) = page {
            assert_eq!(code, 0, "{name}: {err}");
            for option in ["config", "log\\-level"] {
                let is_shown = help.contains(&format!("--{}", option.replace('\\', "")));
                assert_eq!(
                    page.contains(&format!("\\-\\-{option}\\fR")),
                    is_shown,
                    "{name} {option}:\n{page}"
                );
            }
        }
    }
    let (code, out, err) = run(&["version", "--log-level", "debug", "--log-format", "json"]);
    assert_eq!((code, err.as_str()), (0, ""), "log options must be accepted: {out}");
}

#[test]
fn help_is_a_command_too() {
    for (words, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "probe"], &["probe", "--help"]),
        (&["help", "config", "dump"], &["config", "dump", "--help"]),
    ] {
        assert_eq!(run(words), run(option), "{words:?}");
    }
    assert_eq!(run(&["help", "nonsense"]).0, 2);
}

#[test]
fn words_of_other_programs_lead_to_ours() {
    for (args, expected) in [
        (&["bench"][..], "`doorbell-load`"),
        (&["stop"], "`doorbell quit`"),
        (&["check", "doorbell.toml"], "`doorbell validate FILE`"),
        (&["config", "validate"], "`doorbell validate`"),
        (&["--engine", "epoll"], "`--driver`"),
        (&["serve", "--engine=epoll"], "`--driver`"),
        (&["convert"], "`doorbell config convert blackbox FILE`"),
        (&["validte"], "'validate'"),
    ] {
        let (code, out, err) = run(args);
        assert!(code == 2 && out.is_empty() && err.contains(expected), "{args:?}: {code} {err}");
    }
}

#[test]
fn a_dump_does_not_mention_a_start() {
    let (code, out, err) = run(&["config", "dump", "-c", &fixture("routes.toml")]);
    assert!(
        code == 78 && out.is_empty() && err.ends_with("27 errors; nothing was written\n"),
        "{code} {err}"
    );
}

#[test]
fn probers_have_alternative_names() {
    let closed = doorbell_testkit::peers::free_addr();
    for name in ["alb", "blackbox_exporter", "grpc_health_probe", "apache", "keepalived", "route53"] {
        let scheme = if name == "grpc_health_probe" { "grpc" } else { "http" };
        let (code, out, err) = run(&["probe", &format!("{scheme}://{closed}"), "--as", name]);
        assert!(code == 2 && err.contains("connect-failed"), "{name}: {code} {out}{err}");
    }
    let (code, _, err) = run(&["probe", "http://127.0.0.1:1/", "--as", "grpc-health-probe"]);
    assert!(code == 1 && err.contains("gRPC only: use grpc://HOST:PORT/SERVICE"), "{code} {err}");
}

#[test]
fn a_healthcheck_and_a_probe_report_the_same_cause() {
    let closed = doorbell_testkit::peers::free_addr().to_string();
    let (code, _, err) = run(&["healthcheck", "--address", &closed]);
    assert_eq!((code, err), (1, format!("doorbell: {closed}/readyz: connection refused\n")));
    let (code, _, err) = run(&["probe", &format!("http://{closed}/readyz")]);
    assert!(code == 2 && err.ends_with("connection refused\n"), "{err}");
}
