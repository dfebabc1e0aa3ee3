//! One exchange: connection, request, response and close, with blocking calls that respect one
//! deadline.
#![expect(clippy::disallowed_methods, reason = "a probe measures real time, and does not run on a worker")]

use super::probe::Probe;
use super::prober::{Closing, Redirects};
use super::report::{Report, Verdict};
use super::response::{Content, Head, Response};
use super::target::Target;
use doorbell_checks::options::{ClientTls, HostPort, Url};
use doorbell_checks::{Seen, cause_of, handshake_failure, is_same_origin, tls_client, url_of_location};
use doorbell_config::format_duration;
use doorbell_egress::connect_unix;
use doorbell_egress::refuse_self_connection;
use rustix::net::sockopt::{Timeout as Direction, set_socket_linger, set_socket_timeout, socket_type};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// A verdict with its reason.
type Judged = (Verdict, String);

/// A connection after its TLS handshake.
type Secured = StreamOwned<ClientConnection, Timed<TcpStream>>;

/// The state of one exchange.
struct Exchange<'a> {
    probe: &'a Probe,
    start: Instant,
    /// What is known so far; the verdict, its reason and the total time follow at the end.
    report: Report,
}

/// A socket whose calls end before a deadline.
#[derive(Debug)]
struct Timed<S> {
    socket: S,
    /// `None` if it exceeds the range of the clock.
    ends_at: Option<Instant>,
}

pub(super) fn run(probe: &Probe) -> Report {
    let start = Instant::now();
    let mut exchange = Exchange { probe, start, report: Report::default() };
    let (verdict, reason) = match exchange.run(&probe.target) {
        Ok(reason) => (Verdict::Healthy, reason),
        Err(judged) => judged,
    };
    Report { verdict, reason, total: start.elapsed(), ..exchange.report }
}

