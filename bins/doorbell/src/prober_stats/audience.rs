//! Whom a prober asks for: what a drain tells each may differ.
//!
//! Does not know about: how a prober is told from others.

use crate::http::prober::Prober;
use doorbell_health::Audience;

pub(crate) const fn audience_of(prober: Option<Prober>) -> Audience {
    match prober {
        Some(Prober::Kubelet) => Audience::Kubelet,
        Some(
            Prober::Azure
            | Prober::Cloudflare
            | Prober::Consul
            | Prober::Elb
            | Prober::Envoy
            | Prober::Google
            | Prober::Haproxy
            | Prober::Keepalived
            | Prober::Route53
            | Prober::Tcp,
        ) => Audience::LoadBalancer,
        Some(_) | None => Audience::Other,
    }
}
