//! Tests the frozen bytes of each frame, versions, and invalid bytes.

use super::*;
use allocation_counter::measure;
use proptest::prelude::*;

fn statement(kind: SubjectKind, state: State) -> Statement {
    let subject = Subject { kind, name: "db".into() };
    Statement { subject, state, reason: "refused".into(), at_us: 1_795_288_003_819_000 }
}

fn frames() -> Vec<Frame> {
    let measured = |outcome| Some(Measured { outcome, latency_us: 1_250 });
    let result = |state, outcome| Payload::Result {
        statement: statement(SubjectKind::Check, state),
        measured: measured(outcome),
    };
    let transition =
        |sequence, kind, state| Payload::Transition { sequence, statement: statement(kind, state) };
    let payloads = [
        Payload::Ack { sequence: 70_000 },
        Payload::Idle,
        Payload::Open(Opening {
            incarnation: 0x0123_4567_89ab_cdef,
            peer_incarnation: 7,
            peer_frames: 300,
            peer_sequence: 5,
        }),
        Payload::Receipts { first: 9, base_us: 1_795_288_003_819_000, after_us: vec![5, 300, 70_000] },
        Payload::Receipts { first: 1, base_us: 0, after_us: vec![] },
        Payload::Result { statement: statement(SubjectKind::Endpoint, State::Up), measured: None },
        result(State::Degraded, Outcome::Degraded),
        result(State::Down, Outcome::Error),
        result(State::Down, Outcome::Failure),
        result(State::Maintenance, Outcome::Maintenance),
        result(State::Up, Outcome::Success),
        result(State::Unknown, Outcome::Timeout),
        transition(1, SubjectKind::Check, State::Degraded),
        transition(2, SubjectKind::Check, State::Down),
        transition(3, SubjectKind::Check, State::Maintenance),
        transition(300, SubjectKind::Endpoint, State::Removed),
        transition(70_000, SubjectKind::Endpoint, State::Unknown),
        transition(u64::MAX, SubjectKind::Endpoint, State::Up),
    ];
    (250..)
        .zip(payloads)
        .map(|(number, payload)| Frame { number, sent_us: 1_795_288_003_820_000, payload })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The frames of version 1 on the wire. Deployed programs send and expect exactly these bytes:
/// never change a line; add a version instead.
const FROZEN_1: &str = include_str!("frozen_1.txt");

#[test]
fn frames_of_version_1_are_frozen() {
    let mut written = Vec::new();
    for frame in frames() {
        let mut bytes = Vec::new();
        let size = write(&frame, &mut bytes);
        assert_eq!(usize::try_from(size).unwrap(), bytes.len());
        assert_eq!(read(&bytes).unwrap(), Some((frame, bytes.len())));
        written.push(hex(&bytes));
    }
    let written = written.join("\n") + "\n";
    assert!(written == FROZEN_1, "the bytes of version 1 changed:\n{written}");
}

#[test]
fn greetings_choose_the_highest_common_version() {
    let chosen = |ours, theirs| version_of(greeting(&theirs), &ours);
    assert_eq!(hex(&greeting(&(1..=1))), "646f6f726c696e6b01000100", "frozen, too");
    assert_eq!(chosen(1..=1, 1..=1), Ok(1));
    assert_eq!(chosen(1..=3, 2..=9), Ok(3));
    assert_eq!(chosen(1..=3, 1..=2), Ok(2));
    assert_eq!(chosen(1..=1, 2..=3), Err(Ended::Version { min: 2, max: 3 }));
    assert_eq!(chosen(4..=5, 2..=3), Err(Ended::Version { min: 2, max: 3 }));
    let reversed = *b"doorlink\x03\0\x01\0";
    assert_eq!(version_of(reversed, &VERSIONS), Err(Ended::Version { min: 3, max: 1 }));
    assert_eq!(version_of(*b"HTTP/1.1 400", &VERSIONS), Err(Ended::NotLink));
}

#[test]
fn a_length_above_the_limit_is_refused_before_the_bytes_arrive() {
    let len = FRAME_LEN_MAX + 1;
    assert_eq!(read(&u32::try_from(len).unwrap().to_le_bytes()).unwrap_err(), Ended::TooLong { len });
    assert_eq!(read(&u32::try_from(FRAME_LEN_MAX).unwrap().to_le_bytes()).unwrap(), None);
    assert_eq!(read(&[1, 0, 0]).unwrap(), None);
}

#[test]
fn the_longest_texts_and_batches_fit_in_a_frame() {
    let mut statement = statement(SubjectKind::Check, State::Down);
    statement.subject.name = "\u{fe}".repeat(NAME_LEN_MAX / 2);
    statement.reason =
        (0..REASON_LEN_MAX).map(|at| char::from(b' ' + u8::try_from(at % 90).unwrap())).collect();
    let after_us = (0..255).map(|at: u32| at.wrapping_mul(0x9e37_79b9)).collect();
    for payload in [
        Payload::Transition { sequence: u64::MAX, statement },
        Payload::Receipts { first: u64::MAX, base_us: u64::MAX, after_us },
    ] {
        let mut bytes = Vec::new();
        write(&Frame { number: u64::MAX, sent_us: u64::MAX, payload }, &mut bytes);
        assert!(bytes.len() <= FRAME_LEN_MAX, "{} bytes", bytes.len());
    }
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

/// Maximum memory for decoding a frame, regardless of the lengths it declares.
const MEMORY_MAX: u64 = 4 << 20;

proptest! {
    #[test]
    fn any_bytes_decode_or_end_the_connection(
        bytes in proptest::collection::vec(any::<u8>(), 0..FRAME_LEN_MAX),
    ) {
        let framed = framed(&bytes);
        let memory = measure(|| drop(read(&framed)));
        prop_assert!(memory.bytes_max <= MEMORY_MAX, "{memory:?}");
    }

    #[test]
    fn changed_frames_decode_or_end_the_connection(
        which in 0_usize..18,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        padding in 0_usize..FRAME_LEN_MAX,
    ) {
        let mut bytes = bitcode::encode(&frames()[which]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.resize(bytes.len() + padding, 0);
        bytes.truncate(bytes.len().min(FRAME_LEN_MAX) - cut.index(bytes.len().min(FRAME_LEN_MAX)));
        let framed = framed(&bytes);
        let memory = measure(|| drop(read(&framed)));
        prop_assert!(memory.bytes_max <= MEMORY_MAX, "{memory:?}");
    }
}
