//! Converts the arguments to a plan.

use std::fs;
use std::path::Path;

use super::args::{CheckArg, CloseArg, LoadArgs};
use crate::exit::Failure;
use crate::plan::{
    Closer, DURATION_OF_COUNTED, Flow, Plan, RequestParts, RequestTemplate, Url, not_loopback, resolve,
};
use crate::reply::{CheckLevel, Expect, Id, Pattern};
use std::time::Duration;

/// Default time to measure.
const DURATION: Duration = Duration::from_secs(10);
/// Maximum length of a file for `--expect-body`.
const BODY_LEN_MAX: u64 = 64 << 20;

/// Converts a command line to a plan.
pub(super) fn plan(args: &LoadArgs) -> Result<Plan, Failure> {
    let url = Url::parse(&args.url).map_err(Failure::usage)?;
    let targets = if args.connect_to.is_empty() {
        vec![resolve(&url.host, url.port).map_err(Failure::usage)?]
    } else {
        args.connect_to.clone()
    };
    if let Some(away) = not_loopback(&targets).filter(|_| !args.allow_remote) {
        return Err(Failure::usage(format!(
            "{away} is not on this machine's loopback. Load can bring a server down: if the server is yours, add --allow-remote"
        )));
    }
    let flow = flow(args);
    let request = RequestTemplate::new(&RequestParts {
        method: args.method.clone(),
        path: url.path,
        host: url.authority,
        headers: args.header.clone(),
        body: args.body.clone(),
        close: matches!(flow, Flow::New { closer: Closer::Server, .. }),
        id_header: args.unique_id,
    })?;
    let ids = request.has_id();
    let default_duration = if args.requests.is_some() { DURATION_OF_COUNTED } else { DURATION };
    let plan = Plan {
        targets,
        sources: args.sources().map_err(Failure::usage)?,
        expect: expect(args, ids)?,
        request,
        ids,
        conns: u32::try_from(args.connections).unwrap_or(u32::MAX),
        threads: args.threads,
        flow,
        rate: args.rate,
        duration: args.duration.unwrap_or(default_duration),
        requests: args.requests,
        warm_up: args.warm_up,
        timeout: args.timeout,
        delayed_ack: args.delayed_ack,
        ports: args.ports,
    };
    plan.check()?;
    Ok(plan)
}

fn flow(args: &LoadArgs) -> Flow {
    if args.keep_alive {
        return Flow::Keep { pipeline: args.pipeline };
    }
    let closer = match args.close {
        CloseArg::Client => Closer::Client,
        CloseArg::Reset => Closer::Reset,
        CloseArg::Server => Closer::Server,
    };
    Flow::New { closer, gap: args.gap }
}

fn expect(args: &LoadArgs, ids: bool) -> Result<Expect, Failure> {
    let level = match args.check {
        CheckArg::None => CheckLevel::Complete,
        CheckArg::Status => CheckLevel::Status,
        CheckArg::Body => CheckLevel::Body,
        CheckArg::Exact => CheckLevel::Exact,
    };
    let conflict = |option: &str, needs: &str| {
        Err(Failure::usage(format!("{option} needs --check {needs}; otherwise nothing is compared")))
    };
    if ids && level < CheckLevel::Body {
        return conflict("a unique id", "body or exact");
    }
    if args.expect_body.is_some() && level < CheckLevel::Body {
        return conflict("--expect-body", "body or exact");
    }
    if args.expect_status.is_some() && level < CheckLevel::Status {
        return conflict("--expect-status", "status, body or exact");
    }
    let mut expect = Expect::new(level, args.expect_status, args.method == "HEAD");
    if let Some(text) = &args.expect_body {
        let body = expected_body(text)?;
        expect.body = Some(if ids { with_id_holes(&body) } else { Pattern::new(&body, None, None) });
    }
    Ok(expect)
}

fn expected_body(text: &str) -> Result<Vec<u8>, Failure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.as_bytes().to_vec()) };
    let cannot = |error: std::io::Error| Failure::usage(format!("{path}: {error}"));
    let len = fs::metadata(Path::new(path)).map_err(cannot)?.len();
    if len > BODY_LEN_MAX {
        return Err(Failure::usage(format!("{path} is larger than 64 MiB")));
    }
    fs::read(path).map_err(cannot)
}

