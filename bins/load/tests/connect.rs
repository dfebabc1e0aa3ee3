//! `doorbell-load connect` from a user's view: few connections, every strategy, both formats, the
//! plot, and a separate network namespace. Also the promised cost for many connections to one
//! address.
//!
//! Does not know about: load (`modes`). `DOORBELL_FULL=1` makes the promised 56,000 connections.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::fs;
use std::io::Write as _;

use common::{Run, command, run, run_of};
use doorbell_testkit::skip::{self, Need};
use serde_json::Value;

fn study(args: &[&str]) -> Run {
    run(&[&["connect", "-o", "json"], args].concat())
}

fn rows(run: &Run) -> &Vec<Value> {
    run.json["runs"].as_array().unwrap_or_else(|| panic!("no report: {run:#?}"))
}

#[test]
fn every_strategy_connects_with_tcp_and_udp() {
    let run = study(&["-n", "60", "-S", "kernel,select,auto", "-q"]);
    assert_eq!((run.exit, run.stderr.as_str()), (0, ""), "{run:#?}");
    let rows = rows(&run);
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!((&row["connected"], &row["failed"]), (&60.into(), &0.into()), "{row}");
        let halves = row["even"]["count"].as_u64().unwrap() + row["odd"]["count"].as_u64().unwrap();
        assert_eq!(halves, 60);
        assert!(row["per_s"].as_f64().unwrap() > 0.0 && row["whole_p50"].as_f64().unwrap() > 0.0);
    }
    let tcp =
        |asked: &str| rows.iter().find(|row| row["asked"] == asked && row["transport"] == "tcp").unwrap();
    assert_eq!(
        tcp("kernel")["odd_over_even"],
        Value::Null,
        "the kernel must use one half of the ports first: {run:#?}"
    );
    for both in ["select", "auto"] {
        assert!(tcp(both)["odd_over_even"].as_f64().unwrap() > 0.0, "both halves are used: {run:#?}");
    }
}

#[test]
fn helpers_stay_below_their_limit() {
    let run = study(&["-n", "100", "-S", "kernel", "--per-process", "30", "-t", "tcp"]);
    assert_eq!((run.exit, &rows(&run)[0]["connected"]), (0, &100.into()), "{run:#?}");
    assert_eq!(
        rows(&run)[0]["processes"],
        8,
        "expected four processes that connect and four that accept: {run:#?}"
    );
    assert_eq!(run.json["connections_per_process"], 30);
    assert!(run.stderr.contains("tcp kernel: 100 connections"), "{run:#?}");

    // The shell lowers the hard limit, and the study must adapt.
    let program = command(&[]).get_program().to_owned();
    let limited = run_of(
        std::process::Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$0\" connect -n 100 -S kernel -t tcp -o json"])
            .arg(program)
            .output()
            .unwrap(),
    );
    assert_eq!((limited.exit, &rows(&limited)[0]["failed"]), (0, &0.into()), "{limited:#?}");
    assert_eq!(
        (&limited.json["connections_per_process"], &rows(&limited)[0]["processes"]),
        (&32.into(), &8.into())
    );
}

#[test]
fn a_full_range_is_a_failure_that_is_named_and_counted() {
    let ours = study(&["-n", "40", "-S", "kernel", "-t", "udp", "-s", "127.0.0.9,127.0.0.10"]);
    assert_eq!((ours.exit, &ours.json["sources"]), (0, &2.into()), "{ours:#?}");
    let not_ours = study(&["-n", "3", "-S", "kernel", "-t", "tcp", "-s", "192.0.2.1"]);
    assert_eq!((not_ours.exit, &rows(&not_ours)[0]["failed"]), (1, &3.into()), "{not_ours:#?}");
    let errors = rows(&not_ours)[0]["errors"].as_object().unwrap();
    assert!(errors.keys().all(|name| name.contains("Cannot assign requested address")), "{errors:?}");
}

