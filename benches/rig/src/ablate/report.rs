//! Effects as the sections of `levers.md`.

use super::{Answer, Effect, TECHNIQUES};
use crate::plan::name_of;
use crate::report::{Conditions, Page, Table, thousands};
use crate::variant::Driver;

/// Formats a section for each technique with a column for each kernel, and the sources of the
/// figures. All answers have the same effects in the same order.
pub(crate) fn page(answers: &[Answer]) -> Page {
    let mut page = Page::default();
    let Some(first) = answers.first() else { return page };
    let kernels = || answers.iter().map(|answer| version(&answer.conditions));
    for technique in TECHNIQUES {
        let effects = first.effects.iter().enumerate();
        let mut rows: Vec<_> = effects.filter(|(_, effect)| effect.technique == technique.name).collect();
        let load_at = |load: &str| first.repeatability.iter().position(|repeats| repeats.load == load);
        rows.sort_by_key(|(_, effect)| (effect.driver == Driver::Epoll, load_at(&effect.load)));
        let Some((_, Effect { is_default, .. })) = rows.first() else { continue };
        page.words(format!("## {}", capital(technique.name)));
        let default = if *is_default { "on" } else { "off" };
        page.words(format!("On: `{}`. Off: `{}`. Default: {default}.", technique.on(), technique.off()));
        let mut table = Table::new(["driver", "load", "set"].map(str::to_owned).into_iter().chain(kernels()));
        for (at, Effect { driver, load, set, .. }) in rows {
            let cells = [name_of(driver), format!("`{load}`"), name_of(set)];
            let figures = answers.iter().map(|answer| cell(&answer.effects[at]).unwrap_or_default());
            table.row(cells.into_iter().chain(figures));
        }
        page.table(table);
    }
    page.words(
        "A cell is the server with / without the technique, and the change for the server and for the machine. In the set `full` all \
         other techniques have their defaults; in the set `alone` they are off.",
    );
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
        page.lines(answer.effects.iter().filter_map(|effect| {
            let Effect { technique, set, load, failure, .. } = effect;
            Some(format!("{technique}, {}, {load}: failed: {}", name_of(set), failure.as_ref()?))
        }));
    }
    page.table(table);
    page
}

/// Formats an effect as `18,900 / 19,200 (-1.6 %, -1.0 %)`: the server with and without the
/// technique, and the change for the server and for the machine.
fn cell(effect: &Effect) -> Option<String> {
    let (with, without) = (effect.with?.server, effect.without?.server);
    let (server, machine) = (effect.server_percent?, effect.machine_percent?);
    Some(format!("{} / {} ({server:+.1} %, {machine:+.1} %)", thousands(with), thousands(without)))
}

/// Extracts `6.1` from `6.1.0-56-cloud-amd64`.
fn version(conditions: &Conditions) -> String {
    conditions.kernel.splitn(3, ['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
