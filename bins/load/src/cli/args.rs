//! The command line arguments.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use doorbell_egress::PortChoice;

use super::units::{parse_count, parse_duration, parse_rate};

pub(super) const EXAMPLES: &str = "\
Examples:
  doorbell-load http://127.0.0.1:8080/livez         new connections, 64 at a time
  doorbell-load -c 512 -d 30s -w 3s URL             512 at a time, for 30 s after 3 s of warm-up
  doorbell-load -k -p 16 URL                        keep-alive, 16 requests in each write
  doorbell-load -r 2000 URL                         2,000 requests per second
  doorbell-load --close client -s 127.1.0.0/24 URL  254 source addresses, so ports do not run out
  doorbell-load --gap 10ms URL                      connect first, send the request 10 ms later
  doorbell-load --unique-id -H 'X-Echo: {id}' URL   verify that each reply belongs to its request
  doorbell-load -n 100k -o json URL | jq .requests_per_s
  doorbell-load connect --help                      another tool: the cost of connect() by strategy

What is measured:
  connect     start of a connection to its handshake
  first byte  start of a request to the first byte of its reply
  total       start of a request to the end of its reply; with --close server, to the end of the
              connection
  With --rate, a request starts when it was due, whether or not a connection was free then, so a
  stall of the server counts in the latency of every request that it delays. Failed requests have no
  latency; they are counted by kind.

Before a run one request is sent alone. Its reply is the template that --check compares the others
with.

Exit codes:
   0  every request got the expected reply
   1  a request failed or got wrong bytes, none could be sent, the run was stopped during the
      warm-up, or the report could not be written
   2  wrong command line
  69  io_uring does not work here; the message says why";

/// Sends requests to an HTTP server over new or kept connections, and times and checks every reply.
#[derive(Debug, Parser)]
#[command(name = "doorbell-load", version, after_help = EXAMPLES)]
pub struct LoadArgs {
    /// URL to request, as http://HOST:PORT/PATH; each {id} is replaced with a unique id
    pub url: String,

    /// Number of concurrent connections
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = parse_count)]
    pub connections: u64,

    /// Number of threads; each can use one core and has its own ring
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub threads: u32,

    /// Time to measure; default 10s, or with --requests until all are done, at most 10m
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Number of measured requests after which the run ends; with --rate, the measured time lasts
    /// at least N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    pub requests: Option<u64>,

    /// Time to run before measuring
    #[arg(short, long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub warm_up: Duration,

    /// Requests per second, evenly spaced; without a rate each connection sends its next request
    /// after a reply
    #[arg(short, long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,

    /// Keep connections open
    #[arg(short, long)]
    pub keep_alive: bool,

    /// Requests in one write; the next write follows when all have replies
    #[arg(short, long, value_name = "N", default_value = "1", requires = "keep_alive")]
    pub pipeline: u32,

    /// Side that closes first: the server (by Connection: close), the client, or the client with a
    /// reset
    #[arg(long, value_name = "SIDE", default_value = "server", conflicts_with = "keep_alive")]
    pub close: CloseArg,

    /// Finish the handshake first and send the request this much later
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration, conflicts_with = "keep_alive")]
    pub gap: Duration,

    /// Maximum time of an exchange, including connecting; with --gap, of connecting and of the
    /// request separately
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub method: String,

    /// Additional header, as "Name: value"; may be repeated; each {id} is replaced with a unique id
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub header: Vec<String>,

    /// Body of the request; each {id} is replaced with a unique id
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub body: String,

    /// Parts of a complete reply to check: none, the status, the status and the body, or all bytes
    /// except the value of Date
    #[arg(long, value_name = "LEVEL", default_value = "body")]
    pub check: CheckArg,

    /// Expected status of every reply; default: any from 200 to 399
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(100..=999))]
    pub expect_status: Option<u16>,

    /// Expected body of every reply, or @FILE that contains it; default: the body of the first
    /// reply
    #[arg(long, value_name = "TEXT")]
    pub expect_body: Option<String>,

    /// Every reply must contain the unique id of its request (implied by {id} in URL, header or
    /// body); adds the header X-Request-Id
    #[arg(long)]
    pub unique_id: bool,

    /// Connect from these addresses in turn, for example
    /// 127.0.0.2,127.1.0.0/24,127.2.0.1-127.2.0.9
    #[arg(short, long, value_name = "LIST")]
    pub source: Option<String>,

    /// Choice of the connections' ports: kernel, select, full, auto, or the size of a window; see
    /// connect --help
    #[arg(long, value_name = "CHOICE", default_value = "kernel")]
    pub ports: PortChoice,

    /// Connect to this address instead of that of the URL; several addresses are used in turn
    #[arg(long, value_name = "ADDR:PORT")]
    pub connect_to: Vec<SocketAddr>,

    /// Disable TCP_QUICKACK: where possible, the kernel sends acknowledgements together with data
    #[arg(long)]
    pub delayed_ack: bool,

    /// Allow targets outside this machine's loopback. Load only your own servers
    #[arg(long)]
    pub allow_remote: bool,

    /// Format of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputArg,

    /// Hide the progress line, which is shown on a terminal
    #[arg(short, long)]
    pub quiet: bool,
}

/// The side that closes a connection first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum CloseArg {
    Client,
    Reset,
    Server,
}

/// The parts of a reply to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum CheckArg {
    None,
    Status,
    Body,
    Exact,
}

/// Formats of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum OutputArg {
    Json,
    Text,
}

impl LoadArgs {
    /// Parses the addresses of `--source`.
    pub(super) fn sources(&self) -> Result<Vec<IpAddr>, String> {
        self.source.as_deref().map_or_else(|| Ok(Vec::new()), crate::plan::parse_sources)
    }
}
