//! Instruction counts of one probe on a [`Machine`], a connection without a socket.
use doorbell_benches::guard;
use doorbell_benches::machine::Machine;
use doorbell_benches::probes::{ELB, ENVOY, HAPROXY, HAPROXY_STATE, KEEP_ALIVE, KUBELET, REDIRECT};
use doorbell_http::Next;
use doorbell_http::auth::{Authorization, Policy};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::harness::at_most;

// A whole request: parsing, route, reply. The argument is returned so that its drop is not counted.
#[library_benchmark]
#[bench::kubelet(args = (Machine::new(KUBELET)), config = at_most(689))]
#[bench::haproxy(args = (Machine::new(HAPROXY)), config = at_most(604))]
#[bench::haproxy_state(args = (Machine::new(HAPROXY_STATE)), config = at_most(849))]
#[bench::elb(args = (Machine::new(ELB)), config = at_most(899))]
#[bench::envoy(args = (Machine::new(ENVOY)), config = at_most(702))]
#[bench::keep_alive_second(args = (Machine::second(KEEP_ALIVE)), config = at_most(745))]
#[bench::pipelined_16(args = (Machine::second(&KEEP_ALIVE.repeat(16))), config = at_most(10_924))]
#[bench::redirect(args = (Machine::new(REDIRECT)), config = at_most(2_132))]
fn whole(mut machine: Box<Machine>) -> (Next, Box<Machine>) {
    (machine.handle(), machine)
}

// A whole request on a worker that has cached this head, which is the case for nearly every probe.
#[library_benchmark]
#[bench::kubelet(args = (Machine::again(KUBELET)), config = at_most(410))]
#[bench::haproxy(args = (Machine::again(HAPROXY)), config = at_most(410))]
#[bench::haproxy_state(args = (Machine::again(HAPROXY_STATE)), config = at_most(955))]
#[bench::elb(args = (Machine::again(ELB)), config = at_most(430))]
#[bench::envoy(args = (Machine::again(ENVOY)), config = at_most(480))]
#[bench::keep_alive_second(args = (Machine::again(KEEP_ALIVE)), config = at_most(490))]
#[bench::pipelined_16(args = (Machine::again(&KEEP_ALIVE.repeat(16))), config = at_most(2_230))]
#[bench::redirect(args = (Machine::again(REDIRECT)), config = at_most(1_966))]
fn again(mut machine: Box<Machine>) -> (Next, Box<Machine>) {
    (machine.handle_seen(), machine)
}

#[library_benchmark]
#[bench::kubelet(args = (Machine::new(KUBELET)), config = at_most(393))]
#[bench::haproxy(args = (Machine::new(HAPROXY)), config = at_most(302))]
#[bench::elb(args = (Machine::new(ELB)), config = at_most(588))]
#[bench::envoy(args = (Machine::new(ENVOY)), config = at_most(375))]
fn parse(machine: Box<Machine>) -> (Option<usize>, Box<Machine>) {
    (machine.parse(), machine)
}

#[library_benchmark]
#[bench::path(args = (Machine::new(KUBELET)), config = at_most(107))]
fn route(machine: Box<Machine>) -> (bool, Box<Machine>) {
    (machine.route(), machine)
}

#[library_benchmark]
#[bench::fixed(args = (Machine::new(KUBELET)), config = at_most(97))]
fn reply(mut machine: Box<Machine>) -> Box<Machine> {
    machine.reply();
    machine
}

// Checks a token of 32 bytes against a policy with one token, and with eight tokens, of that
// length.
#[library_benchmark]
#[bench::of_1(args = (guard::policy(1)), config = at_most(162))]
#[bench::of_8(args = (guard::policy(8)), config = at_most(590))]
fn token(policy: Policy) -> (bool, Policy) {
    (policy.decide(Authorization::One(std::hint::black_box(guard::VALUE)), 0).status().is_none(), policy)
}

library_benchmark_group!(name = machine, benchmarks = [whole, again, parse, route, reply, token]);

/// Asserts that the counted operations give the correct results.
pub(crate) fn check_replies() {
    for (input, next, status) in [
        (KUBELET, Next::CloseClean, "200 OK"),
        (HAPROXY, Next::CloseClean, "200 OK"),
        (HAPROXY_STATE, Next::CloseClean, "200 OK"),
        (ELB, Next::CloseClean, "200 OK"),
        (ENVOY, Next::Read, "200 OK"),
        (KEEP_ALIVE, Next::Read, "200 OK"),
        (REDIRECT, Next::CloseClean, "308 Permanent Redirect"),
    ] {
        let mut machine = Machine::new(input);
        assert_eq!(machine.parse(), Some(input.len()), "{}", input.escape_ascii());
        assert!(machine.route());
        assert_eq!(machine.handle(), next, "{}", input.escape_ascii());
        let start = format!("HTTP/1.1 {status}\r\n");
        assert!(machine.output().starts_with(start.as_bytes()), "{}", machine.output().escape_ascii());
        let mut again = Machine::again(input);
        assert_eq!(again.handle_seen(), next, "{}", input.escape_ascii());
        assert_eq!(again.output(), machine.output());
    }
}
