//! `[compute]` as it was written.
//!
//! Does not know about: what needs it.

use super::read_count;
use doorbell_config::{At, Problem, Section};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

#[derive(Debug)]
pub(crate) struct Compute {
    pub(crate) span: Range<usize>,
    pub(crate) threads: Option<At<u32>>,
    pub(crate) name: Option<At<String>>,
    pub(crate) cpus: Option<At<Vec<u32>>>,
    pub(crate) stack_size: Option<At<u32>>,
    pub(crate) nice: Option<At<u32>>,
    pub(crate) queue_high: Option<At<u32>>,
    pub(crate) queue_normal: Option<At<u32>>,
    pub(crate) timeout: Option<At<Duration>>,
}

/// The system shows 15 bytes of a thread's name; three are for its number.
const NAME_LEN_MAX: usize = 12;

/// As many processors as `sched_setaffinity(2)` knows by the usual mask.
const CPU_MAX: u32 = 1023;

const STACK_RANGE: RangeInclusive<u32> = 64 << 10..=1 << 30;
const NICE_RANGE: RangeInclusive<u32> = 0..=19;
const QUEUE_RANGE: RangeInclusive<u32> = 1..=100_000;
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

impl Compute {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let compute = Self {
            span: at.span.clone(),
            threads: read_count(&mut at, "threads", 1..=1024),
            name: at.string("name").filter(|name| check_name(&at, name)),
            cpus: read_cpus(&mut at),
            stack_size: read_stack_size(&mut at),
            nice: at.integer("nice", NICE_RANGE),
            queue_high: at.integer("queue_high", QUEUE_RANGE),
            queue_normal: at.integer("queue_normal", QUEUE_RANGE),
            timeout: at.duration("timeout", TIMEOUT_RANGE),
        };
        at.finish();
        compute
    }
}

fn check_name(at: &Section<'_>, name: &At<String>) -> bool {
    let text = &name.value;
    let is_good = (1..=NAME_LEN_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_good {
        let message = format!("{text:?} cannot be the name of a thread");
        at.problem(
            Problem::error("bad-name", name.span.clone(), message)
                .help(format!("1 to {NAME_LEN_MAX} letters, digits, `_` and `-`: a number comes behind it")),
        );
    }
    is_good
}

/// `"auto"` is the same as nothing.
fn read_stack_size(at: &mut Section<'_>) -> Option<At<u32>> {
    match at.value("stack_size")?.get_ref() {
        DeValue::String(word) if word == "auto" => None,
        _ => at.size("stack_size", STACK_RANGE),
    }
}

/// The number of a processor, or a list of them.
fn read_cpus(at: &mut Section<'_>) -> Option<At<Vec<u32>>> {
    let value = at.value("cpus")?;
    let span = value.span();
    let DeValue::Array(list) = value.get_ref() else {
        return at.integer("cpus", 0..=CPU_MAX).map(|cpu| At { value: vec![cpu.value], span });
    };
    let cpus: Vec<u32> = list.iter().filter_map(|cpu| read_cpu(at, cpu)).collect();
    Some(At { value: cpus, span })
}

fn read_cpu(at: &Section<'_>, value: &Spanned<DeValue<'_>>) -> Option<u32> {
    let Some(number) = value.get_ref().as_integer() else {
        return at.wrong_type(value, "the number of a processor");
    };
    let cpu = u32::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
    let cpu = cpu.filter(|cpu| *cpu <= CPU_MAX);
    if cpu.is_none() {
        let problem = Problem::error("out-of-range", value.span(), "a processor in `cpus` is out of range");
        at.problem(problem.help(format!("from 0 to {CPU_MAX}")));
    }
    cpu
}
