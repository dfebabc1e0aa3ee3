//! `doorbell redirect`: the configuration that its options mean.
//!
//! Does not know about: how redirects are served.

use super::args::{Global, RedirectArgs, SchemeArg};
use super::load;
use crate::config::model::{Action, Files, Guard, RedirectTo, Route};
use crate::config::{Bind, Config, default_methods};
use crate::exit::{Exit, Failure};
use crate::http::Method;
use crate::http::redirect::{RedirectStatus, Scheme};
use crate::http::router::MethodSet;
use std::net::{Ipv6Addr, SocketAddr};

pub(super) fn config(args: &RedirectArgs, global: &Global) -> Result<Config, Failure> {
    let status = RedirectStatus::from_code(args.status).ok_or_else(|| {
        let message = format!("--status {} is not one of 301, 302, 303, 307, 308", args.status);
        Failure::new(Exit::Usage, message)
    })?;
    let to = RedirectTo {
        scheme: match args.to {
            SchemeArg::Http => Scheme::Http,
            SchemeArg::Https => Scheme::Https,
        },
        port: args.port,
        status,
        ..RedirectTo::default()
    };
    if let Err(error) = crate::config::build_redirect(&to, &args.host) {
        return Err(Failure::new(Exit::Usage, format!("--host: {error}; write a name such as example.com")));
    }
    let mut config = load::without_file(global)?;
    config.listeners[0].binds = vec![Bind::Tcp(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 80))];
    // The probes keep one name each: every other path belongs to the hosts that are redirected.
    for route in &mut config.routes {
        route.paths.truncate(1);
    }
    let any = MethodSet::ANY.iter().collect();
    config.routes.push(route("redirect", args.host.clone(), "/{*rest}", any, Action::Redirect(to)));
    if let Some(dir) = &args.acme {
        let files =
            Action::Files(Files { dir: dir.clone(), content_type: "text/plain".into(), ..Files::default() });
        let methods = default_methods(&files);
        // The longer path goes first, also on hosts that are redirected (RFC 8555 8.3: the name that is to be proved may be any).
        config.routes.push(route("acme", Vec::new(), "/.well-known/acme-challenge/{token}", methods, files));
    }
    load::with_args(config, args.serve.clone())
}

fn route(name: &str, hosts: Vec<String>, path: &str, methods: Vec<Method>, action: Action) -> Route {
    Route {
        name: name.into(),
        listeners: vec![0],
        hosts,
        paths: vec![path.into()],
        methods,
        headers: Vec::new(),
        guard: Guard::default(),
        action,
    }
}
