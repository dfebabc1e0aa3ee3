//! The audience that a prober belongs to: the effect of a drain may differ for each.
//!
//! Does not know about: how a prober is recognised.

use doorbell_health::Audience;
use doorbell_http::prober::Prober;

/// The audience of a prober; [`Audience::Other`] for an unknown client.
#[must_use]
pub const fn audience_of(prober: Option<Prober>) -> Audience {
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
