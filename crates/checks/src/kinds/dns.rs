//! One question to one name server: over UDP with retransmissions, and over TCP if the answer is
//! truncated.

use crate::connect::datagrams::Received;
use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::materials::Materials;
use crate::options::{Address, DnsCheck, DnsCode, DnsRecord};
use crate::progress::{DnsAnswer, Progress, Stage};
use domain::base::iana::{Class, Rcode};
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{AllRecordData, Soa};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

/// Announced UDP size, small enough to avoid fragmentation (DNS flag day 2020).
const UDP_LEN_MAX: u16 = 1232;

/// Maximum length of an answer over TCP in bytes.
const TCP_LEN_MAX: usize = 16 << 10;

/// Maximum number of times that a question is sent over UDP, spread evenly over the timeout of the
/// run.
const SENDS_MAX: u32 = 3;

/// Maximum number of unrelated answers that are ignored, such as late or forged answers.
const UNRELATED_MAX: usize = 32;

/// Maximum number of records to examine.
const RECORDS_MAX: usize = 256;

/// Checks one name server.
#[derive(Debug)]
pub(crate) struct DnsRunner {
    check: DnsCheck,
    dialer: Dialer,
    name: Name<Vec<u8>>,
    resend_every: Duration,
    ids: RandomState,
}

impl_kind_runner!(DnsRunner, is_connectionless: |_any| true);

impl DnsRunner {
    pub(crate) fn build(check: &DnsCheck, with: &Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&Address::Tcp(check.server.clone()), check.resolve);
        let name = check.name.parse().map_err(|error| format!("{}: {error}", check.name))?;
        let resend_every = with.pace.timeout / SENDS_MAX;
        Ok(Self { check: check.clone(), dialer, name, resend_every, ids: RandomState::new() })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let question = self.question(start)?;
        let mut answer = self.over_udp(&question, progress).await?;
        if answer.header().tc() {
            answer = self.over_tcp(&question, progress).await?;
        }
        let latency = start.elapsed();
        progress.see(|seen| seen.dns = Some(content(&answer, self.check.record)));
        self.evaluate(&answer)?;
        in_time(latency, self.check.latency)
    }

    fn question(&self, start: Instant) -> Result<Message<Vec<u8>>, Issue> {
        let too_long = |_| Issue::error("the question cannot be encoded");
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(self.id(start));
        builder.header_mut().set_rd(true);
        let mut builder = builder.question();
        builder.push((&self.name, rtype(self.check.record), Class::IN)).map_err(too_long)?;
        let mut builder = builder.additional();
        let added = builder.opt(|opt| {
            opt.set_udp_payload_size(UDP_LEN_MAX);
            Ok(())
        });
        added.map_err(too_long)?;
        Ok(builder.into_message())
    }

    /// A message ID that cannot be predicted from earlier IDs.
    fn id(&self, start: Instant) -> u16 {
        let [.., high, low] = self.ids.hash_one(start).to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    async fn over_udp(
        &self,
        question: &Message<Vec<u8>>,
        progress: &Progress,
    ) -> Result<Message<Vec<u8>>, Issue> {
        let socket = self.dialer.begin_udp(progress).await?;
        progress.enter(Stage::Response);
        let mut unrelated = 0;
        let read = |datagram: Received| match answer_of(&datagram.bytes, question) {
            None if unrelated == UNRELATED_MAX => {
                Err(Issue::failure("the answer does not match the question"))
            }
            answer => {
                unrelated += 1;
                Ok(answer)
            }
        };
        socket.ask(question.as_slice(), (SENDS_MAX, self.resend_every), read).await
    }

    async fn over_tcp(
        &self,
        question: &Message<Vec<u8>>,
        progress: &Progress,
    ) -> Result<Message<Vec<u8>>, Issue> {
        let mut conn = self.dialer.connect(progress).await?;
        progress.enter(Stage::Response);
        let broken = |error: std::io::Error| Issue::failure(format!("over TCP: {}", cause_of(&error)));
        let len = u16::try_from(question.as_slice().len());
        let len = len.map_err(|_| Issue::error("the question cannot be encoded"))?;
        let framed = [&len.to_be_bytes(), question.as_slice()].concat();
        conn.write_all(&framed).await.map_err(broken)?;
        let len = usize::from(conn.read_u16().await.map_err(broken)?);
        if len > TCP_LEN_MAX {
            return Err(Issue::failure(format!("an answer of {len} bytes is too long")));
        }
        let mut answer = vec![0; len];
        conn.read_exact(&mut answer).await.map_err(broken)?;
        conn.close_with_fin();
        answer_of(&answer, question).ok_or_else(|| Issue::failure("the answer does not match the question"))
    }

    fn evaluate(&self, answer: &Message<Vec<u8>>) -> Verdict {
        let code = answer.header().rcode();
        let wanted = rcode(self.check.code);
        if code != wanted {
            return Err(Issue::failure(format!("the answer is {code}, expected {wanted}")));
        }
        if wanted != Rcode::NOERROR {
            return Ok(());
        }
        let found = records(answer, rtype(self.check.record))
            .map_err(|_| Issue::failure("the answer cannot be parsed"))?;
        let least = self.check.min_answers as usize;
        if found.len() < least {
            return Err(Issue::failure(format!("{} answers, expected at least {least}", found.len())));
        }
        let missing = self.check.contains.iter().find(|wanted| !found.iter().any(|one| is_same(one, wanted)));
        missing.map_or(Ok(()), |wanted| {
            let first = found.first().map_or("nothing", |one| one.as_str());
            let more = if found.len() > 1 { ".." } else { "" };
            Err(Issue::failure(format!("{wanted} is not among the answers: {first}{more}")))
        })
    }
}

