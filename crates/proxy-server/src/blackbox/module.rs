//! Modules: checks without a target, built in or from the configuration.

use doorbell_checks::options::{
    Address, Check, CheckKind, ClientTls, FollowRedirects, GrpcCheck, HostPort, HttpCheck, RequestVersion,
    Resolve, TcpCheck, TlsCheck, Url,
};
use doorbell_config::{Text as _, Words as _};
use doorbell_prober::Kind;
use doorbell_proxy_config::model::{Blackbox, Module as BuiltIn};
use hyper::Method;
use std::time::Duration;

/// Maximum size of content that built-in modules read.
const BODY_BYTES: u32 = 256 << 10;

/// A check without a target, and its timeout.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: Box<str>,
    pub(super) timeout: Duration,
    pub(super) kind: CheckKind,
}

impl Module {
    /// The configured modules: those of the operator, and the permitted built-in ones.
    pub(super) fn all(blackbox: &Blackbox) -> Vec<Self> {
        let own = blackbox.own_modules.iter().map(|module| Self {
            name: module.name.as_str().into(),
            timeout: module.timeout.unwrap_or(blackbox.timeout),
            kind: module.kind.0.clone(),
        });
        let built_in = blackbox.modules.iter().map(|&module| Self {
            name: module.word().into(),
            timeout: blackbox.timeout,
            kind: kind_of(module),
        });
        // Modules of the operator come first, because the first of several modules with the same
        // name is used.
        own.chain(built_in).collect()
    }

    /// The corresponding value of `prober` in a module of blackbox_exporter.
    pub(super) const fn prober(&self) -> Kind {
        match self.kind {
            CheckKind::Dns(_) => Kind::Dns,
            CheckKind::Grpc(_) => Kind::Grpc,
            CheckKind::Http(_) => Kind::Http,
            CheckKind::Icmp(_) => Kind::Icmp,
            _ => Kind::Tcp,
        }
    }

    /// How the module uses the addresses of a name.
    pub(super) fn resolve(&self) -> Resolve {
        match &self.kind {
            CheckKind::Dns(dns) => dns.resolve,
            CheckKind::Grpc(grpc) => grpc.resolve,
            CheckKind::Http(http) => http.resolve,
            CheckKind::Icmp(icmp) => icmp.resolve,
            CheckKind::Redis(redis) => redis.resolve,
            CheckKind::Tcp(tcp) => tcp.resolve,
            CheckKind::Tls(tls) => tls.resolve,
            CheckKind::Udp(udp) => udp.resolve,
            _ => Resolve::default(),
        }
    }

    /// A check to verify that the files of the module can be used.
    pub(super) fn sample(&self) -> Check {
        let mut kind = self.kind.clone();
        if let CheckKind::Http(http) = &mut kind {
            http.url.is_https = http.tls.reads_files();
        }
        Check::new(format!("of [blackbox.module.{}]", self.name), kind)
    }
}

/// The check of a built-in module.
fn kind_of(module: BuiltIn) -> CheckKind {
    let nowhere = || Address::Tcp(HostPort::default());
    let http = |method| HttpCheck {
        method,
        body_bytes: BODY_BYTES,
        follow_redirects: FollowRedirects::All,
        http_version: RequestVersion::Auto,
        ..HttpCheck::new(Url::blank())
    };
    match module {
        BuiltIn::Grpc => GrpcCheck { tls: Some(ClientTls::default()), ..GrpcCheck::new(nowhere()) }.into(),
        BuiltIn::GrpcPlain => GrpcCheck::new(nowhere()).into(),
        BuiltIn::Http2xx => http(Method::GET).into(),
        BuiltIn::HttpPost2xx => http(Method::POST).into(),
        BuiltIn::TcpConnect => TcpCheck::new(nowhere()).into(),
        BuiltIn::TlsConnect => TlsCheck::new(nowhere()).into(),
    }
}
