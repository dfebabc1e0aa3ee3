//! The result of a probe as metrics with the names of blackbox_exporter.

use super::probe::Probe;
use super::report::{Report, Verdict};
use super::target::Target;
use doorbell_checks::{CertificateInfo, Phases};
use hyper::Version;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The result of one probe, for metrics.
#[derive(Debug)]
pub struct Exported {
    pub(crate) kind: Kind,
    pub(crate) timeout: Duration,
    /// Time of the name lookups.
    pub lookup: Duration,
    /// The report of the probe.
    pub report: Report,
}

/// Kind of a probe, as the value of `prober` in a module of blackbox_exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A query.
    Dns,
    /// A health check of a gRPC service.
    Grpc,
    /// A request, with redirects.
    Http,
    /// An echo.
    Icmp,
    /// TCP, TLS handshakes, and all protocols for which the exporter has no prober, such as UDP.
    Tcp,
}

impl Report {
    /// Converts the report into metrics of blackbox_exporter.
    #[must_use]
    pub fn exported(&self, probe: &Probe) -> String {
        let kind = match probe.target {
            Target::Grpc { .. } => Kind::Grpc,
            Target::Http(_) => Kind::Http,
            Target::Icmp(_) => Kind::Icmp,
            Target::Check(_)
            | Target::Redis(_)
            | Target::Tcp(_)
            | Target::Tls(_)
            | Target::Udp(_)
            | Target::Unix(_) => Kind::Tcp,
        };
        Exported { kind, timeout: probe.timeout, lookup: self.phases.resolve, report: self.clone() }
            .finished()
    }
}

impl Exported {
    /// A result without observations.
    #[must_use]
    pub fn new(kind: Kind, timeout: Duration) -> Self {
        Self { kind, timeout, lookup: Duration::ZERO, report: Report::default() }
    }

    /// The metrics in the text format of Prometheus, sorted by name.
    #[must_use]
    pub fn finished(&self) -> String {
        let mut all = Metrics::default();
        if self.kind == Kind::Dns {
            self.records(&mut all);
        }
        all.gauge("probe_dns_lookup_time_seconds", "Time of the name lookups in seconds", secs(self.lookup));
        if self.kind == Kind::Dns {
            self.query(&mut all);
        }
        all.gauge("probe_duration_seconds", "Duration of the probe in seconds", secs(self.report.total));
        match self.kind {
            Kind::Dns => {}
            Kind::Grpc => self.grpc(&mut all),
            Kind::Http => self.http(&mut all),
            Kind::Icmp => self.icmp(&mut all),
            Kind::Tcp => self.regex(&mut all),
        }
        let hash = "Hash of the address, which shows when it changes";
        all.gauge("probe_ip_addr_hash", hash, self.report.seen.address.map_or(0, hash_of));
        let protocol = self.report.seen.address.map_or(0, |ip| if ip.is_ipv4() { 4 } else { 6 });
        all.gauge("probe_ip_protocol", "IP version, or 0 if no address is known", protocol);
        let is_grpc = self.kind == Kind::Grpc;
        // Without TLS, the exporter reports 0 for gRPC and nothing for other probes.
        if let Some(ends) = self.report.seen.certificate_ends.or_else(|| is_grpc.then_some(Duration::ZERO)) {
            let what = "Earliest expiry of a certificate of the chain, in unixtime";
            all.gauge("probe_ssl_earliest_cert_expiry", what, secs(ends));
        }
        if let Some(ends) = self.report.seen.chain_ends.filter(|_| !is_grpc) {
            let what = "Expiry of the verified chain, in unixtime";
            all.gauge("probe_ssl_last_chain_expiry_timestamp_seconds", what, secs(ends));
        }
        if let Some(named) = &self.report.seen.certificate {
            let help = "Names of the server's certificate";
            all.head("probe_ssl_last_chain_info", help);
            let _infallible = writeln!(all.0, "probe_ssl_last_chain_info{{{}}} 1", labels_of(named));
        }
        all.gauge(
            "probe_success",
            "1 if the probe succeeded",
            u8::from(self.report.verdict == Verdict::Healthy),
        );
        all.gauge("probe_timeout_seconds", "Timeout of the probe in seconds", secs(self.timeout));
        if let Some(version) = &self.report.seen.tls_version {
            all.labelled("probe_tls_version_info", "TLS version", "version", &[(tls_name(version), 1.0)]);
        }
        all.0
    }

