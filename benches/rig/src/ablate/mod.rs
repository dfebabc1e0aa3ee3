//! The effect of each technique of the engine, once with all others at their defaults and once with
//! all others off.

mod native;
mod plan;
mod report;
mod techniques;

use serde::Serialize;

use crate::error::RigError;
use crate::image::servers::{ServerEnvironment, Setup};
use crate::image::{Contents, DOORBELL, Kernel, OurPrograms};
use crate::plan::{Load, Mode, Plan, Row};
use crate::report::{Conditions, Figures, Outcome, Run, percent, range};
use crate::session::{Session, now_s, say, time_left};
use crate::variant::{self, Driver, Variant};
pub(crate) use native::run as run_native;
use plan::{Pair, Set};
pub(crate) use report::page;
pub(crate) use techniques::TECHNIQUES;

/// Parameters of an ablation.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Question {
    /// Kernels of the guest
    #[arg(long, value_name = "VERSION", value_delimiter = ',', default_value = "6.12")]
    kernel: Vec<Kernel>,

    /// Drivers
    #[arg(long, value_name = "DRIVER", value_delimiter = ',', default_value = "epoll,io_uring")]
    driver: Vec<Driver>,

    /// Only these techniques, by the names that `list` prints
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = technique)]
    only: Vec<String>,

    /// Loads to apply; default: close/64, free/64 and keep/64; with --native close/64 and keep/64
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    loads: Vec<Load>,

    /// Samples of each row; the figures are medians
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// CPU model, as for QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    cpu: String,
}

/// Validates the name of a technique.
fn technique(text: &str) -> Result<String, String> {
    let is_known = TECHNIQUES.iter().any(|known| known.name == text);
    if is_known { Ok(text.to_owned()) } else { Err("`doorbell-rig list` prints all names".into()) }
}

impl Question {
    fn loads_or(&self, usual: &[Mode]) -> Vec<Load> {
        if self.loads.is_empty() {
            usual.iter().map(|&mode| Load::new(mode, 64)).collect()
        } else {
            self.loads.clone()
        }
    }
}

/// The results for one kernel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    conditions: Conditions,
    repeatability: Vec<Repeatability>,
    effects: Vec<Effect>,
}

/// The effect of one technique under one load.
#[derive(Clone, Debug, Serialize)]
struct Effect {
    technique: &'static str,
    driver: Driver,
    set: Set,
    /// Whether the technique is on by default.
    is_default: bool,
    load: String,
    with: Option<Figures>,
    without: Option<Figures>,
    /// Change of the server's instructions by the technique, in per cent.
    server_percent: Option<f64>,
    /// Change of the whole machine's instructions by the technique, in per cent.
    machine_percent: Option<f64>,
    failure: Option<String>,
}

/// Differences between the figures of a server in several boots.
#[derive(Clone, Debug, Serialize)]
struct Repeatability {
    load: String,
    /// The largest difference between the figures of one server in several boots: maximum minus
    /// minimum, in per cent of the minimum.
    server_percent: f64,
    /// As `server_percent`, for the whole machine.
    machine_percent: f64,
}

impl Answer {
    /// Whether every row was measured without a failed request.
    pub(crate) fn is_clean(&self) -> bool {
        self.effects.iter().all(|effect| effect.failure.is_none())
    }

    fn new(conditions: Conditions, boots: &[Vec<Pair>], measured: &[Run], loads: &[Load]) -> Self {
        let effects = boots.iter().zip(measured).flat_map(|(pairs, run)| {
            pairs.iter().flat_map(move |pair| loads.iter().map(move |load| Effect::new(pair, *load, run)))
        });
        let repeatability = loads.iter().map(|load| repeatability(*load, measured)).collect();
        Self { conditions, effects: effects.collect(), repeatability }
    }
}

