//! Hashes passwords with Argon2 on separate threads, so that probes never wait: `cargo run
//! --example offload -- 127.0.0.1:8080`. `POST /hash` with a password returns its hash.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use argon2::{Argon2, password_hash::PasswordHasher as _};
use doorbell::{
    Handler, Http1, Listen, Offload, Replied, Reply, Request, Responder, Server, StaticReply, Status,
};

struct Hasher {
    jobs: Offload,
    alive: StaticReply,
}

impl Handler for Hasher {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        head.path() == "/hash"
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if request.path() != "/hash" {
            return reply.send(&self.alive);
        }
        // The job needs a copy, because the bytes of the request stay with the connection.
        let password = request.body().to_vec();
        self.jobs.run(request, reply, move || match hash(&password) {
            Ok(hash) => Reply::text(Status::OK, hash),
            Err(why) => Reply::text(Status::BAD_REQUEST, why.to_string()),
        })
    }
}

/// Hashes with the parameters that OWASP recommends: about 20 ms of work and 19 MiB of memory.
fn hash(password: &[u8]) -> Result<String, argon2::password_hash::Error> {
    Ok(Argon2::default().hash_password(password)?.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let jobs = Offload::builder().name("hasher").build()?;
    let service = Http1::new(Hasher { jobs, alive: StaticReply::text(Status::OK, "ok\n") });
    let server = Server::builder().listen(Listen::tcp(addr), service).start()?;
    eprintln!("listening on {}", server.local_addrs()[0]);
    server.wait()?;
    Ok(())
}
