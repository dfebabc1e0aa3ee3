//! The service of one listener without a server, for benchmarks that measure the cost of a request.

use super::access_log::HttpVersion;
use super::compute::{self, ScanRunner};
use super::stores::Stores;
use crate::guards::Common;
use crate::guards::client_limits::Tables;
use crate::registry::HealthRegistry;
use crate::routes::{BareService, Materials, RouteService, RouteServices};
use doorbell::http::Service;
use doorbell_proxy_config::model::Config;
use std::sync::Arc;

/// Builds the service of the first listener, without an access log.
///
/// # Errors
/// If a part of the configuration cannot be built.
pub fn service(config: &Config) -> Result<Box<dyn Service + Send + Sync>, String> {
    let registry = HealthRegistry::build(config)?;
    let lane = compute::start(config).map_err(|error| error.to_string())?;
    let stores = Stores::open(config, &ScanRunner::new(lane.clone()), &mut Vec::new())?;
    let tables = Arc::new(Tables::after(&Tables::default(), config)?);
    let (common, _) = Common::build(config, tables, lane)?;
    let services = RouteServices::default();
    let materials = Materials {
        config,
        registry: &registry,
        push: None,
        common: &common,
        stores: &stores,
        services: &services,
    };
    let routes = RouteService::build(&materials, 0, HttpVersion::Http1).map_err(|error| error.to_string())?;
    Ok(if routes.counts() {
        Box::new(BareService::<true>(routes))
    } else {
        Box::new(BareService::<false>(routes))
    })
}
