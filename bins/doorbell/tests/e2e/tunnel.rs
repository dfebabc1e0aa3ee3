//! A tunnel for tests with handwritten frames: plain bytes are forwarded to a server over TLS, with
//! `h2` selected by ALPN.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use crate::https::Https;

/// Forwards each connection to the server over its own TLS connection. Both ends close together,
/// and all close on drop.
pub(crate) struct Tunnel {
    pub(crate) addr: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tunnel {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let mut config = Https::new(server).config();
        Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(config);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let run = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            tokio::select! {
                () = dig(listener, connector, server) => {}
                _ended = ended => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = thread::spawn(move || runtime.block_on(run));
        Self { addr, end: Some(end), thread: Some(thread) }
    }
}

async fn dig(listener: TcpListener, connector: TlsConnector, server: SocketAddr) {
    while let Ok((mut clear, _)) = listener.accept().await {
        let connector = connector.clone();
        tokio::spawn(async move {
            let Ok(socket) = TcpStream::connect(server).await else { return };
            let _both = (clear.set_nodelay(true), socket.set_nodelay(true));
            let name = ServerName::try_from("localhost").unwrap();
            if let Ok(mut hidden) = connector.connect(name, socket).await {
                let _ended = tokio::io::copy_bidirectional(&mut clear, &mut hidden).await;
            }
        });
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        drop(self.end.take());
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}
