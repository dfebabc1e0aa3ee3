//! Go's net/http in a separate process, which receives streams in batches.
//!
//! The program is `go/main.go`, which is built here on first use.

use crate::framing::{End, Framing, Seen, path_and_query};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running Go program.
#[derive(Debug)]
pub struct Go {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
}

impl Go {
    /// Builds the program with `go` into `folder` and starts it. Returns `None` if `go` is missing.
    ///
    /// # Errors
    /// When `go` exists and the program does not build or start.
    pub fn start(folder: &Path) -> io::Result<Option<Self>> {
        match Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            _ => return Ok(None),
        }
        let program = folder.join(format!("differential-go-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/go");
        let built =
            Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).status()?;
        if !built.success() {
            return Err(io::Error::other("`go build` failed"));
        }
        let child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        // The program is running, so the file is no longer needed.
        std::fs::remove_file(&program)?;
        let mut child = child?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let output = BufReader::with_capacity(BUF_LEN, output);
        Ok(Some(Self { child, input: Some(BufWriter::with_capacity(BUF_LEN, input)), output }))
    }

    /// Sends a batch. [`Self::receive`] must be called before the next batch.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn send(&mut self, streams: &[(Vec<u8>, usize)]) -> io::Result<()> {
        let input = self.input.as_mut().expect("the pipe is open until the end");
        put_len(input, streams.len())?;
        for (stream, cut) in streams {
            put_len(input, *cut)?;
            put_len(input, stream.len())?;
            input.write_all(stream)?;
        }
        input.flush()
    }

    /// Returns the framings of a batch of `count` streams.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn receive(&mut self, count: usize) -> io::Result<Vec<Framing>> {
        (0..count).map(|_| self.one()).collect()
    }

    fn one(&mut self) -> io::Result<Framing> {
        let [count] = self.take()?;
        let mut requests = Vec::new();
        for _ in 0..count {
            let [method, target, host, body] = [self.part()?, self.part()?, self.part()?, self.part()?];
            requests.push(Seen { method, target: path_and_query(&target), host, body });
        }
        let [broken, high, low] = self.take()?;
        let end = match (broken, u16::from_be_bytes([high, low])) {
            (1, _) => End::Inside,
            (0, 0) => End::Between,
            (_, status) => End::Refused(status),
        };
        Ok(Framing { requests, end })
    }

    fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = vec![0; u32::from_be_bytes(self.take()?) as usize];
        self.output.read_exact(&mut part)?;
        Ok(part)
    }

    fn take<const LEN: usize>(&mut self) -> io::Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        self.output.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        // The program exits at the end of its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn put_len(output: &mut impl Write, len: usize) -> io::Result<()> {
    output.write_all(&u32::try_from(len).map_err(io::Error::other)?.to_be_bytes())
}

const BUF_LEN: usize = 1 << 20;
