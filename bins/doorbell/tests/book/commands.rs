//! `reference/commands.md`: every command with its options, generated from the command line parser.

use crate::page::{GENERATED, cell};
use clap::{Arg, Command};
use doorbell_proxy::cli::command_line;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Commands

Every command of `doorbell`, with its arguments and options. `doorbell COMMAND --help` shows the same in
a terminal, and `doorbell man COMMAND` as a manual page.
";

/// Renders `reference/commands.md`.
pub(crate) fn page() -> String {
    let mut root = command_line();
    root.build();
    let mut page = format!("{GENERATED}{INTRODUCTION}");
    section(&mut page, "doorbell", &root, true);
    page
}

fn section(page: &mut String, path: &str, command: &Command, is_root: bool) {
    let _infallible = write!(page, "\n## `{path}`\n");
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _infallible = write!(page, "\n{}.\n", cell(about.to_string().trim_end_matches('.')));
    }
    let usage = command.clone().render_usage().to_string();
    let _infallible = write!(page, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let (global, own): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(shown).partition(|arg| !is_root && arg.is_global_set());
    rows(page, &own);
    if !global.is_empty() {
        let names: Vec<_> = global.iter().filter_map(|arg| arg.get_long()).collect();
        let names: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
        let _infallible = write!(page, "\nAlso, as for [`doorbell`](#doorbell): {}.\n", names.join(", "));
    }
    let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    list(page, path, &below);
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let _infallible = write!(page, "\n```text\n{}\n```\n", text.to_string().trim_end());
    }
    for below in below {
        section(page, &format!("{path} {}", below.get_name()), below, false);
    }
}

fn rows(page: &mut String, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    page.push_str("\n| Argument | Meaning |\n|---|---|\n");
    for arg in args {
        let _infallible = writeln!(page, "| {} | {} |", cell(&form(arg)), cell(&meaning(arg)));
    }
}

/// Formats an argument as on a command line.
fn form(arg: &Arg) -> String {
    let values: Vec<&str> = arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let names =
        [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let names: Vec<String> = names.into_iter().flatten().collect();
    let parts = [names.join(", "), values];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("`{}`", parts.join(" "))
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut sentences = vec![format!("{}.", help.trim_end_matches('.'))];
    if arg.get_action().takes_values() {
        let words = arg.get_possible_values();
        let words: Vec<_> = words.iter().filter(|word| !word.is_hide_set()).collect();
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.get_name())).collect();
        if !words.is_empty() {
            sentences.push(format!("One of {}.", words.join(", ")));
        }
        let defaults = arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy()));
        let defaults: Vec<_> = defaults.collect();
        if !defaults.is_empty() {
            sentences.push(format!("Default: {}.", defaults.join(", ")));
        }
    }
    if let Some(name) = arg.get_env() {
        sentences.push(format!("Environment variable: `{}`.", name.to_string_lossy()));
    }
    sentences.join(" ")
}

fn list(page: &mut String, path: &str, below: &[&Command]) {
    if below.is_empty() {
        return;
    }
    page.push_str("\n| Command | Purpose |\n|---|---|\n");
    for command in below {
        let name = format!("{path} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _infallible = writeln!(page, "| [`{name}`](#{}) | {}. |", name.replace(' ', "-"), cell(&about));
    }
}
