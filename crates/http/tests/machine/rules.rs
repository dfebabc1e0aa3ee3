//! The rules by topic, with many inputs for each rule (`rows.rs` has one row per rule): exact input
//! bytes, exact statuses and next action.
//!
//! Does not know about: splits of the input; see `split.rs`.

use crate::common::{body_vectors, check_all, conn_vectors, head_vectors, limit_vectors};

macro_rules! tables {
    ($($module:ident::$table:ident;)*) => {
        $(#[test] fn $table() { check_all($module::$table()); })*
    };
}

tables! {
    head_vectors::line_ends;
    head_vectors::versions;
    head_vectors::methods;
    head_vectors::targets;
    head_vectors::absolute_targets;
    head_vectors::hosts;
    head_vectors::fields;
    body_vectors::encodings;
    body_vectors::lengths;
    body_vectors::bodies;
    body_vectors::chunks;
    body_vectors::chunk_extensions;
    body_vectors::trailers;
    conn_vectors::persistence;
    conn_vectors::pipelines;
    conn_vectors::expectations;
    conn_vectors::ignored;
    conn_vectors::replies;
    limit_vectors::head_bytes;
    limit_vectors::request_line_bytes;
    limit_vectors::field_counts;
    limit_vectors::body_bytes;
    limit_vectors::chunk_limits;
}
