//! Choices that surprise, what they rest on, and what would change them.
//!
//! # 0001 Ordinary descriptors by default, also where direct ones work
//!
//! *Context.* A fixed-file table saves the descriptor table's work. Before Linux 6.4 a direct descriptor's close runs up to a
//! second late, up to 6.12 one idle connection holds back every later close; from 6.13 both are gone, and the start-up
//! self-test of `doorbell-ring` sees which is the case.
//!
//! *Choice.* [`Descriptors::Auto`](crate::Descriptors::Auto) uses ordinary descriptors. With a deferred accept the first
//! receive, the reply and the close all complete at once, so each is one plain system call and none waits for a turn of the
//! ring; a direct descriptor has no number to call with. It also has no peer address, which the per-address cap needs, and no
//! way to send a reset when a reply cannot be finished. [`Descriptors::Direct`](crate::Descriptors::Direct) is there for who
//! wants it, and is used only where the self-test passes. With it the start refuses whatever needs addresses: that cap, PROXY headers,
//! services that ask for the client.
//!
//! *Would change it:* figures of the instruction rig in which direct descriptors win by more than the calls they cost.
//!
//! # 0002 The per-address cap counts only under pressure
//!
//! *Context.* A peer's address costs a system call a connection (about 1 % of it), and nearly always no address is near its cap.
//!
//! *Choice.* Nothing is counted while each worker has no more connections than its share of the cap, because then no address
//! can be over it. When one has, all workers count what they have, once, and each new connection, until the pressure is gone.
//! Counters are 16,384 atomics picked by a keyed hash: bounded, no lock; a collision can only bring a cap nearer. A known request
//! that is answered and closed in the turn that accepted it (0011) holds nothing and is not counted, so it is answered beyond the cap
//! too. Measured: beside 50,000 open connections a new one costs 0.3 % more than beside none (epoll 0.6 %); when each of them was
//! asked for its address it was 6.3 %.
//!
//! # 0003 One wheel of 64 ms ticks, lazily kept
//!
//! *Context.* A timeout linked to each ring operation costs 6 to 13 % of a connection.
//!
//! *Choice.* One deadline a connection, in a hashed wheel. A deadline that moves later stays where it is and is looked at again
//! when its place comes up: a keep-alive request usually costs the wheel nothing, and a connection that is answered within its
//! first turn never enters it. Deadlines are noticed at most one tick late.
//!
//! # 0004 `SO_REUSEPORT` does not hide a port in use
//!
//! *Context.* One listening socket a worker needs `SO_REUSEPORT`, and with it a second server of the same user would start
//! without an error and take half of the clients.
//!
//! *Choice.* A socket without the option is bound first and closed again. [`Listen::overlap`](crate::Listen::overlap) turns that
//! off. To restart without losing anybody, give both servers the same socket
//! ([`Listen::inherited`](crate::Listen::inherited)).
//!
//! # 0005 Full tables let clients wait
//!
//! *Context.* When every slot is taken one can refuse, evict the slowest, or wait.
//!
//! *Choice.* Wait: a client in the backlog is served when a slot is free, and slots become free because every phase has a
//! deadline. Slow clients from one address meet the per-address cap long before the table is full.
//!
//! # 0006 A kept connection is polled once and read by a system call
//!
//! *Context.* With a receive operation for each request io_uring costs 1,800 instructions a request more than epoll. A multishot
//! receive removes that, and fills buffers of a shared pool also for a connection whose output is blocked: eight such peers could
//! hold the whole pool.
//!
//! *Choice.* One multishot poll a connection, armed with its first wait, and `recv(2)` into the worker's one buffer when it tells of
//! bytes: the same cost as epoll, and nothing of the ring is bound to a connection that is not read. The poll holds the socket open,
//! so the close of such a connection first cancels it. [`Receiving::SingleShot`](crate::Receiving::SingleShot) is the other way.
//!
//! # 0007 One timer ends all waits
//!
//! *Context.* A timeout passed to `io_uring_enter(2)` or `epoll_wait(2)` starts and cancels a kernel timer whenever the worker sleeps.
//!
//! *Choice.* A `timerfd` that the driver watches, set only when something is due earlier than it is set for; waits have no timeout.
//! No wait is shorter than a millisecond, because the coarse clock might not have moved after it and the worker would spin.
//!
//! # 0008 The usual completions have a way of their own
//!
//! *Context.* A completion as a general value is 80 bytes that are written and read several times: 80 to 120 instructions.
//!
//! *Choice.* `Driver::next_quick` brings a new connection or a readable one in registers; everything else takes `Driver::next`. The
//! conformance suite runs every rule both ways.
//!
//! # 0009 No wake-ups are gathered by default
//!
//! *Context.* With many clients a wait that goes on for 200 µs finds several connections instead of two, for a tenth fewer instructions
//! in the server. The kernel's own minimum wait may, up to Linux 6.18, forget a completion that comes after the minimum and leave
//! a lone client waiting; a plain timeout does not.
//!
//! *Choice.* [`Tuning::wait_min`](crate::Tuning::wait_min) is there and off: a few clients that each wait for an answer would be slowed
//! down by the gathering, and how many there are cannot be known in time. Accepting by polling, which the gathering needs, costs more
//! than a multishot accept in every other load.
//!
//! # 0010 Workers share one table of descriptors
//!
//! *Context.* With a table of its own (`unshare(CLONE_FILES)`) a thread saves two atomic operations a system call.
//!
//! *Choice.* Not done. Handlers run on the worker's thread, and a descriptor that another part of the program opened would be missing
//! there, or worse, be a client's connection.
//!
//! # 0011 A connection that is one known request has no state
//!
//! *Context.* A prober sends the same bytes for years. User space was 1,160 of the 19,500 instructions of a new connection; the parser,
//! the connection's state and its slot in the table were most of that.
//!
//! *Choice.* A worker remembers the last few heads it parsed ([`Seen`](doorbell_http::parse::Seen)): the same bytes parse the same
//! way, so a compare takes the place of a parse. A first request that is known and closes is answered before the connection gets
//! a place in the table, and a reply that was just sent to somebody else in the same second is sent again from where it stands. The handler
//! is called each time. Measured: 552 instructions of user space.
//!
//! # 0012 TLS says goodbye and lingers
//!
//! *Context.* Reply, close_notify and FIN fit in one segment. But a client answers our close_notify with its own, which meets a closed
//! socket and comes back as a reset.
//!
//! *Choice.* Reply and close_notify in one segment, then FIN and the usual linger; a peer that has said goodbye already is closed at once.
//!
//! # 0013 TLS 1.3 prefers AES-128-GCM with SHA-256, whatever the client's order
//!
//! *Context.* rustls asks for AES-256-GCM first, whose hash is SHA-384: no processor has instructions for that one, and in a resumed handshake
//! it was 42 % of the instructions.
//!
//! *Choice.* The 128-bit suite first: the key exchange is no stronger than that, and the hash is SHA-256. ChaCha20 is still chosen by clients
//! that offer nothing else.
//!
//! # 0014 A full rate-limit table forgets whoever is nearest to being forgotten anyway
//!
//! *Context.* A table that is bounded has to throw a key out, and a key thrown out starts anew with its whole burst. With a clock
//! (second chance), a flood of ten million keys changed more than 1 % of the verdicts about the clients that were there before.
//!
//! *Choice.* A key whose debt has run out is the same as no key; of those that owe something, the one that owes least goes. In the same flood no
//! verdict changed. One table is shared by all workers: it costs 38 instructions more than one a worker, and a quota holds for
//! the whole server. Keys are hashed by SipHash-1-3: `RateLimit-Remaining` would show an attacker collisions of anything weaker.
//!
//! # 0015 `jsonwebtoken` verifies signatures and nothing else
//!
//! *Context.* Its checks of claims read the clock, take the algorithm from a list and not from the key, and its process-wide provider panics
//! when two crates of a program turn on different ones.
//!
//! *Choice.* Only its verification is called, in one file. Each key has one algorithm, the JSON is read by a strict reader of ours
//! (a name that comes twice is refused), and `exp` and `nbf` are compared with the time the caller passes in.
//!
//! # 0016 Files are served from memory
//!
//! *Context.* A file read on a ring thread stops all its connections while the disk turns, and what a directory is asked for is small:
//! the answers to ACME challenges.
//!
//! *Choice.* A thread watches the directory and has it read, by jobs (0022), whenever it changes; the replies are swapped, and a request is a
//! look-up. A name is a key and never a path, so there is nothing to traverse. 10,000 files and 64 MiB at most.
//!
//! # 0017 A connection is handed over as a plain descriptor, with its bytes beside it
//!
//! *Context.* A program behind the ring lane wants a socket of its runtime and every byte. Bytes could be peeked (`MSG_PEEK`) and left in
//! the socket, which costs each request that is ours a second receive; or read and given along.
//!
//! *Choice.* Bytes are read once and travel in a `Vec` beside the descriptor. An armed poll is cancelled and awaited before the
//! descriptor leaves, because it would hold the socket open behind its next owner; a direct descriptor gets an ordinary one beside it
//! (`FIXED_FD_INSTALL`) and gives its place back. All connections of a turn go in one batch, so that whoever takes them is woken once.
//!
//! *Measured* with the rig (6.12, one CPU, 64 in flight, a new connection for each request, server and kernel): axum by itself 70,149
//! instructions, axum behind a ring thread that hands every connection over 68,772. The receive that the ring thread makes replaces the
//! program's first, and deferred accept saves wake-ups; the wake-up of the other thread is shared by a batch.
//!
//! *Would change it:* a kernel that can move a request back into its socket.
//!
//! # 0018 An eventfd wakes the ring thread, and only if it sleeps
//!
//! *Context.* Answers of jobs come from other threads, which have to wake one that waits for I/O. A futex that the ring waits for needs Linux 6.7
//! and io_uring; `IORING_OP_MSG_RING` needs a ring for each thread of the pool, and a target that overflows loses the message.
//!
//! *Measured* with the rig (6.12, one CPU, `doorbell-rig wakes`): instructions of a round, one thread wakes another that sleeps and is
//! woken by it in turn, which by itself is the first row.
//!
//! | wakes by | waker | woken | both |
//! |---|---:|---:|---:|
//! | unpark of a parked thread, no I/O | 5,251 | 5,264 | 10,515 |
//! | eventfd, watched by epoll | 5,645 | 6,408 | 12,053 |
//! | eventfd, a multishot poll of the ring | 5,506 | 6,383 | 11,889 |
//! | `MSG_RING` | 6,247 | 5,481 | 11,728 |
//! | futex, an operation of the ring | 5,313 | 6,224 | 11,537 |
//!
//! The sleep and its end are most of each; the means differ by 4 % of the round. `MSG_RING` saves the ring thread 902 of them, because it has
//! nothing to read and to arm, and costs the pool 741 more.
//!
//! *Choice.* The eventfd that commands use already: it is the same on both drivers and every kernel. What matters more is how often: before it
//! waits, a worker with jobs under way says that it sleeps and looks once more; whoever leaves an answer wakes it only then, and only the
//! first of them. With 64 jobs under way that is one wake-up for six answers. A worker without jobs does none of this.
//!
//! *Would change it:* a pool whose threads have rings anyway: `MSG_RING` would then save the ring thread a seventh of a wake-up.
//!
//! # 0019 A late job is a 503, and a FIN calls off nothing
//!
//! *Context.* 504 says that a server behind a gateway did not answer (RFC 9110 15.6.5). A client that closes and one that only closes its half look
//! the same until something is sent to them.
//!
//! *Choice.* 503 with `Retry-After`: it was us. The connection ends with it, so that a client cannot pile up jobs that run on after their time. A
//! client that closed its half gets its answer, as from Go's `net/http`, whether a job makes it or not: a connection must not depend on where its
//! request is answered. A reset calls a job off. [`fin_cancels(true)`](crate::offload::OffloadBuilder::fin_cancels) takes FIN for gone, as nginx does,
//! as long as the job waits in its queue: of forty clients that closed their half, thirty-nine then got nothing.
//!
//! *Would change it:* queues filled by clients that give up and close; the cap of the queue and the timeout bound what they cost.
//!
//! # 0020 HTTP/2 is hyper's, beside the ring lane, and off by default
//!
//! *Context.* gRPC probes and some load balancers speak HTTP/2; nearly everything else that asks for health speaks HTTP/1.1, on a connection
//! that carries one request and has nothing to multiplex.
//!
//! *Choice.* The binary hands a connection over as soon as its first bytes are those of HTTP/2, and hyper serves it on a thread with a
//! runtime of its own. Over TLS the ClientHello decides, before any cryptography: a client whose first choice among what both sides speak
//! is `h2` goes with its bytes, everybody else stays. Routes, guards and the log are the same, because each request is written as
//! one of HTTP/1.1 and read by the same machine. hyper's own limits know nothing of floods of SETTINGS, PING or tiny DATA, so frame headers
//! are counted on their way to it, and a connection beyond its budget ends with GOAWAY (ENHANCE_YOUR_CALM). A first line that has nothing of
//! HTTP/1 is a broken preface and goes the same way; a bad request of HTTP/1 keeps its reply. Whoever finds the lane full hears GOAWAY, behind
//! TLS an alert: falling back to HTTP/1.1 there would be a second protocol that nobody asked for first. It is off unless
//! a listener says `http2 = true`: without it there is no runtime, no thread and no second protocol to attack.
//!
//! *What would change it:* probers that speak HTTP/2 by default, or so many of them that a thread is not enough.
//!
//! # 0021 Health is rendered when it changes
//!
//! *Context.* Probes are many and changes are few, but a probe must see a change at once, and some want JSON where others want one word.
//!
//! *Choice.* The binary keeps one board (`doorbell-health`) behind one lock that no ring thread takes. What changes there is rendered for each
//! health route, in every format, for each audience that is told something else, and swapped as a whole; a probe loads it and copies it out.
//! Checks run on a thread with a runtime of its own, beside the one for HTTP/2, so that neither a flood nor a slow handshake makes them late.
//! Each run has a connection of its own, as the kubelet's probes do. The reason that is shown is the latest: another one is a change.
//!
//! *What would change it:* endpoints that change more often than they are asked.
//!
//! # 0022 Signatures with a public key are jobs, and so are reads of files
//!
//! *Context.* What can hold up a ring thread of the binary: verifying a token (2 µs with a shared secret, 20 to 55 µs with a public
//! key), and reading files. A trip to another thread is even from some 10 µs on ([`compute_lane`](super::compute_lane)).
//!
//! *Choice.* A token is looked at where it comes in, up to its signature: what is no token, too long, of another algorithm or of an unknown key
//! is refused there, and a shared secret is checked there. Only a signature with a public key is a job; what follows (the limit
//! of requests at once, the route's answer) is done by the ring thread again. It is always a job and not
//! [`Auto`](crate::offload::Auto): each such signature costs more than the trip on the machines measured, and who sends many of them must not
//! bring them home. Routes of health have their jobs in the high class. A job holds a copy of its request, so that the queue holds
//! `queue_max` heads of 16 KiB at most. The threads are there only where a route asks for such tokens or answers from files.
//!
//! Files of a route are in memory, and a request for one of them is answered from there. The thread that watches directories (0016) has the
//! scan of a directory and the reading of a link map done as jobs, in the high class: junk tokens would keep them waiting behind those of requests
//! (an earlier form did), and one look stands for all requests after it. It waits half a second; a look that takes longer, or finds no room in the
//! queue, is asked for again every tenth of a second while everything else is looked at. A request for a file that is *not* in memory is a job too: it
//! may have come in the tenth of a second in which the watcher lets changes settle, and a CA asks for its challenge as soon as it is told
//! that it is there. An earlier form left all reading to the watcher, and such a request got 404. The price is that a guess of a file's name costs a
//! trip, within the queue's bounds. A disk that hangs takes a thread; who waits for it gets 503 when its time is up.
//!
//! Keys and certificates stay with the watcher: they are few and small, and a signature must not wait behind the file that brings its key.
//!
//! *Would change it:* files that do not fit into memory.
//!
//! # 0023 A client of HTTP/2 that closes its window is ended within a second, a slow one is not
//!
//! *Context.* A client may ask for many replies and let none out, or a byte of each. That is an attack, and it is also what a slow client
//! looks like for as long as it reads nothing.
//!
//! *Choice.* Every connection begins with a window of 65,535 bytes (RFC 9113 6.9.2), and most replies here are far smaller: whoever lets out less
//! than that and then nothing has closed the window on purpose. So a connection whose replies made no progress for 700 ms, that has let out
//! less than a first window's worth since it last had no stream open, and whose socket takes bytes, ends with GOAWAY (ENHANCE_YOUR_CALM). A network
//! that is slow shows in the socket, which takes nothing then, and the time does not run; a client that is slow with something large has
//! let out its first window, and has the time of a slow client, as has one that opens its window again and again: it ends when no reply ended
//! for `timeouts.write` (10 s), looked at once a second.
//!
//! The first form of this looked only at connections that had never let out a byte; one normal reply, or a window of one byte, bought
//! 10 s. What an attacker can hold until the end is bounded: one of
//! [`HandOver::conns_max`](crate::HandOver::conns_max) places and of its address's, and for each of its `concurrent_streams` (100) the
//! fields of a reply and at most 16 KiB of content (larger content is shared): measured 0.5 MiB a connection with tiny replies.
//!
//! *Would change it:* clients that begin with a window of 0 and wait.
//!
//! # 0024 Ports of outgoing connections come from the kernel's whole range, passed as an option
//!
//! *Context.* `connect()` searches for a free port, one half of the ports (by parity) before the other, and Linux 6.18 still does. Once
//! the first half has connections to a peer, every further one walks past all of them. With `IP_LOCAL_PORT_RANGE` (Linux 6.3) the search is
//! narrowed, and from 6.8 on it goes from port to port.
//!
//! *Choice.* `doorbell_egress::Egress` passes the system's own range in that option where a test at start sees ports of both parities, random
//! windows of 1,000 where it does not, and picks ports itself where the kernel lacks the option. It looks instead of asking for a version, because
//! kernels carry backports. Another window or port is tried up to 16 or 32 times, then the whole range, so `EADDRNOTAVAIL` means that no
//! port is free; both are counted. A source is bound with `IP_BIND_ADDRESS_NO_PORT`: its ports are taken for one peer and not for all.
//!
//! `SO_LINGER` is 1 s, as in the kubelet's probes. On Linux that bounds how long closing waits for the peer and takes no TIME-WAIT away: measured on 6.18,
//! a connection that we close first leaves one with 1 s as without, and so does one on a non-blocking socket, whose close waited 1.8 ms
//! on loopback. So a check ends with `doorbell_egress::close`: an ordinary close where the peer was first, which leaves the
//! TIME-WAIT with the peer, and a reset where it was not. It never waits, which matters on a thread of a runtime.
//!
//! *Measured* on 6.18, two busy CPUs, `doorbell-load connect --own-network -t tcp -S auto`: 56,000 connections from one address to one, of
//! 56,512 ports. Median `connect()` on even ports 20.2 µs, on odd ports 20.2 µs, odd / even 1.00, no errors, three times out of three.
//! With the kernel's own search (`-n 32k -S kernel`) it is 20.1 µs on even ports and 7.38 ms on odd ones, odd / even 366.
//!
//! *Would change it:* a kernel whose own search has no halves; then nothing need be set.
//!
//! # 0025 What threads share is explored by loom, from the sources themselves
//!
//! *Context.* A lost wake-up is a client that waits until its deadline, once in millions. Tests with threads find it by luck. loom runs a
//! model under every interleaving and with old news from every relaxed load; shuttle draws interleavings at random and knows
//! sequential consistency only, so it cannot see a missing fence. loom is usually turned on by a `cfg` for the whole build, the dependencies
//! included.
//!
//! *Choice.* loom, in a package of its own (`crates/models`) that takes the inboxes, jobs, queues, the hand-over's places and desk by
//! their paths. Those sources name what they share state with through `crate::sync`, which here is the standard library and there is
//! loom: the engine has no switch, no dependency and no other instruction for it. The larger models are bounded to two or three
//! preemptions. Where what the models stand on differs from the real thing, for loom's sake, its file says how and why.
//!
//! *Would change it:* nothing known; an exception for a source that needs more of the system than this.
//!
//! # 0026 An operator's drain lasts, a stop can be called off, and one handle steers both
//!
//! *Context.* "Drain" means two things. Who upgrades a kernel wants probers to stay away while everything is still served, for as long as it
//! takes; whoever stops a program wants that for some seconds and then the end. Proxies have commands for the one (`set server state drain`,
//! `/healthcheck/fail`), and signals for the other. Probers must not see a difference, and an operator who changes his mind must be able to take
//! either back.
//!
//! *Choice.* `doorbell drain` lasts until `undrain` and is kept across restarts; `quit` and SIGTERM drain for `drain_delay` and then close listeners.
//! Until that moment `undrain` calls both off, and afterwards neither: connections that were refused cannot be taken back. The time an
//! operator has drained counts for the delay of a stop. Everything that steers goes through one handle, the operator, under one lock, and takes
//! effect on the board before the call returns, so the next probe after the reply is told; only the supervisor closes listeners, so what it decides
//! has one order. `maint all` spares `livez` and `startupz`, because whoever watches those kills the process.
//!
//! Times in the state file are what is left, at a moment named by the clock of the boot and by the time of day. After a restart within the same boot
//! the former is believed, which nobody sets; after another boot the latter, and then nothing lasts longer than it was declared for.
//!
//! The control protocol and the file are bitcode behind a version of ours: small, without a parser of our own, and fixed by a test that
//! compares the layout's digest. JSON is what the commands print, for scripts, and has no version.
//!
//! *Would change it:* another program that has to speak to the socket; then the protocol needs a description and not a type.
//!
//! # 0027 A new configuration is a new server on the same sockets
//!
//! *Context.* A configuration decides about listeners, limits, routes, certificates, checks: almost everything that a worker holds while
//! it runs. A reload must lose no connection, must change nothing when it cannot be completed, and must not cost a request anything
//! while there is none.
//!
//! *Choice.* Generations in one process. A reload builds the whole of the new one, and starts a new [`Server`](crate::Server) on copies of the
//! listening sockets ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)); only when that accepts does the old one retire
//! ([`Handle::take_over`](crate::Handle::take_over)). Whatever fails before that leaves the old one as it was. Each worker of the
//! new server gets the socket of the same worker of the old one, so there are as many, and the kernel's choice among sockets with
//! `SO_REUSEPORT` stays. Nothing closes while it is needed: a socket with `SO_REUSEPORT` that closes takes its backlog along, and `shutdown(2)`
//! would end it for both. The server keeps a copy of each socket for the one that may follow, and gives it up before its workers stop to listen.
//!
//! Two habits of the kernel had to be answered. A waiter that was woken for a client and is cancelled before it looked leaves the client where
//! nobody else was told of him: measured on Linux 6.18 with io_uring, 2.0 s until the watch of the listeners found him, so the retired worker
//! now has the new ones ask again (`a_client_for_whom_only_the_old_server_was_woken_is_served`). And a client that has connected to a
//! listener with deferred accept and sent nothing is in no backlog that can be emptied: what becomes of him where the listener is not in the
//! new configuration is said in 0048.
//!
//! *Not chosen.* Swapping handlers below running listeners (arc-swap): only routes would be new, and each request would pay for it. A new
//! process that gets the sockets: all connections move at once, but state of checks, maintenance and counters would have to move too, and
//! the process id changes under a supervisor. Moving idle kept connections to the new server: they would hear of the new configuration one
//! reply earlier; it needs a way into each driver.
//!
//! *Cost.* A descriptor for each listener and worker. While two generations live, each may hold its own `conns_max` connections; where
//! `RLIMIT_NOFILE` does not allow for that, clients wait in the backlog. One table counts the connections of an address for both.
//!
//! *What may fail comes first.* A server that started cannot be taken back: whoever it accepted would be cut. So everything that
//! can fail and can be taken back is done before it starts, threads included, which then wait for the word; ports are bound there, and
//! listened on behind it. What all generations share (windows of maintenance, threads of `[compute]`, the meaning of names, options of the
//! sockets) is changed behind it only. Tables of limits are handed on rather than copied: retired generations go on counting, and a copy
//! would give everybody a second budget meanwhile. A cap that follows from the size of a server, the quarter of handshakes, is one account for
//! all generations, and the newest one's from the moment at which it takes over.
//!
//! *Would change it:* configurations that change many times a second.
//!
//! # 0028 Who sends a head is remembered with the head
//!
//! *Context.* Probes are counted by prober, which the value of `User-Agent` tells, and finding a field costs about 160 instructions, half as
//! much as all of a remembered request.
//!
//! *Choice.* A head that is met again and again is remembered whole; when it is learnt, its prober is found out and kept beside it
//! ([`Asker`](crate::http::prober::Asker)). A prober that sends the same again is counted by a load and an index. Each thread counts for itself,
//! in a cache line of one endpoint and one prober, and holds the replies it read last, so that a look at the state of health is one
//! comparison: by callgrind a probe of health takes 331 instructions where a fixed reply takes 274, the census included.
//!
//! *Would change it:* probers that send another head each time; then the field alone is worth remembering.
//!
//! # 0029 What is checked is asked by hand-sized clients, closed by whoever was asked, and never waited for
//!
//! *Context.* A check of another kind than HTTP can be made with a client library, or by writing the few bytes that the question needs. A
//! thousand checks a second also end a thousand connections, and whoever ends one first keeps its port for a minute. And some want a
//! check to run when a probe comes.
//!
//! *Choice.* Redis is three lines in one round trip and DNS one question; neither is worth a client with a pool, a cache or a resolver's
//! retries of its own, which would hide what is to be found out. Messages of DNS are read by `domain` (NLnet Labs): names with
//! pointers are where hand-written readers fail, and it brings no runtime, no network code and no list of public suffixes, as
//! hickory's messages do. Certificates are read by the crate that reads them elsewhere here; expressions are `regex-lite`'s, whose time is
//! linear and whose size is bounded.
//!
//! A server that was asked for `Connection: close` has 20 ms to do so before it is reset; the finding does not wait for that. Where nothing was
//! said, or where the client is the one who ends (gRPC, Redis, TLS), the end is an ordinary one. A run that ran out of time is reset.
//!
//! A program is the first of its own process group, watched by its pidfd. The group is killed while nobody has waited for the program, so
//! its number cannot be somebody else's by then. Programs run only with `--allow-exec`: who can write the file need not be who may
//! run things.
//!
//! A check with `cache` runs when a probe asks and its last run is older; the probe is answered with what is known. Until the run starts,
//! all further probes look at one flag and read no clock. TCP gates and `/probe` have threads of their own: the rings have no listener that
//! comes and goes, and nothing there may wait. `/probe` is allowed by address and not by name, and connects to the address that it
//! looked at, so a name that changes its mind leads nowhere.
//!
//! *Would change it:* a second question to either protocol; then a client.
//!
//! # 0030 The schema of configuration files is written by the code that reads them
//!
//! *Context.* Editors want a JSON Schema. Readers of configuration are written by hand, because every problem of a file is reported at its
//! place and with a fix, which no derive does. A schema derived from other types, or written beside, is a second list of keys that
//! somebody forgets.
//!
//! *Choice.* While it records, a table notes each key that its reader asks for, with the form that it wants, and tables that are not there
//! are empty ones, so readers go down into all of them. One document with a check of every type is read once, and what was noted is the
//! schema. A key that is added to a reader is in the schema without another line; only values that a reader takes apart by hand are
//! named a second time, and a test says when such a place is gone. Rules between keys stay with `doorbell check`.
//!
//! *Would change it:* readers by derive that report as well.
//!
//! # 0031 Threads of jobs are nicer than ring threads
//!
//! *Context.* A ring thread that wakes up on the processor of a job waits until the scheduler takes the job off, up to a tick of 4 ms. Tried beside a
//! thread that never sleeps on each of two processors: a shorter slice for the ring thread (`sched_setattr(2)`), which changed the median and not
//! the p99; `SCHED_BATCH` for the others, which changed nothing; `SCHED_IDLE`, which is as good as 10 and starves jobs; and nice values.
//!
//! *Choice.* Nice 10 for the threads of jobs ([`NICE`](crate::offload::NICE) has the figures), which `[compute] nice` and
//! [`OffloadBuilder::nice`](crate::offload::OffloadBuilder::nice) change. Where other programs are busy jobs get less of the machine.
//!
//! *Would change it:* a scheduler that lets a short slice run at once.
//!
//! # 0032 The router is our own, and not matchit
//!
//! *Context.* matchit is the radix tree under most routers of this language, and well kept. It knows paths only: hosts, methods, `Allow` and the
//! difference between 404 and 421 stand around it in any case. It refuses `{name}` beside `{*name}`, and takes no end of a path for a rest: `/docs/` is not
//! `/docs/{*rest}`. Where static text came first and led nowhere it goes back by a list on the heap.
//!
//! *Choice.* A map of whole paths for those that are static, which is what probers ask for, and behind it a tree of segments that goes back without
//! memory. Any two routes of different shape stand beside each other.
//!
//! *Measured* with 0.9.2, `cargo bench -p doorbell-benches --bench instructions_route`: nine routes for GET, one of which is looked up with its
//! method. Instructions, ours and matchit's: a static path 129 and 226; a rest, with its value 471 and 475; going back, with a parameter 579 and
//! 989; a path of five segments with a parameter 686 and 427, with its value 886 and 570; a path that nobody has 368 and 157. So the paths of
//! probes, and what never allocates, are in favour of ours; long paths with parameters and misses are not: there matchit does not look into the map first,
//! and its tree compares where ours hashes each segment. A request with such a path costs 260 to 320 instructions more with ours.
//!
//! *Would change it:* servers whose requests are mostly long paths with parameters. The first step then is a tree that compares, behind the same map; its
//! rows above tell when it is as good.
//!
//! # 0033 What is counted for each request is counted where somebody can ask, and connections as a difference
//!
//! *Context.* Metrics by listener, route, method and status want something done for each connection and each request, while a remembered request
//! whose reply is a fixed one takes 276 instructions.
//!
//! *Choice.* Connections of a listener are counted by its gate, which did so before. One that is answered and closed in the turn that accepted
//! it (0011) is not counted a second time when it closes: at the end of a turn all that came and took no place in the table are done. All others
//! are counted where they end, in an array of their listener and worker.
//!
//! Requests are counted by route only with `[admin]`, without which nobody can ask for metrics; then a route is compiled into an answer that
//! counts. Numbers belong to the process, so that a reload takes nothing back, and each thread has its own; of a reply that is always the same
//! the number is known but for the method. Routes of health are not counted again: `doorbell_probes_total` has them by prober, which says more;
//! only what asks them for one check (`/readyz/CHECK`) is, as no verdict of an endpoint is told there.
//! Where the answer is no fixed one, its number is looked up by method and status. `doorbell_http_requests_total` is what is counted by listener,
//! route, method and code; `doorbell_requests_total` is every request by protocol, those of probes among them.
//!
//! *Measured:* the row `kubelet_scraped` beside `kubelet` of `fixed`, `cargo bench -p doorbell-benches --bench instructions_health`: 276
//! instructions and 306, with the labels of listener, route, method and status.
//!
//! *Left out.* How long requests take: a clock would be read for each. Parts of the runs of checks where there are more than 1,000 checks, since
//! every part is ten lines of each check. How late runs start is told of all checks together for the same reason.
//! Connections that were rejected are those closed as `per_ip_cap`, `handshake_cap`, `input_memory` and `not_taken`, and have no other name.
//! Where a connection ends by a limit the reason is the limit: `per_ip_cap`, `requests_max`, `age_max`, `input_memory`, `handshake_cap`.
//! `doorbell_worker_loop_seconds` would need a second look at the clock in each turn; `doorbell_worker_last_loop_timestamp_seconds` is the time that the
//! turn reads anyway, and with `doorbell_worker_turns_total` tells a worker that hangs from one that is busy. Of a ring,
//! `doorbell_ring_enters_total`, `_cq_overflow_total` and `_buffer_starved_total` are counted; entries submitted and completed, by operation or at
//! all, would be counted one by one where a turn of 64 connections costs a few hundred instructions each, and say no more than connections, requests
//! and enters do. Rearming is told of accept, the one operation whose rearming says that something is wrong (`doorbell_accept_rearms_total`),
//! and steps down are `doorbell_accept_downgrades_total` and `doorbell_driver_fallbacks_total` in the place of one
//! `_downgrades_total{from,to}`. The table of fixed files is as full as `doorbell_worker_connections_active`, where it is used. `doorbell_build_info` has
//! no label `features`: there are none to choose. `doorbell_prober_interval_seconds` is a gauge, the mean of the last intervals, and no summary: a
//! prober has one interval, and quantiles would be kept for each of ten probers, endpoints and workers.
//! What is asked of a check with `cache` is counted by those who are heard, one of many: the others look at one flag (0029).
//! A connection ends as far as we see it: one that is answered and closed in the turn that accepted it is `done`, whatever its client does then, so HAProxy's
//! reset behind our FIN is not `reset_after_reply`; that is the reset of one that we would have kept. Where accept is deferred, a probe that connects and resets
//! without a byte is never shown to us and in no number; with FIN it is `empty`, and with `defer_accept = false` both are.
//!
//! *Would change it:* a counter that a ring thread can write without asking which thread it is.
//!
//! # 0035 What the service manager keeps is shut down when nobody accepts from it, and a kubelet is warned by a host that cannot be
//!
//! *Context.* A listening socket of which systemd has a copy (`FDSTORE`) lives longer than its listener. That is wanted over a restart. It is not where the
//! configuration names the address no more, or where one of several workers failed: the kernel still gives that socket its part of the clients, and they would wait in a
//! backlog for nobody. `FDSTOREREMOVE` closes systemd's copy, but sockets that came from the process before also stay open at the numbers at which they were
//! passed, which safe code cannot close.
//!
//! *Choice.* Whatever is kept and not accepted from is shut down: that ends a listening socket for everybody who has it, and systemd forgets it by
//! itself. It is looked for when a reload is over, when its backlog has been emptied, and while a worker is missing. At a stop it is not: what waits there
//! waits for the next process. So clients that come after `drain_delay` of a stop that is no restart are reset at its end instead of refused at once; nobody
//! can tell the two apart. Sockets are stored by listener, all of its workers' under one name; fewer workers than sockets serve the rest beside their own.
//!
//! The kubelet takes a redirect to another host as a success with a warning and never asks there. `degraded.invalid` is a name that no host can have
//! (RFC 2606), so it is another host whatever was probed, also for somebody who follows it after all.
//!
//! *Would change it:* a manager that says whether a stop is a restart.
//!
//! # 0036 A request of gRPC is a request of a route, and what the route says is told in codes of gRPC
//!
//! *Context.* Calls of gRPC health were answered before routes were asked: without their limits, tokens and certificates, and without a line in the
//! log. Guards stand before routes, and calls had none. A table of guards of their own would be a second place to look, with one
//! answer for all listeners and hosts.
//!
//! *Choice.* Whether a call may go on is decided by the door, like everything else: the head is written as one of HTTP/1.1 and gets a reply. A
//! route with `grpc = true` replies 200 with `application/grpc`, and then the call is made; any other reply ends it with the code that a
//! client of gRPC expects. A listener without such a route has one that lets everybody in, so nothing need be written. It
//! counts as a probe for `exempt_probes` and for the log. Where gRPC's table of HTTP statuses is vague, ours is not: 429 is
//! RESOURCE_EXHAUSTED and not UNAVAILABLE, because retries are what it is about; 503 stays UNAVAILABLE; 403 is UNAUTHENTICATED where a
//! certificate is what was missing. What a route says beside its status (`retry-after`, `www-authenticate`) goes along as metadata.
//!
//! The log has the status that HTTP would have had, so a refused call is a 401 there, though all replies of gRPC are 200 on the wire; a
//! Watch has its line when it begins, and holds no place of `concurrent`: `max_watches` bounds those.
//!
//! *Would change it:* other services of gRPC here; then each needs a name to be routed by.
//!
//! # 0037 A line of the log is dropped rather than waited for, and a wait for a drain ends when nobody is connected
//!
//! *Context.* Whoever reads our standard output may hang: a full disk behind a container runtime, a terminal that was stopped. A write then
//! waits for ever, and with it whoever had something to say, which is the thread of checks first, then the one that ends the program.
//!
//! *Choice.* Lines go into a queue of 1 MiB that one thread writes; what comes beyond it is dropped and counted (`log_lost`), and the log says so
//! when somebody reads again. Lines are written in pieces of whole lines that fit into `PIPE_BUF`, so that those of the access log do not come in
//! between. The end of the process gives the reader one second. What others can cause as often as they like, refused commands, is one line a
//! second with the number of those left out.
//!
//! `/-/drain?wait=20s` ends before its time when nobody is connected, but not before `drain_delay`: probes that open a connection each leave none
//! open in between, and a load balancer that has not heard of the drain yet would be waited for no longer.
//!
//! What is said of a panic is such a line, too, and no word on standard error; the thread gives it a tenth of a second, because the end may be next.
//!
//! *Left out.* What the standard library says when it gives up, as of a panic during a panic, waits. Transitions of checks are not thinned out: each is news.
//!
//! *Would change it:* a reader to whom a lost line costs more than a lost probe.
//!
//! # 0038 While no resolver answers, checks ask the addresses of before
//!
//! *Context.* The system's resolver is a call that may hang for half a minute and cannot be called back. A check by name that is down because nobody
//! answers for its name says something about the resolver, and takes an application out that holds its connections and needs none. A thread for each
//! run that hangs leaves none for files and programs.
//!
//! *Choice.* All checks of one name share one look-up, at most 32 look-ups are under way, and they take no thread from anybody else. When addresses are
//! older than `resolve.ttl` the next run waits for new ones for a quarter of its time to connect, then takes those of before, and those behind it
//! do not wait until there is an answer. So it stays for an hour; an answer that there is no such name counts at once. A log line says when it
//! begins and when it ends.
//!
//! *Would change it:* a resolver of our own, which could tell an answer that is old from none without the words of a C library.
//!
//! # 0039 Answers say how things stand, not how old they are, and one that leaves checks out is made from a snapshot
//!
//! *Context.* An answer whose checks run on demand (`cache = "1s"`) rests on results that may be as old as that, and `Age` (RFC 9111 5.1) is
//! the field for the age of what a cache hands out. `?exclude=NAME`, as the Kubernetes API server has it, wants a verdict that no state
//! change has rendered. Everything else a probe is told exists before it comes.
//!
//! *Choice.* No `Age`. By its definition it says that the answer was not made by its origin, and here it was: results are old, not the answer, and an
//! endpoint has as many ages as checks. Nor does it go with `Cache-Control: no-store`, which all
//! answers carry. It would be the one field that differs from probe to probe, with a look at a clock, and answers could not be the same
//! bytes for all probers any more. How old a result is stands where people and graphs look: `time` in `health+json`, which is that of a
//! result not 10 s older than the last one, `doorbell status`,
//! `/-/checks` and `doorbell_check_age_seconds`; what is too old changes the state (`max_age`), which no prober can overlook.
//!
//! Fields that depend on the state (`Retry-After`, `x-envoy-degraded`, `X-Load-Balancing-Endpoint-Weight`) are rendered with it, and cost
//! a probe nothing but their bytes. A weight is told as 0 to whom nothing is served: a balancer that reads weights alone must not send.
//!
//! `?exclude` is answered from a snapshot that is kept beside the replies and renewed with them: no lock and no board on a thread that
//! answers. What is left out counts as well, as with the API server, and does not vanish: a quorum that counts it would be missed for good. Only
//! who sees details may leave something out, because the verdicts without each check tell which of them is down. 32 names are looked at. Such
//! an answer allocates, which no other one here does; probers do not ask so.
//!
//! *Would change it:* a prober that reads `Age`; none is known that does.
//!
//! # 0040 Without a file there are metrics on the loopback, and nothing else
//!
//! *Context.* `doorbell --listen :8080 --check http://127.0.0.1:3000/healthz` is to have metrics without a file. On the listener of the
//! probes they would be open to everybody who may probe, and a scrape would be written on a thread that answers probes. The admin
//! listener has them, but whoever reaches it from the same machine may also drain.
//!
//! *Choice.* Without a file the admin listener is there by itself on 127.0.0.1:9130, and only shows: what changes something is refused,
//! because on a machine with several users the control socket knows who asks and an address does not. Where somebody else has the
//! address, doorbell says so and goes on without. `--admin ADDR`, `DOORBELL_ADMIN` or `[admin]` asks for a listener, which then also
//! steers, and then an address that cannot be had ends the start; `--admin off` wants none. With a file there is what the file says.
//!
//! *Would change it:* metrics that the ring lane can write without holding up a probe, and a rule about who may read them there.
