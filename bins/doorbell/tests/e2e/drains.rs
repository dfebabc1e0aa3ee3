//! Drains of one endpoint, drains with a duration, and hooks that wait: their effect on probers,
//! and restarts.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Reply, exchange, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::agents::{await_line, line};
use crate::control::Controlled;
use crate::grpc::{block_on, check, next, watch};
use crate::support::{LIMIT, at_most, free_addr, on_auto};

on_auto! {
    the_drain_of_one_endpoint_is_reported_everywhere
    a_limited_drain_ends
    a_hook_waits_for_drain_delay
}

fn config(agent: SocketAddr, gate: SocketAddr) -> String {
    format!(
        "[lifecycle]\ndrain_delay = \"0s\"\nstate_file = \"SCRATCH/state\"\n\
         [health.readyz]\n[health.orders]\non_drain = {{ kubelet = \"ignore\" }}\n\
         [route.readyz]\nlistener = \"probes\"\npath = \"/readyz\"\nhealth = \"readyz\"\n\
         [route.orders]\nlistener = \"probes\"\npath = \"/orders\"\nhealth = \"orders\"\ndetails = \"always\"\n\
         [listener.rpc]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n[grpc]\nservices = {{ orders = \"orders\" }}\n\
         [agent.orders]\nbind = \"{agent}\"\nhealth = \"orders\"\n[tcp_gate.orders]\nbind = \"{gate}\"\nhealth = \"orders\"\n"
    )
}

fn kubelet(control: &Controlled, path: &str) -> u16 {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n");
    Reply::parse(&exchange(control.doorbell.addr, request.as_bytes()).unwrap().bytes, false).unwrap().status
}

