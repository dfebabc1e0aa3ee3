//! MariaDB.

use super::*;
use crate::tests::mysql::with_access;
use options::MysqlCheck;

#[test]
fn mariadb_serves() {
    let (Some(install), Some(mariadbd)) = (program("mariadb-install-db"), program("mariadbd")) else {
        return;
    };
    let scratch = Scratch::new("mariadb");
    let [certificate, key] = scratch.certificate();
    let users = "CREATE USER checker IDENTIFIED BY 'p w';\nCREATE USER guest;\n\
                 INSTALL SONAME 'auth_ed25519';\nCREATE USER other IDENTIFIED VIA ed25519 USING PASSWORD('p w');\n";
    let (data, users) = (scratch.path("data"), scratch.write("users.sql", users));
    let user = if rustix::process::geteuid().is_root() { "--user=root" } else { "--skip-name-resolve" };
    let data = format!("--datadir={}", data.display());
    let options = ["--auth-root-authentication-method=normal", "--skip-test-db", user];
    let created = Command::new(install).arg("--no-defaults").arg(&data).args(options).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let (port, socket) = (free_port(), scratch.path("socket"));
    let mut command = Command::new(mariadbd);
    command.args([
        "--no-defaults",
        "--bind-address=127.0.0.1",
        "--read-only=1",
        "--max-connect-errors=3",
        "--innodb-fast-shutdown=2",
        user,
    ]);
    command.arg(data).arg(format!("--port={port}")).arg(format!("--socket={}", socket.display()));
    command.arg(format!("--pid-file={}", scratch.path("pid").display()));
    command.arg(format!("--init-file={}", users.display()));
    command.arg(format!("--ssl-cert={}", certificate.display())).arg(format!("--ssl-key={}", key.display()));
    let server = Server::start(&mut command);

    let plain = MysqlCheck::new(local(port));
    await_success(plain.clone());
    // The server does not count errors of 127.0.0.1.
    let sources = vec!["127.0.0.2".parse().unwrap()];
    let connector = Connector::open(&EgressOptions { sources, ..EgressOptions::default() }).unwrap();
    let other_host = runner_with(pace(TIMEOUT), plain.clone(), &Arc::new(connector));
    for run in 0..5 {
        let finding = block_on(other_host.run());
        assert_eq!((finding.outcome, &*finding.reason), (Outcome::Success, ""), "run {run}");
    }
    succeeds(MysqlCheck::new(Address::Unix(socket)));
    let tls = with_access(&plain, |access| access.tls = Some(trusted(&certificate)));
    succeeds(tls.clone());
    let named = |name: &str| MysqlCheck { username: Some(name.to_owned()), ..tls.clone() };
    succeeds(named("guest"));
    let user = with_access(&named("checker"), |access| access.password = Some(Secret::new("p w".to_owned())));
    succeeds(user.clone());
    succeeds(with_access(&user, |access| {
        access.writable = Some(false);
        access.tls = None;
    }));
    fails(with_access(&user, |access| access.writable = Some(true)), "the server is read-only");
    fails(named("checker"), "Access denied for user 'checker'@'localhost' (using password: NO) (1045)");
    let other = MysqlCheck { username: Some("other".to_owned()), ..user };
    fails(other, "the login method \"client_ed25519\" is not supported");
    fails(with_access(&plain, |access| access.tls = Some(ClientTls::default())), "TLS: ");
    hangs(&server, MysqlCheck::new(at(port)));
    ends(server, &[(MysqlCheck::new(at(port)).into(), port)]);
}
