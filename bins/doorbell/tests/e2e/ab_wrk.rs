//! Load from two common programs: ab (HTTP/1.0) and wrk (HTTP/1.1 keep-alive).

use crate::support::{Doorbell, on_both_engines, program, stdout};

on_both_engines! {
    ab_with_and_without_keep_alive
    wrk_sees_no_error
}

fn ab_with_and_without_keep_alive(engine: &str) {
    let Some(ab) = program("ab") else { return };
    let doorbell = Doorbell::start(engine);
    let url = doorbell.url("/hello");
    for keep_alive in [false, true] {
        let mut args = vec!["-q", "-n", "4000", "-c", "32"];
        args.extend(keep_alive.then_some("-k"));
        args.push(&url);
        let out = stdout(&ab, &args);
        let value = |name: &str| {
            let line = out.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.split_whitespace().next().unwrap_or_default().to_owned())
        };
        assert_eq!(value("Complete requests:").as_deref(), Some("4000"), "{out}");
        assert_eq!(value("Failed requests:").as_deref(), Some("0"), "{out}");
        assert_eq!(value("Non-2xx responses:"), None, "{out}");
        if keep_alive {
            assert_eq!(value("Keep-Alive requests:").as_deref(), Some("4000"), "{out}");
        }
    }
}

fn wrk_sees_no_error(engine: &str) {
    let Some(wrk) = program("wrk") else { return };
    let doorbell = Doorbell::start(engine);
    for (close, conns) in [(false, "64"), (true, "16")] {
        let url = doorbell.url("/livez");
        let mut args = vec!["-t1", "-c", conns, "-d1s"];
        if close {
            args.extend(["-H", "Connection: close"]);
        }
        args.push(&url);
        let out = stdout(&wrk, &args);
        assert!(!out.contains("Non-2xx"), "{out}");
        assert!(!out.contains("Socket errors"), "{out}");
        let rate: f64 =
            out.lines().find_map(|line| line.strip_prefix("Requests/sec:")).unwrap().trim().parse().unwrap();
        assert!(rate > 1.0, "{out}");
    }
}
