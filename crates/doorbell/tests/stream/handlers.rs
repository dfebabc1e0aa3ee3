//! The handlers of these tests.

use std::sync::{Arc, Mutex};

use doorbell::CloseReason;
use doorbell::offload::Offload;
use doorbell::stream::{ConnHandle, Context, StreamHandler, Wait};

/// The events that a handler has recorded, in order.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// Replies to each line with its length and content. These lines do more:
///
/// | line | effect |
/// |---|---|
/// | `close` | closes after the reply |
/// | `drip N` | N parts of one byte |
/// | `drippanic N` | N parts of one byte, then a panic in place of the next part |
/// | `handover` | hands over, with this line |
/// | `job N` | a job that replies with N |
/// | `jobpanic` | a job that panics |
/// | `repeat N` | N bytes |
/// | `largejob N` | both: `large N` and `job N` |
/// | `large N` | N parts of [`PART`] bytes, each written when the part before is sent |
/// | `panic` | panics |
pub(crate) struct Lines {
    pub(crate) log: Log,
    pub(crate) jobs: Option<Offload>,
    pub(crate) speaks_first: bool,
    /// The handle of the last connection that was opened.
    pub(crate) last: Arc<Mutex<Option<ConnHandle<String>>>>,
}

/// The length of one part of a large reply.
pub(crate) const PART: usize = 8192;

/// State of a connection: parts that are still to be written.
#[derive(Debug)]
pub(crate) struct Line {
    parts_left: u32,
    part_len: usize,
    /// True if the handler panics after the last part.
    panics: bool,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { log: Log::default(), jobs: None, speaks_first: false, last: Arc::default() }
    }

    pub(crate) fn greeting() -> Self {
        Self { speaks_first: true, ..Self::new() }
    }

    pub(crate) fn with_jobs(jobs: Offload) -> Self {
        Self { jobs: Some(jobs), ..Self::new() }
    }

    fn note(&self, event: impl Into<String>) {
        self.log.lock().unwrap().push(event.into());
    }

    fn write_part(line: &mut Line, cx: &mut Context<'_, Self>) {
        if line.parts_left > 0 {
            line.parts_left -= 1;
            let byte = b'a' + u8::try_from(line.parts_left % 26).unwrap();
            cx.write(&[byte; PART][..line.part_len]);
            cx.notify_writable();
        }
    }
}

impl StreamHandler for Lines {
    type Conn = Line;
    type Message = String;

    fn open(&self, cx: &mut Context<'_, Self>) -> Line {
        self.note("open");
        if self.speaks_first {
            cx.write(b"hello\n");
            if let Some(jobs) = &self.jobs {
                cx.run(jobs, |_| "greeted".to_owned()).unwrap();
            }
        }
        *self.last.lock().unwrap() = Some(cx.handle());
        Line { parts_left: 0, part_len: PART, panics: false }
    }

    fn data(&self, line: &mut Line, input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
        let text = core::str::from_utf8(&input[..end]).unwrap();
        let mut words = text.split(' ');
        let first = words.next().unwrap();
        let mut number = || words.next().unwrap().parse::<u32>().unwrap();
        match first {
            "handover" => {
                cx.hand_over();
                return 0;
            }
            "job" | "largejob" => {
                let answer = number();
                if first == "largejob" {
                    line.parts_left = answer;
                    Self::write_part(line, cx);
                }
                cx.run(self.jobs.as_ref().unwrap(), move |_| format!("job {answer}")).unwrap();
            }
            "jobpanic" => cx.run(self.jobs.as_ref().unwrap(), |_| panic!("a job that panics")).unwrap(),
            "drip" | "drippanic" | "large" => {
                line.part_len = if first == "large" { PART } else { 1 };
                line.panics = first == "drippanic";
                line.parts_left = number();
                Self::write_part(line, cx);
            }
            "repeat" => {
                let len = usize::try_from(number()).unwrap();
                cx.out().resize(len, b'r');
            }
            "panic" => panic!("a handler that panics"),
            _ => {
                cx.write_fmt(format_args!("{end} {text}\n"));
                if text == "close" {
                    cx.close();
                }
            }
        }
        end + 1
    }

    fn end(&self, _line: &mut Line, rest: &[u8], cx: &mut Context<'_, Self>) {
        cx.write_fmt(format_args!("bye {}\n", rest.len()));
        cx.close();
    }

    fn writable(&self, line: &mut Line, cx: &mut Context<'_, Self>) {
        assert!(line.parts_left > 0 || !line.panics, "a handler that panics between parts");
        Self::write_part(line, cx);
    }

    fn message(&self, _line: &mut Line, message: String, cx: &mut Context<'_, Self>) {
        match message.as_str() {
            "close" => cx.close(),
            "run" => cx.run(self.jobs.as_ref().unwrap(), |_| "ran".to_owned()).unwrap(),
            message => cx.write_fmt(format_args!("<{message}>\n")),
        }
    }

    fn timeout(&self, _line: &mut Line, wait: Wait, cx: &mut Context<'_, Self>) {
        self.note(format!("timeout {wait:?}"));
        match wait {
            Wait::Job => cx.write(b"late\n"),
            _ => cx.close(),
        }
    }

    fn drain(&self, _line: &mut Line, cx: &mut Context<'_, Self>) {
        cx.write(b"draining\n");
    }

    fn closed(&self, _line: Line, reason: CloseReason) {
        self.note(format!("closed {reason}"));
    }

    fn speaks_first(&self) -> bool {
        self.speaks_first
    }
}

/// Replies to each input, if true also to the end of the input, and to a drain.
pub(crate) struct KeepsWriting(pub(crate) bool);

impl StreamHandler for KeepsWriting {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        cx.write(b"data\n");
        input.len()
    }

    fn end(&self, _conn: &mut (), _rest: &[u8], cx: &mut Context<'_, Self>) {
        if self.0 {
            cx.write(b"end\n");
        }
    }

    fn drain(&self, _conn: &mut (), cx: &mut Context<'_, Self>) {
        cx.write(b"draining\n");
    }
}
