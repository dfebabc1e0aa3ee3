//! `doorbell redirect`: builds a configuration from its options.

use super::load;
use super::options::{Global, ServeArgs};
use clap::{Args, ValueEnum};
use doorbell::http::redirect::{RedirectStatus, Scheme};
use doorbell_proxy_config::Config;
use doorbell_proxy_config::model::{Files, Redirect, Route, links_to};
use doorbell_proxy_server::exit::{Exit, Failure};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  doorbell redirect --listen :80 --to https --host example.com --host www.example.com
  doorbell redirect --listen :8080 --to https --host example.com --port 8443 --status 307
  doorbell redirect --host example.com --acme /var/lib/acme/.well-known/acme-challenge

Path and query are kept. A request for a host that is not listed gets 421 and is not redirected. /livez and /readyz are served for every \
host, and with --acme also the ACME challenge tokens. Exit codes and signals: `doorbell --help`.";

/// Options of `redirect`.
#[derive(Debug, Args)]
pub struct RedirectArgs {
    /// Options shared with serve.
    #[command(flatten)]
    serve: ServeArgs,

    /// Scheme of the location
    #[arg(long, value_name = "SCHEME", default_value = "https")]
    to: SchemeArg,

    /// Host to redirect; repeatable
    #[arg(long, value_name = "HOST", required = true)]
    host: Vec<String>,

    /// Directory of ACME (http-01) challenge tokens, served below /.well-known/acme-challenge/ for
    /// every host; with certbot: WEBROOT/.well-known/acme-challenge
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    acme: Option<PathBuf>,

    /// Port of the location; default: the port of the scheme, which is omitted
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Status: 301, 302, 303, 307 or 308
    #[arg(long, value_name = "CODE", default_value = "308")]
    status: u16,
}

/// Schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeArg {
    Http,
    Https,
}

pub(super) fn config(args: &RedirectArgs, global: &Global) -> Result<Config, Failure> {
    let status = RedirectStatus::from_code(args.status).ok_or_else(|| {
        let message = format!("invalid --status {}: expected 301, 302, 303, 307 or 308", args.status);
        Failure::new(Exit::Usage, message)
    })?;
    let to = Redirect {
        scheme: match args.to {
            SchemeArg::Http => Scheme::Http,
            SchemeArg::Https => Scheme::Https,
        },
        port: args.port,
        status,
        ..Redirect::default()
    };
    if let Err(error) = doorbell_proxy_config::build_redirect(&to, &args.host) {
        return Err(Failure::new(
            Exit::Usage,
            format!("invalid --host: {error}; expected a name such as example.com"),
        ));
    }
    let mut config = load::with_listener(global, "[::]:80")?;
    let mut positions: Vec<usize> = (0..config.listeners.len()).collect();
    positions.retain(|&position| config.listeners[position].is_http());
    if positions.is_empty() {
        return Err(Failure::new(
            Exit::BadConfig,
            "the variables configure no HTTP listener to redirect from",
        ));
    }
    // Each health route keeps its first path only, so that all other paths of the redirected hosts
    // are redirected.
    for route in &mut config.routes {
        route.paths.truncate(1);
    }
    let route = |name: &str, path: &str, route: Route| {
        let listeners = links_to(&config.listeners, positions.clone());
        let paths = vec![path.to_owned().into()];
        Route { name: name.into(), listeners, paths, ..route }.with_defaults()
    };
    let hosts = args.host.iter().map(|host| host.clone().into()).collect();
    let mut routes =
        vec![route("redirect", "/{*rest}", Route { hosts, redirect: Some(to), ..Route::default() })];
    if let Some(dir) = &args.acme {
        let files = Files { dir: dir.clone(), content_type: "text/plain".into(), ..Files::default() };
        let files = Route { files: Some(files), ..Route::default() };
        // The longer path takes precedence over the redirect, on every host: an ACME server may
        // request the challenge of any name (RFC 8555 8.3).
        routes.push(route("acme", "/.well-known/acme-challenge/{token}", files));
    }
    config.routes.extend(routes);
    load::with_args(config, args.serve.clone())
}

/// Parses the path of a directory, which does not have to exist yet.
fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.is_empty() || path.is_file() {
        return Err("expected a directory, as in /var/lib/acme/.well-known/acme-challenge".into());
    }
    Ok(path)
}
