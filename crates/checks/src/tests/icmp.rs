//! ICMP echo in a network namespace of its own, where the test can change the settings of the
//! kernel: the permission for ICMP sockets, and whether the kernel replies.

use super::kinds::{is, is_within};
use super::*;
use doorbell_testkit::skip::{Need, skipped};
use std::process::Command;

/// Environment variable that is set for the run in the namespace.
const INSIDE: &str = "DOORBELL_ICMP_NAMESPACE";

/// Exit code if the namespace cannot be prepared.
const NO_NAMESPACE: i32 = 99;

fn icmp(host: &str) -> IcmpCheck {
    IcmpCheck::new(HostPort::parse_host(host).unwrap())
}

fn set(setting: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap();
}

/// Runs this test again in a network namespace of its own.
#[test]
fn hosts_reply_to_an_echo() {
    if std::env::var_os(INSIDE).is_some() {
        return echoes();
    }
    let script = format!(
        "ip link set lo up && test -w /proc/sys/net/ipv4/ping_group_range || exit {NO_NAMESPACE}
         exec \"$0\" --exact --nocapture tests::icmp::hosts_reply_to_an_echo"
    );
    let this = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]).arg(this).env(INSIDE, "1");
    match inside.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() != Some(101) => {
            skipped(
                Need::Clients,
                format_args!("a network namespace: {}", String::from_utf8_lossy(&output.stderr)),
            );
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skipped(Need::Clients, format_args!("unshare: {error}")),
    }
}

fn echoes() {
    // By default, the kernel permits ICMP sockets to no group.
    let reason = "ICMP sockets are not permitted: `sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"`";
    is(icmp("127.0.0.1"), Outcome::Error, reason);
    is(icmp("::1"), Outcome::Error, reason);
    // The only group of this user namespace.
    set("ipv4/ping_group_range", "0 0");
    for host in ["127.0.0.1", "::1", "localhost"] {
        is(icmp(host), Outcome::Success, "");
        is(IcmpCheck { size: 8, ..icmp(host) }, Outcome::Success, "");
    }
    is(IcmpCheck { size: 65_507, ..icmp("127.0.0.1") }, Outcome::Success, "");
    is(icmp("192.0.2.1"), Outcome::Failure, "192.0.2.1: network is unreachable");
    is(icmp("2001:db8::1"), Outcome::Failure, "2001:db8::1: network is unreachable");
    // An address without a route does not hide the next one.
    let addrs = ["[2001:db8::1]:0", "127.0.0.1:0"].map(|addr| addr.parse().unwrap());
    let named = runner_with(pace(TIMEOUT), icmp("a.test"), &names::connector_to(addrs.into()));
    assert_eq!(block_on(named.run()).outcome, Outcome::Success);
    let latency = LatencyRule { degraded_above: Some(Duration::from_nanos(1)), ..LatencyRule::default() };
    is(IcmpCheck { latency, ..icmp("::1") }, Outcome::Degraded, "above the maximum of");
    hops();
    set("ipv4/icmp_echo_ignore_all", "1");
    is_within(SOON, icmp("127.0.0.1"), Outcome::Timeout, "no response within 1s");
    // The last of three requests gets a reply.
    let replies = std::thread::spawn(|| {
        #[expect(clippy::disallowed_methods, reason = "the kernel replies after a while in real time")]
        std::thread::sleep(Duration::from_millis(500));
        set("ipv4/icmp_echo_ignore_all", "0");
    });
    is(IcmpCheck { sends: 3, ..icmp("127.0.0.1") }, Outcome::Success, "");
    replies.join().unwrap();
}

/// The hop limit of a request is that of the check, and the one of the reply is observed.
fn hops() {
    let raw = (socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::ICMPV4));
    let mut all = socket2::Socket::new(raw.0, raw.1, raw.2).unwrap();
    all.set_read_timeout(Some(TIMEOUT)).unwrap();
    is(IcmpCheck { max_hops: Some(7), ..icmp("127.0.0.1") }, Outcome::Success, "");
    let mut packet = [0; 256];
    // The type of a message follows the header of IPv4, whose ninth byte is the TTL.
    while packet[20] != 8 {
        let _len = all.read(&mut packet).unwrap();
    }
    assert_eq!(packet[8], 7);
    is(IcmpCheck { max_hops: Some(1), ..icmp("::1") }, Outcome::Success, "");
    set("ipv4/ip_default_ttl", "33");
    set("ipv6/conf/all/hop_limit", "34");
    set("ipv6/conf/lo/hop_limit", "34");
    for (host, hops) in [("127.0.0.1", 33), ("::1", 34)] {
        let trace = Trace::begin();
        let finding = block_on(runner(icmp(host)).run_traced(&trace));
        assert_eq!((finding.outcome, trace.seen().hop_limit), (Outcome::Success, Some(hops)), "{host}");
    }
}
