//! PING, GET and SET of the Redis protocol against memory: `cargo run --release --example resp --
//! 127.0.0.1:7003`, then `redis-cli -p 7003`.
//!
//! Does not know about: the syntax of commands (see [`command`]), persistence, expiry.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

mod command;

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use doorbell::stream::{Context, Stream, StreamHandler};
use doorbell::{Listen, Server};

use command::{Command, Parsed, parse};

/// All values, shared by the workers.
#[derive(Default)]
struct Store(RwLock<HashMap<Vec<u8>, Vec<u8>>>);

impl Store {
    fn answer(&self, command: &Command<'_>, cx: &mut Context<'_, Self>) {
        match *command {
            Command::Get(key) => {
                let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
                match values.get(key) {
                    Some(value) => write_bulk(value, cx),
                    None => cx.write(b"$-1\r\n"),
                }
            }
            Command::Ping(None) => cx.write(b"+PONG\r\n"),
            Command::Ping(Some(text)) => write_bulk(text, cx),
            Command::Set(key, value) => {
                let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
                match values.get_mut(key) {
                    Some(old) => value.clone_into(old),
                    None => drop(values.insert(key.to_vec(), value.to_vec())),
                }
                cx.write(b"+OK\r\n");
            }
            Command::Unknown => cx.write(b"-ERR unknown command or wrong number of arguments\r\n"),
        }
    }
}

fn write_bulk(value: &[u8], cx: &mut Context<'_, Store>) {
    cx.write_fmt(format_args!("${}\r\n", value.len()));
    cx.write(value);
    cx.write(b"\r\n");
}

impl StreamHandler for Store {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        match parse(input) {
            Parsed::Complete { command, len } => {
                self.answer(&command, cx);
                len
            }
            Parsed::Incomplete => 0,
            Parsed::Invalid(why) => {
                cx.write_fmt(format_args!("-ERR Protocol error: {why}\r\n"));
                cx.close();
                input.len()
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let protocol = Stream::new(Store::default()).frame_bytes_max(1 << 20);
    let server = Server::builder().listen(Listen::tcp(addr), protocol).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());
    server.wait()?;
    Ok(())
}
