//! The rate limit of TLS handshakes by address: excess handshakes get an alert and are counted, and
//! other clients are not affected.

use std::net::Ipv4Addr;

use rustls::{AlertDescription, Error as TlsError};

use crate::https::{Https, ask};
use crate::pki::localhost;
use crate::support::{Doorbell, Scratch, on_both_engines};

on_both_engines! {
    too_many_handshakes_of_one_address
}

const RATE: usize = 5;
const REFUSED: usize = 7;

fn serve(engine: &str, scratch: &Scratch) -> Doorbell {
    let (cert, key) = localhost().write(scratch, "tls");
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"{RATE}/h\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn too_many_handshakes_of_one_address(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let https = Https::new(doorbell.addr);
    let [greedy, modest] = [2, 3].map(|last| https.at(Ipv4Addr::new(127, 0, 0, last)));
    // A kept connection counts as one handshake, however many requests it carries.
    let mut kept = greedy.connect().unwrap();
    for n in 0..20 {
        assert_eq!(ask(&mut kept, "/hello").unwrap().status, 200, "{n}");
    }
    for n in 1..RATE {
        assert_eq!(greedy.get("/hello").unwrap().status, 200, "{n}");
    }
    for n in 0..REFUSED {
        let error = greedy.get("/hello").unwrap_err();
        // The client gets the alert, and the connection ends with a FIN.
        let alert = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>());
        assert_eq!(alert, Some(&TlsError::AlertReceived(AlertDescription::InternalError)), "{n}: {error}");
        if n < RATE {
            assert_eq!(modest.get("/hello").unwrap().status, 200, "another address: {n}");
        }
    }
    assert_eq!(ask(&mut kept, "/hello").unwrap().status, 200, "accepted connections must stay open");
    drop(kept);
    let totals = doorbell.totals();
    assert_eq!(totals["refused"], format!("handshakes_gate_refused={REFUSED}"), "{totals}");
    // The last refused connections may still be open when the server stops.
    assert!(totals["closed"].as_str().unwrap().contains("tls_error="), "{totals}");
}
