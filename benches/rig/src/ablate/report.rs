//! Effects as human-readable tables, and as the sections of `levers.md`.
//!
//! Does not know about: measurement.

use super::plan::Set;
use super::{Answer, Effect, TECHNIQUES};
use crate::report::{Conditions, Figures, Page, Table, or_dash, thousands};
use crate::variant::Driver;

/// Formats one table for each kernel and load. The line above a table shows how repeatable a boot
/// is.
pub(crate) fn tables(answers: &[Answer]) -> Page {
    let mut page = Page::default();
    for answer in answers {
        for repeats in &answer.repeatability {
            page.words(format!(
                "Linux {}, {}; instructions a request, server / machine; the same server in several boots: server +-{:.1} %, machine \
                 +-{:.1} %",
                answer.conditions.kernel, repeats.load, repeats.server_percent, repeats.machine_percent
            ));
            let mut table =
                Table::new(["technique", "driver", "set", "with", "without", "server %", "machine %"]);
            for effect in answer.effects.iter().filter(|effect| effect.load == repeats.load) {
                let star = if effect.is_default { " *" } else { "" };
                let percent = |value| or_dash(value, |value: f64| format!("{value:+.1}"));
                table.row([
                    format!("{}{star}", effect.technique),
                    effect.driver.name().to_owned(),
                    effect.set.name().to_owned(),
                    or_dash(effect.with, both),
                    or_dash(effect.without, both),
                    percent(effect.server_percent),
                    percent(effect.machine_percent),
                ]);
            }
            page.table(table);
        }
        page.words(failures(answer));
    }
    page.words(
        "* on by default. In the set `full` all other techniques have their defaults; in the set `alone` they are off.",
    );
    page
}

/// Formats a section for each technique with a column for each kernel, and the sources of the
/// figures.
pub(crate) fn sections(answers: &[Answer]) -> Page {
    let mut page = Page::default();
    let heads = || answers.iter().map(|answer| version(&answer.conditions));
    for technique in TECHNIQUES {
        let mut table = Table::new(["driver", "load", "set"].map(str::to_owned).into_iter().chain(heads()));
        for driver in [Driver::IoUring, Driver::Epoll] {
            for load in answers.iter().take(1).flat_map(|answer| &answer.repeatability).map(|one| &one.load) {
                for set in [Set::Full, Set::Alone] {
                    let is_it = |effect: &&Effect| {
                        (effect.technique, effect.driver, effect.set) == (technique.name, driver, set)
                            && effect.load == *load
                    };
                    let found: Vec<_> =
                        answers.iter().map(|answer| answer.effects.iter().find(is_it)).collect();
                    if found.iter().any(Option::is_some) {
                        let cells = [driver.name().to_owned(), format!("`{load}`"), set.name().to_owned()];
                        let figures =
                            found.into_iter().map(|effect| effect.and_then(cell).unwrap_or_default());
                        table.row(cells.into_iter().chain(figures));
                    }
                }
            }
        }
        if !table.is_empty() {
            page.words(format!("## {}", capital(technique.name)));
            page.words(format!("On: `{}`. Off: `{}`.", technique.on(), technique.off()));
            page.table(table);
        }
    }
    page.words("## Where the figures are from");
    let mut table = Table::new(["figures", "from", "the same server in several boots"]);
    for answer in answers {
        let Conditions { kernel, qemu, cpu, repeat, .. } = &answer.conditions;
        // QEMU prints the package version of the distribution in brackets, which differs between
        // machines.
        let qemu = qemu.split(" (").next().unwrap_or_default().replace(" emulator version", "");
        let repeats = answer.repeatability.iter().map(|repeats| {
            format!("`{}` {:.1} % / {:.1} %", repeats.load, repeats.server_percent, repeats.machine_percent)
        });
        table.row([
            version(&answer.conditions),
            format!("Linux {kernel}, {qemu} -cpu {cpu}, median of {repeat}"),
            repeats.collect::<Vec<_>>().join(", "),
        ]);
        page.words(failures(answer));
    }
    page.table(table);
    page
}

fn failures(answer: &Answer) -> String {
    let failed = answer.effects.iter().filter_map(|effect| {
        let why = effect.failure.as_ref()?;
        Some(format!("{}, {}, {}: failed: {why}", effect.technique, effect.set.name(), effect.load))
    });
    failed.collect::<Vec<_>>().join("\n")
}

/// Formats an effect as `18,900 / 19,200 (-1.6 %, -1.0 %)`: the server with and without the
/// technique, and the change for the server and for the machine.
fn cell(effect: &Effect) -> Option<String> {
    let (with, without) = (effect.with?.server, effect.without?.server);
    let (server, machine) = (effect.server_percent?, effect.machine_percent?);
    Some(format!("{} / {} ({server:+.1} %, {machine:+.1} %)", thousands(with), thousands(without)))
}

fn both(figures: Figures) -> String {
    format!("{} / {}", thousands(figures.server), thousands(figures.machine))
}

/// Extracts `6.1` from `6.1.0-56-cloud-amd64`.
fn version(conditions: &Conditions) -> String {
    conditions.kernel.splitn(3, ['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
