//! Any bytes as a frame of the control socket: decoding never panics and takes no more than its cap.
//!
//! Does not know about: what is asked.
#![no_main]

use doorbell_proxy::wire::frame::{REQUEST_LEN_MAX, check_hello, decode, frame};
use doorbell_proxy::wire::{Request, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = bytes.first_chunk() {
        let _either = check_hello(*hello);
    }
    if let Ok(request) = decode::<Request>(bytes) {
        // What was taken can be said again, and means the same.
        let again = frame(&request, 2 * REQUEST_LEN_MAX).unwrap();
        assert_eq!(decode::<Request>(&again[4..]).unwrap(), request);
    }
    let _either = decode::<Response>(bytes);
});
