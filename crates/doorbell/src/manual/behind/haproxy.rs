//! doorbell beside servers behind HAProxy.
//!
//! Does not know about: anything of HAProxy but its health checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "8s"               # fall × inter = 3 × 2 s, and a little
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! proxy_protocol = "accept"        # check-send-proxy: a LOCAL header comes first
//! trusted_proxies = ["10.0.0.0/8"]
//!
//! [agent.lb]                       # agent-check: weight, drain and maintenance, which a status cannot say
//! bind = "[::]:9131"
//! health = "readyz"
//!
//! [check.app]
//! type = "http"
//! url = "http://127.0.0.1:3000/healthz"
//!
//! [check.cache]
//! type = "tcp"
//! address = "127.0.0.1:6379"
//!
//! [health.livez]
//! [health.readyz]
//! require = ["app"]
//! degrading = ["cache"]
//! weight = { app = 60, cache = 40 }
//!
//! [route.livez]
//! listener = "probes"
//! path = ["/livez", "/healthz"]
//! health = "livez"
//!
//! [route.readyz]
//! listener = "probes"
//! path = ["/readyz", "/"]       # the default asks for /
//! health = "readyz"
//! ```
//!
//! ```text
//! backend shop
//!     option httpchk GET /readyz
//!     http-check send-state
//!     default-server inter 2s fall 3 rise 2 check port 8080 check-send-proxy
//!     server web1 10.0.0.7:3000 weight 100 agent-check agent-port 9131 agent-inter 2s
//! ```
//!
//! - `option httpchk` without more sends `OPTIONS / HTTP/1.0` with no `Host`; 2xx and 3xx are well. All forms of it are answered.
//!   Each is known as HAProxy's, and told `on_drain.load_balancer`, but for one: `http-check send .. ver HTTP/1.1 hdr host web` says nothing of who
//!   asks. There add `hdr user-agent HAProxy`, or `http-check send-state`.
//! - It resets the connection as soon as it has the answer. doorbell counts that as an answer that was read, never as an error.
//! - `http-check send-state` tells us in `X-Haproxy-Server-State` what it thinks of this server: `doorbell probers` and
//!   `doorbell_lb_view_state` show it for an hour after it was last said. Where `trusted_proxies` are set only they are believed.
//! - What HAProxy will be told is what `doorbell probe http://10.0.0.7:8080/readyz --as haproxy --send-proxy local --send-state` is told, byte for byte: `local`
//!   is `send-proxy-v2` with `check-send-proxy`, `v1` is `send-proxy`.
//! - Slower than the answer is the decision: `fall × inter` pass before it acts, which is what `drain_delay` is for.
//! - `agent-check` connects, sends what `agent-send` says, reads one line and resets. A line always says everything, because only the agent can take
//!   back what it said: `up ready 100%`, `up ready 60% # degraded cache`, `down ready # app`, `up drain 100% # draining`, `maint # patching`. The
//!   percentage is of the server's `weight`, and of the weights in `[health.readyz]` what serves, 1 at least where anything does. With `maxconn = 200` in `[agent.lb]` it
//!   also says how many connections the server is to get.
//! - With `select_by_send = true` one agent serves many servers: `agent-send "readyz\n"` names the endpoint. A server without
//!   `agent-send` gets the line of the agent's own `health` after 300 ms of silence, and so does one whose words are lost on the way that long.
//! - An agent that cannot be reached changes nothing: what it said last holds. So keep `check` beside it, and end doorbell by TERM, not KILL: it says
//!   `drain` first.
