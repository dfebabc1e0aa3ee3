//! Runs a few checks against a local server, which fails after a while, and prints each result:
//! `cargo run -p doorbell-checks --example watch`.
#![expect(clippy::print_stdout, reason = "the example prints its results")]
#![expect(clippy::disallowed_methods, reason = "an example reads the clock and sleeps")]

use doorbell_checks::options::{
    Check, CheckKind, EgressOptions, FileCheck, HttpCheck, HttpExpect, Pace, Url,
};
use doorbell_checks::{Connector, Finding, Plan, ResultSink, Run, Runner, SharedResources, StatsByCheck};
use doorbell_health::Time;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Prints results. An application would pass them to a `doorbell_health::Board`, which also chooses
/// the intervals.
struct Printer {
    checks: Vec<Check>,
    start: Instant,
}

impl ResultSink for Printer {
    fn now(&self) -> Time {
        Time::ZERO.after(self.start.elapsed())
    }

    fn instant(&self, time: Time) -> Instant {
        // [`Time::MAX`] is beyond the range of the clock.
        self.start + Duration::from_nanos(time.as_nanos()).min(Duration::from_secs(86_400))
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        let Finding { outcome, latency, reason } = finding;
        println!("{:>8}: {} in {latency:.1?} {reason}", self.checks[check].name, outcome.as_str());
        self.checks[check].pace.interval
    }

    fn deadline(&self) -> Time {
        Time::MAX
    }

    fn tick(&self) {}
}

/// Replies 200 to the first requests, then 503.
fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let status = if number < 6 { "200 OK" } else { "503 Service Unavailable" };
            let _len = stream.read(&mut [0; 1024]);
            let _gone =
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n");
        }
    });
    Ok(addr)
}

fn main() -> Result<(), Box<dyn Error>> {
    let addr = serve()?;
    let url = Url::parse(&format!("http://{addr}/readyz")).ok_or("no URL")?;
    let expect = HttpExpect { body_contains: Some("up".to_owned()), ..HttpExpect::default() };
    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let refused = CheckKind::parse(&format!("tcp://{closed}")).ok_or("no target")?;
    let mut checks = vec![
        Check::new("http", HttpCheck { expect, ..HttpCheck::new(url) }),
        Check::new("refused", refused),
        Check::new("file", FileCheck::new("/etc/hosts".into())),
    ];
    for check in &mut checks {
        check.pace = Pace::every(Duration::from_millis(300));
    }

    let connector = Arc::new(Connector::open(&EgressOptions::default())?);
    let mut shared = SharedResources::new(Arc::clone(&connector));
    let stats = StatsByCheck::default().of(checks.iter().map(|check| check.name.as_str()));
    let mut runs = Vec::new();
    for (number, check) in checks.iter().enumerate() {
        if let Some(runner) = Runner::build(check, &mut shared)? {
            runs.push(Run::new(number, check, "example", Arc::new(runner), Arc::clone(&stats[number])));
        }
    }
    let (plan, _push) = Plan::new(runs, stats, 64, Arc::default());
    let scheduler = plan.start(Arc::new(Printer { checks, start: Instant::now() }))?.go();
    std::thread::sleep(Duration::from_secs(3));
    drop(scheduler);
    Ok(())
}
