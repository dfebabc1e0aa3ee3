//! The result of a probe, with the names that blackbox_exporter gives its metrics.
//!
//! Does not know about: how a probe is made.

use doorbell_checks::{CertificateInfo, Phases, Seen};
use hyper::Version;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything that is known of one probe.
#[derive(Clone, Debug)]
pub(crate) struct Exported {
    pub(crate) kind: Kind,
    pub(crate) timeout: Duration,
    pub(crate) is_success: bool,
    /// Whether it is not because of the time that it took.
    pub(crate) is_overdue: bool,
    /// How long the names took that were looked up.
    pub(crate) lookup: Duration,
    pub(crate) redirects: u32,
    /// Of all redirects together.
    pub(crate) phases: Phases,
    /// Of the last answer.
    pub(crate) seen: Seen,
}

/// By which of the exporter's probers it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Grpc,
    Http,
    /// TLS without anything in it, too.
    Tcp,
}

impl Exported {
    pub(crate) fn new(kind: Kind, timeout: Duration) -> Self {
        Self {
            kind,
            timeout,
            is_success: false,
            is_overdue: false,
            lookup: Duration::ZERO,
            redirects: 0,
            phases: Phases::default(),
            seen: Seen::default(),
        }
    }

    /// In the text format of Prometheus, by name.
    pub(crate) fn finished(&self, duration: Duration) -> String {
        let mut all = Metrics::default();
        all.gauge("probe_dns_lookup_time_seconds", "How long the lookup of names took", secs(self.lookup));
        all.gauge("probe_duration_seconds", "How long the probe took", secs(duration));
        match self.kind {
            Kind::Grpc => self.grpc(&mut all),
            Kind::Http => self.http(&mut all),
            Kind::Tcp => {
                all.gauge("probe_failed_due_to_regex", "Whether an expression did not match", 0);
            }
        }
        let hash = "Hash of the address, to see when it changes";
        all.gauge("probe_ip_addr_hash", hash, self.seen.address.map_or(0, hash_of));
        let protocol = self.seen.address.map_or(0, |ip| if ip.is_ipv4() { 4 } else { 6 });
        all.gauge("probe_ip_protocol", "4 or 6, and 0 where no address is known", protocol);
        let is_grpc = self.kind == Kind::Grpc;
        // The exporter says 0 of gRPC without TLS, and nothing of others.
        if let Some(ends) = self.seen.certificate_ends.or_else(|| is_grpc.then_some(Duration::ZERO)) {
            let what = "When the first certificate of the chain ends, in unixtime";
            all.gauge("probe_ssl_earliest_cert_expiry", what, secs(ends));
        }
        if let Some(ends) = self.seen.chain_ends.filter(|_| !is_grpc) {
            let what = "When the chain ends that was believed, in unixtime";
            all.gauge("probe_ssl_last_chain_expiry_timestamp_seconds", what, secs(ends));
        }
        if let Some(named) = &self.seen.certificate {
            let help = "The certificate that the server showed, by what names it";
            all.labelled("probe_ssl_last_chain_info", help, &[(&labels_of(named), 1.0)]);
        }
        all.gauge("probe_success", "Whether the probe was a success", u8::from(self.is_success));
        all.gauge("probe_timeout_seconds", "How long the probe might have taken", secs(self.timeout));
        if let Some(version) = &self.seen.tls_version {
            let value = format!("version=\"{}\"", tls_name(version));
            all.labelled("probe_tls_version_info", "The version of TLS", &[(&value, 1.0)]);
        }
        all.0
    }