    /// The metrics of a DNS query that sort before `probe_dns_lookup_time_seconds`.
    fn records(&self, all: &mut Metrics) {
        let answer = self.report.seen.dns.unwrap_or_default();
        all.gauge("probe_dns_additional_rrs", "Number of additional records", answer.additional);
        all.gauge("probe_dns_answer_rrs", "Number of records in the answer", answer.answers);
        all.gauge("probe_dns_authority_rrs", "Number of authority records", answer.authority);
        self.exchange(all, "probe_dns_duration_seconds", ["resolve", "connect", "request"]);
    }

    /// The metrics of a DNS query that sort after `probe_dns_lookup_time_seconds`.
    fn query(&self, all: &mut Metrics) {
        let is_answered = u8::from(self.report.seen.dns.is_some());
        all.gauge("probe_dns_query_succeeded", "1 if the name server answered", is_answered);
        if let Some(serial) = self.report.seen.dns.and_then(|answer| answer.serial) {
            all.gauge("probe_dns_serial", "Serial number of the zone", serial);
        }
    }

    fn icmp(&self, all: &mut Metrics) {
        self.exchange(all, "probe_icmp_duration_seconds", ["resolve", "setup", "rtt"]);
        if let Some(hops) = self.report.seen.hop_limit {
            all.gauge("probe_icmp_reply_hop_limit", "Remaining hop limit (TTL) of the reply", hops);
        }
    }

    /// The duration of an exchange of datagrams in three phases: lookup, opening a socket, and the
    /// exchange.
    fn exchange(&self, all: &mut Metrics, name: &str, phases: [&str; 3]) {
        let Phases { resolve, connect, tls: _, processing, transfer } = self.report.phases;
        // The target of the check is already an address, so the rest of `resolve` counts as opening
        // the socket.
        let times = [self.lookup, resolve.saturating_sub(self.lookup) + connect, processing + transfer];
        let values: Vec<_> = phases.into_iter().zip(times.map(secs)).collect();
        all.labelled(name, "Duration of the phases in seconds", "phase", &values);
    }

    fn regex(&self, all: &mut Metrics) {
        let fails = u8::from(self.report.seen.fails_pattern);
        all.gauge("probe_failed_due_to_regex", "1 if a regular expression did not match", fails);
    }

    fn http(&self, all: &mut Metrics) {
        let length = match (self.report.seen.status, self.report.seen.content_length) {
            (None, _) => "0".to_owned(),
            (_, None) => "-1".to_owned(),
            (_, Some(length)) => length.to_string(),
        };
        self.regex(all);
        all.gauge("probe_http_content_length", "Content-Length of the response, or -1", length);
        let phases = self.report.phases.named().map(|(name, took)| (name, secs(took)));
        // A name without an address only has the lookup phase.
        let phases = if self.report.seen.address.is_some() { &phases[..] } else { &phases[..1] };
        let help = "Duration of the phases in seconds, over all redirects";
        all.labelled("probe_http_duration_seconds", help, "phase", phases);
        if let Some(at) = self.report.seen.last_modified.as_deref().and_then(modified_at) {
            let help = "Last-Modified of the response, in unixtime";
            all.gauge("probe_http_last_modified_timestamp_seconds", help, secs(at));
        }
        all.gauge("probe_http_redirects", "Number of redirects", self.report.redirects);
        let is_tls = u8::from(self.report.seen.tls_version.is_some());
        all.gauge("probe_http_ssl", "1 if the last request used TLS", is_tls);
        all.gauge(
            "probe_http_status_code",
            "Status code of the response",
            self.report.seen.status.unwrap_or(0),
        );
        let body_len = self.report.seen.body_len;
        all.gauge("probe_http_uncompressed_body_length", "Length of the content", body_len);
        let version = match self.report.seen.version {
            Some(Version::HTTP_10) => "1",
            Some(Version::HTTP_11) => "1.1",
            Some(Version::HTTP_2) => "2",
            _ => "0",
        };
        all.gauge("probe_http_version", "HTTP version of the response", version);
    }

