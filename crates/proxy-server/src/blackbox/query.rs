//! The query of a request: `target=..&module=..`.

use super::module::Module;
use std::fmt;

/// Maximum size of a target.
const TARGET_LEN_MAX: usize = 1024;

/// Unsupported parameters of blackbox_exporter, each with the value that changes the reply; `None`
/// if any non-empty value does. Such values are refused, because the reply would differ from that
/// of blackbox_exporter.
const UNSUPPORTED: [(&str, Option<&str>); 2] = [("debug", Some("true")), ("hostname", None)];

/// A target and a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// Position of the module in the list of modules.
    pub(super) module: usize,
    pub(super) target: String,
}

/// Reason why a query is invalid. The messages are those of blackbox_exporter, if it has the same
/// error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadQuery {
    NoTarget,
    TargetTooLong,
    TwoTargets,
    UnknownModule(String),
    Unsupported(&'static str),
}

impl Query {
    /// Parses a query. The default module is `http_2xx`.
    pub(super) fn parse(query: &str, modules: &[Module]) -> Result<Self, BadQuery> {
        let (mut target, mut module) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let changes = |when: &Option<&str>| when.map_or(!value.is_empty(), |when| value == when);
            if let Some((name, _)) = UNSUPPORTED.iter().find(|(known, when)| *known == name && changes(when))
            {
                return Err(BadQuery::Unsupported(name));
            }
            match &*name {
                "target" if target.is_some() => return Err(BadQuery::TwoTargets),
                "target" => target = Some(value.into_owned()),
                "module" => module = Some(value.into_owned()),
                _ => {}
            }
        }
        let target = target.filter(|target| !target.is_empty()).ok_or(BadQuery::NoTarget)?;
        if target.len() > TARGET_LEN_MAX {
            return Err(BadQuery::TargetTooLong);
        }
        let name = module.filter(|name| !name.is_empty()).unwrap_or_else(|| "http_2xx".to_owned());
        let known = modules.iter().position(|module| *module.name == *name);
        let module = known.ok_or(BadQuery::UnknownModule(name))?;
        Ok(Self { module, target })
    }
}

impl fmt::Display for BadQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget => f.write_str("Target parameter is missing"),
            Self::TargetTooLong => write!(f, "Target parameter is longer than {TARGET_LEN_MAX} bytes"),
            Self::TwoTargets => f.write_str("Target parameter is given twice"),
            Self::UnknownModule(name) => {
                write!(f, "Unknown module {:?}", &name[..name.floor_char_boundary(64)])
            }
            Self::Unsupported(name) => write!(f, "Parameter {name} is not supported"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::model::Blackbox;

    #[test]
    fn queries() {
        let all = Module::all(&Blackbox::default());
        let of = |name: &str| all.iter().position(|module| *module.name == *name).unwrap();
        let ok = |name, target: &str| Ok(Query { module: of(name), target: target.to_owned() });
        for (query, expected) in [
            ("target=a", ok("http_2xx", "a")),
            ("module=tcp_connect&target=a%3A80&debug=false", ok("tcp_connect", "a:80")),
            ("target=http%3A%2F%2Fa%2Fx%3Fy%3D1&module=", ok("http_2xx", "http://a/x?y=1")),
            ("target=a%zz%4&module=grpc", ok("grpc", "a%zz%4")),
            ("", Err(BadQuery::NoTarget)),
            ("target=", Err(BadQuery::NoTarget)),
            ("target=a&target=b", Err(BadQuery::TwoTargets)),
            ("target=a&module=icmp", Err(BadQuery::UnknownModule("icmp".to_owned()))),
        ] {
            assert_eq!(Query::parse(query, &all), expected, "{query:?}");
        }
        assert!(Query::parse("target=a&module=grpc", &[]).is_err());
        let long = format!("target={}", "a".repeat(1025));
        assert_eq!(Query::parse(&long, &all), Err(BadQuery::TargetTooLong));
    }

    #[test]
    fn parameters_that_would_change_the_reply_are_refused_by_name() {
        let refused = |query: &str| match Query::parse(query, &[]) {
            Err(why @ BadQuery::Unsupported(_)) => Some(why.to_string()),
            _ => None,
        };
        let not_supported = |name| Some(format!("Parameter {name} is not supported"));
        assert_eq!(refused("target=a&hostname=shop.example"), not_supported("hostname"));
        assert_eq!(refused("debug=true&target=a"), not_supported("debug"));
        for ignored in ["target=a&hostname=", "target=a&debug=false", "target=a&region=eu"] {
            assert_eq!(refused(ignored), None, "{ignored}");
        }
    }
}