impl Exchange<'_> {
    fn run(&mut self, target: &Target) -> Result<String, Judged> {
        match target {
            Target::Http(url) => self.http(url),
            Target::Redis(at) => {
                let stream = self.connect(at)?;
                self.redis(stream)
            }
            Target::Tcp(at) => {
                let stream = self.connect(at)?;
                self.close(stream.socket.as_fd());
                Ok("connected".into())
            }
            Target::Tls(at) => {
                let stream = self.connect(at)?;
                let mut secured = self.secure(stream, &at.host, &self.probe.tls)?;
                secured.conn.send_close_notify();
                // A failure to send close_notify does not affect the result.
                let _gone = secured.conn.complete_io(&mut secured.sock);
                self.close(secured.sock.socket.as_fd());
                Ok("TLS handshake done".into())
            }
            Target::Unix(path) => match connect_unix(path, self.left()) {
                Ok(_stream) => Ok("connected".into()),
                Err(error) if error.kind() == ErrorKind::TimedOut => Err(self.timeout_error("connection")),
                Err(error) => Err((Verdict::ConnectFailed, cause_of(&error))),
            },
            Target::Check(_) | Target::Grpc { .. } | Target::Icmp(_) | Target::Udp(_) => {
                Err((Verdict::ProtocolFailed, "the target needs the check runner".into()))
            }
        }
    }

    fn http(&mut self, first: &Url) -> Result<String, Judged> {
        let (mut url, mut is_first_origin) = (first.clone(), true);
        let redirects_max = self.probe.prober.redirects_max();
        for _redirect in 0..=redirects_max {
            let before = std::mem::take(&mut self.report.phases);
            let response = self.one_request(&url, is_first_origin);
            self.report.phases += before;
            let head = response?;
            self.report.status = Some(head.status);
            self.record(&head);
            let is_redirect = matches!(head.status, 301 | 302 | 303 | 307 | 308);
            let redirects = self.probe.prober.redirects();
            let follows = is_redirect && redirects != Redirects::None;
            // The probers that follow redirects use Go's client, which ignores an empty location.
            let leads = |location: &&Vec<u8>| follows && !location.is_empty();
            let Some(location) = head.location.as_ref().filter(leads) else {
                let judged = self.probe.judge(head.status).map_err(|why| (Verdict::Unhealthy, why));
                return judged.map(|()| format!("status {}", head.status));
            };
            let Some(next) = url_of_location(&url, location) else {
                let text = String::from_utf8_lossy(location);
                return Err((Verdict::Unhealthy, format!("invalid redirect location {text:?}")));
            };
            if redirects == Redirects::OwnHost && !next.at.host.eq_ignore_ascii_case(&url.at.host) {
                return Ok(self.warning(head.len));
            }
            is_first_origin &= is_same_origin(&next, first);
            url = next;
            self.report.redirects += 1;
        }
        Err((Verdict::Unhealthy, format!("more than {redirects_max} redirects")))
    }

    fn record(&mut self, head: &Head) {
        let seen = &mut self.report.seen;
        seen.status = Some(head.status);
        seen.version = Some(head.version);
        seen.content_length = match head.content {
            Content::Length(len) => u64::try_from(len).ok(),
            Content::Chunked | Content::UntilClose => None,
        };
        seen.body_len = self.report.received.len().saturating_sub(head.len);
        seen.last_modified.clone_from(&head.last_modified);
    }

    /// Returns the text of the kubelet's event about a redirect to another host.
    fn warning(&self, content_at: usize) -> String {
        let content = String::from_utf8_lossy(self.report.received.get(content_at..).unwrap_or_default());
        let content = content.trim_end().replace(char::is_control, " ");
        format!("warning: Probe terminated redirects, Response body: {content}")
    }

    /// Sends one request and reads its response. `is_first_origin`: no redirect has led to another
    /// origin.
    fn one_request(&mut self, url: &Url, is_first_origin: bool) -> Result<Head, Judged> {
        let mut stream = self.connect(&url.at)?;
        let own: &Probe = self.probe;
        let probe = if is_first_origin { Cow::Borrowed(own) } else { Cow::Owned(own.without_credentials()) };
        let request = probe.prober.request(&probe, url);
        let head = if url.is_https {
            let mut secured = self.secure(stream, &url.at.host, &probe.tls)?;
            let head = self.exchange(&mut secured, &request);
            stream = secured.sock;
            head
        } else {
            self.exchange(&mut stream, &request)
        };
        let head = match head {
            Ok(head) if self.probe.prober.fails_on_reset() => self.read_to_end(&mut stream).map(|()| head),
            other => other,
        };
        self.close(stream.socket.as_fd());
        head
    }

    /// Waits for the end of the connection; a reset is a failure.
    fn read_to_end(&self, stream: &mut Timed<TcpStream>) -> Result<(), Judged> {
        // If the connection has ended, the read below reports the reason.
        let _ = stream.socket.shutdown(std::net::Shutdown::Write);
        let mut rest = [0; 4096];
        loop {
            match stream.read(&mut rest) {
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err((Verdict::Unhealthy, "connection reset after the response".into()));
                }
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    fn secure(&mut self, stream: Timed<TcpStream>, host: &str, tls: &ClientTls) -> Result<Secured, Judged> {
        let from = Instant::now();
        let secured = self.handshake(stream, host, tls);
        self.report.phases.tls += from.elapsed();
        secured
    }

    fn handshake(
        &mut self,
        stream: Timed<TcpStream>,
        host: &str,
        tls: &ClientTls,
    ) -> Result<Secured, Judged> {
        let failed = |why: String| (Verdict::ProtocolFailed, format!("TLS: {why}"));
        let client = tls_client(tls, "http/1.1").map_err(failed)?;
        let name = tls.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| failed(format!("invalid server name {name:?}")))?;
        let connection =
            ClientConnection::new(client.config, name).map_err(|error| failed(error.to_string()))?;
        let mut secured = StreamOwned::new(connection, stream);
        while secured.conn.is_handshaking() {
            secured.conn.complete_io(&mut secured.sock).map_err(|error| match is_timeout(&error) {
                true => self.timeout_error("TLS handshake"),
                false => failed(handshake_failure(&error)),
            })?;
        }
        self.report.seen.see_tls(&secured.conn, client.roots.as_deref());
        Ok(secured)
    }

    fn exchange(&mut self, stream: &mut (impl Read + Write), request: &[u8]) -> Result<Head, Judged> {
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        let sent_at = Instant::now();
        sent.map_err(|error| self.io_failure(&error, "response"))?;
        self.report.sent.extend_from_slice(request);
        let content_len_max = self.probe.prober.content_len_max();
        self.report.received.clear();
        let mut head: Option<Head> = None;
        let mut piece = [0; 8192];
        loop {
            let read = stream.read(&mut piece);
            if self.report.received.is_empty() {
                self.report.phases.processing = sent_at.elapsed();
            }
            self.report.phases.transfer = sent_at.elapsed().saturating_sub(self.report.phases.processing);
            match read {
                Ok(0) => return self.ended(head, None),
                Ok(len) => self.report.received.extend_from_slice(&piece[..len]),
                // rustls reports a missing close_notify as UnexpectedEof.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return self.ended(head, None),
                Err(error) => return self.ended(head, Some(&error)),
            }
            if head.is_none() {
                match Response::parse(&self.report.received, request.starts_with(b"HEAD ")) {
                    Response::Incomplete => continue,
                    Response::Invalid(why) => return Err((Verdict::ProtocolFailed, why.into())),
                    Response::Head(found) => head = Some(found),
                }
            }
            if let Some(found) = head.take_if(|head| head.is_complete(&self.report.received, content_len_max))
            {
                return Ok(found);
            }
        }
    }

    /// Returns the result after the end of the connection.
    fn ended(&self, head: Option<Head>, error: Option<&std::io::Error>) -> Result<Head, Judged> {
        match (head, error) {
            (Some(head), None) if head.content == Content::UntilClose => Ok(head),
            (_, Some(error)) => Err(self.io_failure(error, "end of the response")),
            (None, None) if self.report.received.is_empty() => {
                Err((Verdict::ProtocolFailed, "connection closed without a response".into()))
            }
            (_, None) => {
                Err((Verdict::ProtocolFailed, "connection closed before the end of the response".into()))
            }
        }
    }

    fn redis(&mut self, mut stream: Timed<TcpStream>) -> Result<String, Judged> {
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        stream.write_all(PING).map_err(|error| self.io_failure(&error, "response"))?;
        self.report.sent.extend_from_slice(PING);
        while !self.report.received.contains(&b'\n') && self.report.received.len() < 1024 {
            let mut piece = [0; 256];
            match stream.read(&mut piece) {
                Ok(0) => {
                    return Err((Verdict::ProtocolFailed, "connection closed without a response".into()));
                }
                Ok(len) => self.report.received.extend_from_slice(&piece[..len]),
                Err(error) => return Err(self.io_failure(&error, "response")),
            }
        }
        self.close(stream.socket.as_fd());
        let line = String::from_utf8_lossy(
            self.report.received.split(|byte| *byte == b'\r').next().unwrap_or_default(),
        );
        match line.strip_prefix('-') {
            None if line == "+PONG" => Ok("PONG".into()),
            Some(error) => Err((Verdict::Unhealthy, error.to_owned())),
            None => Err((Verdict::ProtocolFailed, "the response to PING is not PONG".into())),
        }
    }

    /// Connects to the first address that accepts, and sends the PROXY header.
    fn connect(&mut self, at: &HostPort) -> Result<Timed<TcpStream>, Judged> {
        let mut stream = self.dial(at)?;
        self.report.sent.clear();
        if let Some(header) = self.probe.proxy_header {
            let addrs = stream.socket.local_addr().and_then(|from| Ok((from, stream.socket.peer_addr()?)));
            let addrs = addrs.map_err(|error| self.io_failure(&error, "connection"))?;
            let header = header.bytes(Some(addrs));
            stream.write_all(&header).map_err(|error| self.io_failure(&error, "connection"))?;
            self.report.sent = header;
        }
        Ok(stream)
    }

    fn dial(&mut self, at: &HostPort) -> Result<Timed<TcpStream>, Judged> {
        let from = Instant::now();
        let addrs = self.resolve(at);
        self.report.phases.resolve = from.elapsed();
        let from = Instant::now();
        let connected = self.connect_to_any(&addrs?);
        self.report.phases.connect = from.elapsed();
        let none = || (Verdict::ConnectFailed, format!("{}: no address found", at.host));
        let (socket, addr) = connected.map_err(|failure| failure.unwrap_or_else(none))?;
        self.report.seen = Seen { address: Some(addr.ip()), ..Seen::default() };
        Ok(Timed { socket, ends_at: self.start.checked_add(self.probe.timeout) })
    }

    /// Tries the addresses until one accepts. An address that drops packets must not use up the
    /// time of those after it. Returns the last failure; `None` if there is no address.
    fn connect_to_any(&self, addrs: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Option<Judged>> {
        let mut last = None;
        for (addr, addrs_left) in addrs.iter().zip((1..=addrs.len()).rev()) {
            let left = self.left();
            if left.is_zero() {
                return Err(Some(self.timeout_error("connection")));
            }
            let share = left / u32::try_from(addrs_left).unwrap_or(u32::MAX);
            let connected = TcpStream::connect_timeout(addr, share.max(Duration::from_millis(1)))
                .and_then(|socket| refuse_self_connection(socket, *addr));
            last = Some(match connected {
                Ok(socket) => return Ok((socket, *addr)),
                Err(error) if error.kind() == ErrorKind::TimedOut => self.timeout_error("connection"),
                Err(error) => (Verdict::ConnectFailed, format!("{addr}: {}", cause_of(&error))),
            });
        }
        Err(last)
    }

    /// Resolves a name on a thread, which is abandoned if the system's resolver misses the
    /// deadline.
    fn resolve(&self, at: &HostPort) -> Result<Vec<SocketAddr>, Judged> {
        if let Ok(ip) = at.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, at.port)]);
        }
        let (sender, receiver) = sync_channel(1);
        let place = (at.host.clone(), at.port);
        let lookup = move || sender.send(place.to_socket_addrs().map(Vec::from_iter));
        std::thread::Builder::new().name("lookup".into()).spawn(lookup).map_err(|error| {
            let reason = format!("{}: cannot start a thread: {}", at.host, cause_of(&error));
            (Verdict::ConnectFailed, reason)
        })?;
        match receiver.recv_timeout(self.left()) {
            Ok(found) => found.map_err(|error| (Verdict::ConnectFailed, format!("{}: {error}", at.host))),
            Err(_) => Err(self.timeout_error("address")),
        }
    }

    /// Sets how the kernel ends the connection when the descriptor is closed.
    fn close(&self, socket: BorrowedFd<'_>) {
        let linger = match self.probe.prober.closing() {
            Closing::Fin { linger } => linger,
            Closing::Reset => Some(Duration::ZERO),
        };
        if linger.is_some() && socket_type(socket).is_ok() {
            // On failure, the connection ends with a FIN.
            let _ = set_socket_linger(socket, linger);
        }
    }

    fn left(&self) -> Duration {
        self.probe.timeout.saturating_sub(self.start.elapsed())
    }

    fn timeout_error(&self, doing: &str) -> Judged {
        (Verdict::TimedOut, format!("no {doing} within {}", format_duration(self.probe.timeout)))
    }

    fn io_failure(&self, error: &std::io::Error, doing: &str) -> Judged {
        match is_timeout(error) {
            true => self.timeout_error(doing),
            false => (Verdict::ProtocolFailed, cause_of(error)),
        }
    }
}

