//! Converts modules of blackbox_exporter to modules of `[blackbox]`.
//!
//! Does not know about: the options of the `dns`, `http` and `tcp` probers.

use super::keys::{KEEP, Keys, Placed, Unconverted};
use super::yaml::{Unreadable, parse};
use super::{dns, http, tcp};
use crate::parse_duration;
use doorbell_config::literal;
use serde_json::{Map, Value as Json, json};
use std::cell::RefCell;
use std::time::Duration;

/// The converted keys of a `[blackbox.module.NAME]`, or of a table in it.
pub(super) type Module = Map<String, Json>;

/// The result of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// `[blackbox.module.NAME]` tables as TOML; empty if there are none.
    pub toml: String,
    /// The lines that were not converted, in the order of the file.
    pub notes: Vec<Unconverted>,
}

/// Limits of `timeout`.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(120);

/// Key of the source address, why it has no equivalent, and what to do instead.
pub(super) const SOURCE: (&str, &str, &str) =
    ("source_ip_address", "the source address is common to all modules", "set `check_defaults.egress`");

/// Range of `size`, the length of the payload of an ICMP echo request.
const SIZES: std::ops::RangeInclusive<u32> = 8..=65_507;

/// Converts a `blackbox.yml`.
///
/// # Errors
/// The text is not YAML, or has no table `modules`.
pub fn convert(text: &str) -> Result<Converted, Unreadable> {
    let root = parse(text)?;
    let notes = RefCell::default();
    let mut keys = Keys::of(String::new(), &root, &notes);
    let no_modules = || Unreadable { line: root.line, why: "there is no table `modules`".to_owned() };
    let modules = keys.table("modules").ok_or_else(no_modules)?;
    keys.finish(&[]);
    let mut tables = Map::new();
    for (name, keys) in modules.tables() {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            keys.report_table("a name is made of letters, digits, `_` and `-`", "rename the module");
        } else if let Some(table) = module(name, keys) {
            tables.insert(name.to_owned(), table.into());
        }
    }
    let mut notes = notes.into_inner();
    notes.sort_by_key(|note: &Unconverted| note.line);
    let is_empty = tables.is_empty();
    let toml = toml::to_string_pretty(&json!({ "blackbox": { "module": tables } }))
        .map_err(|error| Unreadable { line: root.line, why: error.to_string() })?;
    Ok(Converted { toml: if is_empty { String::new() } else { toml }, notes })
}

/// Converts one module; `None` if the module is incomplete, or if doorbell has no equivalent probe.
fn module(name: &str, mut keys: Keys<'_>) -> Option<Module> {
    let Some(prober) = keys.text("prober") else {
        keys.report_table("the module has no `prober`", "add it");
        return None;
    };
    let timeout = keys.text("timeout");
    let section = keys.table_or_empty(prober.value);
    let mut module = match prober.value {
        "dns" => dns::module(section),
        "grpc" => Some(grpc(section)),
        "http" => Some(http::module(name, section)),
        "icmp" => icmp(section),
        "tcp" => tcp::module(section),
        _ => {
            keys.report(&prober, "doorbell has no such prober", KEEP);
            None
        }
    }?;
    if let Some(timeout) = timeout {
        match parse_duration(timeout.value).filter(|time| TIMEOUT.contains(time)) {
            Some(_) => drop(module.insert("timeout".to_owned(), timeout.value.into())),
            None => {
                let why = "this is not a duration from 100ms to 2m";
                keys.report(&timeout, why, "add `timeout` to the module");
            }
        }
    }
    // Like the exporter, ignore sections of other probers.
    keys.finish_except(&["dns", "grpc", "http", "icmp", "tcp", "unix"]);
    Some(module)
}

/// Converts the options of the `grpc` prober.
fn grpc(mut keys: Keys<'_>) -> Module {
    let mut module = typed("grpc");
    if let Some(service) = keys.text("service").filter(|service| !service.value.is_empty()) {
        module.insert("service".to_owned(), literal(service.value));
    }
    let is_tls = keys.flag("tls");
    let tls = tls(&mut keys, "tls_config");
    if is_tls {
        module.insert("tls".to_owned(), tls.into());
    }
    resolve(&mut keys, &mut module);
    keys.finish(&[("metadata", "values may be secrets", "add `metadata` to the module")]);
    module
}