    fn grpc(&self, all: &mut Metrics) {
        let Phases { resolve, connect, tls, processing, transfer } = self.report.phases;
        let check = connect + tls + processing + transfer;
        let phases = [("check", secs(check)), ("resolve", secs(resolve))];
        // A name without an address only has the lookup phase.
        let has_address = self.report.seen.address.is_some();
        let phases = if has_address { &phases[..] } else { &phases[1..] };
        all.labelled("probe_grpc_duration_seconds", "Duration of the phases in seconds", "phase", phases);
        const ALL: [&str; 4] = ["NOT_SERVING", "SERVICE_UNKNOWN", "SERVING", "UNKNOWN"];
        let is = |status| if self.report.seen.serving_status == Some(status) { 1.0 } else { 0.0 };
        if has_address {
            let statuses = ALL.map(|status| (status, is(status)));
            let help = "Serving status in the response";
            all.labelled("probe_grpc_healthcheck_response", help, "serving_status", &statuses);
        }
        all.gauge("probe_grpc_ssl", "1 if TLS was used", u8::from(self.report.seen.tls_version.is_some()));
        let status = match self.report.seen.grpc_status {
            Some(status) => status,
            None if !has_address => 0,
            // A gRPC client reports DEADLINE_EXCEEDED and UNAVAILABLE itself.
            None if self.report.verdict == Verdict::TimedOut => 4,
            None => 14,
        };
        all.gauge("probe_grpc_status_code", "gRPC status code", status);
    }
}

/// Metrics in the text format 0.0.4.
#[derive(Debug, Default)]
struct Metrics(String);

