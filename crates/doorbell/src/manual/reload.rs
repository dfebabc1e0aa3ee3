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
//! whenever they change. Standard input can be read once only, and a doorbell without a file has nothing to read: there SIGHUP means that look.
//!
//! # What happens
//!
//! 1. The whole file is read and checked as at the start, with what the command line says about it. Errors go into the log and into the answer
//!    of the command with file, line and column. Nothing has changed.
//! 2. Everything new is made: boards, routes, certificates, stores, checks. What fails here changes nothing either.
//! 3. A new server starts on the same sockets. An address that was there keeps its sockets, with whoever waits in them, and port 0 stays the
//!    port that it became; a new address is opened; if one is taken, nothing has changed.
//! 4. The server of before accepts no more, and the command is answered: from here on every client is the new configuration's. Its
//!    connections go on until their next reply, which says `Connection: close`. HTTP/2 gets GOAWAY, what it asked for is answered, and watches
//!    of gRPC health end. Who says nothing keeps his own time-out, but no longer than 60 s.
//!
//! Nobody is refused, reset or cut by that; see [decision 0027](super::decisions). Two configurations of before may still have
//! connections; where reloads come faster, those of the oldest one are drained (`reloads_hurried`). An address that is not in the new
//! configuration any more is closed: whoever is in its backlog is served before, but of who has connected and sent nothing nobody knows.
//!
//! # What stays
//!
//! * The state of checks that are the same, by name and by everything said of them: up stays up, with its history, and the next run comes when
//!   it was due. A check that is new, or asks something else, is unknown until its first result, which comes at once;
//!   with `startup_grace` it counts as up for that long.
//! * Latches of endpoints, drains, maintenance, whoever probed, and all counters: none becomes smaller.
//! * Results that are pushed over a connection of before arrive.
//! * Answers on such a connection are about the state of now.
//! * The access log, if neither it nor the routes changed; else the new one begins and the old one is written to the end.
//!
//! Rate limits begin anew, and sessions of TLS are not resumed across a reload.
//!
//! # What cannot change while it runs
//!
//! The number of workers, `[compute]` once its threads are there, the level and format of the log, `[control]`, `[systemd]`,
//! `maintenance.file_dir` and `lifecycle.state_file`. Each stays as it was, and that is said in the answer and in the log.
//!
//! # What it costs
//!
//! Memory and descriptors for two servers until the older one has ended. Each may have its `max_connections`; where the limit of open
//! files is too low for both, clients wait in the backlog until connections of before are over.
