//! doorbell behind those who probe it: for each, a configuration that fits and the facts it rests on.
//!
//! Does not know about: the engine. The files are for the program `doorbell`; each passes `doorbell check --strict`.
//!
//! | page | who asks |
//! |---|---|
//! | [`alb`] | AWS Application Load Balancer |
//! | [`apache`] | Apache's mod_proxy_hcheck |
//! | [`azure`] | Azure Load Balancer and Application Gateway |
//! | [`consul`] | Consul |
//! | [`docker`] | Docker's HEALTHCHECK |
//! | [`envoy`] | Envoy's active health checks |
//! | [`gcp`] | Google Cloud load balancers |
//! | [`haproxy`] | HAProxy |
//! | [`keepalived`] | keepalived: scripts of VRRP, real servers of LVS |
//! | [`kubernetes`] | the kubelet |
//! | [`nginx`] | nginx, and NGINX Plus |
//! | [`nlb`] | AWS Network Load Balancer |
//! | [`prometheus`] | blackbox_exporter and Prometheus |
//! | [`route53`] | Amazon Route 53 |
//!
//! Whichever it is, see what it will be told before it asks: `doorbell probe http://HOST:8080/readyz --as kubelet -v`, and the same with
//! `apache`, `azure`, `blackbox`, `consul`, `elb`, `envoy`, `gcp`, `haproxy`, `keepalived`, `route53`, and with `grpc-health-probe` for gRPC.

pub mod alb;
pub mod apache;
pub mod azure;
pub mod consul;
pub mod docker;
pub mod envoy;
pub mod gcp;
pub mod haproxy;
pub mod keepalived;
pub mod kubernetes;
pub mod nginx;
pub mod nlb;
pub mod prometheus;
pub mod route53;
