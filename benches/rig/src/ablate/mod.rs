//! The effect of each technique of the engine: with it and without, in the full set and alone.
//!
//! Does not know about: how a row is measured.

mod native;
mod plan;
mod report;
mod techniques;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::RigError;
use crate::image::{Kernel, OurPrograms};
use crate::plan::{Load, Plan, Row};
use crate::report::{Conditions, Figures, Outcome};
use crate::session::{Session, now_s, say, time_left};
use crate::variant::{self, Engine};
pub(crate) use native::{NativeAnswer, Question as NativeQuestion, run as run_native};
use plan::Pair;
pub(crate) use report::{Effect, Form};
pub(crate) use techniques::TECHNIQUES;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Kernels, one after the other.
    pub(crate) kernels: Vec<Kernel>,
    /// Drivers.
    pub(crate) engines: Vec<Engine>,
    /// Names from [`TECHNIQUES`]; none means all.
    pub(crate) only: Vec<String>,
    /// Under each of these.
    pub(crate) loads: Vec<Load>,
    /// Samples of each row.
    pub(crate) repeat: u32,
    /// Model of QEMU's `-cpu`.
    pub(crate) cpu: String,
}

/// One kernel's answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    pub(crate) conditions: Conditions,
    pub(crate) effects: Vec<Effect>,
    pub(crate) repeatability: Vec<Repeatability>,
}

/// What `--save` wrote.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Saved {
    /// One answer a kernel.
    Guests(Vec<Answer>),
    /// This machine's.
    Native(NativeAnswer),
}

/// How far apart the same server was in several boots.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Repeatability {
    /// Under which load.
    pub(crate) load: String,
    /// The largest less the smallest, in per cent of the smallest; the largest of all servers that were in several boots.
    pub(crate) server_percent: f64,
    /// The same for the machine.
    pub(crate) machine_percent: f64,
}

/// Boots as often as it takes. The text, and whether every row was measured without a failed request. With `save` the answer is
/// also written there, as JSON.
pub(crate) fn run(
    question: &Question,
    ours: &OurPrograms,
    form: Form,
    save: Option<&Path>,
) -> Result<(String, bool), RigError> {
    let answers = measure(question, ours)?;
    if let Some(file) = save {
        fs::write(file, report::show(&answers, Form::Json)).map_err(RigError::io(file))?;
    }
    Ok(shown(&answers, form))
}

/// A saved answer in another form.
pub(crate) fn again(file: &Path, form: Form) -> Result<(String, bool), RigError> {
    match saved(file)? {
        Saved::Guests(answers) => Ok(shown(&answers, form)),
        Saved::Native(answer) => Ok((answer.show(form), answer.is_complete())),
    }
}

/// A saved answer.
pub(crate) fn saved(file: &Path) -> Result<Saved, RigError> {
    let text = fs::read(file).map_err(RigError::io(file))?;
    serde_json::from_slice(&text).map_err(|_| RigError::Log {
        path: file.to_owned(),
        detail: "is not what `doorbell-rig ablate --save` writes".into(),
    })
}

fn shown(answers: &[Answer], form: Form) -> (String, bool) {
    let clean = answers.iter().all(|answer| answer.effects.iter().all(|effect| effect.failure.is_none()));
    (report::show(answers, form), clean)
}

fn measure(question: &Question, ours: &OurPrograms) -> Result<Vec<Answer>, RigError> {
    let defaults = variant::defaults(&ours.doorbell)?;
    let pairs: Vec<Pair> =
        question.engines.iter().flat_map(|&engine| plan::pairs(engine, &question.only, &defaults)).collect();
    let boots = plan::boots(&pairs);
    let all = boots.len() * question.kernels.len();
    let (began_s, mut done) = (now_s(), 0);
    let mut answers = Vec::new();
    for &kernel in &question.kernels {
        let session = Session { kernel, cpu: question.cpu.clone() };
        let mut measured = Vec::new();
        let mut conditions = Conditions::default();
        for boot in &boots {
            say(&format!("boot {} of {all}, {}", done + 1, time_left(done, all, now_s() - began_s)));
            let variants = plan::variants(boot);
            let plan = plan_of(&variants, question);
            let (outcomes, found) = session.run(&plan, &variant::contents(&variants, ours))?;
            (conditions, done) = (found, done + 1);
            measured.push(outcomes);
        }
        answers.push(answer(conditions, &boots, &measured, &question.loads));
    }
    Ok(answers)
}

fn plan_of(variants: &[variant::Variant], question: &Question) -> Plan {
    let row = |server: &str, load: &Load| Row {
        server: server.to_owned(),
        mode: load.mode,
        in_flight: load.in_flight,
    };
    let rows = variants.iter().flat_map(|variant| question.loads.iter().map(|load| row(&variant.name, load)));
    let servers = variants.iter().map(variant::Variant::server);
    Plan { repeat: question.repeat, rows: rows.collect(), servers: servers.collect(), checks: Vec::new() }
}

fn answer(conditions: Conditions, boots: &[Vec<Pair>], measured: &[Vec<Outcome>], loads: &[Load]) -> Answer {
    let effects = boots.iter().zip(measured).flat_map(|(pairs, outcomes)| {
        pairs.iter().flat_map(move |pair| loads.iter().map(move |load| effect(pair, *load, outcomes)))
    });
    let repeatability = loads.iter().map(|load| repeatability(*load, measured)).collect();
    Answer { conditions, effects: effects.collect(), repeatability }
}

fn effect(pair: &Pair, load: Load, outcomes: &[Outcome]) -> Effect {
    let find = |name: &str| {
        outcomes.iter().find(|outcome| {
            outcome.row.server == name
                && (outcome.row.mode, outcome.row.in_flight) == (load.mode, load.in_flight)
        })
    };
    let figures = |name: &str| -> Result<Figures, String> {
        let outcome = find(name).ok_or_else(|| format!("{name} was not measured"))?;
        match outcome.figures() {
            _ if outcome.failure.is_some() => {
                Err(format!("{name}: {}", outcome.failure.as_deref().unwrap_or_default()))
            }
            Some(figures) if figures.failed > 0 => Err(format!("{name}: {} requests failed", figures.failed)),
            Some(figures) => Ok(figures),
            None => Err(format!("{name}: no request")),
        }
    };
    let (with, without) = (figures(&pair.with.name), figures(&pair.without.name));
    let failure = [&with, &without].into_iter().find_map(|side| side.as_ref().err().cloned());
    Effect {
        technique: pair.technique.name.to_owned(),
        engine: pair.engine,
        set: pair.set,
        is_default: pair.is_default,
        load: load.to_string(),
        with: with.ok(),
        without: without.ok(),
        failure,
    }
}

/// Over the servers that are in more than one boot.
fn repeatability(load: Load, measured: &[Vec<Outcome>]) -> Repeatability {
    let rows: Vec<(&str, Figures)> = measured
        .iter()
        .flatten()
        .filter(|outcome| (outcome.row.mode, outcome.row.in_flight) == (load.mode, load.in_flight))
        .filter_map(|outcome| {
            Some((outcome.row.server.as_str(), outcome.figures().filter(|_| outcome.is_clean())?))
        })
        .collect();
    let widest = |part: fn(&Figures) -> f64| {
        let apart = rows.iter().map(|(name, _)| {
            let same = || rows.iter().filter(|(other, _)| other == name).map(|(_, figures)| part(figures));
            let (low, high) = (same().fold(f64::INFINITY, f64::min), same().fold(0.0, f64::max));
            (high - low) / low * 100.0
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
