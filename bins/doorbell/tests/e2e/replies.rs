//! Templates in replies: values from a request in the body and in header fields, without injection.

use std::fs;

use doorbell_testkit::peers::wait_until;
use serde_json::Value;

use crate::plain::{get, request, send};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto};

on_auto! {
    names_are_replaced_by_values_of_the_request
    injection_is_impossible
    braces_are_braces
    a_reply_has_a_bound
    a_content_comes_from_a_file_and_changes_with_it
}

fn serve(engine: &str, routes: &str) -> Doorbell {
    let config = format!("version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n{routes}");
    Doorbell::start_with(engine, &config)
}

fn body(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names_are_replaced_by_values_of_the_request(engine: &str) {
    let doorbell = serve(
        engine,
        "[limit.each]\nrate = \"100/s\"\n[route.hello]\npath = \"/hello/{name}/{*rest}\"\nmethods = [\"GET\", \"POST\"]\nlimit = \"each\"\n\
         headers = { X-Route = \"<{name}>\" }\n\
         reply = { status = 201, body = \"{method} {host} {path} {name} {rest} {client}\\n\", headers = { X-Path = \"{path}\", X-Fixed = \"{\" } }\n\
         [route.static]\npath = \"/static\"\nreply = { status = 204, headers = { X-Client = \"{client}\" } }\n",
    );
    let reply = get(doorbell.addr, "/hello/World-1/a/b?q=1", &[]);
    assert_eq!((reply.status, reply.field("content-type")), (201, Some("text/plain; charset=utf-8")));
    assert_eq!(body(&reply.body), "GET localhost /hello/World-1/a/b World-1 a/b 127.0.0.1\n");
    assert_eq!(reply.field("x-path"), Some("/hello/World-1/a/b"));
    assert_eq!((reply.field("x-route"), reply.field("x-fixed")), (Some("<World-1>"), Some("{")));
    let post =
        b"POST /hello/x/y HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(body(&send(doorbell.addr, post).unwrap().body), "POST a.test:80 /hello/x/y x y 127.0.0.1\n");
    let head = body(&request("/hello/x/y", &[])).replace("GET", "HEAD");
    let got = doorbell_testkit::peers::exchange(doorbell.addr, head.as_bytes()).unwrap();
    let got = body(&got.bytes).to_ascii_lowercase();
    let len = "HEAD localhost /hello/x/y x y 127.0.0.1\n".len();
    assert!(got.contains(&format!("content-length: {len}\r\n")) && got.ends_with("\r\n\r\n"), "{got}");
    let reply = get(doorbell.addr, "/static", &[]);
    assert_eq!((reply.status, reply.field("x-client")), (204, Some("127.0.0.1")));
}

fn injection_is_impossible(engine: &str) {
    let kinds = ["text/plain", "text/html", "application/json", "text/javascript"];
    let routes = kinds.iter().enumerate().map(|(n, kind)| {
        format!(
            "[route.r{n}]\npath = \"/{n}/{{name}}\"\nheaders = {{ X-Name = \"{{name}}\", X-Host = \"{{host}}\" }}\n\
             reply = {{ body = '\"{{name}}\"', content_type = {kind:?} }}\n"
        )
    });
    let doorbell = serve(engine, &routes.collect::<String>());
    let evil = [
        "%0d%0aX-Evil:%201",
        "a;b,c=d",
        "'(x)!*",
        "%22%3cscript%3e",
        "\"",
        "<script>",
        "\\",
        "\r\nX-Evil: 1",
        "\u{e9}",
        "\0",
    ];
    for (n, kind) in kinds.iter().enumerate() {
        for name in evil {
            let Ok(reply) = send(doorbell.addr, &request(&format!("/{n}/{name}"), &[])) else { continue };
            assert!(!reply.head.to_ascii_lowercase().contains("\r\nx-evil"), "{name}: {}", reply.head);
            if reply.status == 400 {
                continue;
            }
            assert_eq!(reply.status, 200, "{name}");
            let field = reply.field("x-name").unwrap();
            assert!(
                field.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\;,".contains(&byte)),
                "{field}"
            );
            let body = body(&reply.body);
            let inner = body.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            match *kind {
                "text/html" => assert!(!inner.contains(['<', '>', '"', '\'']), "{body}"),
                "application/json" => assert!(serde_json::from_str::<Value>(&body).is_ok(), "{body}"),
                "text/javascript" => assert!(!inner.contains(['<', '"', '\'', '\\', '(', ';']), "{body}"),
                _ => assert!(inner.bytes().all(|byte| byte.is_ascii_graphic()), "{body}"),
            }
        }
    }
}

fn braces_are_braces(engine: &str) {
    let json = "{\"a\": {\"b\": {}}, \"c\": [{}]}";
    let doorbell = serve(
        engine,
        &format!(
            "[route.json]\npath = \"/json\"\nreply = {{ body = '{json}', content_type = \"application/json\" }}\n\
             [route.escaped]\npath = \"/escaped\"\nheaders = {{ X-A = \"{{{{host}}\" }}\nreply = {{ body = \"{{{{path}} {{ path }}\" }}\n\
             [route.both]\npath = \"/both\"\nreply = {{ body = \"{{{{path}}={{path}}\" }}\n"
        ),
    );
    assert_eq!(body(&get(doorbell.addr, "/json", &[]).body), json);
    let reply = get(doorbell.addr, "/escaped", &[]);
    assert_eq!((body(&reply.body), reply.field("x-a")), ("{path} { path }".to_owned(), Some("{host}")));
    assert_eq!(body(&get(doorbell.addr, "/both", &[]).body), "{path}=/both");
}

fn a_reply_has_a_bound(engine: &str) {
    let doorbell = serve(
        engine,
        "[route.body]\npath = \"/body/{name}\"\nreply = { body = \"{name}{name}{name}{name}{name}\" }\n\
         [route.field]\npath = \"/field/{name}\"\nheaders = { X-Name = \"{name}\" }\nreply = {}\n",
    );
    for (path, len, status) in [
        ("/body/", 1, 200),
        ("/body/", 600, 200),
        ("/body/", 6000, 200),
        ("/body/", 7000, 414),
        ("/field/", 4000, 200),
        ("/field/", 4200, 414),
    ] {
        let reply = get(doorbell.addr, &format!("{path}{}", "n".repeat(len)), &[]);
        assert_eq!(reply.status, status, "{path} {len}");
        let expected = if path == "/body/" { 5 * len } else { 0 };
        assert!(status != 200 || reply.body == b"n".repeat(expected), "{path} {len}");
    }
}

fn a_content_comes_from_a_file_and_changes_with_it(engine: &str) {
    let scratch = Scratch::new();
    let page = scratch.path("sorry.html");
    let held = |content: &[u8]| {
        // The file is replaced atomically, as editors do.
        fs::write(scratch.path("new"), content).unwrap();
        fs::rename(scratch.path("new"), &page).unwrap();
    };
    let bytes: Vec<u8> = [b"<p>{path} {{</p>\n", &[0, 0xff, b'\r'][..]].concat();
    held(&bytes);
    let route = format!(
        "[route.sorry]\npath = \"/{{*rest}}\"\nheaders = {{ X-A = \"a\" }}\n\
         reply = {{ status = 503, file = {page:?}, content_type = \"text/html\" }}\n"
    );
    let doorbell = serve(engine, &route);
    let reply = get(doorbell.addr, "/anything", &[]);
    assert_eq!(
        (reply.status, reply.field("content-type"), reply.field("x-a")),
        (503, Some("text/html"), Some("a"))
    );
    assert_eq!(reply.body, bytes, "the body must equal the file");
    let body = || get(doorbell.addr, "/", &[]).body;
    held(b"two\n");
    assert!(wait_until(LIMIT, || body() == b"two\n").is_some(), "{}", doorbell.process.log());
    // If the file is missing, the old content stays in use, and the failure is logged.
    fs::remove_file(&page).unwrap();
    let says = || doorbell.process.log().contains("sorry.html");
    assert!(wait_until(LIMIT, says).is_some(), "{}", doorbell.process.log());
    assert_eq!(body(), b"two\n");
    held(b"three\n");
    assert!(wait_until(LIMIT, || body() == b"three\n").is_some(), "{}", doorbell.process.log());
    held(&vec![b'x'; (1 << 20) + 1]);
    let says = || doorbell.process.log().contains("it is longer than 1048576 bytes");
    assert!(wait_until(LIMIT, says).is_some(), "{}", doorbell.process.log());
    assert_eq!(body(), b"three\n");
}