/// Parses the answer if it belongs to this question.
fn answer_of(bytes: &[u8], question: &Message<Vec<u8>>) -> Option<Message<Vec<u8>>> {
    let answer = Message::from_octets(bytes.to_vec()).ok()?;
    answer.is_answer(question).then_some(answer)
}

/// The content of the answer to a question for records of this type.
fn content(answer: &Message<Vec<u8>>, asked: DnsRecord) -> DnsAnswer {
    let counts = answer.header_counts();
    let serial = || answer.answer().ok()?.limit_to::<Soa<_>>().flatten().last();
    DnsAnswer {
        answers: counts.ancount(),
        authority: counts.nscount(),
        additional: counts.arcount() - u16::from(answer.opt().is_some()),
        serial: (asked == DnsRecord::Soa).then(|| serial().map_or(0, |soa| soa.data().serial().into_int())),
    }
}

/// The records of this type in presentation format, TXT records as plain text.
fn records(answer: &Message<Vec<u8>>, wanted: Rtype) -> Result<Vec<String>, domain::base::wire::ParseError> {
    let mut found = Vec::new();
    for record in answer.answer()?.limit_to::<AllRecordData<_, _>>().take(RECORDS_MAX) {
        let record = record?;
        if record.rtype() == wanted {
            found.push(match record.data() {
                AllRecordData::Txt(text) => String::from_utf8_lossy(&text.text::<Vec<u8>>()).into_owned(),
                data => data.to_string(),
            });
        }
    }
    Ok(found)
}

/// Compares addresses by value, and other texts regardless of case and of a final dot.
fn is_same(found: &str, wanted: &str) -> bool {
    match (found.parse::<IpAddr>(), wanted.parse::<IpAddr>()) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => {
            let plain = |text: &str| text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
            plain(found) == plain(wanted)
        }
    }
}

const fn rtype(record: DnsRecord) -> Rtype {
    match record {
        DnsRecord::A => Rtype::A,
        DnsRecord::Aaaa => Rtype::AAAA,
        DnsRecord::Caa => Rtype::CAA,
        DnsRecord::Cname => Rtype::CNAME,
        DnsRecord::Mx => Rtype::MX,
        DnsRecord::Ns => Rtype::NS,
        DnsRecord::Ptr => Rtype::PTR,
        DnsRecord::Soa => Rtype::SOA,
        DnsRecord::Srv => Rtype::SRV,
        DnsRecord::Txt => Rtype::TXT,
    }
}

const fn rcode(code: DnsCode) -> Rcode {
    match code {
        DnsCode::NoError => Rcode::NOERROR,
        DnsCode::NxDomain => Rcode::NXDOMAIN,
        DnsCode::Refused => Rcode::REFUSED,
    }
}
