//! More choices that surprise, after those of [`decisions`](super::decisions), which are numbered in one row.
//!
//! # 0041 A drain of one endpoint is not one of the program, and a hook's drain is not kept
//!
//! *Context.* `doorbell drain` was about the program: its state is `draining`, and a stop counts from it. Whoever takes one service of several
//! out of its load balancer does not end anything. A preStop hook of Kubernetes drains, too; the kubelet also calls it before it restarts a container
//! that is not alive, and an `emptyDir` with a state file outlives that.
//!
//! *Choice.* An endpoint drains while it was drained itself or everything drains: two flags, so that taking one back leaves the other, in
//! whatever order. `doorbell drain readyz` changes nothing but what is told about `readyz`, to each audience as its `on_drain` says, in gRPC, to agents and by
//! TCP gates; its reason is shown with it. `undrain` and `ready` without a name end every one, as they end everything else. `--for` ends
//! either by the clock that nobody sets.
//!
//! What an operator drains is kept in the state file, which reads that of the version before. What a hook drains (`doorbell prestop`, `GET /-/drain`)
//! is not: it belongs to the end of this process, or the next one would drain until somebody looks. `prestop` ends when `drain_delay` is over, however many
//! are connected: they finish behind SIGTERM, within `drain_timeout`, and SIGTERM comes no sooner for a hook that waits for them. A drain
//! that began before SIGTERM counts for its delay, so nothing is waited for twice.
//!
//! *Left out.* How many connections belong to an endpoint is not known, so a wait for its drain is over by time alone. Checks do not
//! drain; there is maintenance for them.
//!
//! *Would change it:* probers of one endpoint on a listener of their own as the rule, whose connections could be counted.
//!
//! # 0042 Keys of the sketch that a file has not
//!
//! *Context.* The file was sketched in full before there was a program. A key is one more thing to read, to test at each of its values, and to
//! keep for good.
//!
//! *Choice.* What has one right value has no key, and what a key beside it can say has none of its own:
//!
//! | in the sketch | here |
//! |---|---|
//! | `runtime.ring_entries` | 1,024, and half of it each time that memory is refused, down to 64 |
//! | `runtime.user_agent` | `headers = { User-Agent = ".." }` of the check |
//! | `log.format = "journald"` | lines of JSON, which the journal keeps as they are; fields of its own need a library and a socket for each line |
//! | `log.probe_transitions` | always: a state that changes silently is what people look for at night |
//! | `admin.pprof` | nothing in the program profiles itself; `perf` and the lines of the release build do |
//! | `metrics.path`, `metrics.classify_probers` | `/metrics`, and always |
//! | `metrics.exemplars` | successes have no traces that an exemplar could name |
//! | `lifecycle.exit_when_idle` | always: there is nothing to wait for |
//! | `tcp.reuse_port`, `tcp.steering` | each worker has a socket of its own; where a client lands is the kernel's choice |
//! | `tcp.fastopen` | probers do not ask for it, and what is sent with a SYN may come twice |
//! | `listener.empty_connections` | never a line, always a counter |
//! | `check.reuse_connection` | a new connection for each run: one that is kept says nothing about who accepts |
//! | `health_of = "{check}"` | `{check}` in the path of a route of `health`, for the checks of that endpoint |
//! | a gRPC service that is a check | an endpoint that requires this check |
//! | `blackbox` as a route | a listener of its own, for Prometheus' network: its answers wait for a probe, and those of routes never do |
//! | `unsafe_any_host` | a redirect has `hosts` or a `host` of its own: a location is never written from what a client sends |
//!
//! `limit.shared` and `[history.clickhouse]` come with links between doorbells.
//!
//! *Would change it:* whoever cannot do something for want of one of these.
//!
//! # 0043 What a key means is a text beside the readers, what it is by default is what the resolver says
//!
//! *Context.* Editors show `description` and `default` of the schema. The annotated files in `deploy/` explain every key too, in half a line
//! that stands beside a value and often beside two other keys; the defaults are in the models, and many follow from another key.
//!
//! *Choice.* `config/keys.txt` has one sentence for each key, and the schema and doorbell.toml(5) are made from it; a key without a sentence, or
//! a sentence without a key, fails a test. Defaults are not written down anywhere: sample files that leave out what can be left out are
//! resolved, and what all of them agree on is the default. What follows from another key is in two samples with that key at two values, so
//! it has none, and its sentence says what it follows from. Tests write every default into the samples, which must change nothing, and compare
//! the defaults that the annotated files name.
//!
//! *Would change it:* descriptions in several languages.
//!
//! # 0044 Lines of a flood are written together, and the thread of checks is as nice as the ring threads
//!
//! *Context.* A thousand state changes a second may make the slowest of a hundred probes 1.2 times as slow as none. Ring threads are not
//! woken by a change: they compare a number with each probe and read anew when it is another one. What a change costs is time of the
//! processors that ring threads wait for: each was rendered step by step, all images of every reply with each field, and each of its two
//! lines woke the thread of the log and whoever reads it.
//!
//! *Choice.* A reply of a page is rendered once for all of its fields. Behind a write the thread of the log rests for 5 ms and then
//! writes what has come meanwhile; the first line after a pause is written at once, and the end does not wait. A kill of the process may
//! so take the lines of the last 5 ms of a flood with it. The thread of checks keeps the nice value of the process, unlike that of jobs (0031):
//! what it does is what probes are to be told within 10 ms, also where clients keep all processors busy.
//!
//! *Measured* by `e2e whole::` with `DOORBELL_FULL=1`, the median of 11 pairs, two processors and a machine with other work: 1.28 on
//! epoll and 1.12 on io_uring before, 1.07 and 1.06 after.
//!
//! *Would change it:* whoever reads the log and must have each line at once.
//!
//! # 0045 What was planned and is somewhere else, or nowhere
//!
//! *ACME is not forwarded.* Challenges of http-01 are answered from a directory (`files = { .. }`, `doorbell redirect --acme DIR`), before every
//! redirect and for every name. To forward them to a client that listens by itself would make doorbell a proxy of what strangers send: a body to
//! bound, a peer to wait for, answers to trust, on a listener that is open to the world and answers everything else from memory. Every client that
//! is in use writes to a directory (certbot by `--webroot`, acme.sh by `-w`, lego by `--http.webroot`), and where it runs on another machine a redirect
//! reaches it, which an authority should follow (RFC 8555 8.3).
//!
//! *No `doorbell bench`.* Load is `doorbell-load`, a program of its own: whoever serves needs no client with ten thousand connections in the
//! binary, and figures of a program that measures itself on its own cores say little about what a client sees.
//!
//! *No `doorbell config convert`.* Files of HAProxy and of blackbox_exporter say mostly what doorbell has no counterpart for; what is left is
//! the address and path of a check, which `--check URL` takes, and `config init` has the rest. A translation that drops nine lines of ten silently
//! would be worse than none, and one that names them is the manual's pages in another form.
//!
//! *The run directory is not preserved.* Files that declare maintenance would outlive a stop with `RuntimeDirectoryPreserve=`. With
//! `DynamicUser=` systemd then makes the directory in `/run/private`, where only root gets in, and the control socket with its `control.group` lies
//! there. So the state directory has both what operators declare (`$STATE_DIRECTORY/state` by itself) and `maintenance.file_dir`.
//!
//! *A container is restarted by its own answer.* Endpoints named `livez` or `startupz`, or ending in that, take no notice of drains and of
//! `doorbell maint all`: `app_livez` is what an app beside doorbell is restarted by. A key for it would be a second way to say what `on_drain` says
//! already, and to forget it would restart an app in the middle of its maintenance.
//!
//! *Would change it:* a client of ACME in use that cannot write to a directory; a prober's configuration that says more about checks.
//!
//! # 0046 The gRPC check of an AWS load balancer is answered with a verdict
//!
//! *Context.* A target group of gRPC asks `/AWS.ALB/healthcheck` and by default takes code 12, UNIMPLEMENTED, for well: what any server of gRPC says of a
//! method that it does not have. Answered like that, a target is never unhealthy, in maintenance and in a drain neither. Asking `Check` instead with code
//! 0 changes nothing, because a target group compares the code only, and that is 0 for NOT_SERVING too.
//!
//! *Choice.* That path has the verdict of the service without a name: 12 while it serves, otherwise 14, UNAVAILABLE, and who asks is counted as any
//! prober. `alb = "always"` in `[grpc]` says 12 in any case, for whoever wants to know only that there is an answer.
//!
//! *Would change it:* a target group that reads the message, or asks `grpc.health.v1` by itself.
//!
//! # 0048 A listener closes behind a last call, in which nobody new gets in
//!
//! *Context.* A drain served the backlog and closed the listener when nobody waited there. Under load clients were reset nevertheless, for
//! three reasons. Who has connected to a listener with deferred accept and said nothing yet is in no backlog: he speaks, and nobody is
//! there. Between the last look at the backlog and `close(2)` somebody may come. And the sockets of files, which workers share, were closed
//! with their backlogs.
//!
//! *Choice.* While everything drains, for an operator or for `drain_delay`, TCP listeners accept at once (`TCP_DEFER_ACCEPT` 0,
//! [`Handle::accept_at_once`](crate::Handle::accept_at_once)); undrain sets what was there. Who had connected before comes out of the
//! kernel when it greets him again, after one second or three. When listeners close, a filter on each socket (`SO_ATTACH_FILTER`) has the
//! kernel drop what opens a connection, for 100 ms; handshakes in progress end in the backlog, that is served, and then there is nobody
//! whom the close could reset. A file of a socket is removed in the place of the filter. A listener that a reload removes ends in the same
//! way. A worker tells nobody before it closes what it alone has: the filter is on the sockets of all workers from the same moment on, so
//! that none gets the clients of another one.
//!
//! *Who keeps a socket.* What a service manager passed has its own options and stays open there: it is neither changed nor emptied, and who
//! waits there is the next process's. Where it is passed by somebody who does not keep it (`systemd-socket-activate`, `inetd`), who waits
//! at the very end is reset, and nobody can tell. What we gave to the store of the manager
//! ([`Handle::listening`](crate::Handle::listening)) gets no filter, and defers accept again when the next process takes it. A successor
//! that has not taken over shares its sockets with the server before, so neither of them may set a filter.
//!
//! *What cannot be helped.* Who was turned away tries again after a second and is refused then, or reaches the next process. A handshake
//! that takes longer than 100 ms and began before, is reset; so is, without `drain_delay`, who had connected before and is silent for
//! longer than that. Only `net.ipv4.tcp_migrate_req` could hand them to another socket, and there must be one. A stop without a drain (a
//! second signal) resets as ever. Where a sandbox refuses the filter, the moment between look and close is left.
//!
//! *Measured* by `promise_close` and `e2e crowd::`, on Linux 6.18: before, of 20,490 requests over ten closes 3 were reset on io_uring, and
//! of 1,671 at a socket file 124.
//!
//! *Not chosen.* A backlog of 0 (`listen(2)` again): one client still gets in, and whoever is in the middle of a handshake does not.
//! Closing at once what is on loopback only: one rule is easier to trust. To refuse at once while the backlog is emptied: the kernel has no
//! way.
//!
//! *Would change it:* a listener that can refuse and keep its backlog.
//!
//! # 0049 A check that runs when somebody asks also runs before its result is too old
//!
//! *Context.* With `cache` a check ran only when somebody asked. Nobody waits for a run, so who asks is told what the run before him found, and a
//! prober that comes less often than `max_age` (a minute by default; monitors and Route 53 come every 30 s to 5 min) found that too old, had the check
//! run, and found that too old the next time: 503 for ever of a service that was up all the time.
//!
//! *Choice.* The check also runs by itself, by chance in the third quarter of `max_age`, counted from its last run: at most two runs in `max_age`
//! beyond those that are asked for, and never two in one `cache` time. A reload starts none: the last run before it counts.
//!
//! *Left out.* To let the probe wait for a run: an upstream that hangs would hold up every prober, which is what a cached state is there to
//! prevent. No `max_age` for such checks: a service that died at night would be up for the first one who asks in the morning, and there may be no
//! second one soon. Whoever wants an upstream left alone while nobody asks writes a long `max_age`, and is told old results then.
//!
//! *Would change it:* probers that say how often they come.
//!
//! # 0050 Probers are known by what they send, and from where they ask only where that is known anyhow
//!
//! *Context.* A name can be left out: whoever only connects sends nothing, and clients of gRPC send the name of their library. Azure and Google publish from
//! where they ask. To know the address of a client costs a system call a connection on the rings, which is not made for anything else there, and what
//! Google's front ends pass on for their clients comes from the same addresses as their checks.
//!
//! *Choice.* By HTTP all probers with published addresses name themselves, so nobody is asked for his address there. By gRPC the address is known in any
//! case, and counts where the name is none that is known. Whoever connects to a TCP gate is counted as `tcp` of its endpoint with what it said then;
//! the alert on missing probers leaves that out, because nobody gets in where a gate is shut. Who connects to a listener and says nothing belongs to no
//! endpoint: he is in `doorbell_connections_closed_total` of the listener as `empty`, as far as deferred accept shows him (0033). Without a name and a
//! field HAProxy alone asks by HTTP/1.0; what `X-Haproxy-Server-State` says is kept for an hour, for 32 names, and believed of `trusted_proxies` only,
//! where those are set: balancers get new names, and clients can send the field through one.
//!
//! *Would change it:* a prober of HTTP that has published addresses and no name.
//!
//! # 0052 `/probe` is a port of its own, and hacheck's paths are routes that are written down
//!
//! *Context.* A plan had `/probe` as a route with `limit`, `auth` and the TLS of its listener. Routes are answered by ring threads, from memory or by
//! a job of bounded time; a probe takes as long as Prometheus waits, ten seconds, and its answer is made anew for each target.
//! hacheck answers `GET /http/SERVICE/PORT/PATH` by asking that port of its own machine for that path, and `hadown SERVICE` writes a file.
//!
//! *Choice.* `[blackbox]` has a port and a thread: it binds to an address of its own, which a firewall or a network policy tells from that of probers. Who may be
//! asked is `targets`, how much is 32 probes and 64 connections at once, and one target is asked once within `cache`, however many want to know. A
//! flood of those who ask costs the thread of `/probe` and nothing of what answers probers.
//!
//! What HAProxy asks hacheck for is kept by a route with that path: `path = "/http/shop/3000/status"` and `health = "shop"`, with a check that has its own
//! interval. A path of which every part is the client's would make each prober one who asks any port of this machine for anything. Files of
//! `maintenance.file_dir` do what `hadown` and `haup` do.
//!
//! *Also.* Names, labels and values of `/probe` and of `doorbell probe -o prom` are compared with those of blackbox_exporter 0.23 in a test. There are three
//! differences: `probe_timeout_seconds` and the label `serialnumber`, which later versions have, and `probe_http_version`, because HTTP/2 is not
//! spoken to targets. The end of the root itself is not looked at for `probe_ssl_last_chain_expiry_timestamp_seconds`.
//!
//! *Would change it:* an exporter's port that strangers reach, and that cannot have a proxy of its own before it.
//!
//! # 0053 A watch asks by `Check` whether its server is there, and sends no PING
//!
//! *Context.* A stream that says nothing is that of a service whose state does not change, or of a server that stands still. PING of HTTP/2 tells them
//! apart, but servers of gRPC take more than one in five minutes for an attack: after the third they answer `GOAWAY` with `too_many_pings` (the
//! enforcement policy of grpc-go, `GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS` of its core). A ping every `interval` ended a watch of such
//! a server every twenty seconds.
//!
//! *Choice.* Each run makes the unary call on the connection of the watch, unless something was heard just before: any answer will do, also that there
//! is no such method, and none within `timeout` ends the watch. Its frames are data, for which no server has a limit of that kind.
//!
//! *Left out.* `TCP_USER_TIMEOUT`: the kernel of a server that stands still acknowledges. A ping every five minutes: it would be known too late.
//!
//! *Would change it:* a server that allows one stream a connection, which would not answer.
//!
//! # 0054 The command of `doorbell run` is told by the doorbell that serves
//!
//! *Context.* `run` counted `drain_delay` itself, from the file that it had read at its start. A stop that was called off ended the command all the same,
//! and a delay that a reload had changed was the old one.
//!
//! *Choice.* The doorbell that serves says when it closes and when it goes on, a byte each, over a socket that is its standard input, which a server has no
//! use for. One that dies before it says anything has the command told at once.
//!
//! *Would change it:* a server that reads its standard input.
//!
//! # 0055 A listening socket that is shared is polled by every worker
//!
//! *Context.* Workers share the sockets of systemd, of `fd:`, of `unix:` and of a program before this one. A ring queues its accept at such a socket, and
//! the kernel wakes one of those that are queued. A multishot accept keeps its place: of 600 connections one of two workers got all. A single-shot accept
//! goes to the end of the queue, and that shares heavy load. With either the kernel also chooses a ring whose thread is busy in a handler:
//! the next client waited 2 to 3 s, until the watch over accept found it, while another worker was idle. `EPOLLEXCLUSIVE` in a poll of the ring has the
//! same defect: the wake-up counts as taken when it is queued for the thread. On epoll it counts only when a thread waits there, so epoll keeps it.
//!
//! *Choice.* On io_uring a shared socket has a multishot poll in each worker, which is not exclusive, whatever `accept` says. All idle workers wake for a client,
//! each asks whether it is still there, and the first accepts it by a system call. So connections are ordinary descriptors in a server with
//! such a socket, also with `descriptors = "direct"`; the report of the driver says so. It is rule D-13 of drivers. Sockets with
//! `SO_REUSEPORT`, of which each worker has its own, accept as before.
//!
//! *Price.* One client at a time, a connection each, all workers idle; turns and processor time of all workers together, on two processors:
//!
//! | workers | turns a connection, polled | multishot | time a connection, polled | multishot |
//! |---|---|---|---|---|
//! | 1 | 1.0 to 1.6 | 1.0 to 1.2 | 17 to 25 µs | 15 to 18 µs |
//! | 2 | 2.0 to 3.2 | 1.0 to 1.6 | 25 to 42 µs | 21 to 26 µs |
//! | 8 | 8.0 to 9.9 | 1.0 to 1.1 | 62 to 77 µs | 21 to 41 µs |
//!
//! An idle worker that wakes in vain costs about 6 µs. A busy one costs nothing: it asks when it next turns.
//!
//! *Would change it:* a kernel whose rings leave an exclusive wake-up to the next in the queue while their thread does not wait.
//!
//! # 0056 The set of techniques is chosen by ablation, not by a search
//!
//! *Context.* The rig had a search: a walk over 15 switches, one at a time and then in pairs, that kept what raised 10^9 / instructions. It was to show
//! that it reaches the shipped set unaided from every switch off, twice with the same result. On 6.12 two boots of one binary differ by up to 0.98 % under
//! `close/64` and by 4.5 % under `free/64`, because the order in which the scheduler wakes both sides depends on the boot. Of the 21 single changes to
//! the shipped set, fifteen move `close/64` by less than that: a walk decides those by chance, and two walks decide them differently. Means of enough boots
//! to tell 0.1 % apart need about a hundred boots a point. The runs that were kept tried 73 and 56 points in their time and never left the defaults.
//!
//! *Choice.* `doorbell-rig search` and its logs are removed. `ablate` measures what a search would have to find: each technique in the full set and alone,
//! both sides in one boot, with the distance between boots beside it; `levers.md` has the verdicts. Pairs that depend on each other are
//! named there as the context of a technique, which a walk of single steps does not find by itself.
//!
//! *Would change it:* counts that do not differ between boots, and a point in less than a second; then a search from every switch off is a matter of
//! minutes.
