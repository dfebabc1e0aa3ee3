//! Fuzz target: arbitrary bytes as a frame of the control socket. Decoding never panics, and a
//! decoded request survives a round trip.
#![no_main]

use doorbell_control::frame::{REQUEST_LEN_MAX, check_hello, decode, frame};
use doorbell_control::{Request, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = bytes.first_chunk() {
        let _either = check_hello(*hello);
    }
    if let Ok(request) = decode::<Request>(bytes) {
        // A decoded request can be encoded again and decodes to the same value.
        let again = frame(&request, 2 * REQUEST_LEN_MAX).unwrap();
        assert_eq!(decode::<Request>(&again[4..]).unwrap(), request);
    }
    let _either = decode::<Response>(bytes);
});