/// Converts the options of the `icmp` prober; `None` if a check cannot send such echo requests.
fn icmp(mut keys: Keys<'_>) -> Option<Module> {
    const DF: &str = "an unprivileged ICMP socket does not set the DF bit";
    let mut module = typed("icmp");
    let mut is_expressible = keys.have_only(&[("dont_fragment", "false", DF)]);
    // Zero is the default of the exporter.
    for (theirs, ours, range) in [("payload_size", "size", SIZES), ("ttl", "max_hops", 1..=255)] {
        let Some(text) = keys.text(theirs).filter(|text| text.value != "0") else { continue };
        match text.value.parse::<u32>().ok().filter(|number| range.contains(number)) {
            Some(number) => drop(module.insert(ours.to_owned(), number.into())),
            None => {
                let why = format!("this is not a number from {} to {}", range.start(), range.end());
                keys.report(&text, &why, "correct the line");
                is_expressible = false;
            }
        }
    }
    resolve(&mut keys, &mut module);
    keys.finish(&[SOURCE]);
    is_expressible.then_some(module)
}

/// A module of this type without other keys.
pub(super) fn typed(kind: &str) -> Module {
    Map::from_iter([("type".to_owned(), kind.into())])
}

/// A reference to the secret in a file.
pub(super) fn secret_in(path: &str) -> Json {
    format!("${{file:{path}}}").into()
}

/// Converts the keys about the preferred address family.
pub(super) fn resolve(keys: &mut Keys<'_>, module: &mut Module) {
    let family = keys.text("preferred_ip_protocol");
    let fallback = keys.placed_flag("ip_protocol_fallback");
    let is_strict = fallback.is_some_and(|fallback| !fallback.value);
    let prefer = match family {
        Some(Placed { value: "ip4", .. }) => "ipv4",
        Some(Placed { value: "ip6", .. }) => "ipv6",
        None if is_strict => "ipv6",
        // By default, `[blackbox]` prefers IPv6, as the exporter does.
        None => return,
        Some(other) => return keys.report(&other, "this is neither ip4 nor ip6", "correct the line"),
    };
    let mut resolve = json!({ "prefer": prefer });
    if is_strict {
        resolve["fallback"] = false.into();
    }
    module.insert("resolve".to_owned(), resolve);
}

