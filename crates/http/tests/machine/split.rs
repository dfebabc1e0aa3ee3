//! The result does not depend on how the input is split: every vector is tested at every split
//! point, and byte by byte.
//!
//! Does not know about: correct results; see `rules.rs`.

use crate::common::all_vectors;
use crate::common::harness::Peer;
use doorbell_http::Limits;

/// Maximum length of inputs that are split at every position. Longer inputs are split at forty
/// positions and around limits, because every split parses the whole input.
const CUT_EVERYWHERE_MAX: usize = 1_000;
/// Minimum length of the inputs that exceed a length limit on purpose. No other message can follow
/// such an input on its connection.
const LONG_MIN: usize = 20_000;

#[test]
fn every_rule_vector_at_every_split_point() {
    check_two_pieces(crate::common::head_vectors::all());
    check_two_pieces(crate::common::body_vectors::all());
    check_two_pieces(crate::common::conn_vectors::all());
}

#[test]
fn every_limit_vector_at_every_split_point() {
    check_two_pieces(crate::common::limit_vectors::all());
}

fn check_two_pieces(vectors: Vec<crate::common::Vector>) {
    let limits = Limits::default();
    for vector in vectors {
        let input = vector.input.as_slice();
        let whole = Peer::run(&limits, [input]).trace();
        for cut in cuts(input.len()) {
            let (first, second) = input.split_at(cut);
            assert_eq!(Peer::run(&limits, [first, second]).trace(), whole, "{} cut at {cut}", vector.name);
        }
    }
}

#[test]
fn every_vector_byte_by_byte() {
    let limits = Limits::default();
    for vector in all_vectors() {
        let whole = Peer::run(&limits, [vector.input.as_slice()]).trace();
        assert_eq!(Peer::run(&limits, vector.input.chunks(1)).trace(), whole, "{}", vector.name);
    }
}

#[test]
fn all_good_vectors_on_one_connection_in_pieces_of_every_size() {
    let limits = Limits::default();
    let input: Vec<u8> = all_vectors()
        .into_iter()
        .filter(|vector| {
            vector.next == doorbell_http::Next::Read && vector.expect.last().is_some_and(|&code| code > 100)
        })
        .filter(|vector| {
            vector.input.len() < LONG_MIN
                && !vector.name.contains("half")
                && !vector.name.contains("no length")
        })
        .flat_map(|vector| vector.input)
        .collect();
    let whole = Peer::run(&limits, [input.as_slice()]);
    assert!(whole.conn.requests() > 100, "{}", whole.conn.requests());
    for size in [1, 2, 3, 5, 7, 16, 61, 64, 127, 512, 1460, 4096] {
        assert_eq!(Peer::run(&limits, input.chunks(size)).trace(), whole.trace(), "pieces of {size}");
    }
}

fn cuts(len: usize) -> Vec<usize> {
    if len <= CUT_EVERYWHERE_MAX {
        return (0..=len).collect();
    }
    let mut cuts: Vec<usize> = (0..=len).step_by(len / 40).collect();
    for edge in [0, 32, 8192, 16_384, 65_536, len] {
        cuts.extend(edge.saturating_sub(20)..=len.min(edge + 20));
    }
    cuts
}
