//! A connection begun by this crate is awaited and used on a Tokio runtime, as in the crate's
//! example.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use doorbell_egress::{Egress, EgressConfig, SpeaksFirst, close};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn connect(egress: &Egress, target: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(egress.begin(target, SpeaksFirst::We)?)?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

#[tokio::test]
async fn a_connection_is_awaited_on_a_runtime() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let target = listener.local_addr().unwrap();
    let egress = EgressConfig::new().open().unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..50 {
            let (mut conn, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4];
            conn.read_exact(&mut bytes).await.unwrap();
            conn.write_all(&bytes).await.unwrap();
        }
    });
    for _ in 0..50 {
        let mut conn = connect(&egress, target).await.unwrap();
        conn.write_all(b"ping").await.unwrap();
        let mut bytes = Vec::new();
        conn.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"ping");
        close(conn.into_std().unwrap());
    }
    server.await.unwrap();
    assert_eq!(egress.counters().begun, 50);
}

#[tokio::test]
async fn a_refusal_is_an_error_of_the_awaiting_task() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let target = listener.local_addr().unwrap();
    drop(listener);
    let error = connect(&EgressConfig::new().open().unwrap(), target).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