impl<S: AsFd> Timed<S> {
    /// Sets the remaining time as the socket timeout. Zero would mean no limit, so an expired
    /// deadline is an error.
    fn limit(&self, direction: Direction) -> std::io::Result<()> {
        let left = self.ends_at.map(|ends_at| ends_at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        set_socket_timeout(&self.socket, direction, left).map_err(Into::into)
    }

    /// Repeats a call that is interrupted, because with a socket timeout the kernel does not
    /// restart it after a stop of the process (signal(7)).
    fn timed<T>(
        &mut self,
        direction: Direction,
        mut call: impl FnMut(&mut S) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        loop {
            self.limit(direction)?;
            match call(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<S: AsFd + Read> Read for Timed<S> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.timed(Direction::Recv, |socket| socket.read(buf))
    }
}

impl<S: AsFd + Write> Write for Timed<S> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.timed(Direction::Send, |socket| socket.write(buf))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

/// Whether a socket timeout has expired, which is reported as `WouldBlock`.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prober;
    use std::net::TcpListener;

    /// A listener that drops packets, because its queue is full.
    struct Mute {
        addr: SocketAddr,
        _socket: socket2::Socket,
        _queued: Vec<std::io::Result<TcpStream>>,
    }

    impl Mute {
        fn new() -> Self {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            socket.listen(1).unwrap();
            let addr = socket.local_addr().unwrap().as_socket().unwrap();
            let queue = || TcpStream::connect_timeout(&addr, Duration::from_millis(50));
            let queued = (0..4).map(|_| queue()).collect();
            Self { addr, _socket: socket, _queued: queued }
        }
    }

    fn exchange(probe: &Probe) -> Exchange<'_> {
        Exchange { probe, start: Instant::now(), report: Report::default() }
    }

    fn probe(addr: SocketAddr, timeout: Duration) -> Probe {
        Probe { timeout, ..Probe::of(Target::parse(&format!("tcp://{addr}")).unwrap(), Prober::Doorbell) }
    }

    #[test]
    fn an_address_that_drops_packets_leaves_time_for_the_next() {
        let mute = Mute::new();
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = open.local_addr().unwrap();
        let probe = probe(addr, Duration::from_secs(2));
        let connected = exchange(&probe).connect_to_any(&[mute.addr, mute.addr, addr]);
        assert_eq!(connected.unwrap().1, addr);
        assert_eq!(exchange(&probe).connect_to_any(&[]).unwrap_err(), None);
        let probe = Probe { timeout: Duration::from_millis(100), ..probe };
        let late = exchange(&probe).connect_to_any(&[mute.addr, mute.addr]).unwrap_err();
        assert_eq!(late, Some((Verdict::TimedOut, "no connection within 100ms".to_owned())));
    }
    /// A socket whose calls are interrupted a number of times, as after SIGSTOP and SIGCONT.
    struct Interrupted {
        socket: std::os::unix::net::UnixStream,
        times: u32,
    }

    impl Interrupted {
        fn interrupt(&mut self) -> std::io::Result<()> {
            let is_over = self.times == 0;
            self.times = self.times.saturating_sub(1);
            if is_over { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
        }
    }

    impl AsFd for Interrupted {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }
    }

    impl Read for Interrupted {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.interrupt()?;
            self.socket.read(buf)
        }
    }

    impl Write for Interrupted {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            self.interrupt()?;
            self.socket.write(buf)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn interrupted_calls_are_repeated_until_the_deadline() {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let ends_at = Instant::now().checked_add(Duration::from_secs(60));
        let mut stream = Timed { socket: Interrupted { socket: near, times: 3 }, ends_at };
        assert_eq!(stream.write(b"ab").unwrap(), 2);
        far.write_all(b"cd").unwrap();
        stream.socket.times = 3;
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 2);
        stream.socket.times = u32::MAX;
        stream.ends_at = Instant::now().checked_add(Duration::from_millis(20));
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