impl Metrics {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help);
        let _infallible = writeln!(self.0, "{name} {value}");
    }

    /// Adds a metric with one label. Its values are words, which need no escapes.
    fn labelled(&mut self, name: &str, help: &str, label: &str, values: &[(&str, f64)]) {
        self.head(name, help);
        for (word, value) in values {
            let _infallible = writeln!(self.0, "{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    fn head(&mut self, name: &str, help: &str) {
        let _infallible = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }
}

fn secs(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// 32-bit FNV-1a of the bytes of an address.
fn hash_of(ip: IpAddr) -> u32 {
    let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().iter().fold(0x811c_9dc5, fold),
        IpAddr::V6(ip) => ip.octets().iter().fold(0x811c_9dc5, fold),
    }
}

fn labels_of(certificate: &CertificateInfo) -> String {
    let labels = [
        ("fingerprint_sha256", &certificate.fingerprint_sha256),
        ("subject", &certificate.subject),
        ("issuer", &certificate.issuer),
        ("subjectalternative", &certificate.names),
        ("serialnumber", &certificate.serial),
    ];
    labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).join(",")
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// The TLS version as Go formats it.
fn tls_name(version: &str) -> &str {
    match version {
        "TLSv1_2" => "TLS 1.2",
        "TLSv1_3" => "TLS 1.3",
        other => other,
    }
}

fn modified_at(text: &str) -> Option<Duration> {
    let at: SystemTime = httpdate::parse_http_date(text).ok()?;
    at.duration_since(UNIX_EPOCH).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::DnsAnswer;

    #[test]
    fn addresses_have_the_hashes_of_fnv() {
        // First a test vector of FNV, then the value of blackbox_exporter 0.23 for the loopback
        // address.
        assert_eq!(hash_of(IpAddr::from(*b"foob")), 0x3f50_76ef);
        assert_eq!(hash_of(IpAddr::from([127, 0, 0, 1])), 3_668_918_509);
        // The value of Go's hash/fnv for 16 bytes.
        assert_eq!(hash_of("::1".parse().unwrap()), 0x6869_1772);
        assert_eq!(hash_of("::ffff:102.111.111.98".parse().unwrap()), 0x3f50_76ef);
    }

    #[test]
    fn metrics_of_datagrams() {
        let ms = Duration::from_millis;
        let lines = |kind, change: fn(&mut Report)| {
            let mut exported = Exported::new(kind, ms(5000));
            // The check gets an address, so the 1 ms beyond the lookup is the time to open its socket.
            exported.lookup = ms(10);
            exported.report.phases = Phases { resolve: ms(11), processing: ms(20), ..Phases::default() };
            exported.report.total = ms(40);
            change(&mut exported.report);
            let text = exported.finished();
            let names = text.lines().filter(|line| !line.starts_with('#'));
            let names: Vec<String> = names.map(str::to_owned).collect();
            assert!(names.is_sorted_by_key(|line| line.split(['{', ' ']).next()), "{text}");
            names.join("\n")
        };
        let dns = lines(Kind::Dns, |report| {
            report.seen.dns = Some(DnsAnswer { answers: 3, authority: 2, additional: 1, serial: Some(7) });
        });
        for line in [
            "probe_dns_additional_rrs 1\nprobe_dns_answer_rrs 3\nprobe_dns_authority_rrs 2\n",
            "probe_dns_duration_seconds{phase=\"resolve\"} 0.01\n",
            "probe_dns_duration_seconds{phase=\"connect\"} 0.001\n",
            "probe_dns_duration_seconds{phase=\"request\"} 0.02\n",
            "probe_dns_query_succeeded 1\nprobe_dns_serial 7\n",
        ] {
            assert!(dns.contains(line), "{line} {dns}");
        }
        let none = lines(Kind::Dns, |_| {});
        assert!(none.contains("probe_dns_answer_rrs 0\n") && none.contains("probe_dns_query_succeeded 0\n"));
        assert!(!none.contains("probe_dns_serial"));
        let icmp = lines(Kind::Icmp, |report| report.seen.hop_limit = Some(63));
        assert!(icmp.contains("probe_icmp_duration_seconds{phase=\"setup\"} 0.001\n"), "{icmp}");
        assert!(icmp.contains("probe_icmp_reply_hop_limit 63\n"), "{icmp}");
        assert!(!lines(Kind::Icmp, |_| {}).contains("hop_limit"));
    }

    #[test]
    fn names_and_values() {
        let mut exported = Exported::new(Kind::Http, Duration::from_secs(5));
        let report = &mut exported.report;
        report.seen.last_modified = Some("Thu, 01 Jan 1970 00:01:00 GMT".to_owned());
        report.seen.tls_version = Some("TLSv1_3".to_owned());
        report.seen.status = Some(204);
        report.seen.address = Some(IpAddr::from([0, 0, 0, 0]));
        report.seen.certificate = Some(CertificateInfo {
            fingerprint_sha256: "ab".to_owned(),
            subject: "CN=a\"\\\n".to_owned(),
            issuer: "CN=b".to_owned(),
            names: "a.test".to_owned(),
            serial: "01".to_owned(),
        });
        report.total = Duration::from_millis(1500);
        let text = exported.finished();
        for line in [
            "probe_duration_seconds 1.5",
            "probe_http_last_modified_timestamp_seconds 60",
            "probe_tls_version_info{version=\"TLS 1.3\"} 1",
            "probe_http_content_length -1",
            "probe_http_duration_seconds{phase=\"resolve\"} 0",
            r#"probe_ssl_last_chain_info{fingerprint_sha256="ab",subject="CN=a\"\\\n",issuer="CN=b",subjectalternative="a.test",serialnumber="01"} 1"#,
            "probe_success 0",
            "probe_timeout_seconds 5",
            "probe_ip_protocol 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        // Each metric appears once, after its HELP and TYPE.
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = names.clone();
        once.dedup();
        assert_eq!(names, once);
    }
}