fn the_drain_of_one_endpoint_is_reported_everywhere(engine: &str) {
    let (agent, gate) = (free_addr(), free_addr());
    let config = config(agent, gate);
    let control = Controlled::start(engine, &config);
    let gate_is = |open: bool| {
        wait_until(LIMIT, || TcpStream::connect(gate).is_ok() == open)
            .expect("the gate must follow the endpoint")
    };
    gate_is(true);
    let said = control.say(&["drain", "orders", "--reason", "new disks"]);
    assert!(said.contains("orders: draining") && !said.contains("not kept"), "{said}");
    assert_eq!(control.probe("/orders"), (503, "drain\nreason: new disks\n".to_owned()));
    assert_eq!(kubelet(&control, "/orders"), 200, "the kubelet must not see the drain");
    assert_eq!(control.probe("/readyz").0, 200, "another one");
    assert_eq!(line(agent, b""), "up drain 100% # new disks\n");
    gate_is(false);
    let status = control.status();
    assert_eq!((&status["lifecycle"], &status["drains"][0]["endpoint"]), (&"ready".into(), &"orders".into()));
    let text = control.say(&["status"]);
    assert!(text.contains("drain       orders: new disks (until ended)"), "{text}");
    let log = control.say(&["events"]);
    assert!(
        log.contains("orders: draining (new disks)") && log.contains("health orders: up -> drain"),
        "{log}"
    );

    // Drains of one endpoint and of all endpoints survive a restart.
    control.say(&["drain", "--reason", "kernel"]);
    assert_eq!((control.probe("/readyz").0, control.probe("/orders").0), (503, 503));
    let scratch = control.kill();
    let control = Controlled::start_in(scratch, engine, &config);
    assert_eq!(
        (control.probe("/readyz").0, control.probe("/orders").0),
        (503, 503),
        "the drains must apply from the first probe on"
    );
    assert!(
        control
            .say(&["undrain", "orders"])
            .contains("the drain of all endpoints continues: `doorbell undrain` ends it")
    );
    control.say(&["undrain"]);
    assert_eq!((control.probe("/readyz").0, control.probe("/orders").0), (200, 200));

    let services = control.doorbell.addr_of(1);
    block_on(async {
        let mut client = HealthClient::new(channel_at(services).await);
        let mut stream = watch(&mut client, "orders").await;
        assert_eq!(next(&mut stream).await, Ok(ServingStatus::Serving));
        control.say(&["drain", "orders"]);
        assert_eq!(next(&mut stream).await, Ok(ServingStatus::NotServing));
        assert_eq!(check(&mut client, "orders").await, Ok(ServingStatus::NotServing));
        assert_eq!(check(&mut client, "").await, Ok(ServingStatus::Serving));
        control.say(&["undrain", "orders"]);
        assert_eq!(next(&mut stream).await, Ok(ServingStatus::Serving));
    });
    await_line(agent, b"", "up ready 100%\n");
    gate_is(true);
    let refused = control.run(&["drain", "unknown"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

async fn channel_at(addr: SocketAddr) -> tonic::transport::Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{addr}")).unwrap();
    endpoint.connect_timeout(LIMIT).connect().await.unwrap()
}

fn a_limited_drain_ends(engine: &str) {
    let control = Controlled::start(engine, "[lifecycle]\ndrain_delay = \"200ms\"\n");
    let began = Instant::now();
    control.say(&["drain", "--for", "1s"]);
    control.say(&["drain", "readyz", "--for", "2s", "--wait"]);
    assert!(
        began.elapsed() >= Duration::from_millis(200),
        "the wait must include drain_delay: {:?}",
        began.elapsed()
    );
    wait_until(LIMIT, || control.status()["lifecycle"] == "ready")
        .expect("the drain of all endpoints must end first");
    if began.elapsed() < Duration::from_millis(1_900) {
        assert_eq!(control.probe("/readyz").0, 503, "the drain of readyz continues");
    }
    wait_until(LIMIT, || control.probe("/readyz").0 == 200).expect("it ends");
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    // With connections still open, the wait ends after its timeout.
    let _open = TcpStream::connect(control.doorbell.addr).unwrap();
    wait_until(LIMIT, || control.status()["counters"]["conns_live"] == 1).unwrap();
    let late = control.run(&["drain", "--wait", "400ms"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&late.stderr).contains("1 connections are still open"), "{late:?}");
}

fn a_hook_waits_for_drain_delay(engine: &str) {
    /// The configured delay, which must pass only once.
    const DELAY: Duration = Duration::from_secs(1);
    let text = "[lifecycle]\ndrain_delay = \"1s\"\nstate_file = \"SCRATCH/state\"\n";
    let mut control = Controlled::start(engine, text);
    // An open connection does not delay the hook, because it is closed after SIGTERM.
    let _open = TcpStream::connect(control.doorbell.addr).unwrap();
    let began = Instant::now();
    let hook = std::thread::scope(|scope| {
        let hook = scope.spawn(|| control.say(&["prestop"]));
        wait_until(LIMIT, || control.probe("/readyz").0 == 503).expect("reported immediately");
        hook.join().unwrap()
    });
    assert!(hook.contains("drain_delay has passed"), "{hook}");
    assert!(began.elapsed() >= DELAY, "the hook ended before drain_delay: {:?}", began.elapsed());
    control.doorbell.process.signal(Signal::TERM);
    drop(_open);
    let (status, took) = control.doorbell.process.wait();
    assert_eq!(status.code(), Some(0));
    at_most(format_args!("{engine}: stop after the hook, without a second delay"), took, DELAY);
    assert!(!fs::exists(control.scratch.path("state")).unwrap(), "a hook must not save its drain");

    let control = Controlled::start_in(control.scratch, engine, text);
    assert_eq!(control.probe("/readyz").0, 200, "a restarted container starts without the drain");
    let called_off = std::thread::scope(|scope| {
        let hook = scope.spawn(|| control.say(&["prestop"]));
        wait_until(LIMIT, || control.probe("/readyz").0 == 503).unwrap();
        control.say(&["undrain"]);
        hook.join().unwrap()
    });
    assert!(called_off.contains("the drain was cancelled"), "{called_off}");
    let status: Value = control.status();
    assert_eq!((&status["lifecycle"], &status["observed_in_ms"]), (&"ready".into(), &Value::Null));
}
