//! CPU time of each technique on this machine: the full set with it and without it take turns, as `native` has servers take them.
//!
//! Does not know about: how a turn is measured.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::{self, Pair, Set};
use super::report::Form;
use crate::error::RigError;
use crate::image::OurPrograms;
use crate::native::{self, Conditions, CpuTurn, MODES, Rules, Summary};
use crate::plan::Load;
use crate::report::median;
use crate::session::{now_s, say, time_left};
use crate::variant::{self, Engine};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Drivers.
    pub(crate) engines: Vec<Engine>,
    /// Names from [`super::TECHNIQUES`]; none means all.
    pub(crate) only: Vec<String>,
    /// Under each of these.
    pub(crate) loads: Vec<Load>,
    /// New connections in a turn.
    pub(crate) requests: u64,
    /// How turns are taken.
    pub(crate) rules: Rules,
}

/// What this machine answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct NativeAnswer {
    pub(crate) conditions: Conditions,
    pub(crate) effects: Vec<Measured>,
}

/// One technique under one load, in the full set.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Measured {
    pub(crate) technique: String,
    pub(crate) engine: Engine,
    /// Whether the defaults have it.
    pub(crate) is_default: bool,
    pub(crate) load: String,
    /// CPU time with it to that without it, of each pair.
    pub(crate) ratio: Option<Summary>,
    pub(crate) with: Vec<CpuTurn>,
    pub(crate) without: Vec<CpuTurn>,
    pub(crate) failure: Option<String>,
}

type Turns = Vec<native::Pair<CpuTurn>>;

/// The text, and whether everything was measured. With `save` the answer is also written there, as JSON.
pub(crate) fn run(
    question: &Question,
    ours: &OurPrograms,
    form: Form,
    save: Option<&Path>,
) -> Result<(String, bool), RigError> {
    if let Some(load) = question.loads.iter().find(|load| !MODES.contains(&load.mode)) {
        return Err(RigError::NotNative { load: load.to_string() });
    }
    let defaults = variant::defaults(&ours.doorbell)?;
    let conditions = Conditions::read(&question.rules)?;
    let effects = measure(&comparisons(question, &defaults), |pair, load| {
        native::between(&pair.with, &pair.without, load, question.requests, &question.rules, ours)
    });
    let answer = NativeAnswer { conditions, effects };
    if let Some(file) = save {
        fs::write(file, answer.show(Form::Json)).map_err(RigError::io(file))?;
    }
    Ok((answer.show(form), answer.is_complete()))
}

/// Every technique in the full set under every load.
fn comparisons(question: &Question, defaults: &variant::Settings) -> Vec<(Pair, Load)> {
    let pairs = question.engines.iter().flat_map(|&engine| plan::pairs(engine, &question.only, defaults));
    let full = pairs.filter(|pair| pair.set == Set::Full);
    full.flat_map(|pair| question.loads.iter().map(move |&load| (pair.clone(), load))).collect()
}

fn measure(
    comparisons: &[(Pair, Load)],
    mut turns: impl FnMut(&Pair, Load) -> Result<Turns, String>,
) -> Vec<Measured> {
    let from_s = now_s();
    let mut effects = Vec::new();
    for (at, (pair, load)) in comparisons.iter().enumerate() {
        let measured = Measured::of(pair, *load, turns(pair, *load));
        let left = time_left(at + 1, comparisons.len(), now_s() - from_s);
        let [name, engine] = [pair.technique.name, pair.engine.name()];
        say(&format!(
            "[{}/{}, {left}] {name}, {engine}, {load}: {}",
            at + 1,
            comparisons.len(),
            measured.cells()
        ));
        effects.push(measured);
    }
    effects
}

