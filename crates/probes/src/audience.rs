//! Maps each prober to its audience. An endpoint defines the effect of a drain per audience.

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
