//! `[grpc]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Config, Grpc, Health};
use super::super::written::ALB;
use super::{name_of, text};
use serde_json::{Map, Value, json};

pub(super) fn grpc_value(grpc: &Grpc, config: &Config) -> Value {
    let name = |position: usize| config.health.get(position).map(|health: &Health| text(&health.name));
    let services: Map<String, Value> =
        grpc.services.iter().map(|(service, endpoint)| (service.clone(), json!(name(*endpoint)))).collect();
    json!({
        "enabled": grpc.enabled,
        "overall": name(grpc.overall),
        "services": services,
        "max_watches": grpc.max_watches,
        "watches_per_connection": grpc.watches_per_connection,
        "alb": name_of(&ALB, grpc.alb),
    })
}
