//! Requests of well-known probers, byte for byte.

/// kubelet with `httpGet`.
pub const KUBELET: &[u8] = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/1.30\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// HAProxy `option httpchk` with its defaults.
pub const HAPROXY: &[u8] = b"OPTIONS /livez HTTP/1.0\r\n\r\n";

/// HAProxy `http-check send ... ver HTTP/1.1` with `send-state`.
pub const HAPROXY_STATE: &[u8] = b"GET /livez HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: UP 1/3; address=127.0.0.1; port=80; name=b/s1; node=vm; weight=1/1; scur=0/0; qcur=0\r\nconnection: close\r\n\r\n";

/// An AWS load balancer.
pub const ELB: &[u8] = b"GET /livez HTTP/1.1\r\nHost: 10.0.12.34:8080\r\nConnection: close\r\nUser-Agent: ELB-HealthChecker/2.0\r\nAccept-Encoding: gzip, compressed\r\n\r\n";

/// Envoy's active check, which keeps its connection.
pub const ENVOY: &[u8] = b"GET /livez HTTP/1.1\r\nhost: doorbell\r\nuser-agent: Envoy/HC\r\n\r\n";

/// The request of [`KUBELET`] on a persistent connection, as a load generator sends it.
pub const KEEP_ALIVE: &[u8] =
    b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/1.30\r\nAccept: */*\r\n\r\n";

/// A plain HTTP request that is redirected to HTTPS, with the header fields of a probe.
pub const REDIRECT: &[u8] = b"GET /old?q=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/1.30\r\nAccept: */*\r\nConnection: close\r\n\r\n";
