//! doorbell behind those who probe it: for each, a configuration that fits and the facts it rests on.
//!
//! Does not know about: the engine. The files are for the program `doorbell`; each passes `doorbell check --strict`.
//!
//! | page | who asks |
//! |---|---|
//! | [`alb`] | AWS Application Load Balancer |
//! | [`azure`] | Azure Load Balancer and Application Gateway |
//! | [`consul`] | Consul |
//! | [`docker`] | Docker's HEALTHCHECK |
//! | [`envoy`] | Envoy's active health checks |
//! | [`gcp`] | Google Cloud load balancers |
//! | [`haproxy`] | HAProxy |
//! | [`kubernetes`] | the kubelet |
//! | [`nlb`] | AWS Network Load Balancer |
//!
//! Whichever it is, see what it will be told before it asks: `doorbell probe http://HOST:8080/readyz --as kubelet -v`, and the same with
//! `haproxy`, `elb`, `gcp`, `azure`, `envoy`, `consul`.

pub mod alb;
pub mod azure;
pub mod consul;
pub mod docker;
pub mod envoy;
pub mod gcp;
pub mod haproxy;
pub mod kubernetes;
pub mod nlb;
