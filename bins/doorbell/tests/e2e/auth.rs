//! Bearer tokens from files: accepted and refused requests.

use crate::plain::get;
use crate::support::{Doorbell, Scratch, on_auto};

on_auto! {
    a_token_opens_its_route
    any_of_two_lists
}

const ALICE: &str = "alice-0123456789abcdef0123456789";
const BOB: &str = "bob-0123456789abcdef0123456789";

fn serve(engine: &str) -> Doorbell {
    let scratch = Scratch::new();
    let (alice, bob) = (scratch.write("alice", &format!("{ALICE}\n")), scratch.write("bob", BOB));
    let config = format!(
        "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [auth.ops]\nrealm = \"operations\"\ntokens = {{ alice = \"${{file:{alice}}}\" }}\n\
         [auth.more]\nrealm = \"more\"\ntokens = {{ bob = \"${{file:{bob}}}\" }}\n\
         [route.open]\npath = \"/open\"\nreply = {{ body = \"open\\n\" }}\n\
         [route.ops]\npath = \"/ops\"\nauth = \"ops\"\nreply = {{ body = \"secret\\n\" }}\n\
         [route.both]\npath = \"/both\"\nauth = [\"more\", \"ops\"]\nreply = {{ body = \"secret\\n\" }}\n\
         [route.moved]\npath = \"/moved\"\nauth = \"ops\"\nredirect = {{ host = \"new.test\" }}\n\
         [route.live]\npath = \"/livez\"\nauth = \"ops\"\nhealth = \"livez\"\n"
    );
    // The secrets are read at the start, so the folder may be removed.
    Doorbell::start_with(engine, &config)
}

fn a_token_opens_its_route(engine: &str) {
    let doorbell = serve(engine);
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let (alice, bob, basic) = (bearer(ALICE), bearer(BOB), "Authorization: Basic YTpi".to_owned());
    let (longer, shorter) = (bearer(&format!("{ALICE}x")), bearer(&ALICE[..ALICE.len() - 1]));
    let table: [(&[&str], u16, Option<&str>); 9] = [
        (&[&alice], 200, None),
        (&[&alice.replace("Bearer", "bEARER")], 200, None),
        (&[], 401, Some("Bearer realm=\"operations\"")),
        (&[&basic], 401, Some("Bearer realm=\"operations\"")),
        (&[&bob], 401, Some("Bearer realm=\"operations\", error=\"invalid_token\"")),
        (&[&longer], 401, Some("Bearer realm=\"operations\", error=\"invalid_token\"")),
        (&[&shorter], 401, Some("Bearer realm=\"operations\", error=\"invalid_token\"")),
        (
            &["Authorization: Bearer two words"],
            400,
            Some("Bearer realm=\"operations\", error=\"invalid_request\""),
        ),
        (&[&alice, &alice], 400, Some("Bearer realm=\"operations\", error=\"invalid_request\"")),
    ];
    for (fields, status, challenge) in table {
        for (path, good) in [("/ops", 200), ("/moved", 308), ("/livez", 200)] {
            let reply = get(doorbell.addr, path, fields);
            let expected = if status == 200 { good } else { status };
            assert_eq!(reply.status, expected, "{path} {fields:?}: {}", reply.head);
            assert_eq!(reply.field("www-authenticate"), challenge, "{path} {fields:?}");
            assert!(status == 200 || !reply.body.starts_with(b"secret"), "{fields:?}");
        }
        assert_eq!(get(doorbell.addr, "/open", fields).status, 200, "`/open` needs no token");
    }
    let log = doorbell.process.log();
    assert!(!log.contains(ALICE) && !log.contains(BOB), "a secret is in the log: {log}");
}

fn any_of_two_lists(engine: &str) {
    let doorbell = serve(engine);
    for token in [ALICE, BOB] {
        let reply = get(doorbell.addr, "/both", &[&format!("Authorization: Bearer {token}")]);
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"secret\n"[..]));
    }
    let reply = get(doorbell.addr, "/both", &["Authorization: Bearer nobody-0123456789abcdef"]);
    assert_eq!(reply.status, 401);
    // The first list of the route defines the challenge.
    assert_eq!(reply.field("www-authenticate"), Some("Bearer realm=\"more\", error=\"invalid_token\""));
}
