//! Dovecot for IMAP and POP3, and aiosmtpd for SMTP: unlike the packages of mail transfer agents,
//! its package does not conflict with other packages.

use super::*;
use options::{MailCheck, MailProtocol};

fn starttls(protocol: MailProtocol, port: u16, tls: ClientTls) -> MailCheck {
    MailCheck { starttls: true, tls: Some(tls), ..MailCheck::new(protocol, local(port)) }
}

#[test]
fn aiosmtpd_serves() {
    if !has_python_module("aiosmtpd") {
        return;
    }
    let scratch = Scratch::new("aiosmtpd");
    let [certificate, key] = scratch.certificate();
    let port = free_port();
    let mut command = Command::new(PYTHON);
    command.args([
        "-m",
        "aiosmtpd",
        "--nosetuid",
        "--no-requiretls",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]);
    command.arg("--tlscert").arg(&certificate).arg("--tlskey").arg(&key);
    let server = Server::start(&mut command);

    let smtp = MailCheck::new(MailProtocol::Smtp, local(port));
    await_success(smtp.clone());
    succeeds(starttls(MailProtocol::Smtp, port, trusted(&certificate)));
    fails(starttls(MailProtocol::Smtp, port, ClientTls::default()), "TLS: invalid peer certificate: ");
    fails(MailCheck { protocol: MailProtocol::Imap, ..smtp }, "the response is not IMAP: \"220 ");
    let check = MailCheck::new(MailProtocol::Smtp, at(port));
    hangs(&server, check.clone());
    ends(server, &[(check.into(), port)]);
}

#[test]
fn dovecot_serves() {
    let Some(dovecot) = program("dovecot") else { return };
    let scratch = Scratch::new("dovecot");
    let [certificate, key] = scratch.certificate();
    let [imap, imaps, pop3, pop3s] = [(); 4].map(|()| free_port());
    let user = rustix::process::geteuid().as_raw();
    let owner = if user == 0 {
        String::new()
    } else {
        format!("default_internal_user = {user}\ndefault_login_user = {user}\n")
    };
    let dir = scratch.0.display();
    let listeners = [("imap", imap), ("imaps", imaps), ("pop3", pop3), ("pop3s", pop3s)];
    let services = listeners.map(|(name, port)| {
        let service = name.trim_end_matches('s');
        format!("service {service}-login {{\n  inet_listener {name} {{\n    port = {port}\n  }}\n}}\n")
    });
    let config = format!(
        "protocols = imap pop3\nlisten = 127.0.0.1\nbase_dir = {dir}/run\nstate_dir = {dir}/state\nlog_path = {dir}/log\n\
         ssl = yes\nssl_cert = <{certificate}\nssl_key = <{key}\npassdb {{\n  driver = static\n}}\n{owner}{services}",
        certificate = certificate.display(),
        key = key.display(),
        services = services.concat(),
    );
    let config = scratch.write("dovecot.conf", &config);
    let server = Server::start(Command::new(dovecot).arg("-F").arg("-c").arg(config));

    for (protocol, port, tls_port) in [(MailProtocol::Imap, imap, imaps), (MailProtocol::Pop3, pop3, pop3s)] {
        await_success(MailCheck::new(protocol, local(port)));
        succeeds(starttls(protocol, port, trusted(&certificate)));
        let tls = MailCheck { tls: Some(trusted(&certificate)), ..MailCheck::new(protocol, local(tls_port)) };
        succeeds(tls.clone());
        fails(MailCheck { tls: Some(ClientTls::default()), ..tls }, "TLS: invalid peer certificate: ");
    }
    let checks = [(MailProtocol::Imap, imap), (MailProtocol::Pop3, pop3)];
    ends(server, &checks.map(|(protocol, port)| (MailCheck::new(protocol, at(port)).into(), port)));
}
