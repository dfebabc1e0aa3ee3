//! Length-prefixed bitcode frames on a stream protocol; sums are computed as jobs: `cargo run
//! --example frames -- 127.0.0.1:7002`.
//!
//! A frame is its length as four bytes, big-endian, and that many bytes of bitcode.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use bitcode::{Decode, Encode};
use doorbell::offload::Offload;
use doorbell::stream::{Context, Stream, StreamHandler};
use doorbell::{Listen, Server};

const FRAME_LEN_MAX: usize = 16 * 1024;

#[derive(Decode, Encode)]
enum Ask {
    Echo(String),
    Sum(Vec<u32>),
}

#[derive(Decode, Encode)]
enum JobReply {
    Echo(String),
    Sum(u64),
}

struct Frames {
    jobs: Offload,
}

fn write(answer: &JobReply, cx: &mut Context<'_, Frames>) {
    let bytes = bitcode::encode(answer);
    let Ok(len) = u32::try_from(bytes.len()) else { return cx.close() };
    cx.write(&len.to_be_bytes());
    cx.write(&bytes);
}

impl StreamHandler for Frames {
    type Conn = ();
    type Message = JobReply;

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        let Some((len, rest)) = input.split_first_chunk() else { return 0 };
        let len = u32::from_be_bytes(*len) as usize;
        let Some(frame) = rest.get(..len) else {
            if len > FRAME_LEN_MAX {
                cx.close();
            }
            return 0;
        };
        match bitcode::decode(frame) {
            Ok(Ask::Echo(text)) => write(&JobReply::Echo(text), cx),
            Ok(Ask::Sum(numbers)) => {
                let sum = move || JobReply::Sum(numbers.iter().copied().map(u64::from).sum());
                if cx.run(&self.jobs, move |_| sum()).is_err() {
                    cx.close();
                }
            }
            Err(_) => cx.close(),
        }
        4 + len
    }

    fn message(&self, _conn: &mut (), answer: JobReply, cx: &mut Context<'_, Self>) {
        write(&answer, cx);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let frames = Frames { jobs: Offload::builder().build()? };
    let server = Server::builder().listen(Listen::tcp(addr), Stream::new(frames)).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());
    server.wait()?;
    Ok(())
}
