//! The requests that the benches use, and results of the benches.
//!
//! `cargo bench -p doorbell-benches --bench parse --bench route --bench render --bench conn --
//! --warm-up-time 1 --measurement-time 2` gave these criterion medians on a two-core virtual
//! machine with one core busy with other work. No row allocates; `crates/http/tests/alloc.rs`
//! counts allocations. Flint is a Go server with comparable layers. The column of Flint contains
//! its published figures, which were measured on another machine.
//!
//! | bench | doorbell | goal | Flint |
//! |---|---|---|---|
//! | `parse/own/probe`: a kubelet's probe, 108 bytes | 22 ns | 150 ns | 3,147 ns |
//! | `parse/own/post` | 69 ns | 200 ns | 3,728 ns |
//! | `route/static` | 9 ns | 40 ns | 980 ns |
//! | `route/dynamic` | 52 ns | 60 ns | 1,400 ns |
//! | `route/not found` | 20 ns | 40 ns | 1,108 ns |
//! | `render/static`: a reply into the connection's buffer | 10 ns | 40 ns | |
//! | `conn/probe, keep-alive`: the whole request, from parsing to rendering | 33 ns | | 1,470 ns (its whole chain) |
//!
//! `cargo bench -p doorbell-benches --bench instructions` counts instructions with callgrind. The
//! counts are exact, and each row of doorbell has a limit in `benches/instructions`.
//!
//! Does not know about: measurements; see `benches/`.
#![forbid(unsafe_code)]

pub mod guard;
pub mod machine;
pub mod probes;

/// The request of a kubelet for an `httpGet` probe.
pub const PROBE: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\n\
Accept: */*\r\nConnection: close\r\n\r\n";

/// The request of [`PROBE`] on a persistent connection.
pub const PROBE_KEEP_ALIVE: &[u8] =
    b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\n\
Accept: */*\r\n\r\n";

/// The request of a browser for a page.
pub const BROWSER: &[u8] = b"GET /wiki/Doorbell?useskin=vector&oldid=1180042 HTTP/1.1\r\n\
Host: en.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://en.example.org/wiki/Chime\r\n\
Cookie: session=5c2a7f0e9b1d4386a0c1; theme=dark; consent=analytics%3Dno%26ads%3Dno; last=1718200000; geo=DE:BE:Berlin:52.52:13.40:v4\r\n\
Connection: keep-alive\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Sec-Fetch-Dest: document\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-User: ?1\r\n\
Priority: u=0, i\r\n\
TE: trailers\r\n\r\n";

/// A POST request with a small form.
pub const POST: &[u8] = b"POST /api/v1/ring HTTP/1.1\r\nHost: door.example.net\r\nUser-Agent: curl/8.9.1\r\n\
Accept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 27\r\n\r\n\
who=postman&times=2&loud=no";
