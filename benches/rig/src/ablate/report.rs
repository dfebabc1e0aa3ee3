//! Effects as a table, as JSON, or as the sections of the knowledge base.
//!
//! Does not know about: how they were measured.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::plan::Set;
use super::{Answer, TECHNIQUES};
use crate::report::{Figures, thousands};
use crate::variant::Engine;

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For machines.
    Json,
    /// A section for each technique.
    Markdown,
    /// For people.
    Table,
}

/// One technique under one load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Effect {
    pub(crate) technique: String,
    pub(crate) engine: Engine,
    pub(crate) set: Set,
    /// Whether the defaults have it.
    pub(crate) is_default: bool,
    pub(crate) load: String,
    pub(crate) with: Option<Figures>,
    pub(crate) without: Option<Figures>,
    pub(crate) failure: Option<String>,
}

impl Effect {
    /// What it does to the server's instructions and to the machine's, in per cent of those without it.
    pub(crate) fn percent(&self) -> Option<(f64, f64)> {
        let (with, without) = (self.with?, self.without?);
        let percent = |with: f64, without: f64| (with - without) / without * 100.0;
        Some((percent(with.server, without.server), percent(with.machine, without.machine)))
    }

    /// `18,900 / 104,000 | 19,200 / 105,000 | -1.6 % | -1.0 %`, or why not.
    fn cells(&self) -> String {
        match (self.with, self.without, self.percent()) {
            (Some(with), Some(without), Some((server, machine))) => {
                format!("{} | {} | {server:+.1} % | {machine:+.1} %", pair(with), pair(without))
            }
            _ => format!(
                "failed: {} | | |",
                self.failure.as_deref().unwrap_or_default().replace(['|', '\n'], " ")
            ),
        }
    }
}

pub(super) fn show(answers: &[Answer], form: Form) -> String {
    match form {
        Form::Json => json(answers),
        Form::Markdown => markdown(answers),
        Form::Table => table(answers),
    }
}

fn json(answers: &[Answer]) -> String {
    let kernels = answers.iter().map(|answer| {
        let effects = answer.effects.iter().map(|effect| {
            let mut value = serde_json::to_value(effect).expect("effects are plain data");
            if let Some((server, machine)) = effect.percent() {
                value["server_percent"] = serde_json::json!(server);
                value["machine_percent"] = serde_json::json!(machine);
            }
            value
        });
        serde_json::json!({
            "conditions": answer.conditions,
            "repeatability": answer.repeatability,
            "effects": effects.collect::<Vec<_>>(),
        })
    });
    format!("{:#}\n", serde_json::Value::Array(kernels.collect()))
}

/// One table for each kernel and load; the heading says how well a boot repeats.
fn table(answers: &[Answer]) -> String {
    let mut text = String::new();
    for answer in answers {
        for repeats in &answer.repeatability {
            line(
                &mut text,
                format_args!(
                    "Linux {}, {}; instructions a request, server / machine; the same server in several boots: server +-{:.1} %, machine +-{:.1} %",
                    answer.conditions.kernel, repeats.load, repeats.server_percent, repeats.machine_percent
                ),
            );
            line(
                &mut text,
                format_args!(
                    "{:22}  {:8}  {:15}  {:>17}  {:>17}  {:>8}  {:>8}",
                    "technique", "driver", "set", "with", "without", "server", "machine"
                ),
            );
            for effect in answer.effects.iter().filter(|effect| effect.load == repeats.load) {
                let Effect { technique, engine, set, .. } = effect;
                let cells: Vec<String> =
                    effect.cells().split('|').map(|cell| cell.trim().to_owned()).collect();
                let is_default = if effect.is_default { "*" } else { " " };
                line(
                    &mut text,
                    format_args!(
                        "{technique:21}{is_default}  {:8}  {:15}  {:>17}  {:>17}  {:>8}  {:>8}",
                        engine.name(),
                        set.name(),
                        cells[0],
                        cells[1],
                        cells[2],
                        cells[3]
                    ),
                );
            }
            text.push('\n');
        }
    }
    text.push_str(
        "* on by default. Without it the set is otherwise the same; alone every other technique is off.\n",
    );
    text
}

/// One section for each technique.
fn markdown(answers: &[Answer]) -> String {
    let mut text = String::new();
    for technique in TECHNIQUES {
        let of = |answer: &Answer, engine: Engine| -> Vec<Effect> {
            let chosen = answer.effects.iter();
            chosen
                .filter(|effect| effect.technique == technique.name && effect.engine == engine)
                .cloned()
                .collect()
        };
        let is_there = answers
            .iter()
            .any(|answer| answer.effects.iter().any(|effect| effect.technique == technique.name));
        if !is_there {
            continue;
        }
        line(
            &mut text,
            format_args!(
                "## {}\n\nOn: `{}`. Off: `{}`.\n",
                capital(technique.name),
                technique.on(),
                technique.off()
            ),
        );
        for answer in answers {
            for engine in [Engine::IoUring, Engine::Epoll] {
                let mut effects = of(answer, engine);
                if effects.is_empty() {
                    continue;
                }
                effects.sort_by_key(|effect| effect.set == Set::Alone);
                line(&mut text, format_args!("Linux {}, {}:\n", answer.conditions.kernel, engine.name()));
                line(
                    &mut text,
                    format_args!(
                        "| load | set | with | without | server | machine |\n|---|---|---|---|---|---|"
                    ),
                );
                for effect in effects {
                    line(
                        &mut text,
                        format_args!("| `{}` | {} | {} |", effect.load, effect.set.name(), effect.cells()),
                    );
                }
                text.push('\n');
            }
        }
    }
    for answer in answers {
        let repeats = answer.repeatability.iter().map(|repeats| {
            format!("`{}` {:.1} % / {:.1} %", repeats.load, repeats.server_percent, repeats.machine_percent)
        });
        let repeats = repeats.collect::<Vec<_>>().join(", ");
        line(
            &mut text,
            format_args!(
                "The same server in several boots of Linux {}, the largest less the smallest, server / machine: {repeats}.",
                answer.conditions.kernel
            ),
        );
    }
    text
}

fn pair(figures: Figures) -> String {
    format!("{} / {}", thousands(figures.server), thousands(figures.machine))
}

/// A name at the start of a line.
pub(crate) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}
