//! Servers as targets of checks: working, failing and hanging.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Behaviour of a server on each connection.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Accepts connections and never replies.
    Hang,
    /// Reads a request and sends these bytes.
    Says(Vec<u8>),
    /// Reads a request and sends the first part at once, then the second part one byte at a time.
    Trickles(Vec<u8>, Vec<u8>, Duration),
    /// Sends a response head and an endless body.
    Endless,
    /// Replies with `says` to a client that sent `wanted`.
    Echoes { wanted: Vec<u8>, says: Vec<u8> },
}

/// A server on its own port, which stops on drop.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    inside: Arc<Inside>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inside {
    does: Mutex<Does>,
    conns: AtomicUsize,
    last_request: Mutex<Vec<u8>>,
    over: AtomicBool,
}

impl Does {
    /// A response with this status and body.
    pub(crate) fn reply(status: u16, body: &str) -> Self {
        let len = body.len();
        Self::Says(format!("HTTP/1.1 {status} X\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes())
    }
}

impl Upstream {
    pub(crate) fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let inside = Arc::new(Inside {
            does: Mutex::new(does),
            conns: AtomicUsize::new(0),
            last_request: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&inside);
        let thread = thread::spawn(move || shared.accept(&listener));
        Self { addr, inside, thread: Some(thread) }
    }

    /// Sets the behaviour for new connections.
    pub(crate) fn now(&self, does: Does) {
        *self.inside.does.lock().unwrap() = does;
    }

    /// Number of connections since the start.
    pub(crate) fn conns(&self) -> usize {
        self.inside.conns.load(Ordering::Relaxed)
    }

    pub(crate) fn last_request(&self) -> String {
        String::from_utf8_lossy(&self.inside.last_request.lock().unwrap()).into_owned()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.inside.over.store(true, Ordering::Relaxed);
        // A connection wakes the blocked accept.
        let _gone = TcpStream::connect(self.addr);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

impl Inside {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            if self.is_over() {
                return;
            }
            self.conns.fetch_add(1, Ordering::Relaxed);
            let shared = Arc::clone(&self);
            // A disconnect by the client is not a failure.
            thread::spawn(move || shared.serve(stream).is_ok());
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let does = self.does.lock().unwrap().clone();
        match does {
            Does::Hang => {
                while !self.is_over() && !is_gone(&mut stream) {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }
            Does::Says(reply) => {
                self.read_head(&mut stream)?;
                stream.write_all(&reply)
            }
            Does::Trickles(first, then, every) => {
                self.read_head(&mut stream)?;
                stream.write_all(&first)?;
                then.iter().try_for_each(|byte| {
                    thread::sleep(every);
                    stream.write_all(&[*byte])
                })
            }
            Does::Endless => {
                self.read_head(&mut stream)?;
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
                while !self.is_over() {
                    stream.write_all(&chunk)?;
                }
                Ok(())
            }
            Does::Echoes { wanted, says } => {
                let mut read = vec![0; wanted.len()];
                stream.read_exact(&mut read)?;
                if read == wanted { stream.write_all(&says) } else { Ok(()) }
            }
        }
    }

    fn read_head(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        *self.last_request.lock().unwrap() = head;
        Ok(())
    }
}

/// Reports whether the peer has closed the connection.
fn is_gone(stream: &mut TcpStream) -> bool {
    let mut some = [0; 1024];
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    match stream.read(&mut some) {
        Ok(len) => len == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}
