//! A chat room on a stream protocol, which pushes each received line to all connections: `cargo run
//! --example lines -- 127.0.0.1:7001`, then `nc 127.0.0.1 7001`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::sync::{Arc, Mutex, PoisonError};

use doorbell::stream::{ConnHandle, Context, Stream, StreamHandler};
use doorbell::{Listen, Server};

/// The handles of all connections.
#[derive(Default)]
struct Room(Mutex<Vec<ConnHandle<Arc<[u8]>>>>);

impl StreamHandler for Room {
    type Conn = ();
    type Message = Arc<[u8]>;

    fn open(&self, cx: &mut Context<'_, Self>) {
        cx.write(b"welcome\n");
        let mut room = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        room.retain(|handle| !handle.is_gone());
        room.push(cx.handle());
    }

    fn data(&self, _conn: &mut (), input: &[u8], _cx: &mut Context<'_, Self>) -> usize {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
        let line: Arc<[u8]> = input[..=end].into();
        let room = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for handle in &*room {
            // A reader that is too slow misses this line.
            let _missed = handle.push(Arc::clone(&line));
        }
        end + 1
    }

    fn message(&self, _conn: &mut (), line: Arc<[u8]>, cx: &mut Context<'_, Self>) {
        cx.write(&line);
    }

    fn speaks_first(&self) -> bool {
        true
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let server = Server::builder().listen(Listen::tcp(addr), Stream::new(Room::default())).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());
    server.wait()?;
    Ok(())
}
