//! Reports on the files that a configuration names: certificates, keys, key sets, links,
//! directories.
//!
//! The key pairs in `config_material` are for tests; the certificate is valid from 2026 to 2036.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell_proxy_config::{Outside, Parsed, Severity, Source, parse, parse_with};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A time in 2030, within the validity of the certificate, in seconds since 1970.
const WITHIN: i64 = 1_900_000_000;
const AFTER: i64 = 2_300_000_000;
const BEFORE: i64 = 1_000_000_000;

struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with valid and invalid files of every kind.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("doorbell-config-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        let material = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_material");
        for entry in fs::read_dir(material).unwrap() {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap();
            folder.write(entry.file_name().to_str().unwrap(), &text);
        }
        let open = folder.0.join("open.key");
        fs::copy(folder.0.join("server.key"), &open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o604)).unwrap();
        folder.write("empty", "");
        folder.write("links.map", "/a https://a.example/\n/b /c 302\n");
        folder.write("wrong.map", "/a https://a.example/\nb https://b.example/\n/c nowhere\n");
        folder.write("jwks.json", "{\"keys\":[]}");
        // An RSA key of 24 bits, and the Ed25519 key of RFC 8037 A.2.
        folder.write(
            "mixed.json",
            "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"____\",\"e\":\"AQAB\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\
             \"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        );
        folder.write("token", "0123456789abcdefghijkl\n");
        write_chain(&folder);
        folder.write("secret", "0123456789abcdef0123456789abcdef");
        let oct = "{\"keys\":[{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY\"}]}";
        folder.write("oct.json", oct);
        for name in ["secret", "oct.json"] {
            let open = folder.0.join(format!("open.{name}"));
            fs::copy(folder.0.join(name), &open).unwrap();
            fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        }
        for (name, mode) in [("written.secret", 0o602), ("run.secret", 0o601)] {
            let file = folder.0.join(name);
            fs::copy(folder.0.join("secret"), &file).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn parse(&self, text: &str, unix_secs: i64) -> (Source, Parsed) {
        let text = format!("version = 1\n[listener.web]\nbind = \":80\"\n{text}");
        let source = Source { name: "f".into(), text };
        let read_secret = |path: &Path| fs::read_to_string(path).map_err(|error| error.to_string());
        let env = |name: &str| (name == "DIR").then(|| self.0.to_str().unwrap().to_owned());
        let outside = Outside { read_secret: &read_secret, files_at: Some(unix_secs), ..Outside::new(&env) };
        let parsed = parse_with(&source, outside);
        (source, parsed)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed removal is harmless: the folder is in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate valid until 2040, its issuer valid until 2029, and revocation lists of that issuer
/// valid until 2025 and until 2099.
fn write_chain(folder: &Folder) {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.distinguished_name.push(DnType::CommonName, "An issuer");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (ca.not_before, ca.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2029, 1, 1));
    let root = ca.self_signed(&root_key).unwrap();
    let issuer = Issuer::new(ca, root_key);
    let mut server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (server.not_before, server.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
    let server = server.signed_by(&key, &issuer).unwrap();
    folder.write("chain.crt", &format!("{}{}", server.pem(), root.pem()));
    folder.write("chain.key", &key.serialize_pem());
    folder.write("issuer.crt", &root.pem());
    for (name, year) in [("old.crl", 2025), ("new.crl", 2099)] {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        folder.write(name, &list.signed_by(&issuer).unwrap().pem().unwrap());
    }
}

fn tls(cert: &str, key: &str) -> String {
    format!("tls = \"t\"\n[tls.t]\ncert = \"${{DIR}}/{cert}\"\nkey = \"${{DIR}}/{key}\"\n")
}

fn client_auth(ca: &str, crl: &str) -> String {
    let pair = tls("server.crt", "server.key");
    format!("{pair}client_auth = {{ mode = \"request\", ca = \"${{DIR}}/{ca}\"{crl} }}\n")
}

fn check(tls: &str) -> String {
    format!("[check.a]\ntype = \"http\"\nurl = \"https://127.0.0.1/\"\ntls = {{ {tls} }}\n")
}

/// A table of another client of TLS, with a CA that does not exist.
fn store(table: &str, keys: &str) -> String {
    let blackbox = "[blackbox]\nbind = \"127.0.0.1:9115\"\ntargets = \"10.0.0.0/8\"\n";
    let blackbox = if table.starts_with("blackbox") { blackbox } else { "" };
    format!("{blackbox}[{table}]\n{keys}\ntls = {{ ca = \"${{DIR}}/gone.crt\" }}\n")
}

fn jwt(rest: &str) -> String {
    format!("[auth.a]\njwt = {{ {rest} }}\n[route.a]\npath = \"/a\"\nauth = \"a\"\nreply = {{}}\n")
}

fn route(action: &str) -> String {
    format!("[route.a]\npath = \"/a/{{name}}\"\n{action}\n")
}

fn listener(bind: &str) -> String {
    format!("[listener.a]\nbind = \"{bind}\"\n")
}

/// The text, the time of the check, the expected problem codes, a part of the marked text, and a
/// part of the report.
type Case = (String, i64, &'static [&'static str], &'static str, &'static str);

fn tls_cases() -> Vec<Case> {
    vec![
        (tls("server.crt", "server.key"), WITHIN, &[], "", ""),
        (tls("server.crt", "server.key"), AFTER, &["certificate-expired"], "server.crt", "days ago"),
        (tls("server.crt", "server.key"), BEFORE, &["certificate-not-yet-valid"], "server.crt", "days"),
        (tls("server.crt", "open.key"), WITHIN, &["key-readable"], "open.key", "mode 604"),
        (tls("server.crt", "other.key"), WITHIN, &["key-mismatch"], "other.key", "issued together"),
        (tls("server.key", "server.crt"), WITHIN, &["bad-certificate"], "server.key", "swapped"),
        (tls("server.crt", "empty"), WITHIN, &["bad-key"], "empty", "no private key"),
        (tls("gone.crt", "gone.key"), WITHIN, &["missing-file", "missing-file"], "gone.crt", "No such file"),
        (tls("", "server.key"), WITHIN, &["missing-file"], "${DIR}/", "not a file"),
        (client_auth("server.crt", ""), WITHIN, &[], "", ""),
        (client_auth("gone.crt", ""), WITHIN, &["missing-file"], "gone.crt", "No such file"),
        (client_auth("empty", ""), WITHIN, &["bad-certificate"], "empty", "no certificate"),
        (check("ca = \"${DIR}/server.crt\""), WITHIN, &[], "", ""),
        (check("ca = \"${DIR}/gone.crt\""), WITHIN, &["missing-file"], "gone.crt", "No such file"),
        (check("ca = \"${DIR}/empty\""), WITHIN, &["bad-certificate"], "empty", "no certificate"),
        (
            store("shared", "redis = \"rediss://a\"\nannounce = true"),
            WITHIN,
            &["missing-file"],
            "gone.crt",
            "No such",
        ),
        (
            store("history.clickhouse", "url = \"https://a\""),
            WITHIN,
            &["missing-file"],
            "gone.crt",
            "No such",
        ),
        (store("blackbox.module.a", "type = \"http\""), WITHIN, &["missing-file"], "gone.crt", "No such"),
        (
            check("cert = \"${DIR}/server.crt\", key = \"${DIR}/other.key\""),
            WITHIN,
            &["key-mismatch"],
            "other.key",
            "issued together",
        ),
        (
            client_auth("server.crt", ", crl = \"${DIR}/empty\""),
            WITHIN,
            &["bad-crl"],
            "empty",
            "revocation list",
        ),
    ]
}

/// Cases for material that expires before the server certificate: a chain and a revocation list.
fn end_cases() -> Vec<Case> {
    let crl = |rest: &str| client_auth("issuer.crt", &format!(", crl = \"${{DIR}}/{rest}"));
    vec![
        (
            tls("chain.crt", "chain.key"),
            WITHIN,
            &["certificate-expired"],
            "chain.crt",
            "certificate 2 of the chain",
        ),
        (tls("chain.crt", "chain.key"), 1_600_000_000, &[], "", ""),
        (crl("new.crl\""), WITHIN, &[], "", ""),
        (crl("old.crl\""), WITHIN, &["crl-expired"], "old.crl", "clients with a certificate are refused"),
        (
            crl("old.crl\", expired_crls_hold = true"),
            WITHIN,
            &["crl-expired"],
            "old.crl",
            "certificates that were revoked later",
        ),
    ]
}

fn jwt_cases() -> Vec<Case> {
    vec![
        (jwt("algorithm = \"ES256\", key_file = \"${DIR}/other.pub\""), WITHIN, &[], "", ""),
        (
            jwt("algorithm = \"RS256\", key_file = \"${DIR}/other.pub\""),
            WITHIN,
            &["bad-key"],
            "other.pub",
            "RS256",
        ),
        (
            jwt("algorithm = \"ES256\", key_file = \"${DIR}/other.key\""),
            WITHIN,
            &["bad-key"],
            "other.key",
            "private key",
        ),
        (
            jwt("algorithm = \"ES256\", key_file = \"${DIR}/server.crt\""),
            WITHIN,
            &["bad-key"],
            "server.crt",
            "certificate",
        ),
        (
            jwt("algorithm = \"ES256\", key_file = \"${DIR}/gone.pub\""),
            WITHIN,
            &["missing-file"],
            "gone.pub",
            "No such file",
        ),
        (
            jwt("algorithm = \"ES256\", jwks_file = \"${DIR}/jwks.json\""),
            WITHIN,
            &["bad-key"],
            "jwks.json",
            "no key",
        ),
        (
            jwt("algorithm = [\"EdDSA\", \"RS256\"], jwks_file = \"${DIR}/mixed.json\""),
            WITHIN,
            &["ignored-key"],
            "mixed.json",
            "key 1 of the set",
        ),
        (
            jwt("algorithm = \"ES256\", jwks_file = \"${DIR}/empty\""),
            WITHIN,
            &["bad-key"],
            "empty",
            "not a key set",
        ),
        (
            jwt("algorithm = \"HS256\", secret = \"${file:DIR/server.key}\""),
            WITHIN,
            &["bad-key"],
            "server.key",
            "public key",
        ),
        (
            jwt("algorithm = \"ES256\", key_file = \"${DIR}/other.pub\", require = { scope = \"a \\\\ b\" }"),
            WITHIN,
            &["bad-value"],
            "a ",
            "scopes",
        ),
    ]
}

fn token(name: &str) -> String {
    format!(
        "[auth.a]\ntokens = {{ a = \"${{file:DIR/{name}}}\" }}\n[route.a]\npath = \"/a\"\nauth = \"a\"\nreply = {{}}\n"
    )
}

/// Cases for files with secrets that other users can read.
fn secret_cases() -> Vec<Case> {
    let hmac = |name: &str| jwt(&format!("algorithm = \"HS256\", secret = \"${{file:DIR/{name}}}\""));
    let set = |name: &str| jwt(&format!("algorithm = \"HS256\", jwks_file = \"${{DIR}}/{name}\""));
    vec![
        (token("secret"), WITHIN, &[], "", ""),
        (token("open.secret"), WITHIN, &["secret-readable"], "open.secret", "mode 644"),
        (token("written.secret"), WITHIN, &["secret-readable"], "written.secret", "can change"),
        (token("run.secret"), WITHIN, &[], "", ""),
        (hmac("secret"), WITHIN, &[], "", ""),
        (hmac("open.secret"), WITHIN, &["secret-readable"], "open.secret", "chmod o-rwx"),
        (set("oct.json"), WITHIN, &[], "", ""),
        (set("open.oct.json"), WITHIN, &["key-readable"], "open.oct.json", "mode 644"),
    ]
}

fn other_cases() -> Vec<Case> {
    vec![
        (route("files = { dir = \"${DIR}\" }"), WITHIN, &[], "", ""),
        (route("files = { dir = \"${DIR}/gone\" }"), WITHIN, &["missing-directory"], "gone", "directory"),
        (route("redirect = { map = \"${DIR}/links.map\" }"), WITHIN, &[], "", ""),
        (
            route("redirect = { map = \"${DIR}/wrong.map\" }"),
            WITHIN,
            &["bad-links", "bad-links"],
            "wrong.map",
            "wrong.map:",
        ),
        (
            route("redirect = { map = \"${DIR}/gone.map\" }"),
            WITHIN,
            &["missing-file"],
            "gone.map",
            "No such file",
        ),
        ("[log]\naccess_file = \"${DIR}/access.log\"\n".into(), WITHIN, &[], "", ""),
        ("[log]\naccess_file = \"-\"\n".into(), WITHIN, &[], "", ""),
        (listener("unix:${DIR}/free.sock"), WITHIN, &[], "", ""),
        (listener("unix:${DIR}/links.map"), WITHIN, &["not-a-socket"], "links.map", "not a socket"),
        (listener("unix:${DIR}"), WITHIN, &["not-a-socket"], "unix:", "remove the file"),
        (
            "[log]\naccess_file = \"${DIR}/gone/access.log\"\n".into(),
            WITHIN,
            &["missing-directory"],
            "gone",
            "directory",
        ),
    ]
}

#[test]
fn every_file_is_looked_at() {
    let folder = Folder::new("cases");
    let dir = folder.0.to_str().unwrap();
    for (text, unix_secs, codes, marked, said) in
        [tls_cases(), end_cases(), jwt_cases(), secret_cases(), other_cases()].concat()
    {
        let (source, parsed) = folder.parse(&text.replace("file:DIR", &format!("file:{dir}")), unix_secs);
        let shown = source.render(&parsed.problems, false);
        let found: Vec<_> = parsed.problems.iter().map(|problem| problem.code).collect();
        assert_eq!(found, codes, "{text}\n{shown}");
        if let Some(problem) = parsed.problems.first() {
            assert!(source.text[problem.span.clone()].contains(marked), "{marked}: {shown}");
            assert!(shown.contains(said), "{said}: {shown}");
            assert!(problem.help.is_some() || problem.code == "bad-key", "{shown}");
        }
        let is_error = parsed.problems.iter().any(|problem| problem.severity == Severity::Error);
        assert_eq!(parsed.config.is_none(), is_error, "{text}");
        let warns = [
            "certificate-expired",
            "certificate-not-yet-valid",
            "crl-expired",
            "ignored-key",
            "key-readable",
            "missing-directory",
            "secret-readable",
        ];
        if !text.contains("access_file") {
            assert_eq!(is_error, codes.iter().any(|code| !warns.contains(code)), "{shown}");
        }
    }
}

#[test]
fn the_real_world_is_looked_at_too() {
    let folder = Folder::new("real");
    let dir = folder.0.to_str().unwrap();
    let text = "version = 1\n[listener.web]\nbind = \":80\"\n[auth.a]\ntokens = { a = \"${file:DIR/token}\" }\n\
        [route.a]\npath = \"/a\"\nauth = \"a\"\nreply = {}\n";
    let source = Source { name: "f".into(), text: text.replace("DIR", dir) };
    let config = parse(&source, &|_| None).config.unwrap();
    assert_eq!(
        config.auth[0].tokens[0].1.reveal(),
        "0123456789abcdefghijkl",
        "the line end is not part of the token"
    );
    for wrong in ["gone", "", "../../dev/zero"] {
        let source = Source { name: "f".into(), text: text.replace("DIR/token", &format!("{dir}/{wrong}")) };
        let parsed = parse(&source, &|_| None);
        assert_eq!(parsed.problems[0].code, "missing-file", "{wrong}");
    }
    let text = "version = 1\n[listener.web]\nbind = \":80\"\ntls = \"t\"\n[tls.t]\ncert = \"/dev/zero\"\nkey = \"/dev/null\"\n";
    let parsed = parse(&Source { name: "f".into(), text: text.into() }, &|_| None);
    let codes: Vec<_> = parsed.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(
        codes,
        ["missing-file", "missing-file"],
        "devices are rejected, because reading them may not end"
    );
}
