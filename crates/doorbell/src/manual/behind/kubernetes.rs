//! doorbell as a sidecar in Kubernetes; `deploy/kubernetes` has the manifests.
//!
//! Does not know about: anything of Kubernetes but its probes.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]                      # together less than terminationGracePeriodSeconds, 30 s
//! drain_delay = "5s"
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! http2 = true                     # grpc probes, without TLS
//!
//! [check.app]
//! type = "http"
//! url = "http://127.0.0.1:3000/healthz"
//!
//! [health.startupz]
//! require = ["app"]
//! latch = true                     # once it has started, it has
//!
//! [route.startupz]
//! listener = "probes"
//! path = "/startupz"
//! health = "startupz"
//!
//! [health.livez]                   # of doorbell
//! [health.app_livez]               # of the app
//! require = ["app"]
//! [health.readyz]
//! require = ["app"]
//!
//! [route.livez]
//! listener = "probes"
//! path = ["/livez", "/healthz"]
//! health = "livez"
//!
//! [route.app_livez]
//! listener = "probes"
//! path = "/app/livez"
//! health = "app_livez"
//!
//! [route.readyz]
//! listener = "probes"
//! path = "/readyz"
//! health = "readyz"
//! ```
//!
//! - 200 to 399 are well. A redirect to the same host is followed; one to another host is a success with a warning event. Of a failure
//!   people see the code only, never the body.
//! - Of "degraded" a kubelet tells nobody: 200 is 200. With `degraded_via = "kube-warning"` in `[health.readyz]` it is answered 302 to
//!   `http://degraded.invalid/` while the endpoint is degraded, which is a success, and the pod has an event of type `Warning`: `Readiness
//!   probe warning: Probe terminated redirects, Response body: readyz is degraded: db down (connection refused)`. Everybody else is
//!   answered with `status.degraded` as before; who is a kubelet is told by `User-Agent: kube-probe/..`. The reasons are in it where the
//!   route says `details = "always"`, and where it says `"authenticated"` for a probe that sends the token (`httpHeaders`): anybody can
//!   call himself a kubelet, so everybody else reads `readyz is degraded`. It changes with the state and not with each probe, so the events
//!   of one reason are counted and not repeated. What stands between kubelet and doorbell must not follow redirects.
//! - Each probe is a new connection with `Connection: close`, `User-Agent: kube-probe/..`, and ends after `timeoutSeconds`, 1 s by
//!   default: doorbell answers from what it knows, so a slow dependency never makes a slow probe.
//! - Each container is restarted by its own `livenessProbe`, so each needs an own answer: that of doorbell asks `/livez`, that of the app
//!   `/app/livez` with a larger `failureThreshold`. Were both to ask `/livez`, a hung app would stay, and a hung doorbell would have the app
//!   restarted. An endpoint whose name is `livez` or ends in it takes no notice of drains and of `doorbell maint all`.
//! - `livez` must not depend on others: what is not alive is restarted. A shared database in `readyz` takes all pods out at
//!   once; give such a check `severity = "degrading"`.
//! - While a pod is deleted liveness and startup probes stop, readiness probes go on. Load balancers outside learn of it later than the
//!   kubelet: `drain_delay` is for them. The kubelet sends SIGTERM to a container when its `preStop` hook is over. That of doorbell is
//!   `exec: { command: [/doorbell, prestop] }`, which drains at once and ends when `drain_delay` is over; SIGTERM behind it waits no second time.
//!   That of the app beside it has to last as long, `sleep: { seconds: 5 }`, or the app is gone before load balancers know. Where doorbell has a token
//!   or is asked on the loopback, `httpGet` of `/-/drain?wait=20s` at `[admin]` does the same. What a hook begins is not kept in `lifecycle.state_file`:
//!   the kubelet calls it also before it restarts a container that is not alive.
//! - gRPC: anything but SERVING is a failure. TLS there needs Kubernetes 1.37 and a feature gate.
