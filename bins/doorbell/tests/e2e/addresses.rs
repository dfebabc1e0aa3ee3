//! Addresses that overlap, in the tables of one configuration and across a reload.

use std::io::Read as _;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use doorbell_testkit::peers::wait_until;

use crate::generations::{Reloaded, ask};
use crate::support::{Doorbell, LIMIT, Scratch, binary, free_port, has_ipv6, on_auto};

on_auto! {
    each_table_may_have_the_ipv4_address_of_a_wildcard
    an_address_in_use_by_another_table_prevents_the_start
    a_reload_does_not_change_the_family_of_an_address
}

const MINIMAL: &str =
    "version = 1\n[runtime]\nworkers = 1\n[control]\nsocket = \"off\"\n[lifecycle]\ndrain_delay = \"0s\"\n";

fn each_table_may_have_the_ipv4_address_of_a_wildcard(engine: &str) {
    if !has_ipv6() {
        return;
    }
    let [web, probes, gate, udp, admin] = [(); 5].map(|()| free_port());
    let text = format!(
        "{MINIMAL}[listener.first]\nbind = \"127.0.0.1:0\"\n\
         [listener.v6]\nbind = \"[::]:{web}\"\n[listener.v4]\nbind = [\"127.0.0.1:{probes}\", \"127.0.0.1:{admin}\"]\n\
         [admin]\nbind = \"[::]:{admin}\"\n\
         [blackbox]\nbind = [\"0.0.0.0:{web}\", \"[::]:{probes}\"]\ntargets = [\"127.0.0.0/8\"]\n\
         [tcp_gate.g]\nbind = \"[::]:{gate}\"\n[agent.a]\nbind = \"0.0.0.0:{gate}\"\n\
         [udp.v6]\nbind = \"[::]:{udp}\"\nreply = \"echo\"\n[udp.v4]\nbind = \"0.0.0.0:{udp}\"\nreply = \"echo\"\n"
    );
    let doorbell = Doorbell::start_with(engine, &text);
    let v6 = |port: u16| (Ipv6Addr::LOCALHOST, port).into();
    let v4 = |port: u16| (Ipv4Addr::LOCALHOST, port).into();
    for (is_probes, addr) in [(true, v4(web)), (false, v6(web)), (true, v6(probes)), (false, v4(probes))] {
        let (status, body) = ask(addr, "/livez");
        assert_eq!(status, if is_probes { 404 } else { 200 }, "{addr}: {body}\n{}", doorbell.process.log());
    }
    assert_eq!(ask(v4(admin), "/livez").0, 200);
    assert!(TcpStream::connect(v6(admin)).is_ok());
    let mut line = String::new();
    TcpStream::connect(v4(gate)).unwrap().read_to_string(&mut line).unwrap();
    assert!(line.starts_with("up"), "{line:?}");
    assert!(wait_until(LIMIT, || TcpStream::connect(v6(gate)).is_ok()).is_some());
    for (from, to) in [("127.0.0.1:0", v4(udp)), ("[::1]:0", v6(udp))] {
        let client = UdpSocket::bind(from).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.send_to(b"a", to).unwrap();
        assert_eq!(client.recv(&mut [0; 8]).unwrap(), 1, "{to}");
    }
}

/// `--listen` replaces the address of the file after the file was validated.
fn an_address_in_use_by_another_table_prevents_the_start(engine: &str) {
    let port = free_port();
    let scratch = Scratch::new();
    for table in [
        format!("[blackbox]\nbind = \"127.0.0.1:{port}\"\ntargets = [\"127.0.0.0/8\"]\n"),
        format!("[tcp_gate.g]\nbind = \"127.0.0.1:{port}\"\nwhen_down = \"reset\"\n"),
    ] {
        let file = format!("{MINIMAL}[listener.a]\nbind = \"127.0.0.1:0\"\n{table}");
        let file = scratch.write("doorbell.toml", &file);
        let mut command = Command::new(binary());
        command.args(["serve", "-c", &file, "--driver", engine, "--listen", &format!("0.0.0.0:{port}")]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let ended = wait_until(LIMIT, || child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(ended.is_some() && output.status.code() == Some(73), "{table}: {err}");
        assert!(err.contains("address in use"), "{err}");
    }
}

/// The kernel closes the sockets of an io_uring soon after the exit of its process.
fn await_free(port: u16) {
    let is_free = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok();
    assert!(wait_until(LIMIT, is_free).is_some(), "{port} is still in use");
}

fn a_reload_does_not_change_the_family_of_an_address(engine: &str) {
    if !has_ipv6() {
        return;
    }
    let port = free_port();
    let dual = format!("[agent.a]\nbind = \"[::]:{port}\"\n");
    let probes = |ip: &str| format!("[blackbox]\nbind = \"{ip}:{port}\"\ntargets = [\"127.0.0.0/8\"]\n");
    let twin = |table: &str| format!("{dual}{table}\nbind = \"0.0.0.0:{port}\"\n");
    let with_probes = format!("{dual}{}", probes("0.0.0.0"));
    let [both, v6] = [("IPv4 and IPv6"), ("only IPv6")].map(|of| format!("[::]:{port} ({of})"));
    for (old, new, addr, held) in [
        (dual.clone(), twin("[agent.b]"), &v6, &both),
        (dual.clone(), twin("[tcp_gate.b]"), &v6, &both),
        (dual.clone(), with_probes.clone(), &v6, &both),
        (twin("[agent.b]"), dual.clone(), &both, &v6),
        (with_probes, probes("[::]"), &both, &v6),
        (probes("0.0.0.0"), probes("127.0.0.1"), &format!("127.0.0.1:{port}"), &format!("0.0.0.0:{port}")),
    ] {
        await_free(port);
        let reloaded = Reloaded::start(engine, &old);
        reloaded.write("1", &new);
        let output = reloaded.run(&["reload"]);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("cannot bind {addr} while doorbell listens at {held}: restart doorbell");
        assert!(output.status.code() == Some(1) && err.contains(&expected), "{new}: {err}");
        assert_eq!(reloaded.hello(), "0");
        // The new configuration is valid, and takes effect with a restart.
        drop(reloaded);
        await_free(port);
        assert_eq!(Reloaded::start(engine, &new).hello(), "0");
    }
}
