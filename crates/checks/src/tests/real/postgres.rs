//! PostgreSQL.

use super::*;
use crate::tests::postgres::with_access;
use options::PostgresCheck;

/// The folder of the newest programs, which Debian keeps out of the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let dirs = versions.map(|version| version.path().join("bin"));
    let found = dirs.filter(|dir| dir.join("postgres").is_file()).max();
    if found.is_none() {
        skipped(Need::Clients, "postgresql is not installed");
    }
    found
}

/// A command of the user `postgres`, as the server refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

#[test]
fn postgres_serves() {
    let Some(programs) = programs() else { return };
    let scratch = Scratch::new("postgres");
    let [certificate, key] = scratch.certificate();
    let (data, password) = (scratch.path("data"), scratch.write("password", "p w"));
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown").args(["-R", "postgres:"]).arg(&scratch.0).status();
        assert!(owned.unwrap().success());
    }
    let created = unprivileged(&programs.join("initdb"))
        .args(["--username=checker", "--auth=scram-sha-256", "--no-sync", "--no-instructions"])
        .arg(format!("--pwfile={}", password.display()))
        .arg(format!("--pgdata={}", data.display()))
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
    let port = free_port();
    let settings = [
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("unix_socket_directories={}", scratch.0.display()),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate.display()),
        format!("ssl_key_file={}", key.display()),
        "default_transaction_read_only=on".to_owned(),
    ];
    let mut command = unprivileged(&programs.join("postgres"));
    command.arg("-D").arg(&data).args(settings.iter().flat_map(|setting| ["-c", setting]));
    let server = Server::start(&mut command);

    let plain = PostgresCheck::new(local(port));
    await_success(plain.clone());
    let socket = scratch.path(&format!(".s.PGSQL.{port}"));
    succeeds(PostgresCheck::new(Address::Unix(socket)));
    let tls = with_access(&plain, |access| access.tls = Some(trusted(&certificate)));
    succeeds(tls.clone());
    let user =
        PostgresCheck { username: Some("checker".to_owned()), database: Some("postgres".to_owned()), ..tls };
    let user = with_access(&user, |access| access.password = Some(Secret::new("p w".to_owned())));
    succeeds(user.clone());
    succeeds(with_access(&user, |access| {
        access.writable = Some(false);
        access.tls = None;
    }));
    fails(with_access(&user, |access| access.writable = Some(true)), "the server is read-only");
    let wrong = with_access(&user, |access| access.password = Some(Secret::new("other".to_owned())));
    fails(wrong, "password authentication failed for user \"checker\" (28P01)");
    fails(with_access(&user, |access| access.password = None), "the server asks for a password");
    let missing = PostgresCheck { database: Some("none".to_owned()), ..user };
    fails(missing, "database \"none\" does not exist (3D000)");
    fails(with_access(&plain, |access| access.tls = Some(ClientTls::default())), "TLS: ");
    hangs(&server, PostgresCheck::new(at(port)));
    ends(server, &[(PostgresCheck::new(at(port)).into(), port)]);
}
