//! What a reload of the health-check proxy does, what it cannot do, and what clients see of it.
//!
//! # What starts one
//!
//! * `doorbell reload`: answers when the new configuration is served, or with what is wrong; exit 0 or 1.
//! * SIGHUP, if `lifecycle.reload` has `"SIGHUP"`.
//! * A change of the file, if it has `"file"`: its directory is watched, also behind symbolic links, so that the `..data` swap by which
//!   Kubernetes updates a ConfigMap is seen; changes may settle for 100 ms, and every 5 s there is a look without a sign, for file systems
//!   that give none. Files named in `${file:PATH}` are a part of the configuration.
//!
//! ```toml
//! [lifecycle]
//! reload = ["SIGHUP", "file"]   # the default; "off" leaves it to the command
//! ```
//!
//! Where what was read says the same as before, nothing is exchanged: certificates, keys and stored files are looked at, as they are
//! whenever they change. However it is asked for, there is one reload at a time, from the reading on, and the file that was read last is the
//! one that is served. Standard input can be read once only, and a doorbell without a file has nothing to read: there SIGHUP means that look.
//!
//! # What happens
//!
//! 1. The whole file is read and checked as at the start, with what the command line says about it. Errors go into the log and into the answer
//!    of the command with file, line and column, once for each content of a file that is watched. Nothing has changed.
//! 2. Everything new is made: boards, routes, certificates, stores, threads, also those for checks, which do not run yet; new addresses of TCP
//!    gates and `[blackbox]` are taken, and nobody is let in.
//! 3. A new server starts on the same sockets. An address that was there keeps its sockets, with whoever waits in them, and port 0 stays the
//!    port that it became; a new address is opened. Up to here anything may fail, and then nothing of the file is in force: no check has run, no
//!    maintenance window counts, no thread, file or port is left.
//! 4. From here on nothing fails. Checks of before end and those of now begin, maintenance windows are those of now, ports of TCP gates
//!    and `[blackbox]` that are in both files stay open. The server of before accepts no more, and the command is answered: from here on every client is the new configuration's. Its
//!    connections go on until their next reply, which the new configuration gives, with its routes, tokens and limits, and which says
//!    `Connection: close`. HTTP/2 gets GOAWAY, what it asked for is answered, and watches
//!    of gRPC health end with UNAVAILABLE: nothing is said to be down that is not, and the next watch, which clients begin by themselves, is the
//!    new configuration's. Who says nothing keeps his own time-out, but no longer than 60 s.
//!
//! Nobody is refused, reset or cut by that; see decision 0027. Two configurations of before may still have
//! connections; where reloads come faster, those of the oldest one are drained (`reloads_hurried`). An address that is not in the new
//! configuration any more is closed: whoever is in its backlog is served before, but of who has connected and sent nothing nobody knows.
//!
//! # What stays
//!
//! * The state of checks that ask the same, by name and kind, with its history: up stays up. It is judged by the thresholds, intervals and
//!   `max_age` of now: a lower threshold decides at once, a higher one takes back nothing, and the next run comes when it is due now.
//! * The verdict of an endpoint about a check that asks something else, until the first result of that check, which comes at once, but for no
//!   longer than its `timeout`, or its `ttl` where results are pushed. A check that joins an endpoint does not take it down in that time
//!   either, nor does it close one that `fail_open` keeps open. `startup_grace` is counted from the start of the process.
//! * What is different nonetheless, a check or a verdict, is an event and a line of the log like any other transition.
//! * Latches of endpoints, drains, maintenance, whoever probed, and all counters: none becomes smaller.
//! * Results that are pushed over a connection of before arrive.
//! * A connection of before gets its replies from the routes of now. It is closed without a reply where its listener is gone, or wants to
//!   know the client's address and did not before: the request may be repeated on a new one. Its limits of size and time stay, and its
//!   TLS session: a client certificate is asked for only on a new connection.
//! * The access log, if neither it nor the routes changed; else the new one begins and the old one is written to the end.
//!
//! * What is owed to rate limits, as long as `key`, `rate`, `burst` and `table` of `[limit.NAME]` are the same, and to `handshakes_per_ip` of
//!   `[tls.NAME]`: both configurations count with one table. A limit that is changed begins anew, beside the other.
//! * Requests at once (`concurrent`, `requests_in_flight`), where the number is the same: one cap for both configurations.
//!
//! Sessions of TLS are not resumed across a reload.
//!
//! # What cannot change while it runs
//!
//! `runtime.workers`, all of `[compute]` once its threads are there (they stay, also where nothing needs them for a while), `log.format`,
//! all of `[control]` and `[systemd]`, `admin.bind`, `maintenance.file_dir` and `lifecycle.state_file`. Each stays as it was, and that is said in
//! the answer and once in the log, key by key, also where the file is taken without being asked for. `admin.token` and `log.level` are taken: a new
//! token is the only one from then on.
//!
//! # What it costs
//!
//! Memory and descriptors for two servers until the older one has ended. Each may have its `max_connections`; where the limit of open
//! files is too low for both, clients wait in the backlog until connections of before are over. TLS handshakes in progress are bounded
//! for both together, by a quarter of the newer one's `max_connections`, and so is the memory for requests that arrive in parts; connections of
//! an address are counted together where the cap is the same. Connections of HTTP/2, all of them and those of an address, and watches of gRPC
//! health are counted together in any case: a client is refused once all of them are as many as its server may have.
