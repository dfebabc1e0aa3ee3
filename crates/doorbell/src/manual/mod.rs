//! The manual: how doorbell works, what it promises, and why it was decided so.
//!
//! - [`architecture`]: the layers, what each of them may not know, and the invariants.
//! - [`life_of_a_connection`]: from accept to the freed slot, with every way it can end.
//! - [`which_lane`]: ring, compute or Tokio: where the work of a request is done, with a picture and what each way costs.
//! - [`compute_lane`]: work on other threads, what a trip there costs, and from which size on it pays.
//! - [`behind`]: the program behind load balancers, the kubelet, HAProxy, Envoy, nginx, Apache, keepalived, Route 53, Prometheus, Consul and Docker, a page each.
//! - [`reload`]: what a new configuration changes while the program runs, what stays, and what clients see of it.
//! - [`limits`]: every cap and time, its default, and what a client sees at it.
//!
//! Design decisions, with the figures behind them, are pages of the operators' book: `deploy/book/src/decisions`, one file per number.
//!
//! Does not know about: single functions; their own pages do.

pub mod architecture;
pub mod behind;
pub mod compute_lane;
pub mod life_of_a_connection;
pub mod limits;
pub mod reload;
pub mod which_lane;
