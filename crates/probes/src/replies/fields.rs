//! Header fields that depend on the state, for load balancers that evaluate more than the status
//! code.

use doorbell_health::EndpointState;

/// Header fields of a reply that depend on the state; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFields {
    /// Value of `Retry-After` in every 503 reply, in seconds.
    pub retry_after_secs: Option<u32>,
    /// Sends `x-envoy-degraded: true` while the endpoint is degraded and serves.
    pub envoy_degraded: bool,
    /// Sends `X-Load-Balancing-Endpoint-Weight`: the sum of the weights of the checks that are up
    /// or degraded. It is the sum of all weights if the endpoint serves although its checks fail,
    /// and 0 while the endpoint does not serve.
    pub endpoint_weight: bool,
}

/// Field with the time until the client should retry (RFC 9110 10.2.3).
const RETRY_AFTER: &str = "Retry-After";

/// Field that marks a host as degraded. Envoy uses a degraded host only if too few healthy ones
/// remain.
const DEGRADED: &str = "x-envoy-degraded";

/// Field with the share of traffic. Load balancers of Google Cloud read it; kube-proxy sends it,
/// too.
const WEIGHT: &str = "X-Load-Balancing-Endpoint-Weight";

/// The fields of a reply with this state and status code, except those that the route defines
/// itself (`own`). The weight of an endpoint that does not serve is 0.
pub(super) fn fields_of(
    wanted: StateFields,
    (state, code): (EndpointState, u16),
    weight: Option<u32>,
    own: &[(String, String)],
) -> Vec<(&'static str, String)> {
    let serves = code < 400 && matches!(state, EndpointState::Degraded | EndpointState::Up);
    let retry_after = wanted.retry_after_secs.filter(|_| code == 503);
    let is_degraded = wanted.envoy_degraded && serves && state == EndpointState::Degraded;
    let weight = weight.filter(|_| wanted.endpoint_weight).map(|weight| if serves { weight } else { 0 });
    let fields = [
        retry_after.map(|secs| (RETRY_AFTER, secs.to_string())),
        is_degraded.then(|| (DEGRADED, "true".to_owned())),
        weight.map(|weight| (WEIGHT, weight.to_string())),
    ];
    let is_own = |field: &str| own.iter().any(|(name, _)| name.eq_ignore_ascii_case(field));
    fields.into_iter().flatten().filter(|(name, _)| !is_own(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use EndpointState::{Degraded, Down, Drain, Up};

    #[test]
    fn fields_follow_state_and_status() {
        let all = StateFields { retry_after_secs: Some(7), envoy_degraded: true, endpoint_weight: true };
        for (state, code, weight, expected) in [
            (Up, 200, Some(9), "X-Load-Balancing-Endpoint-Weight: 9"),
            (Up, 200, None, ""),
            (Degraded, 203, Some(4), "x-envoy-degraded: true, X-Load-Balancing-Endpoint-Weight: 4"),
            (Degraded, 429, Some(4), "X-Load-Balancing-Endpoint-Weight: 0"),
            (Degraded, 503, None, "Retry-After: 7"),
            (Down, 503, Some(4), "Retry-After: 7, X-Load-Balancing-Endpoint-Weight: 0"),
            (Down, 500, None, ""),
            (Drain, 200, Some(4), "X-Load-Balancing-Endpoint-Weight: 0"),
        ] {
            let fields = fields_of(all, (state, code), weight, &[]);
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(fields.join(", "), expected, "{state:?} {code} {weight:?}");
            assert_eq!(fields_of(StateFields::default(), (state, code), weight, &[]), []);
        }
        let own = [("retry-after".to_owned(), "1".to_owned())];
        assert_eq!(fields_of(all, (Down, 503), None, &own), []);
    }
}
