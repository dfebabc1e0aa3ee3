//! The machine against its tables, properties and attacks. One program, so that it is linked once.

#[path = "../common/mod.rs"]
mod common;

mod again;
mod answer_before_body;
mod deadlines;
mod flow;
mod forward;
mod hand_over;
mod limit_attack;
mod limit_leases;
mod limit_threads;
mod properties;
mod proxy;
mod repeats;
mod router;
mod rows;
mod rules;
mod seen;
mod split;
mod taken_back;
mod waiting;
mod whole;
