//! `grpc.health.v1` for tonic, and [`Handed`] as the incoming connections of its server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use doorbell_grpc::{GrpcHealth, OVERALL, Statuses, WatchLimit};
use futures_core::Stream;
use tokio::net::TcpStream;
#[cfg(feature = "axum")]
use tonic::server::NamedService as _;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::handed::{Connection, Handed};
use crate::health::{Health, HealthError};
use crate::preread::Preread;

/// Maximum number of open Watch streams of a [`GrpcHealth`]; further ones get RESOURCE_EXHAUSTED.
const WATCHES_MAX: u32 = 1_024;

/// The endpoint of the service without a name.
const OVERALL_ENDPOINT: &str = "readyz";

impl Health {
    /// The gRPC service `grpc.health.v1.Health`, for `Server::add_service` of tonic. The service
    /// without a name is `readyz`; each endpoint is a service of the same name, such as `livez`.
    /// For further names, use [`Self::grpc_with`].
    ///
    /// At most 1,024 Watch streams are open. At a drain they send NOT_SERVING, except those of
    /// `livez` and `startupz`. They end with the last server of this health or, if it has none, at
    /// [`Self::set_draining`], so that they do not delay a graceful shutdown.
    ///
    /// Probers are detected by their user agent or else, if tonic's own server runs the service, by
    /// their address.
    ///
    /// Call it once and clone the result: each call counts its Watch streams separately. Needs the
    /// feature `grpc`.
    pub fn grpc(&self) -> GrpcHealth {
        self.grpc_of(Vec::new())
    }

    /// The gRPC service of [`Self::grpc`] with further services: each a name and an endpoint, as in
    /// `[("shop.Cart", "readyz")]`. A service of the same name is replaced; the empty name stands
    /// for the whole program.
    ///
    /// # Errors
    /// There is no such endpoint.
    pub fn grpc_with<'n>(
        &self,
        services: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<GrpcHealth, HealthError> {
        let service = |(service, endpoint): (&str, &str)| match self.position(endpoint) {
            Some(position) => Ok((service.to_owned(), position)),
            None => Err(HealthError::UnknownEndpoint {
                service: service.to_owned(),
                endpoint: endpoint.to_owned(),
            }),
        };
        Ok(self.grpc_of(services.into_iter().map(service).collect::<Result<_, _>>()?))
    }

    /// The gRPC service as routes of axum, for `Router::merge` beside other routes. The server of
    /// axum needs its feature `http2`. Like [`Self::grpc`], call it once and clone the result.
    /// Needs the features `grpc` and `axum`.
    #[cfg(feature = "axum")]
    pub fn grpc_routes<S: Clone + Send + Sync + 'static>(&self) -> axum::Router<S> {
        let path = format!("/{}/{{*method}}", GrpcHealth::NAME);
        axum::Router::new().route_service(&path, self.grpc())
    }

    fn grpc_of(&self, more: Vec<(String, usize)>) -> GrpcHealth {
        let names: Vec<String> = self.registry().with_board(|board| {
            board.endpoints().iter().map(|endpoint| endpoint.config().name.to_string()).collect()
        });
        let overall = self.position(OVERALL_ENDPOINT).map(|position| (OVERALL.to_owned(), position));
        let own = names.into_iter().zip(0..);
        let statuses = Statuses::follow(overall.into_iter().chain(own).chain(more), self.registry());
        GrpcHealth::new(statuses, Arc::new(WatchLimit::new(WATCHES_MAX)), self.ends())
    }

    fn position(&self, endpoint: &str) -> Option<usize> {
        self.registry()
            .with_board(|board| board.endpoints().iter().position(|known| *known.config().name == *endpoint))
    }
}

/// The streams of a [`Handed`]. Created by [`Handed::streams`].
#[derive(Debug)]
pub struct Streams(Handed);

impl Handed {
    /// The streams of the connections, for `serve_with_incoming_shutdown` of tonic's server,
    /// together with [`Control::shutdown`](crate::Control::shutdown). Ends with the server. Needs
    /// the feature `grpc`.
    pub const fn streams(self) -> Streams {
        Streams(self)
    }
}

impl Stream for Streams {
    type Item = io::Result<Preread<TcpStream>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_accept(cx).map(|next| next.map(|Connection { stream, .. }| Ok(stream)))
    }
}

impl Connected for Preread<TcpStream> {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.get_ref().connect_info()
    }
}
