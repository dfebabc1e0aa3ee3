//! Probes that are refused before anything is sent.

use super::*;
use crate::{Parameter, Problem};

fn probe(target: &str, prober: Prober) -> Probe {
    Probe::of(Target::parse(target).unwrap(), prober)
}

/// Returns the reason why a probe is refused, and checks that `run` reports the same one.
fn refusal(probe: &Probe) -> String {
    let problem = probe.problem().expect("a problem").to_string();
    let report = probe.run();
    assert_eq!((report.verdict, &report.reason), (Verdict::ProtocolFailed, &problem));
    assert!(report.sent.is_empty());
    problem
}

#[test]
fn line_ends_do_not_reach_the_request() {
    let target = "http://127.0.0.1:1/";
    for host in ["a\r\nX-Admin: 1", "a\n", "\u{e9}"] {
        let host = Some(host.to_owned());
        for target in [target, "grpc://127.0.0.1:1"] {
            let refused = refusal(&Probe { host: host.clone(), ..probe(target, Prober::Doorbell) });
            assert!(refused.starts_with("invalid host "), "{refused}");
        }
    }
    for (name, value) in [("X-A", "b\r\nX-Admin: 1"), ("X-A: b\r\nX", "1"), ("", "1"), ("X A", "1")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let refused = refusal(&Probe { headers, ..probe(target, Prober::Kubelet) });
        assert!(refused.starts_with("invalid header field "), "{refused}");
    }
    let Target::Http(url) = Target::parse(target).unwrap() else { panic!("an HTTP target") };
    let url = doorbell_checks::options::Url { target: "/ HTTP/1.1\r\nX-Admin: 1\r\n".into(), ..url };
    let refused = refusal(&Probe::of(Target::Http(url), Prober::Doorbell));
    assert!(refused.starts_with("invalid target "), "{refused}");
    assert!(
        refusal(&Probe::of(Target::Check("garbage".into()), Prober::Doorbell))
            .starts_with("invalid target \"garbage\": expected http://")
    );
    let headers = vec![("X-A".to_owned(), "b\tc".to_owned()), ("Accept".to_owned(), String::new())];
    assert_eq!(Probe { headers, ..probe(target, Prober::Kubelet) }.problem(), None);
}

#[test]
fn parameters_that_would_be_ignored_are_refused() {
    type Change = fn(&mut Probe);
    let header: Change = |probe| probe.headers = vec![("a".into(), "b".into())];
    let host: Change = |probe| probe.host = Some("a".into());
    let proxy: Change = |probe| probe.proxy_header = Some(ProxyHeader::V1);
    let state: Change = |probe| probe.send_state = true;
    let statuses: Change = |probe| probe.statuses = Some(vec![200..=299]);
    for (change, parameter, target, is_refused) in [
        (header, Parameter::Headers, "tcp://a:1", true),
        (header, Parameter::Headers, "grpc://a:1", false),
        (host, Parameter::Host, "redis://a:1", true),
        (host, Parameter::Host, "http://a:1", false),
        (proxy, Parameter::ProxyHeader, "grpc://a:1", true),
        (proxy, Parameter::ProxyHeader, "udp://a:1", true),
        (proxy, Parameter::ProxyHeader, "icmp://a", true),
        (proxy, Parameter::ProxyHeader, "postgres://a", true),
        (proxy, Parameter::ProxyHeader, "unix:/a", true),
        (proxy, Parameter::ProxyHeader, "tls://a", false),
        (state, Parameter::SendState, "tcp://a:1", true),
        (statuses, Parameter::Statuses, "grpc://a:1", true),
        (statuses, Parameter::Statuses, "http://a:1", false),
    ] {
        let mut probe = probe(target, Prober::Doorbell);
        change(&mut probe);
        let expected = is_refused.then(|| Problem::NoEffect(parameter, probe.target.clone()));
        assert_eq!(probe.problem(), expected, "{target}");
        if is_refused {
            assert_eq!(refusal(&probe), format!("{parameter} has no effect on {}", probe.target));
        }
    }
    let mut other = probe("http://127.0.0.1:1/", Prober::Kubelet);
    state(&mut other);
    assert_eq!(refusal(&other), "send_state is a feature of HAProxy");
}

#[test]
fn probers_are_not_imitated_in_protocols_that_they_do_not_support() {
    for target in ["http://127.0.0.1:1/", "tcp://127.0.0.1:1"] {
        let refused = refusal(&probe(target, Prober::GrpcHealthProbe));
        assert!(refused.starts_with("grpc_health_probe supports gRPC only"), "{refused}");
    }
    for (prober, name) in [
        (Prober::Apache, "apache"),
        (Prober::Azure, "azure"),
        (Prober::Haproxy, "haproxy"),
        (Prober::Keepalived, "keepalived"),
        (Prober::Route53, "route53"),
    ] {
        let refused = refusal(&probe("grpc://127.0.0.1:1", prober));
        assert_eq!(refused, format!("{name} does not support gRPC"));
        assert_eq!(probe("tcp://127.0.0.1:1", prober).problem(), None);
    }
}