    fn http(&self, all: &mut Metrics) {
        let length = match (self.seen.status, self.seen.content_length) {
            (None, _) => "0".to_owned(),
            (_, None) => "-1".to_owned(),
            (_, Some(length)) => length.to_string(),
        };
        all.gauge("probe_failed_due_to_regex", "Whether an expression did not match", 0);
        all.gauge("probe_http_content_length", "Length of the content as the answer says it", length);
        let phases =
            self.phases.named().map(|(name, took)| (format!("phase=\"{name}\""), took.as_secs_f64()));
        let phases = phases.each_ref().map(|(label, took)| (label.as_str(), *took));
        // Of a name without an address there is no more.
        let phases = if self.seen.address.is_some() { &phases[..] } else { &phases[..1] };
        all.labelled("probe_http_duration_seconds", "How long the parts took, of all redirects", phases);
        if let Some(at) = self.seen.last_modified.as_deref().and_then(modified_at) {
            all.gauge(
                "probe_http_last_modified_timestamp_seconds",
                "Last-Modified of the answer, in unixtime",
                secs(at),
            );
        }
        all.gauge("probe_http_redirects", "How many redirects there were", self.redirects);
        all.gauge(
            "probe_http_ssl",
            "Whether TLS was used for the last redirect",
            u8::from(self.seen.tls_version.is_some()),
        );
        all.gauge("probe_http_status_code", "Status of the answer", self.seen.status.unwrap_or(0));
        let body_len = self.seen.body_len;
        all.gauge("probe_http_uncompressed_body_length", "Length of the content that was read", body_len);
        let version = match self.seen.version {
            Some(Version::HTTP_10) => "1",
            Some(Version::HTTP_11) => "1.1",
            Some(Version::HTTP_2) => "2",
            _ => "0",
        };
        all.gauge("probe_http_version", "Version of HTTP of the answer", version);
    }

    fn grpc(&self, all: &mut Metrics) {
        let Phases { resolve, connect, tls, processing, transfer } = self.phases;
        let check = connect + tls + processing + transfer;
        let phases = [("phase=\"check\"", check.as_secs_f64()), ("phase=\"resolve\"", resolve.as_secs_f64())];
        // Of a name without an address there is no more.
        let is_asked = self.seen.address.is_some();
        let phases = if is_asked { &phases[..] } else { &phases[1..] };
        all.labelled("probe_grpc_duration_seconds", "How long the parts took", phases);
        const ALL: [&str; 4] = ["NOT_SERVING", "SERVICE_UNKNOWN", "SERVING", "UNKNOWN"];
        let is = |status: &str| if self.seen.serving_status == Some(status) { 1.0 } else { 0.0 };
        let statuses = ALL.map(|status| (format!("serving_status=\"{status}\""), is(status)));
        let statuses = statuses.each_ref().map(|(label, value)| (label.as_str(), *value));
        if is_asked {
            all.labelled("probe_grpc_healthcheck_response", "What the health check said", &statuses);
        }
        all.gauge("probe_grpc_ssl", "Whether TLS was used", u8::from(self.seen.tls_version.is_some()));
        let status = match self.seen.grpc_status {
            Some(status) => status,
            None if !is_asked => 0,
            // DEADLINE_EXCEEDED and UNAVAILABLE are what a client says by itself.
            None if self.is_overdue => 4,
            None => 14,
        };
        all.gauge("probe_grpc_status_code", "Status of the call", status);
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

    fn labelled(&mut self, name: &str, help: &str, values: &[(&str, f64)]) {
        self.head(name, help);
        for (labels, value) in values {
            let _infallible = writeln!(self.0, "{name}{{{labels}}} {value}");
        }
    }

    fn head(&mut self, name: &str, help: &str) {
        let _infallible = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }
}

fn secs(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// FNV-1a of the bytes of an address, in 32 bits.
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

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// As Go writes it.
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

    #[test]
    fn addresses_have_the_hashes_of_fnv() {
        // FNV's own test vector of these four bytes, then what blackbox_exporter 0.23 says of the loopback.
        assert_eq!(hash_of(IpAddr::from(*b"foob")), 0x3f50_76ef);
        assert_eq!(hash_of(IpAddr::from([127, 0, 0, 1])), 3_668_918_509);
        // Go's hash/fnv of 16 bytes.
        assert_eq!(hash_of("::1".parse().unwrap()), 0x6869_1772);
        assert_eq!(hash_of("::ffff:102.111.111.98".parse().unwrap()), 0x3f50_76ef);
    }

    #[test]
    fn names_and_values() {
        let mut report = Exported::new(Kind::Http, Duration::from_secs(5));
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
        let text = report.finished(Duration::from_millis(1500));
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
        // Each has one name, with its words before it.
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = names.clone();
        once.dedup();
        assert_eq!(names, once);
    }
}
