//! Precedence of routes in a configuration: ACME challenges over redirects.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell::http::Method;
use doorbell::http::router::{Lookup, MethodSet, Route, Router};
use doorbell_proxy_config::{Config, Outside, Source, parse_with};

fn config(text: &str) -> Config {
    let source =
        Source { name: "f".into(), text: format!("version = 1\n[listener.web]\nbind = \":80\"\n{text}") };
    let outside = Outside { read_secret: &|_| Err("none".into()), files_at: None, ..Outside::new(&|_| None) };
    let parsed = parse_with(&source, outside);
    assert!(parsed.problems.is_empty(), "{}", source.render(&parsed.problems, false));
    parsed.config.unwrap()
}

fn router(config: &Config) -> Router<String> {
    let mut builder = Router::builder();
    for route in &config.routes {
        for path in &route.paths {
            builder.add(Route {
                name: route.name.clone(),
                hosts: route.host_names(),
                path: path.value.clone(),
                methods: MethodSet::of(&route.methods),
                value: route.name.clone(),
            });
        }
    }
    builder.build().unwrap()
}

#[test]
fn challenges_go_before_redirects() {
    let acme =
        "[route.acme]\npath = \"/.well-known/acme-challenge/{token}\"\nfiles = { dir = \"/var/lib/acme\" }\n";
    let redirects = [
        "hosts = [\"example.com\"]\nredirect = {}\n",
        "redirect = { host = \"example.com\" }\n",
        "hosts = [\"example.com\"]\npath = \"/{a}/{b}/{c}\"\nredirect = {}\n",
        "hosts = [\"example.com\"]\npath = \"/.well-known/{*rest}\"\nredirect = {}\n",
        "hosts = [\"example.com\"]\npath = \"/.well-known/acme-challenge/{*rest}\"\nredirect = {}\n",
        "path = \"/{a}/acme-challenge/{c}\"\nredirect = { map = \"/etc/links\" }\n",
    ];
    for redirect in redirects {
        let redirect = format!("[route.redirect]\n{redirect}");
        for text in [format!("{acme}{redirect}"), format!("{redirect}{acme}")] {
            let router = router(&config(&text));
            for host in [Some("example.com"), Some("EXAMPLE.com:80"), Some("other.com"), None] {
                let host = host.map(str::as_bytes);
                for method in [Method::Get, Method::Head] {
                    let path = b"/.well-known/acme-challenge/0-a_Z";
                    let Lookup::Found(found) = router.find(host, method, path) else { panic!("{text}") };
                    assert_eq!(found.value, "acme", "{host:?} {text}");
                }
            }
        }
    }
}

#[test]
fn handshakes_ask_for_what_routes_need() {
    let tls = "[tls.t]\ncert = \"c\"\nkey = \"k\"\nclient_auth = { mode = \"MODE\", ca = \"a\" }\n";
    let routes = "[route.a]\npath = \"/a\"\nEXEMPT\nreply = {}\n[route.b]\npath = \"/b\"\nreply = {}\n";
    for (mode, exempt, asks, needed) in [
        ("require", "", "Require", [true, true]),
        ("require", "client_cert = \"exempt\"", "Request", [false, true]),
        ("require", "client_cert = \"require\"", "Require", [true, true]),
        ("require", "client_names = \"ops\"", "Require", [true, true]),
        ("request", "", "Request", [false, false]),
        ("request", "client_cert = \"exempt\"", "Request", [false, false]),
        ("request", "client_cert = \"require\"", "Request", [true, false]),
        ("request", "client_names = \"ops\"", "Request", [true, false]),
    ] {
        let tls = tls.replace("MODE", mode);
        let config = config(&format!("tls = \"t\"\n{tls}{}", routes.replace("EXEMPT", exempt)));
        assert_eq!(format!("{:?}", config.handshake_client_auth(0)), asks, "{mode} {exempt}");
        assert_eq!(
            [0, 1].map(|at| config.needs_client_cert(0, &config.routes[at])),
            needed,
            "{mode} {exempt}"
        );
    }
}
