//! Figures of saved answers into the tables.
//!
//! Does not know about: how the tables are written.

use super::book::{Book, Source};
use super::cell::{self, Column, RowKey};
use crate::ablate::{Answer, NativeAnswer, Saved, Set, capital};

/// How many figures were put in. A failed comparison has none, and what stood there stays.
pub(super) fn merge(book: &mut Book, saved: &Saved) -> Result<usize, String> {
    match saved {
        Saved::Guests(answers) => answers.iter().map(|answer| guest(book, answer)).sum(),
        Saved::Native(answer) => native(book, answer),
    }
}

fn guest(book: &mut Book, answer: &Answer) -> Result<usize, String> {
    let conditions = &answer.conditions;
    let column = Column::of_release(&conditions.kernel)
        .ok_or_else(|| format!("{:?} is no release", conditions.kernel))?;
    let mut count = 0;
    for effect in &answer.effects {
        if let (Some(with), Some(without), Some(percent)) = (effect.with, effect.without, effect.percent()) {
            let row = RowKey::new(effect.engine, effect.load.parse()?, effect.set);
            put(book, &effect.technique, row, column, cell::instructions(with, without, percent))?;
            count += 1;
        }
    }
    let source = book.sources.entry(column).or_default();
    // The package that QEMU names in brackets is that of one machine.
    let qemu = conditions.qemu.split(" (").next().unwrap_or_default().replace(" emulator version", "");
    source.from = format!(
        "Linux {}, {qemu} -cpu {}, median of {}",
        conditions.kernel, conditions.cpu, conditions.repeat
    );
    for apart in &answer.repeatability {
        let shown = format!("{:.1} % / {:.1} %", apart.server_percent, apart.machine_percent);
        source.repeats.insert(apart.load.clone(), shown);
    }
    Ok(count)
}

fn native(book: &mut Book, answer: &NativeAnswer) -> Result<usize, String> {
    let mut count = 0;
    for effect in &answer.effects {
        if let Some(ratio) = effect.ratio {
            let row = RowKey::new(effect.engine, effect.load.parse()?, Set::Full);
            put(book, &effect.technique, row, Column::Native, cell::cpu_time(ratio))?;
            count += 1;
        }
    }
    let conditions = &answer.conditions;
    let from =
        format!("Linux {}, {}, {} pairs of turns", conditions.kernel, conditions.cpu, conditions.pairs);
    book.sources.insert(Column::Native, Source { from, ..Source::default() });
    Ok(count)
}

fn put(book: &mut Book, technique: &str, row: RowKey, column: Column, cell: String) -> Result<(), String> {
    let title = capital(technique);
    let entry = book.entries.iter_mut().find(|entry| entry.title == title);
    let entry = entry.ok_or_else(|| format!("it has no entry {title:?}"))?;
    entry.figures.entry(row).or_default().insert(column, cell);
    Ok(())
}
