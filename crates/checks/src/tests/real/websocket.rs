//! The websockets library of Python.

use super::*;
use options::WebsocketCheck;

/// A server that repeats each message in capital letters.
const ECHO: &str = "
import asyncio, ssl, sys, websockets
async def repeat(socket, path=None):
    async for message in socket:
        await socket.send(message.upper())
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    async with websockets.serve(repeat, '127.0.0.1', int(sys.argv[1])):
        async with websockets.serve(repeat, '127.0.0.1', int(sys.argv[2]), ssl=context):
            await asyncio.Future()
asyncio.run(main())
";

#[test]
fn websockets_serves() {
    if !has_python_module("websockets") {
        return;
    }
    let scratch = Scratch::new("websockets");
    let [certificate, key] = scratch.certificate();
    let [port, tls_port] = [(); 2].map(|()| free_port());
    let mut command = Command::new(PYTHON);
    command.args(["-c", ECHO, &port.to_string(), &tls_port.to_string()]).args([&certificate, &key]);
    let server = Server::start(&mut command);

    let plain = WebsocketCheck::new(url(format!("http://localhost:{port}/socket")));
    await_success(plain.clone());
    let says = |contains: &str| WebsocketCheck {
        send: Some("hello".to_owned()),
        contains: Some(contains.to_owned()),
        ..plain.clone()
    };
    succeeds(says("HELLO"));
    let wss = WebsocketCheck {
        tls: trusted(&certificate),
        ..WebsocketCheck::new(url(format!("https://localhost:{tls_port}/socket")))
    };
    succeeds(wss.clone());
    fails(WebsocketCheck { tls: ClientTls::default(), ..wss }, "TLS: invalid peer certificate: ");
    let http = HttpCheck::new(url(format!("http://localhost:{port}/")));
    fails(http, "status 426");
    let check = WebsocketCheck::new(url(format!("http://127.0.0.1:{port}/socket")));
    hangs(&server, check.clone());
    ends(server, &[(check.into(), port)]);
}