impl Measured {
    fn of(pair: &Pair, load: Load, turns: Result<Turns, String>) -> Self {
        let (turns, failure) = match turns {
            Ok(turns) => (turns, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Self {
            technique: pair.technique.name.to_owned(),
            engine: pair.engine,
            is_default: pair.is_default,
            load: load.to_string(),
            ratio: Summary::of(&turns, |turn| turn.cpu_ns),
            with: turns.iter().map(|turn| turn.ours).collect(),
            without: turns.iter().map(|turn| turn.peer).collect(),
            failure,
        }
    }

    /// `4.40 | 5.00 | 0.88 (0.80 to 0.90)`, or why not.
    fn cells(&self) -> String {
        let us = |turns: &[CpuTurn]| {
            let times: Vec<f64> = turns.iter().map(|turn| turn.cpu_ns / 1e3).collect();
            median(&times).map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"))
        };
        match (self.ratio, &self.failure) {
            (Some(ratio), None) => format!("{} | {} | {ratio}", us(&self.with), us(&self.without)),
            (_, why) => {
                let why = why.as_deref().unwrap_or("no CPU time was counted").replace(['|', '\n'], " ");
                format!("failed: {why} | | ")
            }
        }
    }
}

impl NativeAnswer {
    /// Whether every technique was measured.
    pub(crate) fn is_complete(&self) -> bool {
        self.effects.iter().all(|effect| effect.ratio.is_some() && effect.failure.is_none())
    }

    /// For machines, or one table for people.
    pub(crate) fn show(&self, form: Form) -> String {
        match form {
            Form::Json => {
                format!("{}\n", serde_json::to_string_pretty(self).expect("an answer is plain data"))
            }
            Form::Markdown | Form::Table => self.table(),
        }
    }

    fn table(&self) -> String {
        let Conditions { kernel, cpu, server_core, client_core, pairs, .. } = &self.conditions;
        let mut text = format!(
            "Linux {kernel}, {cpu}; server on core {server_core}, client on core {client_core}; {pairs} alternating pairs; CPU time of the \
             server a request: middle, and for ratios (lowest to highest)\n\n\
             | technique | driver | load | with, us | without, us | ratio |\n|---|---|---|---|---|---|\n"
        );
        for effect in &self.effects {
            let Measured { technique, load, engine, is_default, .. } = effect;
            let star = if *is_default { " *" } else { "" };
            let cells = effect.cells();
            writeln!(text, "| {technique}{star} | {} | `{load}` | {cells} |", engine.name())
                .expect("a string takes everything");
        }
        text.push_str("\n* on by default; the others are added to the defaults.\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Measure, Pair as Turned};
    use crate::variant::Settings;

    fn question() -> Question {
        let rules =
            Rules { pairs: 3, server_core: 0, client_core: 1, measure: Measure::Cpu { requests: 100 } };
        let loads = ["close/64", "keep/64"].map(|load| load.parse().unwrap()).into();
        Question {
            engines: vec![Engine::IoUring, Engine::Epoll],
            only: Vec::new(),
            loads,
            requests: 100,
            rules,
        }
    }

    fn defaults() -> Settings {
        Settings::of(&[
            ("tuning.send_more", "true"),
            ("tuning.registered_ring", "true"),
            ("tcp.quickack", "true"),
        ])
    }

    fn turned(with_ns: f64, without_ns: f64) -> Turned<CpuTurn> {
        let [ours, peer] = [with_ns, without_ns].map(|cpu_ns| CpuTurn { cpu_ns, requests_per_s: 1.0 });
        Turned { ours, peer }
    }

    fn answer(turns: &Result<Turns, String>) -> NativeAnswer {
        let question = question();
        let effects = measure(&comparisons(&question, &defaults()), |_, _| turns.clone());
        NativeAnswer { conditions: Conditions::read(&question.rules).unwrap(), effects }
    }

    #[test]
    fn each_technique_of_each_driver_is_compared_once_a_load_in_the_full_set() {
        let all = comparisons(&question(), &defaults());
        let shown: Vec<String> = all
            .iter()
            .map(|(pair, load)| format!("{} {} {load}", pair.technique.name, pair.engine.name()))
            .collect();
        assert_eq!(shown.len(), (3 + 2) * 2, "{shown:?}");
        assert!(shown.contains(&"registered ring io_uring keep/64".to_owned()), "{shown:?}");
        assert!(!shown.iter().any(|line| line.contains("registered ring epoll")), "{shown:?}");
        for (pair, _) in &all {
            assert!(
                pair.with.settings == Settings::default() || pair.without.settings == Settings::default()
            );
        }
    }

    #[test]
    fn the_effect_is_the_middle_ratio_of_the_pairs_with_its_spread() {
        let answer = answer(&Ok(vec![
            turned(4_000.0, 10_000.0),
            turned(5_000.0, 10_000.0),
            turned(4_400.0, 11_000.0),
        ]));
        assert!(answer.is_complete());
        let table = answer.show(Form::Table);
        let rows = ["reply with the FIN * | io_uring", "quick-ack off | epoll"];
        for row in rows {
            assert!(
                table.contains(&format!("| {row} | `close/64` | 4.40 | 10.00 | 0.40 (0.40 to 0.50) |")),
                "{table}"
            );
        }
        let again: NativeAnswer = serde_json::from_str(&answer.show(Form::Json)).unwrap();
        assert_eq!((&again.effects, &again.conditions), (&answer.effects, &answer.conditions));
    }

    #[test]
    fn a_failure_is_said_and_the_rest_goes_on() {
        let answer = answer(&Err("the server | is gone".into()));
        assert!(!answer.is_complete());
        assert_eq!(answer.effects.len(), 10);
        assert!(
            answer.show(Form::Table).contains("failed: the server   is gone"),
            "{}",
            answer.show(Form::Table)
        );
    }

    #[test]
    fn a_load_that_only_a_guest_has_is_refused_before_anything_runs() {
        let question = Question { loads: vec!["free/64".parse().unwrap()], ..question() };
        let ours = crate::image::programs::build(Some("/none".into()), Some("/none".into())).unwrap();
        let error = run(&question, &ours, Form::Table, None).unwrap_err().to_string();
        assert!(error.contains("free/64"), "{error}");
    }
}
