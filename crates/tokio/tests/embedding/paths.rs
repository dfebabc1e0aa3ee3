//! Promise: each endpoint of a `Health` replies at its own path in every framework, or `build`
//! refuses it.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use axum::Router;
use axum::http::Request;
use doorbell_tokio::{Health, HealthBuilder, HealthError};

fn status(health: &Health, path: &str) -> u16 {
    let request = Request::builder().uri(path).body(()).unwrap();
    health.reply(&request).unwrap().status().as_u16()
}

#[tokio::test]
async fn a_name_that_is_no_path_of_its_own_is_refused() {
    let names = [
        "healthz",
        "livez",
        "readyz/db",
        "lb/a",
        "lb/a/b",
        "",
        "/",
        "/x",
        "x/",
        "x//y",
        "..",
        "a/./b",
        "{x}",
        "x{",
        ":x",
        "*x",
        "a b",
        "a?b",
        "a%20b",
        "\u{e4}",
    ];
    for name in names {
        let built = Health::builder().endpoint("lb/a", []).endpoint(name, []).build();
        assert!(matches!(built, Err(HealthError::Path { name: refused }) if refused == name), "{name}");
    }
}

#[tokio::test]
async fn other_names_are_paths() {
    let names = ["lb/a", "lb/ab", "ready", "readyz2", "A-b.c_d~e", "health/ready"];
    let builder = names.iter().fold(Health::builder(), |builder, name| builder.endpoint(name, []));
    let health = builder.build().unwrap();
    for name in names {
        assert_eq!(status(&health, &format!("/{name}")), 200, "{name}");
    }
    let _routes: Router = health.routes();
}

#[tokio::test]
async fn an_endpoint_may_use_the_state_of_the_program() {
    let builder = Health::builder().endpoint("lb", ["alive", "ready"]).endpoint("shop", []);
    let health = builder.build().unwrap();
    let all = || [status(&health, "/lb"), status(&health, "/shop")];
    assert_eq!(all(), [200, 200]);
    health.set_ready(false);
    assert_eq!(all(), [503, 200]);
    health.set_ready(true);
    health.set_live(false);
    assert_eq!(all(), [503, 200]);
}

#[test]
fn healthz_can_be_left_to_the_program() {
    let taken = Health::builder().endpoint("healthz", ["alive"]).build().unwrap_err();
    assert!(taken.to_string().contains("healthz"), "{taken}");
    let paths = |builder: HealthBuilder| -> Vec<String> {
        builder.build().unwrap().paths().map(str::to_owned).collect()
    };
    let own = ["/livez", "/readyz", "/startupz"];
    assert_eq!(paths(Health::builder().without_healthz()), own);
    let replaced = Health::builder().without_healthz().endpoint("healthz", ["alive", "accept"]);
    assert_eq!(paths(replaced)[3], "/healthz");
    assert_eq!(paths(Health::builder())[3], "/healthz");
}
