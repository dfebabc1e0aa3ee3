//! What runners are built from, in addition to the options of their kind.

use crate::connect::connector::Connector;
use crate::connect::dialer::Dialer;
use crate::connect::tls::TlsPool;
#[cfg(feature = "alias")]
use crate::options::Followed;
use crate::options::{Address, Pace, Resolve};
#[cfg(feature = "alias")]
use doorbell_health::Class;
#[cfg(feature = "alias")]
use std::fmt::Debug;
use std::sync::Arc;

/// Resources that checks share: the connector, TLS configurations, and the states that alias checks
/// follow.
#[derive(Debug)]
pub struct SharedResources {
    /// Opens the checks' connections.
    pub connector: Arc<Connector>,
    pub(crate) tls: TlsPool,
    #[cfg(feature = "alias")]
    pub(crate) states: Option<Arc<dyn StateReader>>,
}

impl SharedResources {
    /// Creates shared resources with an empty pool of TLS configurations.
    #[must_use]
    pub fn new(connector: Arc<Connector>) -> Self {
        Self {
            connector,
            tls: TlsPool::default(),
            #[cfg(feature = "alias")]
            states: None,
        }
    }

    /// Adds the states of the checks and endpoints of this program, for checks of type `alias`.
    #[cfg(feature = "alias")]
    #[must_use]
    pub fn with_states(self, states: Arc<dyn StateReader>) -> Self {
        Self { states: Some(states), ..self }
    }
}

/// Reads the states of the checks and endpoints of a program.
#[cfg(feature = "alias")]
pub trait StateReader: Debug + Send + Sync {
    /// The state and its reason; `None` if there is no such check or endpoint.
    ///
    /// Called on the thread of the checks, so it must not wait for input or output.
    fn read(&self, followed: Followed<'_>) -> Option<(Class, String)>;
}

/// What the runner of one check is built from.
#[derive(Debug)]
pub(crate) struct Materials<'a> {
    pub(crate) pace: &'a Pace,
    pub(crate) shared: &'a mut SharedResources,
}

impl Materials<'_> {
    /// Creates a dialer for the address `at`.
    pub(crate) fn dialer(&self, at: &Address, resolve: Resolve) -> Dialer {
        let connector = Arc::clone(&self.shared.connector);
        Dialer::new(at.clone(), resolve, self.pace.connect_timeout, connector)
    }
}