#[test]
fn the_table_and_the_picture() {
    let file = std::env::temp_dir().join(format!("doorbell-connect-{}.svg", std::process::id()));
    let run = run(&["connect", "-n", "50", "-S", "kernel,select", "--plot", file.to_str().unwrap()]);
    let svg = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    assert_eq!(run.exit, 0, "{run:#?}");
    for part in
        ["odd/even", "tcp kernel", "udp select", "50 connections to one port of 127.0.0.1", "a second"]
    {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(svg.matches("<g ").count(), 4, "a panel for each run");
}

/// Reports a skip because namespaces are unavailable. Fails if [`Need::Clients`] is required.
#[track_caller]
fn skipped(run: &Run) {
    assert!(run.stderr.contains("--own-network needs"), "{run:#?}");
    skip::skipped(Need::Clients, format_args!("no namespaces here: {}", run.stderr.trim()));
}

#[test]
fn a_network_of_its_own_has_the_ports_of_the_study() {
    let run = study(&["--own-network", "-n", "50", "-S", "auto"]);
    if run.exit == 69 {
        return skipped(&run);
    }
    assert_eq!(run.exit, 0, "{run:#?}");
    assert_eq!(run.json["ports"], serde_json::json!([9_024, 65_535]));
    assert!(rows(&run).iter().all(|row| row["connected"] == 50), "{run:#?}");
}

/// Promised maximum of the median time of `connect()` on odd ports, divided by that on even ports.
const ODD_OVER_EVEN_MAX: f64 = 1.2;
/// The same for the short version of the test.
const ODD_OVER_EVEN_LOOSE: f64 = 2.0;

/// Whether this kernel can choose from odd and even ports alike.
fn has_no_halves() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

/// Opens connections on nearly all ports to one address, all at once. Uses the median of three
/// runs, because other load on the machine may affect one or two of them.
#[test]
fn odd_ports_cost_what_even_ones_do() {
    let full = std::env::var_os("DOORBELL_FULL").is_some();
    let (conns, runs, max) =
        if full { ("56k", 3, ODD_OVER_EVEN_MAX) } else { ("6k", 3, ODD_OVER_EVEN_LOOSE) };
    let mut ratios = Vec::new();
    for _ in 0..runs {
        let run = study(&["--own-network", "-n", conns, "-S", "auto", "-t", "tcp", "-q"]);
        if run.exit == 69 {
            return skipped(&run);
        }
        let row = &rows(&run)[0];
        let conns = if full { 56_000 } else { 6_000 };
        if has_no_halves() {
            assert_eq!(
                (run.exit, &row["connected"], &row["failed"]),
                (0, &conns.into(), &0.into()),
                "{run:#?}"
            );
        }
        ratios
            .push(row["odd_over_even"].as_f64().unwrap_or_else(|| panic!("one half was not used: {run:#?}")));
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let _ = writeln!(std::io::stderr(), "{conns} connections to one address: odd over even {ratios:.3?}");
    assert!(ratios[runs / 2] <= max || !has_no_halves(), "{ratios:?}");
}

#[test]
fn wrong_command_lines_are_exit_2_with_a_way_out() {
    for (args, hint) in [
        (&["-S", "best"][..], "write auto"),
        (&["-n", "0"], "--connections"),
        (&["-n", "70k"], "--own-network"),
        (&["-n", "10", "-s", "127.0.0.1,::1"], "family"),
        (&["-n", "20k", "--per-process", "1"], "ulimit"),
        (&["--transport", "sctp"], "tcp"),
    ] {
        let run = run(&[&["connect"], args].concat());
        assert_eq!((run.exit, run.stdout.as_str()), (2, ""), "{args:?}: {run:?}");
        assert!(run.stderr.contains(hint), "{args:?}: {run:?}");
    }
    let helper = run(&["connect-helper", "hold"]);
    assert_eq!(helper.exit, 2, "{helper:?}");
}

#[test]
fn help_has_examples() {
    let help = run(&["connect", "--help"]);
    assert_eq!((help.exit, help.stderr.as_str()), (0, ""));
    for part in
        ["What it shows:", "Ways to choose ports", "Examples:", "Exit codes:", "--own-network", "ulimit"]
    {
        assert!(help.stdout.contains(part), "{part}");
    }
    assert!(run(&["--help"]).stdout.contains("doorbell-load connect --help"));
}
