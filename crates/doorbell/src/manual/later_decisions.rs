//! More choices that surprise, after those of [`decisions`](super::decisions), which are numbered in one row.
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