/// Converts an expected body, in which `{id}` stands for the id of the request.
fn with_id_holes(body: &[u8]) -> Pattern {
    // The value of this id does not matter, only its position.
    let id = Id::new(u16::MAX, 0);
    let mut bytes = Vec::with_capacity(body.len());
    let mut at = 0;
    for found in memchr::memmem::find_iter(body, "{id}") {
        bytes.extend(&body[at..found]);
        bytes.extend(id.as_bytes());
        at = found + 4;
    }
    bytes.extend(&body[at..]);
    Pattern::new(&bytes, Some(id), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan_of(args: &[&str]) -> Result<Plan, Failure> {
        let typed = LoadArgs::try_parse_from([&["doorbell-load"], args].concat()).unwrap();
        plan(&typed)
    }

    const URL: &str = "http://127.0.0.1:9/x";

    #[test]
    fn defaults() {
        let plan = plan_of(&[URL]).unwrap();
        assert_eq!((plan.conns, plan.threads, plan.duration), (64, 1, Duration::from_secs(10)));
        assert_eq!(plan.flow, Flow::New { closer: Closer::Server, gap: Duration::ZERO });
        assert_eq!(plan.expect.level, CheckLevel::Body);
        assert!(!plan.ids && plan.rate.is_none() && plan.requests.is_none() && plan.sources.is_empty());
        assert!(plan.request.as_bytes().ends_with(b"Connection: close\r\n\r\n"));
        assert_eq!(plan_of(&["-n", "5", URL]).unwrap().duration, DURATION_OF_COUNTED);
    }

    #[test]
    fn only_the_server_is_asked_to_close() {
        for args in [["-k", "-p4"], ["--close", "client"], ["--close", "reset"]] {
            let plan = plan_of(&[&args[..], &[URL]].concat()).unwrap();
            assert!(memchr::memmem::find(plan.request.as_bytes(), b"Connection").is_none(), "{args:?}");
        }
    }

    #[test]
    fn loopback_only_unless_allowed() {
        let away = "http://192.0.2.1:80/";
        let message = plan_of(&[away]).unwrap_err().message;
        assert!(message.contains("192.0.2.1:80") && message.contains("--allow-remote"), "{message}");
        assert!(plan_of(&["--allow-remote", away]).is_ok());
        assert!(plan_of(&["--connect-to", "127.0.0.1:1", away]).is_ok());
        assert!(plan_of(&["--connect-to", "127.0.0.1:1", "--connect-to", "192.0.2.1:1", URL]).is_err());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for args in [
            &["-c", "1", "-t", "2", URL][..],
            &["-c", "0", URL],
            &["-t", "0", URL],
            &["-c", "40k", URL],
            &["-k", "-p", "0", URL],
            &["-k", "-p", "2000", URL],
            &["-d", "0s", URL],
            &["-d", "25h", URL],
            &["-n", "0", URL],
            &["--timeout", "0s", URL],
            &["--gap", "1ms", "--delayed-ack", URL],
            &["--source", "::1", URL],
            &["--source", "x", URL],
            &["--unique-id", "--check", "status", URL],
            &["--expect-body", "x", "--check", "none", URL],
            &["--expect-status", "200", "--check", "none", URL],
            &["--expect-body", "@/no/such/file", URL],
            &["https://127.0.0.1/"],
        ] {
            let failure = plan_of(args).unwrap_err();
            assert_eq!(failure.exit, crate::exit::Exit::Usage, "{args:?}: {failure}");
        }
        for args in
            [&["-p", "2", URL][..], &["-k", "--close", "client", URL], &["-k", "--gap", "1s", URL], &[]]
        {
            assert!(LoadArgs::try_parse_from([&["doorbell-load"], args].concat()).is_err(), "{args:?}");
        }
    }

    #[test]
    fn an_expected_body_may_hold_the_id() {
        let plan = plan_of(&["--unique-id", "--expect-body", "a{id}b", URL]).unwrap();
        let body = plan.expect.body.unwrap();
        let id = Id::new(0, 5);
        let bytes = [b"a", &id.as_bytes()[..], b"b"].concat();
        assert_eq!(body.compare(0, &bytes, Some(id)), crate::reply::Difference::default());
        assert!(body.compare(0, &bytes, Some(Id::new(0, 6))).foreign > 0);
    }
}
