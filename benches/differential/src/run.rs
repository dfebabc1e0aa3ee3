//! A run: compares the framing of a number of streams by all servers, and collects the results.

use crate::compare::{Kind, Peer, difference};
use crate::framing::Framing;
use crate::go::Go;
use crate::ours::Ours;
use crate::reasons::{self, Case};
use crate::{grammar, hyper1, strict_httparse};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// Results of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of streams.
    pub streams: u64,
    /// Number of requests that doorbell accepted.
    pub accepted: u64,
    /// Number of streams that doorbell refused.
    pub refused: u64,
    /// Number of comparisons, one for each stream and peer.
    pub compared: u64,
    /// Number of differences by reason (its index in `reasons::all`) and peer.
    pub counts: BTreeMap<(usize, Peer), u64>,
    /// Number of differences without a reason.
    pub unlisted: u64,
    /// The shortest example of each class of unlisted differences.
    pub examples: BTreeMap<(Peer, Kind, String), Vec<u8>>,
}

/// Compares the framing of the streams with the numbers `items`, which are generated from `seed`.
/// Without `go`, Go is not compared.
///
/// # Errors
/// When Go's process has ended.
pub fn run(seed: u64, items: std::ops::Range<u64>, go: Option<&mut Go>) -> io::Result<Report> {
    let mut report = Report::default();
    let mut ours = Ours::new();
    let mut go = go;
    let mut from = items.start;
    while from < items.end {
        let to = items.end.min(from + BATCH_LEN);
        let batch: Vec<_> = (from..to).map(|item| grammar::stream(seed, item)).collect();
        if let Some(go) = &mut go {
            go.send(&batch)?;
        }
        // doorbell and hyper run while the Go process works.
        let framed: Vec<Framing> = batch
            .iter()
            .map(|(stream, cut)| {
                let framing = ours.frame(stream, *cut);
                strict_httparse::run(stream);
                report.check(&mut ours, stream, &framing, Peer::Hyper, &hyper1::frame(stream, *cut));
                framing
            })
            .collect();
        if let Some(go) = &mut go {
            let theirs = go.receive(batch.len())?;
            for (((stream, _), framing), theirs) in batch.iter().zip(&framed).zip(&theirs) {
                report.check(&mut ours, stream, framing, Peer::Go, theirs);
            }
        }
        report.count(&framed);
        from = to;
    }
    Ok(report)
}

impl Report {
    fn count(&mut self, framed: &[Framing]) {
        self.streams += framed.len() as u64;
        for framing in framed {
            self.accepted += framing.requests.len() as u64;
            self.refused += u64::from(matches!(framing.end, crate::framing::End::Refused(_)));
        }
    }

    fn check(&mut self, ours: &mut Ours, stream: &[u8], framing: &Framing, peer: Peer, theirs: &Framing) {
        self.compared += 1;
        let Some(difference) = difference(framing, theirs) else { return };
        let places = ours.places(stream);
        assert_eq!(&places.framing, framing, "the framing depends on the split: {}", stream.escape_ascii());
        let case = Case::new(stream, &places, peer, theirs, difference);
        if let Some(reason) = reasons::find(&case) {
            *self.counts.entry((reason, peer)).or_default() += 1;
            return;
        }
        self.unlisted += 1;
        let class =
            (peer, difference.kind, format!("{:?} {:?} against {:?}", places.error, framing.end, theirs.end));
        if self.examples.len() < EXAMPLES_MAX || self.examples.contains_key(&class) {
            let example = self.examples.entry(class).or_insert_with(|| stream.to_vec());
            if stream.len() < example.len() {
                *example = stream.to_vec();
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, accepted, refused, compared, .. } = self;
        writeln!(
            f,
            "{streams} streams, {accepted} requests accepted, {refused} streams refused, {compared} comparisons"
        )?;
        for (number, reason) in reasons::all().enumerate() {
            let count = |peer| self.counts.get(&(number, peer)).copied().unwrap_or(0);
            writeln!(f, "{:>9} {:>9}  {}", count(Peer::Hyper), count(Peer::Go), reason.name)?;
        }
        writeln!(f, "{} differences without a reason", self.unlisted)?;
        for ((peer, kind, class), example) in &self.examples {
            writeln!(f, "{} {kind:?} {class}\n    {}", peer.as_str(), example.escape_ascii())?;
        }
        Ok(())
    }
}

const BATCH_LEN: u64 = 512;
const EXAMPLES_MAX: usize = 100;