/// Converts the table `name` of TLS options.
pub(super) fn tls(keys: &mut Keys<'_>, name: &str) -> Module {
    let Some(mut keys) = keys.table(name) else { return Map::new() };
    let mut tls = Map::new();
    let is_insecure = keys.flag("insecure_skip_verify");
    if is_insecure {
        tls.insert("verify".to_owned(), false.into());
    }
    let files =
        [("ca_file", "ca"), ("cert_file", "cert"), ("key_file", "key"), ("server_name", "server_name")];
    for (theirs, ours) in files {
        // Without verification the exporter ignores the CA certificates.
        if let Some(Placed { value, .. }) = keys.text(theirs).filter(|_| !(is_insecure && ours == "ca")) {
            tls.insert(ours.to_owned(), literal(value));
        }
    }
    if let Some(version) = keys.text("min_version").filter(|version| version.value != "TLS12") {
        keys.report(&version, "doorbell uses TLS 1.2 and 1.3", "remove it");
    }
    const IN_FILES: (&str, &str) = ("certificates and keys are read from files", "write it to a file");
    keys.finish(&[
        ("ca", IN_FILES.0, IN_FILES.1),
        ("cert", IN_FILES.0, IN_FILES.1),
        ("key", IN_FILES.0, IN_FILES.1),
        ("max_version", "doorbell uses TLS 1.2 and 1.3", "remove it"),
    ]);
    tls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The TOML of one module, and the notes.
    fn converted(module: &str) -> (String, String) {
        let indented: String = module.lines().map(|line| format!("    {line}\n")).collect();
        let Converted { toml, notes } = convert(&format!("modules:\n  m:\n{indented}")).unwrap();
        let lines = toml.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("|");
        let notes = notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("|");
        (lines.replace("blackbox.module.", ""), notes)
    }

    #[test]
    fn modules_are_converted() {
        for (module, toml) in [
            ("prober: tcp\n", "[m]|type = \"tcp\""),
            ("prober: tcp\ntimeout: 5s\ntcp:\n  tls: true\n", "[m]|timeout = \"5s\"|type = \"tls\"|[m.tls]"),
            (
                "prober: grpc\ngrpc: { service: a.B, tls: false, preferred_ip_protocol: ip4 }\n",
                "[m]|service = \"a.B\"|type = \"grpc\"|[m.resolve]|prefer = \"ipv4\"",
            ),
            ("prober: icmp\nicmp:\n  ttl: 5\n  payload_size: 0\n", "[m]|max_hops = 5|type = \"icmp\""),
            (
                "prober: dns\ndns: { query_name: a.test, query_type: SOA, tls_config: { ca_file: x } }\n",
                "[m]|name = \"a.test\"|record = \"SOA\"|type = \"dns\"|[m.expect]|min_answers = 0",
            ),
            (
                "prober: dns\ndns:\n  query_name: a.test\n  query_type: A\n  transport_protocol: udp\n  valid_rcodes: [NXDOMAIN]\n",
                "[m]|name = \"a.test\"|record = \"A\"|type = \"dns\"|[m.expect]|code = \"NXDOMAIN\"",
            ),
            (
                "prober: tcp\ntcp:\n  query_response: [{ send: A }, { send: 'B${1}' }, { expect: '^C' }]\n",
                "[m]|send = \"\"\"|A|B$${1}|\"\"\"|type = \"tcp\"|[m.expect]|matches = \"(?mR)^C\"",
            ),
            (
                "prober: http\nhttp:\n  method: HEAD\n  follow_redirects: false\n  valid_status_codes: [200, 302]\n",
                "[m]|follow_redirects = \"no\"|http_version = \"auto\"|max_body = \"256KiB\"|method = \"HEAD\"|type = \"http\"|[m.expect]|status = [|    \"200\",|    \"302\",|]",
            ),
        ] {
            assert_eq!(converted(module), (toml.to_owned(), String::new()), "{module}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        for (module, note) in [
            ("prober: unix\n", "3: modules.m.prober: doorbell has no such prober"),
            (
                "prober: icmp\nicmp:\n  ttl: 256\n",
                "5: modules.m.icmp.ttl: this is not a number from 1 to 255",
            ),
            (
                "prober: tcp\ntcp:\n  preferred_ip_protocol: ipv4\n",
                "5: modules.m.tcp.preferred_ip_protocol: this is neither ip4 nor ip6",
            ),
            ("prober: icmp\nicmp:\n  dont_fragment: true\n", "5: modules.m.icmp.dont_fragment: "),
            ("prober: dns\n", "2: modules.m.dns: the module has no `query_name`"),
            ("prober: dns\ndns:\n  query_name: a\n", "5: modules.m.dns: without `query_type`"),
            ("prober: dns\ndns:\n  query_name: a\n  query_type: HINFO\n", "6: modules.m.dns.query_type: "),
            (
                "prober: dns\ndns: { query_name: a, query_type: A, dns_over_tls: true }\n",
                "4: modules.m.dns.dns_over_tls: ",
            ),
            (
                "prober: dns\ndns:\n  query_name: a\n  query_type: A\n  valid_rcodes:\n  - NOERROR\n  - NXDOMAIN\n",
                "8: modules.m.dns.valid_rcodes: a dns check expects one code",
            ),
            (
                "prober: dns\ndns:\n  query_name: a\n  query_type: A\n  validate_answer_rrs:\n    fail_if_matches_regexp: [x]\n",
                "7: modules.m.dns.validate_answer_rrs: a dns check compares records",
            ),
            ("timeout: 5s\n", "2: modules.m: the module has no `prober`"),
            ("prober: http\ntimeout: 1h\n", "4: modules.m.timeout: this is not a duration"),
            ("prober: http\nhttp:\n  proxy_url: x\n", "5: modules.m.http.proxy_url: "),
            ("prober: http\nhttp:\n  methd: x\n", "5: modules.m.http.methd: this key is unknown"),
            ("prober: http\nhttp: 1\n", "4: modules.m.http: this is not a table"),
            (
                "prober: http\nhttp:\n  fail_if_body_matches_regexp:\n  - '(?=x)'\n",
                "6: modules.m.http.fail_if_body_matches_regexp: doorbell does not support this regular expression",
            ),
            ("prober: tcp\ntcp:\n  tls: true\n  query_response:\n  - expect: x\n", "5: modules.m.tcp.tls: "),
            (
                "prober: tcp\ntcp:\n  query_response:\n  - expect: x\n    send: y\n",
                "7: modules.m.tcp.query_response.send: ",
            ),
        ] {
            let (toml, notes) = converted(module);
            assert!(notes.starts_with(note) && !notes.contains('|'), "{module}: {notes}\n{toml}");
        }
    }

    /// Secrets in clear text are not part of the result.
    #[test]
    fn secrets_stay_where_they_are() {
        let (toml, notes) = converted(
            "prober: http\nhttp:\n  headers: { X-Api-Key: hunter2 }\n  basic_auth: { username: a, password: hunter2 }\n",
        );
        assert!(!toml.contains("hunter2") && !notes.contains("hunter2"), "{toml}\n{notes}");
        assert!(toml.contains("password = \"${file:/run/secrets/m}\""), "{toml}");
        assert_eq!(notes.matches('|').count(), 1, "{notes}");
    }

    #[test]
    fn files_without_modules() {
        for (text, expected) in [
            ("a: 1\n", "line 1: there is no table `modules`"),
            ("- a\n", "line 1: there is no table `modules`"),
            ("modules: [", ""),
        ] {
            let error = convert(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