/// Boots each kernel as often as needed. Returns one result for each kernel.
pub(crate) fn run(question: &Question, ours: &OurPrograms) -> Result<Vec<Answer>, RigError> {
    let defaults = variant::defaults(&ours.doorbell)?;
    let pairs: Vec<Pair> =
        question.driver.iter().flat_map(|&driver| plan::pairs(driver, &question.only, &defaults)).collect();
    let loads = question.loads_or(&[Mode::Close, Mode::Free, Mode::Keep]);
    let boots = plan::boots(&pairs);
    let all = boots.len() * question.kernel.len();
    let (began_s, mut done) = (now_s(), 0);
    let mut answers = Vec::new();
    for &kernel in &question.kernel {
        let session = Session { kernel, cpu: question.cpu.clone() };
        let mut measured = Vec::new();
        for boot in &boots {
            say(&format!("boot {} of {all}, {}", done + 1, time_left(done, all, now_s() - began_s)));
            let (plan, contents) = plan_of(&plan::variants(boot), &loads, question.repeat, ours);
            measured.push(session.run(&plan, &contents)?);
            done += 1;
        }
        let conditions = measured.last().map(|run| run.conditions.clone()).unwrap_or_default();
        answers.push(Answer::new(conditions, &boots, &measured, &loads));
    }
    Ok(answers)
}

/// The plan for these servers under each load, and its contents.
fn plan_of(variants: &[Variant], loads: &[Load], repeat: u32, ours: &OurPrograms) -> (Plan, Contents) {
    let mut plan = Plan { repeat, ..Plan::default() };
    let programs = vec![(ours.doorbell.clone(), DOORBELL.to_owned())];
    let mut contents = Contents { load: Some(ours.load.clone()), programs, files: Vec::new() };
    for variant in variants {
        let Setup { server, files } = variant.at(DOORBELL, &ServerEnvironment::GUEST);
        plan.rows.extend(loads.iter().map(|&load| Row { server: server.name.clone(), load }));
        plan.servers.push(server);
        contents.files.extend(files);
    }
    (plan, contents)
}

impl Effect {
    fn new(pair: &Pair, load: Load, run: &Run) -> Self {
        let figures = |variant: &Variant| {
            let row = Row { server: variant.name.clone(), load };
            let outcome = run.rows.iter().find(|outcome| outcome.row == row);
            let problem = outcome.map_or_else(|| Some("not measured".to_owned()), Outcome::problem);
            let failure = problem.map(|why| format!("{}: {why}", variant.name));
            (outcome.and_then(Outcome::clean_figures), failure)
        };
        let ((with, failed_with), (without, failed_without)) = (figures(&pair.with), figures(&pair.without));
        let change = |part: fn(&Figures) -> f64| Some(percent(part(with.as_ref()?), part(without.as_ref()?)));
        Self {
            technique: pair.technique.name,
            driver: pair.driver,
            set: pair.set,
            is_default: pair.is_default,
            load: load.to_string(),
            with,
            without,
            server_percent: change(|figures| figures.server),
            machine_percent: change(|figures| figures.machine),
            failure: failed_with.or(failed_without),
        }
    }
}

/// Compares the servers that are in more than one boot.
fn repeatability(load: Load, measured: &[Run]) -> Repeatability {
    let of_load = measured.iter().flat_map(|run| &run.rows).filter(|outcome| outcome.row.load == load);
    let rows: Vec<(&str, Figures)> =
        of_load.filter_map(|outcome| Some((outcome.row.server.as_str(), outcome.clean_figures()?))).collect();
    let widest = |part: fn(&Figures) -> f64| {
        let apart = rows.iter().map(|(name, _)| {
            let same = rows.iter().filter(|(other, _)| other == name).map(|(_, figures)| part(figures));
            range(&same.collect::<Vec<_>>()).map_or(0.0, |(low, high)| percent(high, low))
        });
        apart.fold(0.0, f64::max)
    };
    Repeatability {
        load: load.to_string(),
        server_percent: widest(|figures| figures.server),
        machine_percent: widest(|figures| figures.machine),
    }
}

#[cfg(test)]
mod tests;
